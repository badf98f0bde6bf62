package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/internal/auth"
)

const here = "127.0.0.1:1"

// served hands a source over in memory; end stops the server.
func served(t *testing.T, s Source, keys auth.Keyring, leaving <-chan struct{}, token string) (c *Client, end func()) {
	t.Helper()
	lis := bufconn.Listen(1 << 16)
	srv := grpc.NewServer()
	if s != nil {
		Serve(srv, s, keys, leaving)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(lis)
	}()
	c = NewClient(hints.ClientOptions{Token: token, Dial: func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }})
	end = func() { srv.Stop(); <-done }
	t.Cleanup(func() { end(); must(t, c.Close()) })
	return c, end
}

func appended(t *testing.T, l *Ledger, ids ...string) {
	t.Helper()
	for _, id := range ids {
		_, err := l.Append(t.Context(), record(id))
		must(t, err)
	}
}

func all(t *testing.T, c *Client, after Cursor) []string {
	t.Helper()
	got := []string{}
	must(t, c.Records(t.Context(), here, after, 0, nil, func(h Handed) error {
		got = append(got, h.Record.ID)
		return nil
	}))
	return got
}

func TestHandsOver(t *testing.T) {
	l := ledger(t, filepath.Join(t.TempDir(), "ledger"), Options{})
	c, _ := served(t, l, auth.Insecure(), nil, "")
	if got := all(t, c, Cursor{}); len(got) != 0 {
		t.Error(got)
	}
	one, future := record("a"), record("b")
	one.ReceivedMS = time.Now().Add(-time.Hour).UnixMilli()
	future.ReceivedMS = time.Now().Add(time.Hour).UnixMilli()
	for _, r := range []Record{one, future} {
		_, err := l.Append(t.Context(), r)
		must(t, err)
	}
	handed := func(c *Client) (got []Handed) {
		t.Helper()
		must(t, c.Records(t.Context(), here, Cursor{}, 0, nil, func(h Handed) error {
			got = append(got, h)
			return nil
		}))
		if len(got) != 2 {
			t.Fatalf("%+v", got)
		}
		return got
	}
	got := handed(c)
	one.Number = 1
	if !reflect.DeepEqual(got[0].Record, one) {
		t.Errorf("%+v\nwant %+v", got[0].Record, one)
	}
	for _, h := range got { // whatever the host's clock was set to when they were taken
		if h.Age > time.Minute {
			t.Errorf("%s was taken %s ago", h.Record.ID, h.Age)
		}
	}
	must(t, l.Close())
	c, _ = served(t, ledger(t, l.File(), Options{}), auth.Insecure(), nil, "")
	got = handed(c)
	if age := got[0].Age; age < time.Hour || age > 2*time.Hour {
		t.Errorf("an hour ago: %s", age)
	}
	if age := got[1].Age; age != 0 {
		t.Errorf("in an hour: %s", age)
	}
}

// TestLeavesOutOldRecords: who asks for what is not older than a time is not sent the others.
func TestLeavesOutOldRecords(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger")
	l := ledger(t, file, Options{})
	old := record("old")
	old.ReceivedMS = time.Now().Add(-2 * time.Hour).UnixMilli()
	young := record("young")
	young.ReceivedMS = time.Now().UnixMilli()
	for _, r := range []Record{old, young} {
		_, err := l.Append(t.Context(), r)
		must(t, err)
	}
	must(t, l.Close())
	c, _ := served(t, ledger(t, file, Options{}), auth.Insecure(), nil, "")
	for maxAge, want := range map[time.Duration]string{0: "old young", time.Hour: "young", 3 * time.Hour: "old young"} {
		var got []string
		must(t, c.Records(t.Context(), here, Cursor{}, maxAge, nil, func(h Handed) error {
			got = append(got, h.Record.ID)
			return nil
		}))
		if strings.Join(got, " ") != want {
			t.Errorf("at most %s: %q, want %q", maxAge, got, want)
		}
	}
}

