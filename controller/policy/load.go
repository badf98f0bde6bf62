package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/internal/localfile"
)

// Files are the names of the three files.
type Files struct{ Rules, Budgets, Prices string }

// Settings are the content of the three files. They do not change.
type Settings struct {
	Rules   *Rules
	Budgets *Budgets
	Prices  *Prices
}

// Load reads the three files. They are taken together or not at all: an error says all that is wrong with them.
func Load(f Files) (*Settings, error) {
	var s Settings
	var errs [3]error
	s.Rules, errs[0] = load(f.Rules, ParseRules)
	s.Budgets, errs[1] = load(f.Budgets, ParseBudgets)
	s.Prices, errs[2] = load(f.Prices, ParsePrices)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	if err := s.agree(); err != nil {
		return nil, err
	}
	return &s, nil
}

// load reads a file.
func load[T any](name string, parse func(string, []byte) (T, error)) (none T, err error) {
	data, err := localfile.Read(name, maxFile)
	if errors.Is(err, localfile.ErrNotRegular) || errors.Is(err, localfile.ErrTooLarge) {
		return none, &Mistake{File: name, Detail: strings.TrimPrefix(err.Error(), name+": ")}
	}
	if err != nil {
		return none, err
	}
	return parse(name, data)
}

// agree compares the files with each other.
func (s *Settings) agree() error {
	var errs []error
	for _, site := range slices.Sorted(keys(s.Budgets.always.WAN.Links)) {
		if _, declared := s.Rules.sites[site]; !declared {
			errs = append(errs, &Mistake{File: s.Budgets.file, Key: "wan.links." + site, Detail: fmt.Sprintf("%s declares no site %q", s.Rules.file, site)})
		}
	}
	return errors.Join(errs...)
}

// Events are what a planner is told of the settings, at a moment of the wall clock.
func (s *Settings) Events(wall time.Time) []plan.Event {
	return []plan.Event{plan.PolicyChanged{Policy: s.Rules}, plan.BudgetsChanged{Budgets: s.Budgets.At(wall)}, plan.PricesChanged{Prices: s.Prices.list}}
}

// Diff says what is other in s than in old, in lines for people and the log; none where nothing is. Comments and layout of the files do not count.
func (s *Settings) Diff(old *Settings) []string {
	var all []string
	for _, f := range []struct {
		name        string
		before, now []Setting
	}{
		{s.Rules.file, old.Rules.settings, s.Rules.settings},
		{s.Budgets.file, old.Budgets.settings, s.Budgets.settings},
		{s.Prices.file, old.Prices.settings, s.Prices.settings},
	} {
		for _, line := range diff(f.before, f.now) {
			all = append(all, f.name+": "+line)
		}
	}
	return all
}

// diff compares two versions of a file, by keys.
func diff(before, now []Setting) []string {
	was := make(map[string]string, len(before))
	for _, s := range before {
		was[s.Key] = s.Value
	}
	var all []string
	is := make(map[string]bool, len(now))
	for _, s := range now {
		is[s.Key] = true
		switch old, there := was[s.Key]; {
		case !there:
			all = append(all, fmt.Sprintf("%s: %s (new)", s.Key, s.Value))
		case old != s.Value:
			all = append(all, fmt.Sprintf("%s: %s -> %s", s.Key, old, s.Value))
		}
	}
	for _, s := range before {
		if !is[s.Key] {
			all = append(all, fmt.Sprintf("%s: %s (removed)", s.Key, s.Value))
		}
	}
	return all
}
