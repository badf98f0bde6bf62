package pybind

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A call is an operation that was begun and may take long. Python waits for it in slices, so that signals are looked at.
type call struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when result or err is set
	result any
	err    error
}

// callTable holds the calls that Python has not taken the result of.
type callTable struct {
	mu    sync.Mutex
	calls map[int64]*call
}

// calls is the one table of this process; see loaders.
var calls = callTable{calls: map[int64]*call{}}

var errNoCall = errors.New("there is no such call: its result was taken, or it was cancelled")

// begin starts an operation under a number that the caller chose, so that it can cancel whatever became of this function's
// result. The goroutine ends with the operation, which CallCancel ends early.
func (t *callTable) begin(number int64, op string, do func(context.Context) (any, error)) error {
	ctx, cancel := context.WithCancel(context.Background())
	c := &call{cancel: cancel, done: make(chan struct{})}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls[number] != nil {
		cancel()
		return &optionError{fmt.Errorf("pybind.%s: call %d is under way", op, number)}
	}
	t.calls[number] = c
	go func() {
		defer close(c.done)
		defer caught(op, &c.err)
		c.result, c.err = do(ctx)
	}()
	return nil
}

func (t *callTable) get(number int64) *call {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.calls[number]
}

func (t *callTable) drop(number int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.calls, number)
}

// CallWait waits at most timeoutMillis for a call to end and returns what came of it, as JSON; "" while it is under way. After a
// result or an error the number stands for nothing.
func CallWait(number int64, timeoutMillis int) (out string, err error) {
	defer caught("CallWait", &err)
	c := calls.get(number)
	if c == nil {
		return "", encode(errNoCall)
	}
	timer := time.NewTimer(time.Duration(timeoutMillis) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
		return "", nil
	}
	calls.drop(number)
	c.cancel()
	if c.err != nil {
		return "", encode(c.err)
	}
	text, err := json.Marshal(c.result)
	if err != nil {
		return "", encode(err)
	}
	return string(text), nil
}

// CallCancel ends a call early and returns when it has ended: no memory of the caller is touched afterwards, and what it opened is
// closed. A call that is not there any more is none to cancel.
func CallCancel(number int64) (err error) {
	defer caught("CallCancel", &err)
	c := calls.get(number)
	if c == nil {
		return nil
	}
	calls.drop(number)
	c.cancel()
	<-c.done
	if o, ok := c.result.(opened); ok && c.err == nil {
		o.drop()
	}
	return nil
}

// opened is a result that Python has to give back: its handle.
type opened interface{ drop() }
