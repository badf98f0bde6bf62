package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/policy"
)

// lookEvery is how often the files are looked at for changes.
const lookEvery = time.Second

// rulesWatch keeps policy, budgets and prices as their files say, and budgets as the hour says.
type rulesWatch struct {
	files    policy.Files
	tell     func(ctx context.Context, who string, ev plan.Event) error
	problems *problems
	log      *zap.Logger
	// strangers says which sites are not named wherever they must be.
	strangers func(*policy.Settings) []string

	stamp string // of the files before they were read last: what changes meanwhile is read again
	seen  string // of the files as run looked at them last
	held  *policy.Settings
	told  plan.Budgets // what the planner was told last
}

const rulesProblem = "policy, budgets and prices"

// readRules reads the files for the first time; nil where there are none.
func readRules(files policy.Files, problems *problems, log *zap.Logger, strangers func(*policy.Settings) []string) (*rulesWatch, error) {
	if files.Rules == "" {
		return nil, nil
	}
	w := &rulesWatch{files: files, problems: problems, log: log, strangers: strangers, stamp: stampOf(files)}
	var err error
	w.held, err = policy.Load(files)
	return w, err
}

// begin returns what a planner is told at its beginning: what the files say by then, which a standby may have read days before.
func (w *rulesWatch) begin(now time.Time) []plan.Event {
	w.look(false)
	w.told = w.held.Budgets.At(now)
	return w.held.Events(now)
}

// run looks at the files until ctx ends: when they change, when hup is told to, and at the clock, by which budgets change.
func (w *rulesWatch) run(ctx context.Context, hup <-chan os.Signal) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		asked := false
		select {
		case <-ctx.Done():
			return nil
		case <-hup:
			asked = true
		case <-ticker.C:
		}
		if err := errors.Join(w.read(ctx, asked), w.hour(ctx, time.Now())); err != nil {
			return err
		}
	}
}

// read tells what the files say if they have changed or, asked, in any case. Files that were not the same a look before are being written, and half of a rule can allow more
// than all of it: they are not read yet.
func (w *rulesWatch) read(ctx context.Context, asked bool) error {
	stamp := stampOf(w.files)
	still := stamp == w.seen
	w.seen = stamp
	if !asked && !still || !w.look(asked) {
		return nil
	}
	now := time.Now()
	w.told = w.held.Budgets.At(now)
	for _, ev := range w.held.Events(now) {
		if err := w.tell(ctx, "configuration", ev); err != nil {
			return err
		}
	}
	return nil
}

// hour tells the budgets of a moment if they are others than those that were told last: also when the clock was put back.
func (w *rulesWatch) hour(ctx context.Context, now time.Time) error {
	is := w.held.Budgets.At(now)
	if reflect.DeepEqual(is, w.told) {
		return nil
	}
	w.told = is
	return w.tell(ctx, "schedule", plan.BudgetsChanged{Budgets: is})
}

// warn says in the log which sites are not named wherever they must be.
func (w *rulesWatch) warn() {
	for _, text := range w.strangers(w.held) {
		w.log.Warn(strangerWarning, zap.String("detail", text))
	}
}

// look takes over what the files say if they have changed or, asked, in any case, and tells whether anything is other. Files that are wrong change nothing.
func (w *rulesWatch) look(asked bool) (changed bool) {
	stamp := stampOf(w.files)
	if stamp == w.stamp && !asked {
		return false
	}
	w.stamp = stamp
	now, err := policy.Load(w.files)
	if err != nil {
		w.problems.set(rulesProblem, fmt.Sprintf("they are not what they should be, and what was in force before stays: %v", err))
		w.log.Error("policy, budgets and prices are not taken over: what was in force stays", zap.Error(err))
		return false
	}
	w.problems.set(rulesProblem, "")
	diff := now.Diff(w.held)
	w.held = now
	if len(diff) == 0 {
		return false
	}
	w.log.Info("policy, budgets and prices are taken over", zap.String("changes", strings.Join(diff, "; ")))
	w.warn()
	return true
}

// stampOf changes when the files do.
func stampOf(f policy.Files) string {
	var b strings.Builder
	for _, name := range []string{f.Rules, f.Budgets, f.Prices} {
		info, err := os.Stat(name)
		if err != nil {
			fmt.Fprintf(&b, "%v;", err)
			continue
		}
		fmt.Fprintf(&b, "%d %d", info.Size(), info.ModTime().UnixNano())
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			fmt.Fprintf(&b, " %d %d.%d", st.Ino, st.Ctim.Sec, st.Ctim.Nsec)
		}
		b.WriteByte(';')
	}
	return b.String()
}
