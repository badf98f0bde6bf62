package pybind

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/checkpoint"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/lifecycle"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/address"
)

// tellerOptions say who tells which store's agents; docs are at configure in Python's lifecycle.
type tellerOptions struct {
	agentOptions
	Store       string      `json:"store"`
	Environment environment `json:"environment"`
}

// said is one thing that Python's lifecycle says; docs are there.
type said struct {
	What       string   `json:"what"` // a state's name, "start", "opened", "read", or "ended"
	Path       string   `json:"path"`
	Step       *int64   `json:"step"`
	Evaluation string   `json:"evaluation"`
	Site       string   `json:"site"`
	ExpectedIn float64  `json:"expected_in"` // seconds
	Urgency    float64  `json:"urgency"`
	Confidence float64  `json:"confidence"`
	Holds      float64  `json:"holds"` // seconds
	Metric     string   `json:"metric"`
	Value      *float64 `json:"value"`
	Regression bool     `json:"regression"`
	Decision   string   `json:"decision"`
	WorldSize  int      `json:"world_size"`
	Settle     *float64 `json:"settle"` // seconds

	Ranks        uint32            `json:"ranks"`
	RanksPerHost uint32            `json:"ranks_per_host"`
	Tensor       int               `json:"tensor"`
	Pipeline     int               `json:"pipeline"`
	Expert       int               `json:"expert"`
	Shards       int               `json:"shards"`
	Files        map[string]uint32 `json:"files"`

	Median float64 `json:"median"` // seconds
	Last   float64 `json:"last"`   // seconds
	Bytes  int64   `json:"bytes"`
}

// teller is an announcer and the store whose agents it tells.
type teller struct {
	o         tellerOptions
	log       *zap.Logger
	announcer *lifecycle.Announcer

	mu    sync.Mutex
	place *address.Place
}

// tellers are those of this process, by their options: gopy binds functions, not values, so there is no object on the Python side that
// could own one.
var tellers = struct {
	sync.Mutex
	all map[string]*teller
	// ended is what came of those that are not in all any more.
	ended lifecycle.Stats
}{all: map[string]*teller{}}

// mostTellers is how many there are before those that have nothing to tell are closed: each folder of checkpoints may be a store.
const mostTellers = 16

// Tell has agents told something about a checkpoint or a start. It takes the options of the teller and what is said, both as JSON, does
// no I/O and waits for nothing.
func Tell(optionsJSON, saidJSON string) (err error) {
	defer caught("Tell", &err)
	tellers.Lock()
	defer tellers.Unlock()
	t, err := tellerOf(optionsJSON)
	if err != nil {
		return encode(err)
	}
	var s said
	if err := strictly(saidJSON, &s); err != nil {
		return encode(&optionError{fmt.Errorf("pybind.Tell: %w", err)})
	}
	h, err := s.hint()
	if err == nil {
		err = t.announcer.Say(h, func(ctx context.Context, h *hints.Hint) error { return t.complete(ctx, s, h) })
	}
	if err != nil {
		return encode(&optionError{err})
	}
	return nil
}

// Told waits at most timeoutMillis until all that was said was told or cannot be, and returns what became of it as JSON.
func Told(timeoutMillis int) (out string, err error) {
	defer caught("Told", &err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(timeoutMillis)*time.Millisecond)
	defer cancel()
	tellers.Lock()
	all := slices.Collect(maps.Values(tellers.all))
	tellers.Unlock()
	done := true
	for _, t := range all {
		done = t.announcer.Flush(ctx) == nil && done
	}
	text, err := json.Marshal(struct {
		Done bool `json:"done"`
		lifecycle.Stats
	}{done, whatBecame()})
	return string(text), encode(err)
}

// whatBecame adds up what became of what all tellers were to tell.
func whatBecame() lifecycle.Stats {
	tellers.Lock()
	defer tellers.Unlock()
	sum := tellers.ended
	for _, t := range tellers.all {
		sum = sum.Plus(t.announcer.Stats())
	}
	return sum
}

