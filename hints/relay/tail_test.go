package relay

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// read returns the numbers that a tail finds new, and holds that they grow and belong to their records.
func (l *Ledger) read(t testing.TB, tail *Tail, upTo uint64) []uint64 {
	t.Helper()
	var got []uint64
	must(t, tail.Read(upTo, func(r Record) error {
		if r.ID != fmt.Sprint("hint-", r.Number) {
			t.Errorf("number %d is of %s", r.Number, r.ID)
		}
		got = append(got, r.Number)
		return nil
	}))
	return got
}

// TestTail: whoever reads between two turnovers misses nothing, and gets nothing twice, wherever reading stops.
func TestTail(t *testing.T) {
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 2))
		file := filepath.Join(t.TempDir(), "ledger")
		tail := NewTail(file, 0)
		l := ledger(t, file, Options{Limit: leastLimit})
		last := uint64(0)
		var got, want []uint64
		for range 25 {
			for range r.IntN(60) { // less than half of the limit
				one := record(fmt.Sprint("hint-", last+1))
				one.Job = fmt.Sprint(r.IntN(3))
				n, err := l.Append(t.Context(), one)
				must(t, err)
				last = n
				want = append(want, n)
			}
			upTo := last
			if r.IntN(3) == 0 && last > 0 {
				upTo = last - min(last, r.Uint64N(5))
			}
			found := l.read(t, tail, upTo)
			if n := len(found); n > 0 && found[n-1] > upTo {
				t.Fatalf("seed %d: record %d, asked for those up to %d", seed, found[n-1], upTo)
			}
			got = append(got, found...)
		}
		got = append(got, l.read(t, tail, math.MaxUint64)...)
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: %d records, want %d: up to %v", seed, len(got), len(want), got[len(got)-1])
		}
		if tail.After() != last {
			t.Errorf("after %d, want %d", tail.After(), last)
		}
		must(t, tail.Close())
	}
}

// TestTailInOlderHalf: reading may stop in either half.
func TestTailInOlderHalf(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger")
	l := ledger(t, file, Options{Limit: leastLimit})
	for i := range 150 { // 45 KiB
		_, err := l.Append(t.Context(), record(fmt.Sprint("hint-", i+1)))
		must(t, err)
	}
	if _, err := os.Stat(file + olderSuffix); err != nil {
		t.Fatal(err)
	}
	var want, got []uint64
	must(t, Read(file, 0, func(r Record) error {
		want = append(want, r.Number)
		return nil
	}))
	tail := NewTail(file, 0)
	defer tail.Close()
	for upTo := range uint64(151) {
		got = append(got, l.read(t, tail, upTo)...)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
}

// TestTailStops: a record at which the caller stopped is read again.
func TestTailStops(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger")
	tail := NewTail(file, 0)
	defer tail.Close()
	if got := (&Ledger{}).read(t, tail, 9); got != nil {
		t.Errorf("of a ledger that is not there: %v", got)
	}
	l := ledger(t, file, Options{})
	for i := range 3 {
		_, err := l.Append(t.Context(), record(fmt.Sprint("hint-", i+1)))
		must(t, err)
	}
	calls := 0
	err := tail.Read(3, func(Record) error {
		calls++
		if calls == 2 {
			return os.ErrInvalid
		}
		return nil
	})
	if calls != 2 || err == nil || tail.After() != 1 {
		t.Fatalf("%d calls, %v, after %d", calls, err, tail.After())
	}
	if got := l.read(t, tail, 2); !slices.Equal(got, []uint64{2}) {
		t.Error(got)
	}
	must(t, tail.Close())
	if got := l.read(t, tail, 3); !slices.Equal(got, []uint64{3}) {
		t.Error(got)
	}
}

// TestTailSeesWhatWasReplaced: what was read before it could be made durable, and was removed, is not taken for what came in its place.
func TestTailSeesWhatWasReplaced(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger")
	l := ledger(t, file, Options{})
	for i := range 2 {
		_, err := l.Append(t.Context(), record(fmt.Sprint("hint-", i+1)))
		must(t, err)
	}
	tail := NewTail(file, 0)
	defer tail.Close()
	if got := l.read(t, tail, math.MaxUint64); len(got) != 2 {
		t.Fatal(got)
	}
	whole, err := os.ReadFile(file)
	must(t, err)
	must(t, os.Truncate(file, int64(len(whole)/2)))
	long := record("hint-3")
	long.User = "a user with a name that is longer"
	long.Version, long.Number = Version, 3
	line, err := encode(long)
	must(t, err)
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = f.Write(line)
	must(t, err)
	must(t, f.Close())
	if got := l.read(t, tail, math.MaxUint64); !slices.Equal(got, []uint64{3}) {
		t.Error(got)
	}
}

// TestNumberIsUsedOnce: a record that could not be made durable leaves its number behind.
func TestNumberIsUsedOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger")
	l := ledger(t, file, Options{})
	_, err := l.Append(t.Context(), record("a"))
	must(t, err)
	must(t, l.file.Close())
	if _, err := l.Append(t.Context(), record("b")); err == nil {
		t.Fatal("written to a closed file")
	}
	if last, _ := l.Last(); last != 1 {
		t.Errorf("the last is %d", last)
	}
	n, err := l.Append(t.Context(), record("c"))
	must(t, err)
	if last, _ := l.Last(); n != 3 || last != 3 {
		t.Errorf("number %d, the last is %d", n, last)
	}
}
