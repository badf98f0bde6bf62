package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/stepahead-io/stepahead/agent/fetch"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/internal/auth"
	"github.com/stepahead-io/stepahead/internal/auth/peer"
)

// fakeAccess says what its function says, and counts.
type fakeAccess struct {
	mu    sync.Mutex
	say   func(user, name string) error
	asked map[string]int
}

func (f *fakeAccess) MayRead(_ context.Context, user, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asked == nil {
		f.asked = map[string]int{}
	}
	f.asked[user+" "+name]++
	return f.say(user, name)
}

func (f *fakeAccess) set(say func(user, name string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.say = say
}

func (f *fakeAccess) most() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, count := range f.asked {
		n = max(n, count)
	}
	return n
}

func allow(string, string) error { return nil }

func deny(user, name string) error {
	return fmt.Errorf("%s may not read %s: %w", user, name, fs.ErrPermission)
}

// TestAccessOfTheTokensUser: what the token's user may not read in the store is neither prepared nor served,
// whatever the roots of the token are.
func TestAccessOfTheTokensUser(t *testing.T) {
	key, err := auth.NewKey("k1", []byte(strings.Repeat("s", 32)))
	must(t, err)
	ring, err := auth.NewKeyring(key)
	must(t, err)
	lines, log := observer.New(zap.WarnLevel)
	c := newCluster(t)
	access := &fakeAccess{say: func(user, name string) error {
		if user == "intruder" {
			return deny(user, name)
		}
		return nil
	}}
	for _, node := range []string{"dn1", "dn2", "dn3"} {
		c.start(node, func(o *Options) {
			o.Keys, o.Log, o.Access, o.AccessAge = ring, zap.New(lines), access, time.Hour
		})
	}
	tokenOf := func(job, user string) string {
		token, err := auth.Mint(key, auth.Claims{Job: job, User: user, Roots: []string{"/"}, Rights: []string{"fetch", "hint"}, Expires: time.Now().Add(time.Hour)})
		must(t, err)
		return token
	}
	ann, intruder := c.trainer("a", "1", tokenOf("a", "ann")), c.trainer("i", "1", tokenOf("i", "intruder"))
	ann.taken(0)
	if got := reasons(ann.step(0, 10*time.Second)); got["prepared"] != clusterBatch {
		t.Errorf("ann: %v", got)
	}
	reply := intruder.announce(intruder.schedule(0))
	if reply.Accepted || reply.Reason != hints.ReasonDenied || !strings.Contains(reply.Detail, "intruder may not read /photos/dataset.json") {
		t.Errorf("intruder announces: %+v", reply)
	}
	ann.step(1, 10*time.Second)
	if n := access.most(); n > 3 {
		t.Errorf("asked %d times for the same thing by three agents within its age", n)
	}
	// A user with the same job, and thus the same schedule, is told apart.
	stranger := c.trainer("a", "1", tokenOf("a", "intruder"))
	stranger.gen = ann.gen
	if got := reasons(stranger.step(2, time.Second)); got["none denied"] != clusterBatch {
		t.Errorf("intruder fetches: %v", got)
	}
	if log.FilterMessage("refused").FilterField(zap.String("user", "intruder")).Len() == 0 {
		t.Error("no audit line names the intruder")
	}
}

