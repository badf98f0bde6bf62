package pybind

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/stepahead-io/stepahead/loader"
	"github.com/stepahead-io/stepahead/sampler"
)

// A session is one loader, being opened or open, and the batches that Python holds of it.
type session struct {
	cancel context.CancelFunc // ends the opening
	opened chan struct{}      // closed when loader or failed is set
	failed error

	mu      sync.Mutex
	loader  *loader.Loader // nil before it is open and after Close
	places  places         // the loader's stores
	last    int64
	batches map[int64]*loader.Batch
	sources int // how many the loader has
}

// newSession starts to open a loader. The goroutine ends when it is open, has failed, or Close
// cancels it.
func newSession(open func(context.Context) (*loader.Loader, places, error)) *session {
	ctx, cancel := context.WithCancel(context.Background())
	s := &session{cancel: cancel, opened: make(chan struct{}), batches: map[int64]*loader.Batch{}}
	go func() {
		defer close(s.opened)
		defer caught("Open", &s.failed)
		s.loader, s.places, s.failed = open(ctx)
		s.sources = len(s.places)
	}()
	return s
}

// table holds what handles stand for. Go pointers never reach Python.
type table struct {
	mu       sync.Mutex
	last     int64
	sessions map[int64]*session
}

// loaders is the one table of this process: gopy binds functions, not values, so there is no
// object of ours on the Python side that could own it.
var loaders = table{sessions: map[int64]*session{}}

func (t *table) add(s *session) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	t.sessions[t.last] = s
	return t.last
}

func (t *table) get(handle int64) (*session, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sessions[handle]
	if s == nil {
		return nil, errClosed
	}
	return s, nil
}

// drop forgets a session whose last batch is back. A closed loader with live batches stays, so that
// their release still finds them.
func (t *table) drop(handle int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.sessions, handle)
}

var errClosed = errors.New("the loader is not open: make a new one")

// descriptor tells Python what a batch is and where its memory lies.
type descriptor struct {
	Batch  int64             `json:"batch"`
	Step   int64             `json:"step"`
	Epoch  int64             `json:"epoch"`
	Fields []fieldDescriptor `json:"fields"`
}

// details are what Python parses only when it is asked for them.
type details struct {
	Samples []uint64         `json:"samples"`
	Sources []int32          `json:"sources,omitempty"` // their sources, where there are several
	Stats   loader.StepStats `json:"stats"`
}

type fieldDescriptor struct {
	Name    string   `json:"name"`
	Dtype   string   `json:"dtype"`
	Shape   []int    `json:"shape"`
	Strides []int    `json:"strides"`
	Address uintptr  `json:"address"`
	Bytes   int      `json:"bytes"`
	Strings []string `json:"strings,omitempty"`
	Offsets []int64  `json:"offsets,omitempty"` // of fields of bytes
}

