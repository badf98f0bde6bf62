package loader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/sampler"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/transform"
)

// badKit is a kit in which sample 5 has wrong bytes on every replica and sample 9 cannot be decoded.
func badKit(t testing.TB) *kit {
	k := newKit(t, 40, 13, nil, with(9, kindBad))
	k.damage(t, 5)
	return k
}

// wantIDs is the order with the substitutes of the given samples.
func wantIDs(l *Loader, bad ...uint64) (out [][]uint64) {
	for step := range l.StepsPerEpoch() {
		var row []uint64
		for _, ref := range l.sampler.Rank(step, l.o.Rank, l.o.World, nil) {
			for attempt := 0; ; attempt++ {
				s := l.sampler.Substitute(step, ref, attempt)
				if !slices.Contains(bad, s.Sample) {
					row = append(row, s.Sample)
					break
				}
			}
		}
		out = append(out, row)
	}
	return out
}

// A sample that is bad by content is replaced by the order's own rule, on whatever rank meets it.
func TestBadSamplesAreReplaced(t *testing.T) {
	k := badKit(t)
	l := mustOpen(t, k.options(t))
	equal(t, "epoch with substitutes", epoch(t, l), wantIDs(l, 5, 9))
	s := l.Stats()
	if s.Substituted != 2 || len(s.Substitutions) != 2 || s.CRCFailures == 0 {
		t.Fatalf("substituted %d, log %v, %d CRC failures", s.Substituted, s.Substitutions, s.CRCFailures)
	}
	for _, sub := range s.Substitutions {
		if sub.Bad.Sample != 5 && sub.Bad.Sample != 9 {
			t.Fatalf("log: %+v", sub)
		}
	}
	for rank := range 4 { // the same ids whatever the world size
		o := k.options(t)
		o.World, o.Rank = 4, rank
		r := mustOpen(t, o)
		for step, row := range epoch(t, r) {
			if want := wantIDs(l, 5, 9)[step][rank*2 : rank*2+2]; !slices.Equal(row, want) {
				t.Fatalf("rank %d, step %d: %v, want %v", rank, step, row, want)
			}
		}
	}
}

// When substitutes are bad too, the chain goes on from the planned sample.
func TestSubstitutesOfSubstitutes(t *testing.T) {
	var change []func(int, []byte)
	var bad []uint64
	for i := 10; i < 30; i++ {
		change, bad = append(change, with(i, kindBad)), append(bad, uint64(i))
	}
	l := mustOpen(t, newKit(t, 40, 40, nil, change...).options(t))
	equal(t, "epoch", epoch(t, l), wantIDs(l, bad...))
	if s := l.Stats(); s.Substituted != 20 || len(s.Substitutions) <= 20 {
		t.Fatalf("%d places, %d steps of chains: no chain was longer than one", s.Substituted, len(s.Substitutions))
	}
}

func TestOnBadRaise(t *testing.T) {
	k := badKit(t)
	o := k.options(t)
	o.OnBad, o.Shuffle = sampler.OnBadRaise, sampler.ShuffleNone
	l := mustOpen(t, o)
	for range 2 { // the position is unchanged: the same error again
		_, err := l.Next(t.Context())
		var bad *BadSampleError
		if !errors.As(err, &bad) {
			t.Fatalf("got %v", err)
		}
		want := BadSampleError{Sample: 5, Key: "photos/00005.jpg", Field: "image", Bin: k.root + "/data/bin-000.bin", Offset: k.offs[5], Length: int64(len(k.parts[5])), Kind: KindChecksum, Reason: bad.Reason}
		if !strings.HasSuffix(err.Error(), `: repair the dataset, or use on_bad="substitute"`) {
			t.Fatalf("no advice in %v", err)
		}
		if *bad != want || !strings.Contains(bad.Reason, "checksum is wrong on every replica (2 read)") {
			t.Fatalf("got %+v, want %+v", *bad, want)
		}
	}
	st := l.State()
	st.Step = 1
	must(t, l.Load(st))
	if _, err := l.Next(t.Context()); err == nil || !strings.Contains(err.Error(), "sample 9") || !strings.Contains(err.Error(), "broken on purpose") {
		t.Fatalf("sample that cannot be decoded: %v", err)
	}
}