// Untell ends all telling: what was not sent is lost.
func Untell() (err error) {
	defer caught("Untell", &err)
	tellers.Lock()
	defer tellers.Unlock()
	for _, t := range tellers.all {
		err = errors.Join(err, t.close())
	}
	clear(tellers.all)
	tellers.ended = lifecycle.Stats{}
	return encode(err)
}

// close ends a teller. The lock of tellers is held.
func (t *teller) close() error {
	t.announcer.Close()
	tellers.ended = tellers.ended.Plus(t.announcer.Stats())
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.place == nil {
		return nil
	}
	return t.place.Close()
}

// closeIdle closes the tellers that have nothing to tell. The lock of tellers is held.
func closeIdle() {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	maps.DeleteFunc(tellers.all, func(_ string, t *teller) bool {
		idle := t.announcer.Flush(over) == nil
		if idle {
			if err := t.close(); err != nil {
				t.log.Warn("lifecycle", zap.Error(err))
			}
		}
		return idle
	})
}

// tellerOf returns the teller of options, a new one if there is none. The lock of tellers is held.
func tellerOf(optionsJSON string) (*teller, error) {
	if t := tellers.all[optionsJSON]; t != nil {
		return t, nil
	}
	if len(tellers.all) >= mostTellers {
		closeIdle()
	}
	var o tellerOptions
	if err := strictly(optionsJSON, &o); err != nil {
		return nil, &optionError{fmt.Errorf("pybind.Tell: options: %w", err)}
	}
	log, err := newLog("")
	if err != nil {
		return nil, err
	}
	secured, err := o.tls()
	if err != nil {
		return nil, err
	}
	t := &teller{o: o, log: log}
	t.announcer, err = lifecycle.New(lifecycle.Options{
		Open: t.open, Registry: o.Registry, Agents: o.Agents, Token: o.Token, TLS: secured, Job: o.Job, Run: o.Run,
		Report: func(err error) { log.Warn("lifecycle", zap.Error(err)) },
	})
	if err != nil {
		return nil, &optionError{err}
	}
	tellers.all[optionsJSON] = t
	return t, nil
}

// open returns the store, opened at the first call.
func (t *teller) open(ctx context.Context) (store.Store, error) {
	p, err := t.opened(ctx)
	if err != nil {
		return nil, err
	}
	return p.Store, nil
}

func (t *teller) opened(ctx context.Context) (*address.Place, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.place != nil {
		return t.place, nil
	}
	var err error
	t.place, err = address.Open(ctx, t.o.Store, address.Options{Getenv: t.o.Environment.get})
	return t.place, err
}

// hint is what can be said without looking anything up.
func (s said) hint() (hints.Hint, error) {
	h := hints.Hint{Confidence: s.Confidence}
	holds, err := seconds("holds", s.Holds)
	if err != nil {
		return h, err
	}
	expected, err := seconds("expected_in", s.ExpectedIn)
	if err != nil {
		return h, err
	}
	h.TTL = holds
	if s.What == "ended" {
		h.Close = &hints.Close{}
		return h, nil
	}
	if phase, ok := phases[s.What]; ok {
		h.Start = &hints.Start{Phase: phase, Ranks: s.Ranks, RanksPerHost: s.RanksPerHost, ExpectedIn: expected}
		if h.Start.Took, err = s.took(); err != nil || phase != hints.Announced {
			return h, err
		}
		for file, readers := range s.Files {
			h.Start.Files = append(h.Start.Files, hints.HotFile{Path: file, Readers: readers})
		}
		slices.SortFunc(h.Start.Files, func(a, b hints.HotFile) int {
			return cmp.Or(cmp.Compare(b.Readers, a.Readers), cmp.Compare(a.Path, b.Path))
		})
		return h, s.parallel().Validate()
	}
	state, ok := hints.ParseCheckpointState(s.What)
	if !ok {
		return h, fmt.Errorf("pybind.Tell: %q is no state of a checkpoint", s.What)
	}
	c := &hints.Checkpoint{
		State: state, Path: s.Path, Step: -1, Evaluation: s.Evaluation, Site: s.Site, ExpectedIn: expected, Urgency: s.Urgency,
		Decision: hints.Decision(s.Decision),
	}
	if state == hints.EvaluationResult {
		c.Result = &hints.Result{Metric: s.Metric, Value: s.Value, Regression: s.Regression}
	}
	if s.Step != nil {
		c.Step = *s.Step
	}
	h.Checkpoint = c
	return h, nil
}

