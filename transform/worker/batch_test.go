package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/transform"
)

// batchOf makes items of orders; each has room for its pixels.
func batchOf(t testing.TB, orders ...string) []Item {
	t.Helper()
	plan := decodePlan(t, "")
	items := make([]Item, len(orders))
	for i, o := range orders {
		items[i] = Item{
			Job: Job{Plan: plan, Key: transform.Key{Sample: uint64(i)}},
			In:  Part{Name: o + ".jpg", Data: []byte(o)}, Out: make([]byte, len(o)),
		}
	}
	return items
}

func runBatch(ctx context.Context, p *Pool, items []Item) []Outcome {
	outcomes := make([]Outcome, len(items))
	p.RunBatch(ctx, items, outcomes)
	return outcomes
}

// good checks that an item became what the fake makes of it.
func good(t *testing.T, it Item, o Outcome) {
	t.Helper()
	want := slices.Clone(it.In.Data)
	for i := range want {
		want[i]++
	}
	if o.Err != nil || !bytes.Equal(it.Out[:o.Result.Bytes], want) {
		t.Errorf("%s gives %q, %v", it.In.Name, it.Out[:o.Result.Bytes], o.Err)
	}
}

func TestABadItemCostsOnlyItself(t *testing.T) {
	for _, c := range []struct {
		order string
		kind  transform.ErrorKind
		words string
		lost  string
		times int64 // workers lost: with the batch, and alone
	}{
		{"broken", transform.KindDecode, "no marker", reasonCrash, 0},
		{"bug...", transform.KindCrash, "index out of range", reasonCrash, 0},
		{"segv", transform.KindCrash, "sample 2", reasonCrash, 2},
		{"kill", transform.KindCrash, "SIGKILL", reasonCrash, 2},
		{"exit", transform.KindCrash, "out of ideas", reasonCrash, 2},
		{"zero!!", transform.KindCrash, "nonsense", reasonProtocol, 2},
		{"hang!!", transform.KindDeadline, "killed after", reasonDeadline, 2},
	} {
		t.Run(c.order, func(t *testing.T) {
			p := fakePool(t, "good", Options{Deadline: time.Second})
			items := batchOf(t, "abcdef", "ghi", c.order, "jkl", "mnopqr")
			for i, o := range runBatch(t.Context(), p, items) {
				if i == 2 {
					wantKind(t, o.Err, c.kind, c.order+".jpg", c.words)
					continue
				}
				good(t, items[i], o)
			}
			if s := p.Stats(); s.Killed[c.lost] != c.times {
				t.Errorf("stats are %+v", s)
			}
		})
	}
}

// Nobody's fault: the whole batch succeeds.
func TestAWorkerKilledInTheMiddleOfABatchCostsNothing(t *testing.T) {
	p := fakePool(t, "good", Options{Workers: 1, Deadline: time.Hour})
	works(t, p)
	var pid int
	for w := range p.live {
		pid = w.cmd.Process.Pid
	}
	items := batchOf(t, "abcdef", "gang!!", "ghijkl")
	done := make(chan []Outcome)
	go func() { done <- runBatch(t.Context(), p, items) }()
	waitFor(t, func() bool { return p.Stats().Busy == 1 })
	_ = syscall.Kill(pid, syscall.SIGKILL)
	for i, o := range <-done {
		good(t, items[i], o)
	}
	if s := p.Stats(); s.Killed[reasonCrash] != 1 || s.Started != 2 {
		t.Errorf("stats are %+v", s)
	}
}

// The deadline is each sample's: samples that are sound but slow together all have the time they need.
func TestSlowItemsHaveTheirTime(t *testing.T) {
	p := fakePool(t, "good", Options{Deadline: 3 * slow})
	items := batchOf(t, "slow!!", "slow!!", "slow!!", "slow!!")
	for i, o := range runBatch(t.Context(), p, items) {
		good(t, items[i], o)
	}
	if s := p.Stats(); s.Killed[reasonDeadline] != 1 {
		t.Errorf("stats are %+v", s)
	}
}

func TestABatchEndsWithItsContextAndItsPool(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(p *Pool, cancel func())
		want error
	}{
		"cancel": {func(p *Pool, cancel func()) { cancel() }, context.Canceled},
		"close":  {func(p *Pool, cancel func()) { p.Close() }, ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			p := fakePool(t, "good", Options{Workers: 1, Deadline: time.Hour})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			works(t, p)
			done := make(chan []Outcome)
			items := batchOf(t, slices.Repeat([]string{"abc", "hang!!"}, MaxBatch)...) // two messages
			go func() { done <- runBatch(ctx, p, items) }()
			waitFor(t, func() bool { return p.Stats().Busy == 1 })
			c.end(p, cancel)
			for i, o := range <-done {
				if !errors.Is(o.Err, c.want) {
					t.Errorf("item %d ends with %v", i, o.Err)
				}
			}
		})
	}
}

func TestABatchOnWorkersThatNeverServe(t *testing.T) {
	for mode, kinds := range map[string][]transform.ErrorKind{
		"exit": {transform.KindIO}, "hangup": {transform.KindIO, transform.KindCrash}, "answer": {transform.KindCrash},
	} {
		for i, o := range runBatch(t.Context(), fakePool(t, mode, Options{}), batchOf(t, "abc", "def")) {
			var e *transform.Error
			if !errors.As(o.Err, &e) || !slices.Contains(kinds, e.Kind) {
				t.Errorf("%s: item %d ends with %v", mode, i, o.Err)
			}
		}
	}
}

