package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/discovery"
)

const (
	// callTime bounds one call, listTime the search for agents, completeTime what is looked up before a hint is sent.
	callTime     = 2 * time.Second
	listTime     = 10 * time.Second
	completeTime = 2 * time.Minute
	// callsAtOnce bounds the agents that are called at once.
	callsAtOnce = 16
	// keepers is how many agents are told what is only to be kept for the controller.
	keepers = 3
	// listAge is how long the list of agents counts.
	listAge = time.Minute
	// A hint that no agent could be told is sent again, so many times in all, after pauses that double.
	mostTries           = 8
	firstPause, longest = 200 * time.Millisecond, 10 * time.Second
)

// sender is what the announcer's one goroutine uses.
type sender struct {
	a               *Announcer
	finder          *discovery.Finder
	trusted, others *hints.Client // with the token, and without
	agents          []discovery.Agent
	failed          []string // nodes whose agents did not answer: they may be elsewhere by now
	listed          time.Time
	began           time.Time
}

func (s *sender) close() {
	for _, c := range []*hints.Client{s.trusted, s.others} {
		if c != nil {
			_ = c.Close() // nothing is under way
		}
	}
}

// send sends a hint until an agent has it, all refuse it, or it was tried often enough.
func (s *sender) send(ctx context.Context, m *message) {
	about := kindOf(m.hint)
	if m.complete != nil {
		complete, cancel := context.WithTimeout(ctx, completeTime)
		err := m.complete(complete, &m.hint)
		cancel()
		if err != nil && ctx.Err() != nil {
			err = ended(nil)
		}
		if err == nil {
			err = m.hint.Validate()
		}
		if err != nil {
			s.lost(fmt.Errorf("%s: %w: %w", about, ErrLost, err))
			return
		}
	}
	m.hint.Fit()
	pause := firstPause
	var before error
	for try := 1; ; try++ {
		told, err := s.round(ctx, m)
		if ctx.Err() != nil && err != nil && !errors.Is(err, ErrRefused) { // that this try was cut short is no reason
			err = ended(before)
		}
		before = err
		switch {
		case told:
			s.a.count(func(st *Stats) { st.Told++ })
			return
		case errors.Is(err, ErrRefused):
			s.a.count(func(st *Stats) { st.Refused++ })
			s.a.o.Report(fmt.Errorf("%s: %w", about, err))
			return
		case try == mostTries || ctx.Err() != nil:
			s.lost(fmt.Errorf("%s: %w: %w", about, ErrLost, err))
			return
		}
		s.listed = time.Time{} // the agents may be others by now
		if s.a.o.testing.pause(ctx, pause) != nil {
			continue // the last try says that ctx has ended
		}
		pause = min(2*pause, longest)
	}
}

// now is the hint as it is sent at a time: what it says happened when it was said.
func (m *message) now(at time.Time) hints.Hint {
	h := m.hint
	if h.Checkpoint != nil {
		c := *h.Checkpoint
		c.Ago = min(max(at.Sub(m.said), 0), hints.MaxTTL)
		h.Checkpoint = &c
	}
	return h
}

// ended says that a hint is lost because nobody waited until it was told, and why it was not told before.
func ended(before error) error {
	if before == nil {
		return errEnded
	}
	return fmt.Errorf("%w; before that: %w", errEnded, before)
}

var errEnded = errors.New("the process ended first")

func (s *sender) lost(err error) {
	s.a.count(func(st *Stats) { st.Lost++ })
	s.a.o.Report(err)
}

func kindOf(h hints.Hint) string {
	if h.Checkpoint != nil {
		return fmt.Sprintf("%s of %.200s", h.Checkpoint.State, h.Checkpoint.Path)
	}
	if h.Close != nil {
		return "the end of run " + h.Run
	}
	return "start"
}