// phases are the phases of a start as Python calls them.
var phases = map[string]hints.StartPhase{"start": hints.Announced, "opened": hints.Opened, "read": hints.Read}

// took is how long ranks took to read.
func (s said) took() (t hints.Took, err error) {
	if t.Median, err = seconds("median", s.Median); err != nil {
		return t, err
	}
	t.Last, err = seconds("last", s.Last)
	t.Bytes = s.Bytes
	return t, err
}

func (s said) parallel() checkpoint.Parallel {
	return checkpoint.Parallel{Ranks: int(s.Ranks), Tensor: s.Tensor, Pipeline: s.Pipeline, Expert: s.Expert, Shards: s.Shards}
}

// complete names paths as agents do, and looks up what a committed checkpoint, or one that a job starts from, holds.
func (t *teller) complete(ctx context.Context, s said, h *hints.Hint) error {
	p, err := t.opened(ctx)
	if err != nil {
		return err
	}
	if h.Start != nil {
		return t.completeStart(ctx, p, s, h)
	}
	if h.Close != nil {
		return nil
	}
	name, err := p.Resolve(s.Path)
	if err != nil {
		return err
	}
	h.Checkpoint.Path = p.Store.Address(name)
	if h.Checkpoint.State != hints.Committed {
		return nil
	}
	o := checkpoint.Options{WorldSize: s.WorldSize, Settle: time.Second}
	if s.Settle != nil {
		if o.Settle, err = seconds("settle", *s.Settle); err != nil {
			return err
		}
	}
	c, err := checkpoint.Open(ctx, p.Store, name, o)
	if err == nil {
		err = c.Complete()
	}
	if err != nil {
		return err
	}
	c.Foretell(h)
	return nil
}

// completeStart adds the files of the checkpoint that a job starts from, and the trackers that name it, which all ranks read.
func (t *teller) completeStart(ctx context.Context, p *address.Place, s said, h *hints.Hint) error {
	for i, f := range h.Start.Files {
		name, err := p.Resolve(f.Path)
		if err != nil {
			return err
		}
		h.Start.Files[i].Path = p.Store.Address(name)
	}
	if s.Path == "" {
		return nil
	}
	name, err := p.Resolve(s.Path)
	if err != nil {
		return err
	}
	if h.Start.Phase != hints.Announced {
		h.Start.Files = []hints.HotFile{{Path: p.Store.Address(name), Readers: h.Start.Ranks}}
		return nil
	}
	c, err := checkpoint.Open(ctx, p.Store, name, checkpoint.Options{WorldSize: s.WorldSize})
	if err != nil {
		return err
	}
	files, err := c.HotFiles(s.parallel(), p.Store.Address)
	if err != nil {
		return err
	}
	trackers, err := checkpoint.Trackers(ctx, p.Store, path.Dir(name))
	if err != nil {
		return err
	}
	for _, tracker := range trackers {
		if tracker.Names == name && s.Ranks > 1 {
			h.Start.Files = append(h.Start.Files, hints.HotFile{Path: p.Store.Address(tracker.File), Readers: s.Ranks})
		}
	}
	h.Start.Files = append(h.Start.Files, files...)
	h.Start.Files = h.Start.Files[:min(len(h.Start.Files), hints.MaxFiles)]
	c.Bind(h)
	return nil
}
