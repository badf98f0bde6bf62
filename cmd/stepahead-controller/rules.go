package main

import (
	"context"
	"fmt"
	"os"
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

	stamp string
	held  *policy.Settings
}

const rulesProblem = "policy, budgets and prices"

// loadRules reads the files for the first time; nil where there are none.
func loadRules(files policy.Files) (*policy.Settings, error) {
	if files.Rules == "" {
		return nil, nil
	}
	return policy.Load(files)
}

// watch returns what keeps the rules that are in force as their files say. A standby may have read them long before: what changed since is taken over at its first look.
func (p *program) watch(tell func(ctx context.Context, who string, ev plan.Event) error) *rulesWatch {
	return &rulesWatch{
		files: p.s.rules, tell: tell, problems: p.problems, log: p.log, stamp: p.stamp, held: p.rules,
		strangers: func(now *policy.Settings) []string { return p.s.strangers(p.given.urls, now) },
	}
}

// run looks at the files until ctx ends: when they change, when hup is told to, and when budgets change by the hour.
func (w *rulesWatch) run(ctx context.Context, hup <-chan os.Signal) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	next, timed := w.held.Budgets.Next(time.Now())
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-hup:
			err = w.read(ctx, true)
		case <-ticker.C:
			err = w.read(ctx, false)
		}
		if now := time.Now(); err == nil && timed && !now.Before(next) {
			err = w.tell(ctx, "schedule", plan.BudgetsChanged{Budgets: w.held.Budgets.At(now)})
		}
		if err != nil {
			return err
		}
		next, timed = w.held.Budgets.Next(time.Now())
	}
}

// read takes over what the files say if they have changed, or, asked, in any case. Files that are wrong change nothing.
func (w *rulesWatch) read(ctx context.Context, asked bool) error {
	stamp := stampOf(w.files)
	if stamp == w.stamp && !asked {
		return nil
	}
	w.stamp = stamp
	now, err := policy.Load(w.files)
	if err != nil {
		w.problems.set(rulesProblem, fmt.Sprintf("they are not what they should be, and what was in force before stays: %v", err))
		w.log.Error("policy, budgets and prices are not taken over: what was in force stays", zap.Error(err))
		return nil
	}
	w.problems.set(rulesProblem, "")
	diff := now.Diff(w.held)
	w.held = now
	if len(diff) == 0 {
		return nil
	}
	w.log.Info("policy, budgets and prices are taken over", zap.String("changes", strings.Join(diff, "; ")))
	for _, text := range w.strangers(now) {
		w.log.Warn(strangerWarning, zap.String("detail", text))
	}
	for _, ev := range now.Events(time.Now()) {
		if err := w.tell(ctx, "configuration", ev); err != nil {
			return err
		}
	}
	return nil
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