// round tells the agents that there are now, and reports whether one has taken it.
func (s *sender) round(ctx context.Context, m *message) (told bool, err error) {
	if err := s.find(ctx); err != nil {
		return false, err
	}
	agents := s.agents
	if !pauses(m.hint) {
		agents = agents[:min(len(agents), keepers)]
	}
	if len(agents) == 0 {
		return false, fmt.Errorf("no agents found in %s: start stepahead-agent with the store that holds the checkpoints, or name one in agents", s.finder.Address())
	}
	answers := make([]error, len(agents))
	var group errgroup.Group
	group.SetLimit(callsAtOnce)
	for i, a := range agents {
		group.Go(func() error {
			answers[i] = s.call(ctx, a, m.now(s.a.o.testing.now())) // after the search for agents, which takes time
			return nil
		})
	}
	_ = group.Wait() // answers has the errors
	refused := 0
	for i, answer := range answers {
		if answer != nil && !errors.Is(answer, ErrRefused) {
			s.failed = append(s.failed, agents[i].Node)
		}
		switch {
		case answer == nil:
			told = true
		case errors.Is(answer, ErrRefused):
			refused++
			err = answer
		case err == nil:
			err = answer
		}
	}
	if refused < len(agents) && errors.Is(err, ErrRefused) {
		err = fmt.Errorf("some agents refuse it, others do not answer: %v", err)
	}
	return told, err
}

// pauses tells whether every agent wants to know: a save stops the job's clock.
func pauses(h hints.Hint) bool {
	if h.Checkpoint == nil {
		return false
	}
	s := h.Checkpoint.State
	return s == hints.Saving || s == hints.Committed || s == hints.Deleted
}

// call tells one agent; nil if it has taken the hint.
func (s *sender) call(ctx context.Context, a discovery.Agent, h hints.Hint) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	client := s.others
	if a.Trusted {
		client = s.trusted
	}
	r, err := client.Announce(ctx, a.Addr, h)
	switch {
	case errors.Is(err, hints.ErrDenied), errors.Is(err, hints.ErrInvalid):
		return fmt.Errorf("agent %s: %w: %w", a.Node, ErrRefused, err)
	case err != nil:
		return fmt.Errorf("agent %s: %w", a.Node, err)
	case r.Accepted:
		return nil
	case r.Reason == hints.ReasonUnavailable, r.Reason == hints.ReasonBusy:
		return fmt.Errorf("agent %s: %s: %s", a.Node, r.Reason, r.Detail)
	}
	return fmt.Errorf("agent %s: %w: %s: %s", a.Node, ErrRefused, r.Reason, r.Detail)
}

// find lists the agents, unless the list is young.
func (s *sender) find(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	now := s.a.o.testing.now()
	if s.finder == nil {
		st, err := s.a.o.Open(ctx)
		if err != nil {
			return fmt.Errorf("the store cannot be opened: %w", err)
		}
		o := s.a.o
		if s.finder, err = discovery.New(discovery.Options{Store: st, Registry: o.Registry, Agents: o.Agents, Token: o.Token != ""}); err != nil {
			return err
		}
		s.trusted = hints.NewClient(hints.ClientOptions{Token: o.Token, TLS: o.TLS, Dial: o.Dial})
		s.others = hints.NewClient(hints.ClientOptions{TLS: o.TLS, Dial: o.Dial})
		s.began = now
	}
	if !s.listed.IsZero() && now.Sub(s.listed) < listAge {
		return nil
	}
	agents, err := s.finder.Find(ctx, now.Sub(s.began), s.failed)
	if err != nil {
		return fmt.Errorf("the list of agents cannot be read: %w", err)
	}
	if n := len(agents); n > 0 { // jobs begin at different ones
		first := int(crc32.ChecksumIEEE([]byte(s.a.o.Job)) % uint32(n))
		agents = append(agents[first:n:n], agents[:first]...)
	}
	s.agents, s.listed, s.failed = agents, now, nil
	return nil
}
