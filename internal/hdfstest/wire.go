package hdfstest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// wire is the talk with a JVM: one JSON object a line in each direction, answers in any order.
type wire struct {
	out  io.Writer
	done chan struct{} // closed when the other side has ended

	mu      sync.Mutex
	next    int64
	waiting map[int64]chan answer
}

type request struct {
	ID   int64  `json:"id"`
	Op   string `json:"op"`
	Args any    `json:"args"`
}

type answer struct {
	ID     int64           `json:"id"`
	Result json.RawMessage `json:"result"`
	Class  string          `json:"class"`
	Error  string          `json:"error"`
}

// A RemoteError is what a command of the JVM threw.
type RemoteError struct{ Op, Class, Message string }

func (e *RemoteError) Error() string { return e.Op + ": " + e.Class + ": " + e.Message }

var errEnded = errors.New("the JVM has ended")

// newWire starts the goroutine that reads answers; it ends when in does.
func newWire(in io.Reader, out io.Writer) *wire {
	w := &wire{out: out, done: make(chan struct{}), waiting: map[int64]chan answer{}}
	go w.read(in)
	return w
}

func (w *wire) read(in io.Reader) {
	defer close(w.done)
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var a answer
		if json.Unmarshal(line, &a) != nil {
			continue
		}
		w.mu.Lock()
		ch := w.waiting[a.ID]
		delete(w.waiting, a.ID)
		w.mu.Unlock()
		if ch != nil {
			ch <- a
		}
	}
}

// expect returns the number of the next request, and the channel on which its answer will come. Request 0 is that to start.
func (w *wire) expect() (int64, chan answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id, ch := w.next, make(chan answer, 1)
	w.waiting[id] = ch
	w.next++
	return id, ch
}

// call sends a command and waits for its answer, which is decoded into result unless that is nil.
func (w *wire) call(ctx context.Context, op string, args, result any) error {
	id, ch := w.expect()
	if err := w.send(request{id, op, args}); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return w.wait(ctx, op, ch, result)
}

// send writes one line.
func (w *wire) send(value any) error {
	line, err := json.Marshal(value)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err = w.out.Write(append(line, '\n'))
	return err
}

func (w *wire) wait(ctx context.Context, op string, ch chan answer, result any) error {
	select {
	case a := <-ch:
		if a.Class != "" {
			return &RemoteError{op, a.Class, a.Error}
		}
		if result == nil || len(a.Result) == 0 { // a command without a result
			return nil
		}
		return json.Unmarshal(a.Result, result)
	case <-w.done:
		return fmt.Errorf("%s: %w", op, errEnded)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", op, ctx.Err())
	}
}
