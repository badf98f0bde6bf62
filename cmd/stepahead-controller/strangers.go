package main

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stepahead-io/stepahead/controller/policy"
)

// strangerWarning is what the log says of each of the strangers.
const strangerWarning = "a site is not named wherever it must be"

// strangers says which sites are named in some of the places in which a site must be named for anything to be copied there, and not in others.
func (s *settings) strangers(urls map[string]string, rules *policy.Settings) (texts []string) {
	declared, links := rules.Rules.Sites(), rules.Budgets.At(time.Now()).WAN.Links
	for _, name := range slices.Sorted(maps.Keys(urls)) {
		if _, ok := declared[name]; !ok {
			texts = append(texts, fmt.Sprintf("--site %s: %s declares no site of this name: nothing is copied there", name, s.rules.Rules))
		} else if _, ok := links[name]; !ok {
			texts = append(texts, fmt.Sprintf("--site %s: %s has no link to it: nothing is copied there", name, s.rules.Budgets))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		if urls[name] != "" || name == s.homeSite {
			continue
		}
		text := fmt.Sprintf("%s declares the site %s", s.rules.Rules, name)
		if _, ok := links[name]; ok {
			text += fmt.Sprintf(", and %s has a link to it", s.rules.Budgets)
		}
		texts = append(texts, text+fmt.Sprintf(": nothing is copied there without --site %s=URL, or --home-site %s if it is the home store's", name, name))
	}
	return texts
}
