package ec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stepahead-io/stepahead/store"
	"pgregory.net/rapid"
)

func drawPolicy(t *rapid.T) Policy {
	p := rapid.SampledFrom([]Policy{
		{Codec: "rs", Data: 6, Parity: 3}, {Codec: "rs", Data: 3, Parity: 2}, {Codec: "rs", Data: 10, Parity: 4},
		{Codec: "xor", Data: 2, Parity: 1}, {Codec: "rs", Data: 1, Parity: 1},
	}).Draw(t, "policy")
	p.Cell = rapid.Int64Range(1, 200).Draw(t, "cell")
	return p
}

// group is a block group in memory, which was coded by the definition, byte by byte.
type group struct {
	t      interface{ Fatalf(string, ...any) }
	policy Policy
	file   []byte
	units  [][]byte
	faults map[int]fault
	mu     sync.Mutex
	read   int64
	asked  map[int]int
}

type fault struct {
	noPlace bool
	after   int64 // fails with err once this many bytes were given
	err     error
}

func newGroup(t interface{ Fatalf(string, ...any) }, p Policy, n int, seed uint64) *group {
	g := &group{t: t, policy: p, file: make([]byte, n), units: make([][]byte, p.Data+p.Parity), faults: map[int]fault{}, asked: map[int]int{}}
	r := rand.NewChaCha8([32]byte{byte(seed)})
	r.Read(g.file)
	for at, b := range g.file {
		unit := int64(at) / p.Cell % int64(p.Data)
		g.units[unit] = append(g.units[unit], b)
	}
	for row := range p.Parity {
		parity := make([]byte, len(g.units[0]))
		for c, unit := range g.units[:p.Data] {
			var times [256]byte
			for b := range times {
				times[b] = multiply(coefficient(p, row, c), byte(b))
			}
			for i, b := range unit {
				parity[i] ^= times[b]
			}
		}
		g.units[p.Data+row] = parity
	}
	return g
}

func (g *group) Has(unit int) bool { return !g.faults[unit].noPlace }

func (g *group) Read(ctx context.Context, unit int, parts []Part) (int64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked[unit]++
	f, faulty := g.faults[unit]
	var last int64
	for _, part := range parts {
		if part.Off < last || len(part.Buf) == 0 || part.end() > int64(len(g.units[unit])) {
			g.t.Fatalf("unit %d of %d bytes was asked for [%d, %d) after %d", unit, len(g.units[unit]), part.Off, part.end(), last)
		}
		last = part.end()
		for i := range part.Buf {
			if faulty && part.Off+int64(i) >= parts[0].Off+f.after {
				return f.after, f.err
			}
			part.Buf[i] = g.units[unit][part.Off+int64(i)]
			g.read++
		}
	}
	if faulty {
		return f.after, f.err
	}
	return last - parts[0].Off, nil
}

// drawParts draws sorted and disjoint parts, filled with what is not in the file.
func drawParts(t *rapid.T, n int) []Part {
	cuts := rapid.SliceOfN(rapid.IntRange(0, n), 0, 12).Draw(t, "cuts")
	slices.Sort(cuts)
	var parts []Part
	for i := 0; i+1 < len(cuts); i += 2 {
		parts = append(parts, Part{Off: int64(cuts[i]), Buf: bytes.Repeat([]byte{0xee}, cuts[i+1]-cuts[i])})
	}
	return parts
}

// TestReadIsRightOrAnError: whatever fails, the bytes are the file's or there is an error, and as long as Data
// units are left there is none.
func TestReadIsRightOrAnError(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPolicy(t)
		n := rapid.IntRange(0, int(3*p.Cell)*p.Data).Draw(t, "group")
		g := newGroup(t, p, n, rapid.Uint64().Draw(t, "seed"))
		for _, unit := range rapid.SliceOfNDistinct(rapid.IntRange(0, p.Data+p.Parity-1), 0, p.Data+p.Parity, rapid.ID).Draw(t, "faulty") {
			f := fault{noPlace: rapid.Bool().Draw(t, "no place"), err: store.ErrUnavailable}
			f.after = rapid.Int64Range(0, max(0, int64(len(g.units[unit]))-1)).Draw(t, "after")
			g.faults[unit] = f
		}
		parts := drawParts(t, n)
		err := Read(context.Background(), p, int64(n), g, parts)
		if err != nil {
			if len(g.faults) <= p.Parity {
				t.Fatalf("with %d of %d units at fault: %v", len(g.faults), p.Parity, err)
			}
			if store.ClassOf(err) != store.Retryable {
				t.Fatalf("%v is %s", err, store.ClassOf(err))
			}
			return
		}
		for _, part := range parts {
			if !bytes.Equal(part.Buf, g.file[part.Off:part.end()]) {
				t.Fatalf("part [%d, %d) has wrong bytes", part.Off, part.end())
			}
		}
	})
}

// lengths are those at which cells, stripes and chunks begin and end.
func lengths(p Policy) []int {
	cell, stripe := int(p.Cell), int(p.Cell)*p.Data
	out := []int{0, 1}
	for _, n := range []int{cell, 2 * cell, stripe, stripe + cell, 2 * stripe} {
		out = append(out, n-1, n, n+1)
	}
	return out
}

