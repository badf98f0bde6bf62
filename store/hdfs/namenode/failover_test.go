package namenode_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

// The connection is cut at each step of its life. The call is repeated under its number, and succeeds.
func TestCutAtEachStep(t *testing.T) {
	whole := func(c *call) []byte {
		return framed(c.header(hproto.RpcResponseHeader_SUCCESS), &hproto.GetFileInfoResponse{Fs: status(3)})
	}
	for name, end := range map[string]func(*session){"closed": (*session).close, "reset": (*session).reset} {
		t.Run("accept "+name, func(t *testing.T) {
			f := newFake(t, func(c *call) { c.info(3) })
			f.accepted = func(n int, c net.Conn) net.Conn {
				if n > 2 {
					return c
				}
				end(&session{conn: c})
				return nil
			}
			wantLength(t, newClient(t, options(f)), 3)
		})
		for _, bytes := range []int{0, 1, 4, 5, 20, -1} {
			f := newFake(t, func(c *call) {
				if answer := whole(c); c.nth <= 2 {
					if bytes < 0 {
						bytes += len(answer)
					}
					c.raw(answer[:bytes])
					end(c.session)
					return
				}
				c.info(3)
			})
			c := newClient(t, options(f))
			wantLength(t, c, 3)
			calls := f.seen()
			if len(calls) != 3 || calls[0].head.GetCallId() != calls[2].head.GetCallId() || calls[2].head.GetRetryCount() != 2 ||
				string(calls[0].head.GetClientId()) != string(calls[2].head.GetClientId()) {
				t.Errorf("%s after %d bytes of the answer: calls %v", name, bytes, calls)
			}
		}
	}
}

// A connection that has served and is closed by the server meanwhile costs one quiet repeat at the same NameNode.
func TestStaleConnection(t *testing.T) {
	one := newFake(t, func(c *call) {
		if c.nth == 2 {
			c.close()
			return
		}
		c.info(1)
	})
	two := newFake(t, func(c *call) { c.standby() })
	c := newClient(t, options(one, two))
	wantLength(t, c, 1)
	wantLength(t, c, 1)
	if len(two.seen()) != 0 || c.Stats().Retries["stale"] != 1 || c.Stats().Failovers != 0 {
		t.Errorf("the standby got %d calls; %+v", len(two.seen()), c.Stats())
	}
}

// Standby answers and dead NameNodes lead to the next one, once for all calls, and it is asked first from then on.
func TestFailover(t *testing.T) {
	active := newFake(t, func(c *call) { c.info(5) })
	standby := newFake(t, func(c *call) { c.standby() })
	dead := newFake(t, nil)
	dead.stop()
	for name, first := range map[string]*fake{"standby": standby, "dead": dead} {
		c := newClient(t, options(first, active))
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				if n, err := length(t.Context(), c); n != 5 || err != nil {
					t.Errorf("%s: %d, %v", name, n, err)
				}
			})
		}
		group.Wait()
		before := len(standby.seen())
		wantLength(t, c, 5)
		if len(standby.seen()) != before {
			t.Errorf("%s: the NameNode that was not active is still asked first", name)
		}
		if s := c.Stats(); s.Failovers != 1 {
			t.Errorf("%s: %d failovers of 50 concurrent calls", name, s.Failovers)
		}
	}
}

// A fatal StandbyException, and one that a router or an observer sends, mean the same.
func TestOtherStandby(t *testing.T) {
	active := newFake(t, func(c *call) { c.info(5) })
	for _, class := range []string{standby, ipc + "ObserverRetryOnActiveException"} {
		fatal := newFake(t, func(c *call) { c.throw(hproto.RpcResponseHeader_FATAL, class, class+": no") })
		wantLength(t, newClient(t, options(fatal, active)), 5)
	}
}

