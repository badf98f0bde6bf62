package execute

import (
	"context"
	"runtime/debug"
	"slices"

	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/controller/plan"
)

const (
	// jobsAtOnce bounds the jobs of one kind that are under way, pathsAtOnce the paths of one.
	jobsAtOnce  = 8
	pathsAtOnce = 512
)

// jobs are what is done beside the actions of placements, some of one kind at a time: the planner's questions, what is swept at one site, so that one that hangs
// keeps nothing else waiting, and the journal.
type jobs struct {
	busy  int
	queue []func(ctx context.Context) func()
}

// look asks for files, some at a time.
func (l *loop) look(a plan.Look) {
	for paths := range slices.Chunk(a.Paths, pathsAtOnce) {
		paths := slices.Clone(paths)
		l.background(asking, func(ctx context.Context) func() {
			files := l.e.files(ctx, paths)
			return func() { l.step(plan.Looked{Files: files}) }
		})
	}
}

func (l *loop) inspect(a plan.Inspect) {
	l.background(asking, func(ctx context.Context) func() {
		c := l.e.checkpoint(ctx, a.Path)
		return func() { l.step(plan.Inspected{Checkpoint: c}) }
	})
}

// The kinds of jobs that are of no site.
const (
	asking     = "ask"
	compacting = "compact"
)

// background does a job when its turn among those of its kind has come, and then what it returned in the goroutine of the loop.
func (l *loop) background(kind string, job func(ctx context.Context) func()) {
	all := l.jobs[kind]
	if all == nil {
		all = &jobs{}
		l.jobs[kind] = all
	}
	if all.busy >= jobsAtOnce {
		all.queue = append(all.queue, job)
		return
	}
	all.busy++
	l.spawn(func() func() {
		ctx, cancel := context.WithTimeout(l.ctx, callLimit)
		defer cancel()
		then := job(ctx)
		return func() {
			all.busy--
			if len(all.queue) > 0 {
				next := all.queue[0]
				all.queue = all.queue[1:]
				l.background(kind, next)
			}
			then()
		}
	})
}

// files asks the looker. Whatever it does, there is one answer for each path.
func (e *Engine) files(ctx context.Context, paths []string) []plan.File {
	found := make(map[string]plan.File, len(paths))
	e.guarded("Look", func() {
		for _, f := range e.o.Looker.Look(ctx, paths) {
			found[f.Path] = f
		}
	})
	files := make([]plan.File, len(paths))
	for i, path := range paths {
		files[i] = found[path]
		files[i].Path = path
	}
	return files
}

func (e *Engine) checkpoint(ctx context.Context, path string) plan.Checkpoint {
	c := plan.Checkpoint{}
	e.guarded("Inspect", func() { c = e.o.Looker.Inspect(ctx, path) })
	c.Path = path
	return c
}

// guarded calls what may panic.
func (e *Engine) guarded(name string, f func()) {
	defer func() {
		if p := recover(); p != nil {
			e.o.Log.Error("a call panicked", zap.String("call", name), zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
		}
	}()
	f()
}
