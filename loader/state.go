package loader

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/stepahead-io/stepahead/sampler"
)

// State returns where the run stands: after the last batch that Next returned.
func (l *Loader) State() sampler.State {
	st := l.state(l.position())
	if l.given != nil {
		number, digest := l.given.stands()
		st = st.WithGiven(number, digest)
	}
	return st
}

// StateAt returns the state that the run has before a step, whether or not it ever stood there: Load goes to it. Where
// steps are given there is none, as it depends on what was given before.
func (l *Loader) StateAt(step int64) (sampler.State, error) {
	if l.given != nil || step < 0 {
		return sampler.State{}, fmt.Errorf("loader.StateAt: step %d: the steps before it must be known and follow from the specification: %w", step, ErrOptions)
	}
	return l.state(step), nil
}

// state is that of a step, without what was given.
func (l *Loader) state(step int64) sampler.State {
	st := l.sampler.State(l.data.Identity(), step, sampler.Policy{OnBad: l.o.OnBad})
	if len(l.data.members) > 1 {
		var ids [][32]byte
		for _, m := range l.data.hinted {
			ids = append(ids, m.Dataset)
		}
		st = st.WithMembers(ids)
	}
	return st
}

// Load moves the run to a state of the same order and datasets, of any world size; else the error wraps
// a *sampler.MismatchError and nothing changes. The next batch is the state's, whether or not the end
// of an epoch was still to be reported. Where steps are given, those from the state's step on are to be given
// again, unless the run stands there already. What the state says about bad samples is not taken over: this
// run's own OnBad counts.
func (l *Loader) Load(st sampler.State) error {
	if err := l.enter(context.Background()); err != nil {
		return fmt.Errorf("loader.Load: %w", err)
	}
	defer l.leave()
	if err := l.check(st); err != nil {
		return fmt.Errorf("loader.Load: %w", err)
	}
	l.atEnd, l.left, l.waiting = false, false, false
	if st.Step == l.position() && l.standsAs(st) {
		return nil // what was built ahead is still right
	}
	l.stopRun()
	l.moveTo(st)
	l.clock.restart(st.Step)
	if l.agents.wanted {
		l.agents.renew()
	}
	return nil
}

// moveTo takes up a state that was checked.
func (l *Loader) moveTo(st sampler.State) {
	l.pos.Store(st.Step)
	if l.groups != nil {
		l.groups.forget()
	}
	if l.given != nil {
		l.given.resume(st.Step, st.Given.Number, digestOf(st.Given))
	}
}

func (l *Loader) standsAs(st sampler.State) bool {
	if l.given == nil {
		return true
	}
	number, digest := l.given.stands()
	return number == st.Given.Number && digest == digestOf(st.Given)
}

// digestOf is the digest of a state that was checked.
func digestOf(g *sampler.Given) [32]byte {
	digest, _ := parseDigest(g.Digest) // check has refused what is none
	return digest
}

func parseDigest(text string) (digest [32]byte, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(digest) {
		return digest, fmt.Errorf("given.digest: %.80q: must be 64 hexadecimal digits: the state is damaged", text)
	}
	return [32]byte(b), nil
}

// check returns a *sampler.MismatchError if a state is not one of this run. Sources that were added at the end since
// are no mismatch where the order agrees.
func (l *Loader) check(st sampler.State) error {
	if st.Given != nil {
		if _, err := parseDigest(st.Given.Digest); err != nil {
			return err
		}
	}
	id := l.data.Identity()
	if there, err := hex.DecodeString(st.Dataset); err == nil && len(there) == len(id) && l.data.BeganAs([32]byte(there), st.Sources()) {
		id = [32]byte(there)
	}
	err := st.Check(l.sampler, id)
	if (st.Given != nil) == (l.given != nil) && err == nil {
		return nil
	}
	var mismatch *sampler.MismatchError
	if err != nil && !errors.As(err, &mismatch) {
		return err
	}
	if mismatch == nil {
		mismatch = &sampler.MismatchError{}
		err = mismatch
	}
	mismatch.Diff = append(mismatch.Diff, l.diff(st)...)
	return err
}

// diff names what only the loader can tell of a state that does not fit.
func (l *Loader) diff(st sampler.State) (diff []string) {
	for i, m := range l.data.hinted {
		if here := sampler.MemberID(m.Dataset); i < len(st.Members) && st.Members[i] != here {
			diff = append(diff, fmt.Sprintf("dataset of %q: %s in the state, %s here", m.Name, st.Members[i], here))
		}
	}
	how := func(given bool) string {
		if given {
			return "given"
		}
		return "by the specification"
	}
	if (st.Given != nil) != (l.given != nil) {
		diff = append(diff, fmt.Sprintf("order: %s in the state, %s here", how(st.Given != nil), how(l.given != nil)))
	}
	return diff
}