// TestAccessToSomeBins: the manifest may be read, a bin may not; and what is not known is denied.
func TestAccessToSomeBins(t *testing.T) {
	key, err := auth.NewKey("k1", []byte(strings.Repeat("s", 32)))
	must(t, err)
	ring, err := auth.NewKeyring(key)
	must(t, err)
	c := newCluster(t)
	closed := c.manifest.Bins[0].DataName()
	access := &fakeAccess{say: func(user, name string) error {
		if strings.HasSuffix(name, "/"+closed) {
			return deny(user, name)
		}
		return nil
	}}
	var agents []*liveAgent
	for _, node := range []string{"dn1", "dn2", "dn3"} {
		agents = append(agents, c.start(node, func(o *Options) { o.Keys, o.Access, o.AccessAge = ring, access, time.Nanosecond }))
	}
	token, err := auth.Mint(key, auth.Claims{Job: "j", User: "ann", Roots: []string{"/"}, Rights: []string{"fetch", "hint"}, Expires: time.Now().Add(time.Hour)})
	must(t, err)
	tr := c.trainer("j", "1", token)
	tr.taken(0)
	denied := 0
	for step := range int64(3) {
		for sample, answer := range tr.step(step, 10*time.Second) {
			bin, _, err := c.data.Find(sample)
			must(t, err)
			if bin == 0 {
				denied++
			}
			if (bin == 0) != (answer.Reason == fetch.ReasonDenied && answer.Raw == nil && answer.Prepared == nil) {
				t.Errorf("step %d, sample %d in bin %d: %q, raw %d bytes", step, sample, bin, answer.Reason, len(answer.Raw))
			}
			for _, a := range agents {
				if bin == 0 && a.pool.count(sample) > 0 {
					t.Errorf("sample %d was prepared", sample)
				}
			}
		}
	}
	if denied == 0 {
		t.Fatal("no sample of the closed bin was asked for")
	}
	access.set(func(string, string) error { return errors.New("no NameNode answers") })
	if got := reasons(tr.step(3, time.Second)); got["none denied"] != clusterBatch {
		t.Errorf("not known: %v", got)
	}
	if r := tr.announce(tr.schedule(4)); r.Accepted || r.Reason != hints.ReasonUnavailable {
		t.Errorf("not known: %+v", r)
	}
	access.set(allow)
	if got := reasons(tr.step(3, 10*time.Second)); got["none denied"] != 0 {
		t.Errorf("known again: %v", got)
	}
}

func TestRightsAreRememberedForAWhile(t *testing.T) {
	now := time.Duration(0)
	access := &fakeAccess{say: deny}
	r := rights{access: access, age: time.Minute, now: func() time.Duration { return now }}
	ask := func(user, name string, want error) {
		t.Helper()
		if err := r.mayRead(t.Context(), user, name); !errors.Is(err, want) || (want == nil) != (err == nil) {
			t.Errorf("%s, %s: %v; want %v", user, name, err, want)
		}
	}
	ask("ann", "/a", fs.ErrPermission)
	access.set(allow)
	ask("ann", "/a", fs.ErrPermission)
	ask("bob", "/a", nil)
	now = time.Minute
	ask("ann", "/a", nil)
	outage := errors.New("outage")
	access.set(func(string, string) error { return outage })
	ask("ann", "/a", nil)
	ask("ann", "/b", outage)
	access.set(allow)
	ask("ann", "/b", nil)
	access.set(func(string, string) error { return fs.ErrNotExist })
	ask("ann", "/c", nil)
	access.set(deny)
	ask("ann", "/c", fs.ErrPermission)
	ask("", "/a", nil)
	none := rights{now: r.now}
	if err := none.mayRead(t.Context(), "ann", "/a"); err != nil {
		t.Error(err)
	}
	r.known = make(map[question]verdict, maxVerdicts)
	for i := range maxVerdicts - 1 {
		r.known[question{name: fmt.Sprint(i)}] = verdict{}
	}
	for i := range 10 {
		ask("ann", fmt.Sprint("/", i), fs.ErrPermission)
	}
	if n := len(r.known); n > maxVerdicts {
		t.Errorf("%d verdicts are kept", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	release := make(chan struct{})
	access.set(func(string, string) error { <-release; return nil })
	if err := r.mayRead(ctx, "ann", "/slow"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	close(release)
	ask("ann", "/slow", nil)
}

// TestOpenToOthers: without TLS or keys no other host is served.
func TestOpenToOthers(t *testing.T) {
	c := newCluster(t)
	key, err := auth.NewKey("k1", []byte(strings.Repeat("s", 32)))
	must(t, err)
	ring, err := auth.NewKeyring(key)
	must(t, err)
	for name, keys := range map[string]auth.Keyring{"no TLS": ring, "no keys": auth.Insecure()} {
		a, err := New(Options{Node: "dn1", Store: c.open("dn1"), Pool: &fakePool{}, Load: Steady(0.25), CacheDir: t.TempDir(), Keys: keys})
		must(t, err)
		lis, err := net.Listen("tcp", "0.0.0.0:0")
		must(t, err)
		if err := a.Run(t.Context(), lis); !errors.Is(err, peer.ErrOpen) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := lis.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: the listener is not closed", name)
		}
	}
}
