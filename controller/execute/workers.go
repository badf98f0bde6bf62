package execute

import (
	"errors"
	"fmt"
	"strings"
)

// spawn runs f in a goroutine, and then what it returned in the goroutine of the loop.
func (l *loop) spawn(f func() func()) {
	l.workers++
	go func() {
		then := f()
		select {
		case l.done <- then:
		case <-l.e.stopped:
		}
	}()
}

// wait returns when all workers have ended: they were told to. What does not end is named, and may change nothing any more.
func (l *loop) wait() error {
	limit := l.e.o.Clock.After(stopLimit)
	for l.workers > 0 {
		select {
		case <-l.done:
			l.workers--
		case <-limit:
			return l.left()
		}
	}
	return nil
}

// left names the calls that do not end.
func (l *loop) left() error {
	var names []string
	for _, id := range byID(l.tasks) {
		if t := l.tasks[id]; !t.ended.Load() {
			t.abandoned.Store(true)
			names = append(names, fmt.Sprintf("%s of placement %d", t.verb, id))
		}
	}
	if len(names) == 0 {
		return errors.New("execute.Run: calls do not end")
	}
	return fmt.Errorf("execute.Run: calls of makers do not end: %s", strings.Join(names, ", "))
}