// Nothing but content is ever a reason to replace a sample: crashes are retried and then stop the run.
func TestCrashesNeverSubstitute(t *testing.T) {
	k := newKit(t, 16, 16, nil, with(3, kindOnce))
	l := mustOpen(t, k.options(t))
	equal(t, "after a crash that passes", epoch(t, l), wantIDs(l))

	k = newKit(t, 16, 16, nil, with(3, kindCrash))
	l = mustOpen(t, k.options(t))
	var failed error
	for range 3 {
		b, err := l.Next(t.Context())
		if err != nil {
			failed = err
			break
		}
		b.Release()
	}
	var te *transform.Error
	if !errors.As(failed, &te) || te.Kind != transform.KindCrash || !strings.Contains(failed.Error(), "sample 3") {
		t.Fatalf("got %v", failed)
	}
	if s := l.Stats(); s.Substituted != 0 || len(s.Substitutions) != 0 {
		t.Fatal("a crash was taken for bad content")
	}
}

func TestEverythingBadIsAnError(t *testing.T) {
	var all []func(int, []byte)
	for i := range 16 {
		all = append(all, with(i, kindBad))
	}
	k := newKit(t, 16, 16, nil, all...)
	l := mustOpen(t, k.options(t))
	_, err := l.Next(t.Context())
	var bad *BadSampleError
	if !errors.As(err, &bad) || bad.Kind != string(transform.KindDecode) {
		t.Fatalf("got %v", err)
	}
	for _, text := range []string{"16 samples in a row are bad", "and 8 more", ": repair the dataset"} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("no %q in %v", text, err)
		}
	}
	if strings.Contains(err.Error(), "on_bad") {
		t.Errorf("advises what is set already: %v", err)
	}
	key := fmt.Sprintf("photos/%05d.jpg", l.sampler.Rank(0, 0, 1, nil)[0].Sample)
	if !strings.Contains(err.Error(), key) {
		t.Errorf("the planned sample %q is not named in %v", key, err)
	}
}

// The log names every bad sample once, with what came in its place; the statistics count each time.
func TestBadSamplesAreLoggedOnce(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	k := badKit(t)
	o := k.options(t)
	o.Log = zap.New(core)
	l := mustOpen(t, o)
	epoch(t, l)
	epoch(t, l)
	s := l.Stats()
	if s.Substituted != 4 || len(logs.All()) != 2 {
		t.Fatalf("%d replaced, log %v", s.Substituted, logs.All())
	}
	for _, entry := range logs.All() {
		text := fmt.Sprint(entry.Message, entry.ContextMap())
		for _, want := range []string{"replaced by sample", "(key \"photos/", "/data/bin-000.bin"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in %s", want, text)
			}
		}
		if strings.Contains(text, "on_bad") {
			t.Errorf("advises what is set already: %s", text)
		}
	}
}

func TestNamedOnceIsBounded(t *testing.T) {
	var n namedOnce
	for i := range uint64(2 * maxNamed) {
		name, last := n.add(i)
		if name != (i < maxNamed) || last != (i == maxNamed-1) {
			t.Fatalf("sample %d: %v, %v", i, name, last)
		}
		if again, _ := n.add(i); again {
			t.Fatalf("sample %d is named twice", i)
		}
	}
}

// Keys of the statistics are lower-case all through, and the substitute is named as the bad sample is.
func TestSubstitutionsAsJSON(t *testing.T) {
	l := mustOpen(t, badKit(t).options(t))
	epoch(t, l)
	sub := l.Stats().Substitutions[0]
	if want := fmt.Sprintf("photos/%05d.jpg", sub.Substitute.Sample); sub.Substitute.Key != want {
		t.Errorf("key %q, want %q", sub.Substitute.Key, want)
	}
	text, err := json.Marshal(sub)
	must(t, err)
	want := fmt.Sprintf(`"substitute":{"source":0,"epoch":0,"sample":%d,"position":%d,"key":%q}`, sub.Substitute.Sample, sub.Position, sub.Substitute.Key)
	if upper := regexp.MustCompile(`"[^"]*[A-Z][^"]*":`).FindString(string(text)); upper != "" || !strings.Contains(string(text), want) {
		t.Errorf("got %s, want %s", text, want)
	}
}

// A picture that the plan does not fit is not bad: it stops the run under either policy, is named once and with its
// key, and the error says what to do. So does a crash.
func TestWhatIsNotBadIsNamedOnce(t *testing.T) {
	for kind, texts := range map[byte][]string{
		kindSmall: {"transform ops[1] RandomCrop: plan: size:", "on_bad does not apply", "pack the dataset without this picture"},
		kindCrash: {"transform worker: crash: died"},
	} {
		for _, policy := range []string{sampler.OnBadSubstitute, sampler.OnBadRaise} {
			k := newKit(t, 16, 16, nil, with(3, kind))
			o := k.options(t)
			o.OnBad, o.Shuffle = policy, sampler.ShuffleNone
			_, err := mustOpen(t, o).Next(t.Context())
			if err == nil {
				t.Fatalf("kind %c: no error", kind)
			}
			texts := append(texts, fmt.Sprintf(`sample 3 (key "photos/00003.jpg"), field "image", %s/data/bin-000.bin at offset %d, %d bytes: `, k.root, k.offs[3], len(k.parts[3])))
			for _, text := range texts {
				if strings.Count(err.Error(), text) != 1 {
					t.Errorf("kind %c, %s: not %q once in %v", kind, policy, text, err)
				}
			}
			for _, text := range []string{"sample 3", "bin-000", "field"} {
				if strings.Count(err.Error(), text) != 1 {
					t.Errorf("kind %c, %s: %q is named more than once in %v", kind, policy, text, err)
				}
			}
		}
	}
}