func TestEveryLengthWithEveryLoss(t *testing.T) {
	p := Policy{Codec: "rs", Data: 3, Parity: 2, Cell: 8}
	for _, n := range lengths(p) {
		for lost := range 1 << (p.Data + p.Parity) {
			g := newGroup(t, p, n, 1)
			for unit := range p.Data + p.Parity {
				if lost>>unit&1 != 0 {
					g.faults[unit] = fault{noPlace: true}
				}
			}
			got := make([]byte, n)
			err := Read(t.Context(), p, int64(n), g, []Part{{Buf: got}})
			if err == nil && !bytes.Equal(got, g.file) {
				t.Fatalf("%d bytes, units %05b lost: wrong bytes", n, lost)
			}
			if err != nil && len(g.faults) <= p.Parity {
				t.Fatalf("%d bytes, units %05b lost: %v", n, lost, err)
			}
		}
	}
}

// TestDecodingUsesWhatWasRead: a read of whole stripes with one unit lost reads one parity unit more, no data
// unit twice, and a long one is decoded in chunks.
func TestDecodingUsesWhatWasRead(t *testing.T) {
	p := Policy{Codec: "rs", Data: 3, Parity: 2, Cell: 64 << 10}
	g := newGroup(t, p, 3*chunk+200_005, 2)
	g.faults[1] = fault{noPlace: true}
	got := make([]byte, len(g.file))
	if err := Read(t.Context(), p, int64(len(got)), g, []Part{{Buf: got}}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, g.file) {
		t.Fatal("wrong bytes")
	}
	if want := int64(len(g.file)); g.read != want {
		t.Errorf("%d bytes were read for %d", g.read, want)
	}
	if g.asked[0] != 1 || g.asked[2] != 1 || g.asked[4] != 0 {
		t.Errorf("units were asked %v times", g.asked)
	}
}

func TestNoFaultReadsOnlyWhatIsWanted(t *testing.T) {
	p := Policy{Codec: "rs", Data: 6, Parity: 3, Cell: 10}
	g := newGroup(t, p, 500, 3)
	got := make([]byte, 25)
	if err := Read(t.Context(), p, 500, g, []Part{{Off: 95, Buf: got}}); err != nil || !bytes.Equal(got, g.file[95:120]) {
		t.Fatalf("%v, %x", err, got)
	}
	if g.read != 25 || len(g.asked) != 3 {
		t.Errorf("%d bytes from %d units, want 25 from 3", g.read, len(g.asked))
	}
}

func TestWhyAGroupCannotBeRead(t *testing.T) {
	p := Policy{Codec: "xor", Data: 2, Parity: 1, Cell: 10}
	corrupt := fmt.Errorf("chunk 7: %w", store.ErrCorrupt)
	for _, c := range []struct {
		faults map[int]fault
		class  store.Class
	}{
		{map[int]fault{0: {err: corrupt}, 1: {err: corrupt}}, store.Corrupt},
		{map[int]fault{0: {err: corrupt}, 2: {noPlace: true}}, store.Retryable},
		{map[int]fault{0: {err: fmt.Errorf("block: %w", store.ErrIdentity)}}, store.IdentityChanged},
	} {
		g := newGroup(t, p, 35, 4)
		g.faults = c.faults
		err := Read(t.Context(), p, 35, g, []Part{{Buf: make([]byte, 35)}})
		if store.ClassOf(err) != c.class {
			t.Errorf("faults %v: %v is %s, want %s", c.faults, err, store.ClassOf(err), c.class)
		}
		if c.class == store.Retryable && !(strings.Contains(err.Error(), "chunk 7") && strings.Contains(err.Error(), "1 of the 2 units")) {
			t.Errorf("the error does not say why: %v", err)
		}
	}
}

func TestContextEndsARead(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := Policy{Codec: "xor", Data: 2, Parity: 1, Cell: 10}
	g := newGroup(t, p, 35, 5)
	for unit := range g.units {
		g.faults[unit] = fault{err: context.Canceled}
	}
	if err := Read(ctx, p, 35, g, []Part{{Buf: make([]byte, 35)}}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestPartsOutsideAreRefused(t *testing.T) {
	p := Policy{Codec: "xor", Data: 2, Parity: 1, Cell: 10}
	for _, parts := range [][]Part{
		{{Off: -1, Buf: make([]byte, 1)}},
		{{Off: 35, Buf: make([]byte, 1)}},
		{{Off: 5, Buf: make([]byte, 5)}, {Off: 9, Buf: make([]byte, 1)}},
	} {
		if err := Read(t.Context(), p, 35, newGroup(t, p, 35, 6), parts); err == nil {
			t.Errorf("%v: no error", parts)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	p := Policy{Codec: "rs", Data: 6, Parity: 3, Cell: 1 << 20}
	for _, lost := range []int{0, 1, 3} {
		b.Run(fmt.Sprintf("lost=%d", lost), func(b *testing.B) {
			u := memory{policy: p, lost: lost, block: make([]byte, 2<<20)}
			buf := make([]byte, 8<<20)
			b.SetBytes(int64(len(buf)))
			b.ReportAllocs()
			for b.Loop() {
				if err := Read(b.Context(), p, 8<<20, u, []Part{{Buf: buf}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// memory is a group of zeros whose first units are lost.
type memory struct {
	policy Policy
	lost   int
	block  []byte
}

func (m memory) Has(unit int) bool { return unit >= m.lost }
func (m memory) Read(_ context.Context, _ int, parts []Part) (int64, error) {
	for _, part := range parts {
		copy(part.Buf, m.block[part.Off:])
	}
	return 0, nil
}
