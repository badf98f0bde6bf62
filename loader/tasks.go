package loader

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"runtime/pprof"
	"sync"
)

// tasks runs functions in goroutines that share a context: the first error cancels it, and wait
// returns it when all have ended. A panic is an error. It is the only place of this package that
// starts goroutines. start may be called by a running task, and by others before wait.
type tasks struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
}

// newTasks returns an empty group; name is the pprof label of its goroutines.
func newTasks(ctx context.Context, name string) *tasks {
	ctx = pprof.WithLabels(ctx, pprof.Labels("stepahead", name))
	t := &tasks{}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	return t
}

// start runs f in a goroutine of its own.
func (t *tasks) start(f func(ctx context.Context) error) {
	t.wg.Go(func() {
		pprof.SetGoroutineLabels(t.ctx)
		t.do(f)
	})
}

// do runs f in the goroutine that calls it, as start does in another.
func (t *tasks) do(f func(ctx context.Context) error) {
	if err := safely(t.ctx, f); err != nil {
		t.cancel(err)
	}
}

// wait returns when no task runs any more: nil, the first error of a task, or why the context the
// group was made with ended. The group is then finished.
func (t *tasks) wait() error {
	t.wg.Wait()
	err := context.Cause(t.ctx)
	t.cancel(errDone)
	if errors.Is(err, errDone) {
		return nil
	}
	return err
}

// stop cancels the tasks and waits for their end.
func (t *tasks) stop() {
	t.cancel(errDone)
	t.wg.Wait()
}

var errDone = errors.New("loader: done")

// PanicError is a panic of one of the loader's own goroutines, which is a bug of this package or of
// something it was given.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("loader: panic: %v: this is a bug, please report it with this stack\n%s", e.Value, e.Stack)
}

func safely(ctx context.Context, f func(ctx context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return f(ctx)
}