func TestItemsThatNoWorkerTakesStayOut(t *testing.T) {
	p := fakePool(t, "good", Options{MaxInput: 1000, MaxOutput: 1000})
	items := batchOf(t, "abc", "no plan", strings.Repeat("x", 1001), "count!", "no room", "def")
	items[1].Job.Plan = nil
	items[4].Out = items[4].Out[:2]
	outcomes := runBatch(t.Context(), p, items)
	good(t, items[0], outcomes[0])
	wantKind(t, outcomes[1].Err, transform.KindPlan, "no plan")
	wantKind(t, outcomes[2].Err, transform.KindLimit, "1001", "1000")
	if n := items[3].Out[0]; n != 4 {
		t.Errorf("%d items came in one message", n)
	}
	var short *ShortBufferError
	if !errors.As(outcomes[4].Err, &short) || short.Need != 6 {
		t.Errorf("a buffer of 2 bytes: %v", outcomes[4].Err)
	}
	good(t, items[5], outcomes[5])
	p.RunBatch(t.Context(), nil, nil)
}

func TestMessagesHoldWhatFits(t *testing.T) {
	pad := func(n int) string { return "count!" + strings.Repeat("x", n-6) }
	for name, c := range map[string]struct {
		options Options
		order   string
		change  func(it *Item, i int)
		want    []byte // the number of items in the message of each
	}{
		"jobs":   {Options{}, "count!", nil, append(bytes.Repeat([]byte{16}, 32), 8, 8, 8, 8, 8, 8, 8, 8)},
		"input":  {Options{MaxInput: 1000}, pad(300), nil, []byte{3, 3, 3, 2, 2}},
		"output": {Options{MaxOutput: 1000}, "count!", func(it *Item, i int) { it.Out = make([]byte, 300) }, []byte{3, 3, 3, 1}},
		"large":  {Options{}, pad(batchBytes / 2), nil, []byte{2, 2, 1}},
		"source": {Options{}, "count!", func(it *Item, i int) { it.Job.Key.Source = strings.Repeat("s", 16<<10) }, []byte{5, 5, 5, 5, 5, 2, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			p := fakePool(t, "good", c.options)
			items := batchOf(t, slices.Repeat([]string{c.order}, len(c.want))...)
			for i := range items {
				if c.change != nil {
					c.change(&items[i], i)
				}
			}
			var got []byte
			for i, o := range runBatch(t.Context(), p, items) {
				if o.Err != nil {
					t.Errorf("item %d: %v", i, o.Err)
				}
				got = append(got, items[i].Out[0])
			}
			if !bytes.Equal(got, c.want) {
				t.Errorf("items travel with %v, want %v", got, c.want)
			}
		})
	}
}

// Whatever is in a batch, each item becomes what it becomes alone.
func TestABatchEqualsItsItemsAlone(t *testing.T) {
	p := fakePool(t, "good", Options{Workers: 2, MaxInput: 2000, MaxOutput: 2000})
	plans := []*transform.Plan{decodePlan(t, ""), decodePlan(t, `,{"op":"RandomHorizontalFlip"}`)}
	order := rapid.OneOf(
		rapid.StringMatching(`[a-m]{3,12}`), rapid.StringMatching(`[a-m]{3,12}`), rapid.Just("broken"), rapid.Just("bug..."),
		rapid.SampledFrom([]string{"abc", "ab", strings.Repeat("x", 700), strings.Repeat("x", 1999), strings.Repeat("x", 2001), "kill", "zero!!"}),
	)
	rapid.Check(t, func(r *rapid.T) {
		items := batchOf(t, rapid.SliceOfN(order, 0, 20).Draw(r, "orders")...)
		for i := range items {
			items[i].Job.Plan = rapid.SampledFrom(plans).Draw(r, "plan")
			items[i].Out = make([]byte, rapid.SampledFrom([]int{3, 6, 12, 700, 2001, 3000}).Draw(r, "room"))
		}
		for i, o := range runBatch(t.Context(), p, items) {
			out := make([]byte, len(items[i].Out))
			want, err := p.Run(t.Context(), items[i].Job, items[i].In, out)
			if fmt.Sprint(o.Err) != fmt.Sprint(err) || o.Result.CRC != want.CRC || o.Result.Bytes != want.Bytes ||
				!bytes.Equal(items[i].Out[:want.Bytes], out[:want.Bytes]) || err == nil && !o.Result.Spec.Equal(want.Spec) {
				r.Fatalf("item %d, %s: %+v, %v; alone %+v, %v", i, items[i].In.Name, o.Result, o.Err, want, err)
			}
		}
	})
}

func TestLargeBatchesGiveTheirMemoryBack(t *testing.T) {
	p := fakePool(t, "good", Options{Workers: 1})
	big := strings.Repeat("x", 3*keepBytes)
	items := batchOf(t, "abc", big, "def")
	for i, o := range runBatch(t.Context(), p, items) {
		good(t, items[i], o)
	}
	checkKept(t, p)
}
