package pybind

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"syscall"
	"time"

	"github.com/stepahead-io/stepahead/checkpoint/save"
)

// heldFile is a file that is being written, by one call at a time, and what ends it early.
type heldFile struct {
	mu sync.Mutex
	*save.File
	cancel context.CancelFunc
}

func (f *heldFile) abort() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.cancel()
	return f.Abort()
}

// heldSave is a checkpoint that is being written, and what ends it early.
type heldSave struct {
	*save.Writer
	cancel context.CancelFunc
}

func (w *heldSave) abort() error {
	defer w.cancel()
	return w.Abort(context.Background())
}

// lasting starts something that lives longer than the call that starts it, until end is called. Of a call that ends before it is started
// nothing is left.
func lasting[T any](call context.Context, start func(context.Context) (T, error), giveUp func(T) error) (value T, end context.CancelFunc, err error) {
	ctx, end := context.WithCancel(context.WithoutCancel(call))
	undisturbed := context.AfterFunc(call, end)
	if value, err = start(ctx); err == nil && !undisturbed() {
		err = errors.Join(call.Err(), giveUp(value))
	}
	if err != nil {
		end()
	}
	return value, end, err
}

// fileStaging bounds what is written of one file and not yet stored.
const fileStaging = 64 << 20

// writerOpened is the handle of a file that is being written.
type writerOpened struct {
	Writer int64 `json:"writer"`

	s *openStore
}

func (w writerOpened) drop() {
	if held, ok := w.s.writers.take(w.Writer); ok {
		held.abort()
	}
}

// create starts a new file: of a save, or one of its own, which is there when it is finished, and may then replace the one that has
// the name.
func (s *openStore) create(call context.Context, a struct {
	Name string `json:"name"`
	Over bool   `json:"over"`
	Save int64  `json:"save"`
}) (any, error) {
	if a.Save != 0 {
		w, err := s.saves.get(a.Save)
		if err != nil {
			return nil, err
		}
		f, err := w.Create(a.Name)
		if err != nil {
			return nil, err
		}
		return writerOpened{Writer: s.writers.add(&heldFile{File: f, cancel: w.cancel}), s: s}, nil
	}
	switch info, err := s.place.Store.Stat(call, a.Name); {
	case err == nil && (info.Dir || !a.Over):
		why := syscall.EEXIST
		if info.Dir && a.Over {
			why = syscall.EISDIR
		}
		return nil, &fs.PathError{Op: "create", Path: s.place.Store.Address(a.Name), Err: why}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	start := save.Create
	if a.Over {
		start = save.Replace
	}
	f, cancel, err := lasting(call, func(ctx context.Context) (*save.File, error) {
		return start(ctx, s.place.Store, a.Name, save.Limits{Memory: fileStaging, PartSize: fileStaging / 4})
	}, (*save.File).Abort)
	if err != nil {
		return nil, err
	}
	return writerOpened{Writer: s.writers.add(&heldFile{File: f, cancel: cancel}), s: s}, nil
}

// write copies bytes to a file that is being written. A write that is given up gives the file up.
func (s *openStore) write(call context.Context, a struct {
	Writer  int64 `json:"writer"`
	Address int64 `json:"address"`
	Bytes   int64 `json:"bytes"`
}) (any, error) {
	f, err := s.writers.get(a.Writer)
	if err != nil {
		return nil, err
	}
	data, err := memoryAt(a.Address, a.Bytes)
	if err != nil {
		return nil, &optionError{err}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	defer context.AfterFunc(call, f.cancel)()
	_, err = f.Write(data)
	return nil, err
}

// finish makes a file visible that was written. One of a save it only ends: stored waits for it.
func (s *openStore) finish(call context.Context, a struct {
	Writer int64 `json:"writer"`
	Abort  bool  `json:"abort"`
	End    bool  `json:"end"`
}) (any, error) {
	f, ok := s.writers.take(a.Writer)
	switch {
	case !ok:
		return nil, nil
	case a.Abort:
		return nil, f.abort()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if a.End {
		return nil, f.End()
	}
	defer f.cancel()
	defer context.AfterFunc(call, f.cancel)()
	return nil, f.Close()
}

// saveOpened is the handle of a checkpoint that is being written.
type saveOpened struct {
	Save    int64    `json:"save"`
	Removed []string `json:"removed"`

	s *openStore
}

func (w saveOpened) drop() {
	if held, ok := w.s.saves.take(w.Save); ok {
		held.abort()
	}
}

// save begins a checkpoint of torch's layout, or joins one that another process has begun.
func (s *openStore) save(call context.Context, a struct {
	Name      string  `json:"name"`
	Begin     bool    `json:"begin"`
	Overwrite bool    `json:"overwrite"`
	Patience  float64 `json:"patience"` // seconds
}) (any, error) {
	start := save.Join
	if a.Begin {
		start = save.Begin
	}
	o := save.Options{Layout: save.TorchDCP(), Overwrite: a.Overwrite, Patience: time.Duration(a.Patience * float64(time.Second))}
	w, cancel, err := lasting(call, func(ctx context.Context) (*save.Writer, error) {
		return start(ctx, s.place.Store, a.Name, o)
	}, func(w *save.Writer) error { return w.Abort(context.WithoutCancel(call)) })
	if err != nil {
		return nil, err
	}
	return saveOpened{Save: s.saves.add(&heldSave{Writer: w, cancel: cancel}), Removed: w.Removed(), s: s}, nil
}

type saveArguments struct {
	Save int64 `json:"save"`
}

// stored waits until all files of a save that were ended are stored, and returns what they are.
func (s *openStore) stored(call context.Context, a saveArguments) (any, error) {
	w, err := s.saves.get(a.Save)
	if err != nil {
		return nil, err
	}
	return w.Wait(call)
}

// commit writes the marker that makes a save complete, after it has compared the files that there are with those that were stored.
func (s *openStore) commit(call context.Context, a struct {
	Save    int64        `json:"save"`
	Marker  string       `json:"marker"`
	Address int64        `json:"address"`
	Bytes   int64        `json:"bytes"`
	Files   []save.Saved `json:"files"`
}) (any, error) {
	w, err := s.saves.get(a.Save)
	if err != nil {
		return nil, err
	}
	data, err := memoryAt(a.Address, a.Bytes)
	if err != nil {
		return nil, &optionError{err}
	}
	if err := w.Commit(call, a.Marker, data, a.Files...); err != nil {
		return nil, fmt.Errorf("the save is not complete: %w", err)
	}
	s.saves.take(a.Save)
	w.cancel()
	return nil, nil
}

// giveUp gives a save up: what it has stored is removed.
func (s *openStore) giveUp(_ context.Context, a saveArguments) (any, error) {
	w, ok := s.saves.take(a.Save)
	if !ok {
		return nil, nil
	}
	return nil, w.abort()
}