// TestMomentsAreBounded: the latest are remembered.
func TestMomentsAreBounded(t *testing.T) {
	l := ledger(t, filepath.Join(t.TempDir(), "ledger"), Options{})
	long := time.Now().Add(-time.Hour)
	for n := range uint64(mostMoments) {
		l.moments = append(l.moments, moment{n, long})
	}
	l.next, l.last = mostMoments, mostMoments-1
	_, err := l.Append(t.Context(), record("a"))
	must(t, err)
	if n := len(l.moments); n != mostMoments/2+1 {
		t.Errorf("%d moments", n)
	}
	for number, hours := range map[uint64]bool{mostMoments: false, mostMoments - 1: true, mostMoments / 2: true} {
		if age := l.Age(Record{Number: number, ReceivedMS: time.Now().UnixMilli()}); (age > time.Minute) != hours {
			t.Errorf("record %d: %s", number, age)
		}
	}
	if age := l.Age(Record{Number: 1, ReceivedMS: time.Now().UnixMilli()}); age > time.Minute {
		t.Errorf("one that is forgotten: %s", age)
	}
}

// TestGoesOn: a reader gets what comes after its place, and all of a ledger that is another one than it knows.
func TestGoesOn(t *testing.T) {
	l := ledger(t, filepath.Join(t.TempDir(), "ledger"), Options{})
	appended(t, l, "a", "b", "c")
	c, _ := served(t, l, auth.Insecure(), nil, "")
	for cursor, want := range map[Cursor]string{
		{}: "a b c", {1, "a"}: "b c", {3, "c"}: "", {2, "b"}: "c",
		{2, "another"}: "a b c", {4, "d"}: "a b c", {1 << 60, "z"}: "a b c",
	} {
		if got := strings.Join(all(t, c, cursor), " "); got != want {
			t.Errorf("after %v: %q, want %q", cursor, got, want)
		}
	}
}

// TestGoesOnBehindWhatIsForgotten: the record at the reader's place may be gone.
func TestGoesOnBehindWhatIsForgotten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger")
	l := ledger(t, file, Options{Limit: leastLimit})
	n := 0
	for {
		n++
		appended(t, l, fmt.Sprint(n))
		if left := ids(t, file, 0); left[0] != "1" {
			break
		}
	}
	c, _ := served(t, l, auth.Insecure(), nil, "")
	left := ids(t, file, 0)
	if got := all(t, c, Cursor{1, "1"}); !slices.Equal(got, left) {
		t.Errorf("%d records, want the %d that are there", len(got), len(left))
	}
}

// TestFollows: what is added is handed over at once, across turnovers, until the agent leaves.
func TestFollows(t *testing.T) {
	l := ledger(t, filepath.Join(t.TempDir(), "ledger"), Options{Limit: leastLimit})
	leaving := make(chan struct{})
	c, _ := served(t, l, auth.Insecure(), leaving, "")
	got := make(chan uint64)
	ended := make(chan error, 1)
	go func() {
		ended <- c.Records(t.Context(), here, Cursor{}, 0, func() {}, func(h Handed) error {
			got <- h.Record.Number
			return nil
		})
	}()
	for i := range uint64(600) { // some 150 KiB
		appended(t, l, fmt.Sprint(i))
		if n := <-got; n != i+1 {
			t.Fatalf("record %d, want %d", n, i+1)
		}
	}
	close(leaving)
	if err := <-ended; !errors.Is(err, hints.ErrUnreachable) {
		t.Errorf("the agent left: %v", err)
	}
}