// Next waits at most timeoutMillis for the next batch of the loader and returns two lines of JSON, its
// descriptor and its details: "" when the time is up, {"end":true} at the end of an epoch. It must not be called
// concurrently for one handle. The batch's memory stays valid until Release.
func Next(handle int64, timeoutMillis int) (out string, err error) {
	defer caught("Next", &err)
	s, err := loaders.get(handle)
	if err != nil {
		return "", encode(err)
	}
	l, err := s.open()
	if err != nil {
		return "", encode(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(timeoutMillis)*time.Millisecond)
	defer cancel()
	b, err := l.Next(ctx)
	switch {
	case errors.Is(err, io.EOF):
		return `{"end":true}`, nil
	case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return "", nil
	case err != nil:
		return "", encode(err)
	}
	return s.describe(b)
}

func (s *session) describe(b *loader.Batch) (string, error) {
	d := descriptor{Step: b.Step, Epoch: b.Epoch}
	more := details{Stats: b.Stats, Samples: make([]uint64, len(b.Samples))}
	for i, ref := range b.Samples {
		more.Samples[i] = ref.Sample
		if s.sources > 1 {
			more.Sources = append(more.Sources, ref.Source)
		}
	}
	for i := range b.Fields {
		f := &b.Fields[i]
		d.Fields = append(d.Fields, fieldDescriptor{
			Name: f.Name, Dtype: f.Dtype, Shape: f.Shape, Strides: f.Strides,
			Address: f.Addr(), Bytes: len(f.Bytes), Strings: f.Strings, Offsets: f.Offsets,
		})
	}
	s.mu.Lock()
	s.last++
	d.Batch = s.last
	s.batches[d.Batch] = b
	s.mu.Unlock()
	head, err := json.Marshal(d)
	tail, errTail := json.Marshal(more)
	if err := errors.Join(err, errTail); err != nil {
		return "", encode(err)
	}
	return string(head) + "\n" + string(tail), nil
}

// Release gives the memory of a batch back. Python calls it when nothing refers to the batch any
// more; a second call does nothing.
func Release(handle, batch int64) (err error) {
	defer caught("Release", &err)
	s, err := loaders.get(handle)
	if err != nil {
		return nil // closed and wholly released
	}
	s.mu.Lock()
	b := s.batches[batch]
	delete(s.batches, batch)
	idle := len(s.batches) == 0 && s.loader == nil
	s.mu.Unlock()
	if b != nil {
		b.Release()
	}
	if idle {
		loaders.drop(handle)
	}
	return nil
}

// ReleaseStored gives back the memory of a batch's fields of bytes, which Python copies at once.
func ReleaseStored(handle, batch int64) (err error) {
	defer caught("ReleaseStored", &err)
	s, err := loaders.get(handle)
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.batches[batch]; b != nil {
		b.ReleaseStored()
	}
	return nil
}

// Info returns what does not change while a loader is open, as JSON: steps_per_epoch, dataset (its
// identity in hex), classes and the names of the sources.
func Info(handle int64) (string, error) {
	return ask("Info", handle, func(l *loader.Loader) (any, error) {
		id := l.Dataset()
		return map[string]any{"steps_per_epoch": l.StepsPerEpoch(), "dataset": hex.EncodeToString(id[:]), "classes": l.Classes(), "sources": l.Sources()}, nil
	})
}

// Stats returns the loader's totals as JSON (loader.Stats).
func Stats(handle int64) (string, error) {
	return ask("Stats", handle, func(l *loader.Loader) (any, error) { return l.Stats(), nil })
}

// Begin says that a new loop over the batches starts: after an epoch's last batch it is the next epoch's.
func Begin(handle int64) (err error) {
	_, err = ask("Begin", handle, func(l *loader.Loader) (any, error) { return nil, l.Begin() })
	return err
}

// WorkerCPU returns the CPU time of the loader's worker processes so far, in seconds.
func WorkerCPU(handle int64) (seconds float64, err error) {
	defer caught("WorkerCPU", &err)
	s, err := loaders.get(handle)
	if err != nil {
		return 0, encode(err)
	}
	l, err := s.open()
	if err != nil {
		return 0, encode(err)
	}
	return l.Stats().WorkerCPU, nil
}

// State returns the state after the last batch that Next gave, as JSON.
func State(handle int64) (string, error) {
	return ask("State", handle, func(l *loader.Loader) (any, error) { return json.RawMessage(l.State().Marshal()), nil })
}

// StateAt returns the state that the run has before a step, as JSON.
func StateAt(handle, step int64) (string, error) {
	return ask("StateAt", handle, func(l *loader.Loader) (any, error) {
		st, err := l.StateAt(step)
		if err != nil {
			return nil, err
		}
		return json.RawMessage(st.Marshal()), nil
	})
}

// Load continues from a state that State gave, on any rank of any world size. It must not be called
// concurrently with Next.
func Load(handle int64, state string) (err error) {
	_, err = ask("Load", handle, func(l *loader.Loader) (any, error) {
		st, err := sampler.ParseState([]byte(state))
		if err != nil {
			return nil, &stateError{err}
		}
		return nil, l.Load(st)
	})
	return err
}

// Close ends the loader's goroutines and processes. Batches that Python still holds stay valid. A
// second call does nothing.
func Close(handle int64) (err error) {
	defer caught("Close", &err)
	s, err := loaders.get(handle)
	if err != nil {
		return nil
	}
	s.cancel()
	<-s.opened
	s.mu.Lock()
	l := s.loader
	s.loader = nil
	idle := len(s.batches) == 0
	s.mu.Unlock()
	if idle {
		loaders.drop(handle)
	}
	if l == nil {
		return nil
	}
	return encode(errors.Join(l.Close(), s.places.Close()))
}

func ask(op string, handle int64, question func(*loader.Loader) (any, error)) (out string, err error) {
	defer caught(op, &err)
	s, err := loaders.get(handle)
	if err != nil {
		return "", encode(err)
	}
	l, err := s.open()
	if err != nil {
		return "", encode(err)
	}
	answer, err := question(l)
	if err != nil {
		return "", encode(err)
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return "", encode(fmt.Errorf("pybind.%s: %w", op, err))
	}
	return string(text), nil
}

// open returns the session's loader if it is open.
func (s *session) open() (*loader.Loader, error) {
	select {
	case <-s.opened:
	default:
		return nil, errClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loader == nil {
		return nil, errClosed
	}
	return s.loader, nil
}