// flaky is a File whose replicas can be damaged or broken one by one.
type flaky struct {
	store.File
	bad, broken map[string]bool // node names
	first       *atomic.Bool    // the next plain read gives wrong bytes
}

func (f *flaky) ReadRanges(ctx context.Context, r []store.Range) error {
	err := f.File.ReadRanges(ctx, r)
	if err == nil && f.first.Swap(false) {
		for _, x := range r {
			if len(x.Buf) > 70 {
				x.Buf[70] ^= 1
			}
		}
	}
	return err
}

func (f *flaky) ReadReplica(ctx context.Context, node string, r []store.Range) error {
	if f.broken[node] {
		return fmt.Errorf("node %s: %w", node, store.ErrUnavailable)
	}
	err := f.File.(store.ReplicaReader).ReadReplica(ctx, node, r)
	if err == nil && f.bad[node] {
		r[0].Buf[0] ^= 1
	}
	return err
}

func TestWrongBytesAreReadFromAnotherReplica(t *testing.T) {
	k := newKit(t, 12, 12, nil)
	reps, err := k.store.Locate(t.Context(), "/data/bin-000.bin", 0, 1)
	must(t, err)
	if len(reps) != 2 {
		t.Fatalf("replicas: %v", reps)
	}
	one, two := reps[0].Node, reps[1].Node
	for _, c := range []struct {
		name        string
		bad, broken []string
		want        string // "" good bytes, else the kind of failure
	}{
		{"both good", nil, nil, ""},
		{"one bad", []string{one}, nil, ""},
		{"one broken", nil, []string{one}, ""},
		{"all bad", []string{one, two}, nil, "corrupt"},
		{"one bad, one broken", []string{one}, []string{two}, "error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := openDataset(t.Context(), k.store, "/data", t.TempDir())
			must(t, err)
			defer d.close()
			first := &atomic.Bool{}
			first.Store(true)
			d.bins = store.NewOpenFiles(1, func(ctx context.Context, bin int) (store.File, error) {
				f, err := d.openBin(ctx, bin)
				return &flaky{f, set(c.bad), set(c.broken), first}, err
			})
			part, err := d.index.Part(t.Context(), 0, "image")
			must(t, err)
			first.Store(true)
			p := &piece{Extent: part.Extent, buf: make([]byte, part.Len)}
			failures, err := d.read(t.Context(), 0, []*piece{p})
			var corrupt *corruptError
			switch {
			case c.want == "" && (err != nil || p.err != nil || string(p.buf) != string(k.parts[0]) || failures != 1):
				t.Fatalf("err %v, piece %v, %d failures", err, p.err, failures)
			case c.want == "corrupt" && (err != nil || !errors.As(p.err, &corrupt) || corrupt.tried != 2):
				t.Fatalf("err %v, piece %v", err, p.err)
			case c.want == "error" && (err == nil || p.err != nil):
				t.Fatalf("err %v, piece %v", err, p.err)
			}
		})
	}
}

func set(names []string) map[string]bool {
	m := map[string]bool{}
	for _, n := range names {
		m[n] = true
	}
	return m
}

func TestIndexAndBinThatDoNotBelongTogether(t *testing.T) {
	k := newKit(t, 26, 13, nil)
	swap := func(ext string) {
		a, b := filepath.Join(k.root, "data", "bin-000"+ext), filepath.Join(k.root, "data", "bin-001"+ext)
		rename(t, a, a+".x")
		rename(t, b, a)
		rename(t, a+".x", b)
	}
	swap(".bin")
	l := mustOpen(t, k.options(t))
	if _, err := l.Next(t.Context()); !errors.Is(err, binfmt.ErrMismatch) {
		t.Fatalf("swapped bins: %v", err)
	}
	swap(".bin")
	swap(".arrow")
	o := k.options(t)
	o.CacheDir = t.TempDir() // the other one holds the right files by now
	l = mustOpen(t, o)
	if _, err := l.Next(t.Context()); err == nil || !strings.Contains(err.Error(), "bin-00") {
		t.Fatalf("swapped indexes: %v", err)
	}
}