// What the NameNode asks to repeat is repeated at the same one, after pauses that double.
func TestBusy(t *testing.T) {
	k := newClock(time.Minute)
	one := newFake(t, func(c *call) {
		if c.nth <= 4 {
			c.throw(hproto.RpcResponseHeader_ERROR, retriable, retriable+": "+safeMode+": Cannot create. Name node is in safe mode.")
			return
		}
		c.info(2)
	})
	two := newFake(t, func(c *call) { t.Error("the standby was asked") })
	o := options(one, two)
	o.Clock, o.Jitter, o.PauseBase, o.PauseMax = k, func() float64 { return 1.5 }, 500*time.Millisecond, 2*time.Second
	o.IdleTimeout, o.PingInterval, o.CallTimeout = 10*time.Hour, 10*time.Hour, 10*time.Hour
	wantLength(t, newClient(t, o), 2)
	want := []time.Duration{750 * time.Millisecond, 1500 * time.Millisecond, 3 * time.Second, 3 * time.Second}
	if !slices.Equal(k.pauses, want) {
		t.Errorf("pauses %v, want %v", k.pauses, want)
	}
	o.BusyRetries = 2
	_, err := length(t.Context(), newClient(t, options(newFake(t, func(c *call) {
		c.throw(hproto.RpcResponseHeader_FATAL, retriable, "Server too busy")
	}))))
	if store.ClassOf(err) != store.Retryable || !strings.Contains(err.Error(), "Server too busy") {
		t.Errorf("busy for good: %v", err)
	}
}

// Nobody there: a quick, clear error as long as nothing has ever answered, and a patient client afterwards.
func TestNobodyAnswers(t *testing.T) {
	dead := newFake(t, nil)
	dead.stop()
	c := newClient(t, options(dead))
	_, err := length(t.Context(), c)
	if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, namenode.ErrGaveUp) || !errors.Is(err, syscall.ECONNREFUSED) || store.ClassOf(err) != store.Retryable {
		t.Errorf("%v", err)
	}
	if want := "no NameNode of lake answers (3 attempts in "; !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dead.addr()) {
		t.Errorf("%v: want %q and the address", err, want)
	}
	alive := newFake(t, func(c *call) { c.info(1) })
	patient := newClient(t, options(alive))
	wantLength(t, patient, 1)
	alive.stop()
	if _, err := length(t.Context(), patient); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "(15 attempts in ") && !strings.Contains(err.Error(), "(16 attempts in ") {
		t.Errorf("after a first answer: %v", err)
	}
}

// A NameNode that restarts in the middle of a job costs time only.
func TestRestart(t *testing.T) {
	f := newFake(t, func(c *call) { c.info(1) })
	o := options(f)
	c := newClient(t, o)
	wantLength(t, c, 1)
	addr := f.addr()
	f.stop()
	o.PauseMax = time.Second
	again := make(chan *fake, 1)
	timer := time.AfterFunc(10*time.Millisecond, func() {
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			t.Error(err)
			again <- nil
			return
		}
		g := &fake{t: t, ln: ln, serve: func(c *call) { c.info(2) }}
		g.addr()
		again <- g
	})
	defer timer.Stop()
	wantLength(t, c, 2)
	if g := <-again; g != nil {
		g.stop()
	}
}

// A peer that accepts and never answers: the next NameNode is asked after CallTimeout, and other calls on a
// connection that does answer go on.
func TestSilence(t *testing.T) {
	const timeout = time.Minute
	k := newClock(time.Second) // pauses are over at once
	silent := newFake(t, func(*call) { k.advance(timeout) })
	active := newFake(t, func(c *call) { c.info(4) })
	o := options(silent, active)
	o.Clock, o.CallTimeout = k, timeout
	c := newClient(t, o)
	wantLength(t, c, 4)
	if s := c.Stats(); s.Retries["silent"] != 1 {
		t.Errorf("%+v", s.Retries)
	}
	o = options(silent)
	o.Clock, o.CallTimeout = k, timeout
	if _, err := length(t.Context(), newClient(t, o)); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "no answer in time") {
		t.Errorf("%v", err)
	}
}

// A server that accepts and says nothing during the handshake is given up after ConnectTimeout.
func TestSilentHandshake(t *testing.T) {
	f := newFake(t, nil)
	f.greeting = func(s *session) error { _, err := s.frame(); s.frame(); return err }
	o := options(f)
	o.Auth, o.ConnectTimeout, o.FirstRounds = simple{}, 20*time.Millisecond, 1
	_, err := length(t.Context(), newClient(t, o))
	if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "did not finish the handshake within 20ms") {
		t.Errorf("%v", err)
	}
}