// TestWhoMayRead: a right of its own, and roots.
func TestWhoMayRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	must(t, auth.GenerateKeyFile(file, "k"))
	keys, err := auth.LoadKeyring(file)
	must(t, err)
	key, _ := keys.First()
	token := func(rights []string, roots ...string) string {
		text, err := auth.Mint(key, auth.Claims{KeyID: "k", Job: "controller", User: "svc", Roots: roots, Rights: rights, Expires: time.Now().Add(time.Hour)})
		must(t, err)
		return text
	}
	l := ledger(t, filepath.Join(t.TempDir(), "ledger"), Options{})
	appended(t, l, "a") // of /url/step-1
	for name, c := range map[string]struct {
		token string
		want  []string
		err   error
	}{
		"all":       {token([]string{auth.RightRelay}, "/"), []string{"a"}, nil},
		"the root":  {token([]string{auth.RightRelay}, "/other", "/url"), []string{"a"}, nil},
		"elsewhere": {token([]string{auth.RightRelay}, "/other"), nil, nil},
		"a job's":   {token([]string{auth.RightHint, auth.RightFetch}, "/"), nil, hints.ErrDenied},
		"none":      {"", nil, hints.ErrDenied},
	} {
		client, end := served(t, l, keys, nil, c.token)
		var got []string
		err := client.Records(t.Context(), here, Cursor{}, 0, nil, func(h Handed) error {
			got = append(got, h.Record.ID)
			return nil
		})
		if !slices.Equal(got, c.want) || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		end()
	}
}

// TestOlderAgent: one without the service, and one without a ledger, are told apart from those that are gone.
// TestExpires: who follows is let in no longer than his token counts.
func TestExpires(t *testing.T) {
	l := ledger(t, filepath.Join(t.TempDir(), "ledger"), Options{})
	appended(t, l, "a")
	key, err := auth.NewKey("k", make([]byte, 32))
	must(t, err)
	keys, err := auth.NewKeyring(key)
	must(t, err)
	token, err := auth.Mint(key, auth.Claims{Job: "controller", User: "svc", Roots: []string{"/"}, Rights: []string{auth.RightRelay}, Expires: time.Now().Add(3 * time.Second)})
	must(t, err)
	c, _ := served(t, l, keys, nil, token)
	err = c.Records(t.Context(), here, Cursor{}, 0, func() {}, func(Handed) error { return nil })
	if !errors.Is(err, hints.ErrDenied) || !strings.Contains(err.Error(), "expired") {
		t.Error(err)
	}
}

func TestOlderAgent(t *testing.T) {
	c, end := served(t, nil, auth.Insecure(), nil, "")
	each := func(Handed) error { return nil }
	if err := c.Records(t.Context(), here, Cursor{}, 0, func() {}, each); !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
	end()
	if err := c.Records(t.Context(), here, Cursor{}, 0, func() {}, each); !errors.Is(err, hints.ErrUnreachable) {
		t.Error(err)
	}
}

// TestManyReaders: more than a few at once are sent away, and let in when others have gone.
func TestManyReaders(t *testing.T) {
	l := ledger(t, filepath.Join(t.TempDir(), "ledger"), Options{})
	appended(t, l, "a")
	c, _ := served(t, l, auth.Insecure(), nil, "")
	ctx, cancel := context.WithCancel(t.Context())
	in, out := make(chan struct{}), make(chan error)
	for range mostReaders {
		go func() {
			out <- c.Records(ctx, here, Cursor{}, 0, func() {}, func(Handed) error {
				in <- struct{}{}
				return nil
			})
		}()
	}
	for range mostReaders {
		<-in
	}
	if err := c.Records(t.Context(), here, Cursor{}, 0, nil, func(Handed) error { return nil }); !errors.Is(err, hints.ErrUnreachable) {
		t.Errorf("one more: %v", err)
	}
	cancel()
	for range mostReaders {
		if err := <-out; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	for c.Records(t.Context(), here, Cursor{}, 0, nil, func(Handed) error { return nil }) != nil {
	}
}

// TestBadLedger: a reader learns that the ledger is damaged, and not where it lies.
func TestBadLedger(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger")
	l := ledger(t, file, Options{})
	appended(t, l, "a", "b")
	text, err := os.ReadFile(file)
	must(t, err)
	text[len(text)/2+20] ^= 1
	must(t, os.WriteFile(file, text, 0o600))
	c, _ := served(t, l, auth.Insecure(), nil, "")
	var got []string
	err = c.Records(t.Context(), here, Cursor{}, 0, func() {}, func(h Handed) error {
		got = append(got, h.Record.ID)
		return nil
	})
	if !errors.Is(err, ErrDamaged) || !slices.Equal(got, []string{"a"}) {
		t.Errorf("%v, %v", got, err)
	}
}