// Whether a call that changes something took place is not known when it was sent and nothing came back.
func TestOutcomeUnknown(t *testing.T) {
	f := newFake(t, func(c *call) { c.close() })
	c := newClient(t, options(f))
	if _, err := c.Delete(t.Context(), "/f", false); !errors.Is(err, namenode.ErrOutcomeUnknown) || store.ClassOf(err) != store.Retryable {
		t.Errorf("delete: %v", err)
	}
	if _, err := length(t.Context(), c); errors.Is(err, namenode.ErrOutcomeUnknown) || err == nil {
		t.Errorf("getFileInfo: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	hang := newFake(t, func(*call) { cancel() })
	o := options(hang)
	o.Clock = newClock(5 * time.Second) // it is not waited for long
	err := newClient(t, o).Rename2(ctx, "/a", "/b", false)
	if !errors.Is(err, namenode.ErrOutcomeUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("rename that is not answered: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	slow := newFake(t, func(c *call) { cancel(); c.answer(new(hproto.Rename2Response)) })
	if err := newClient(t, options(slow)).Rename2(ctx, "/a", "/b", false); err != nil {
		t.Errorf("rename that is answered after its context has ended: %v", err)
	}
	dead := newFake(t, nil)
	dead.stop()
	if err := newClient(t, options(dead)).Rename2(t.Context(), "/a", "/b", false); errors.Is(err, namenode.ErrOutcomeUnknown) || err == nil {
		t.Errorf("rename that was never sent: %v", err)
	}
}

// A fatal answer to one call is its answer; other calls in flight are repeated.
func TestFatalForOne(t *testing.T) {
	both := make(chan *call, 2)
	f := newFake(t, func(c *call) {
		if c.nth > 2 {
			c.info(6)
			return
		}
		both <- c
	})
	c := newClient(t, options(f))
	var group sync.WaitGroup
	var bad error
	group.Go(func() { _, bad = c.IsFileClosed(t.Context(), "/f") })
	group.Go(func() {
		if n, err := length(t.Context(), c); n != 6 || err != nil {
			t.Errorf("the other call: %d, %v", n, err)
		}
	})
	for range 2 {
		one := <-both
		if one.method.GetMethodName() == "isFileClosed" {
			defer func() {
				one.throw(hproto.RpcResponseHeader_FATAL, ipc+"RpcServerException", "no")
				one.close()
				group.Wait()
				if bad == nil || !strings.Contains(bad.Error(), "isFileClosed at") {
					t.Errorf("the fatal one: %v", bad)
				}
			}()
		}
	}
}

// A refusal before any call, with a number of its own, is the answer to all.
func TestRefused(t *testing.T) {
	f := newFake(t, func(c *call) {
		c.head.CallId = new(int32)
		*c.head.CallId = -1
		c.throw(hproto.RpcResponseHeader_FATAL, "org.apache.hadoop.security.AccessControlException",
			"SIMPLE authentication is not enabled.  Available:[TOKEN, KERBEROS]")
	})
	_, err := length(t.Context(), newClient(t, options(f)))
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "SIMPLE authentication is not enabled") {
		t.Errorf("%v", err)
	}
	if n := len(f.seen()); n != 1 {
		t.Errorf("a refused call was sent %d times", n)
	}
}

// No nameservice is ever called for another one's path.
func TestNameservicesApart(t *testing.T) {
	lake := newFake(t, func(c *call) { c.info(1) })
	sea := newFake(t, func(c *call) { c.info(2) })
	sea.stop()
	a := newClient(t, options(lake))
	b := newClient(t, options(sea))
	wantLength(t, a, 1)
	if _, err := length(t.Context(), b); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a nameservice that is down: %v", err)
	}
	if n := len(lake.seen()); n != 1 {
		t.Errorf("the other nameservice got %d calls", n)
	}
}
