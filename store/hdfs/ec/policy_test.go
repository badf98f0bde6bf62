package ec

import (
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func TestPoliciesThatAreRefused(t *testing.T) {
	good := Policy{Codec: "rs", Data: 6, Parity: 3, Cell: 1 << 20}
	for _, change := range []func(*Policy){
		func(p *Policy) { p.Codec = "rs-legacy" },
		func(p *Policy) { p.Codec = "" },
		func(p *Policy) { p.Codec = "hhxor" },
		func(p *Policy) { p.Codec = "xor" },
		func(p *Policy) { p.Data = 0 },
		func(p *Policy) { p.Parity = 0 },
		func(p *Policy) { p.Data = 14 },
		func(p *Policy) { p.Data, p.Parity = 1<<62, 1<<62 },
		func(p *Policy) { p.Cell = 0 },
		func(p *Policy) { p.Cell = -1 },
		func(p *Policy) { p.Cell = 1 << 40 },
	} {
		p := good
		change(&p)
		if err := p.Validate(); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%+v: %v, want errors.ErrUnsupported", p, err)
		}
		if err := Read(t.Context(), p, 1, nil, nil); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Read of %+v: %v, want errors.ErrUnsupported", p, err)
		}
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}

func TestUnitLen(t *testing.T) {
	p := Policy{Codec: "rs", Data: 3, Parity: 2, Cell: 10}
	for _, c := range []struct {
		group int64
		want  [5]int64
	}{
		{0, [5]int64{}},
		{1, [5]int64{1, 0, 0, 1, 1}},
		{10, [5]int64{10, 0, 0, 10, 10}},
		{11, [5]int64{10, 1, 0, 10, 10}},
		{29, [5]int64{10, 10, 9, 10, 10}},
		{30, [5]int64{10, 10, 10, 10, 10}},
		{31, [5]int64{11, 10, 10, 11, 11}},
		{1 << 60, [5]int64{384307168202282330, 384307168202282326, 384307168202282320, 384307168202282330, 384307168202282330}},
	} {
		for unit, want := range c.want {
			if got := p.UnitLen(c.group, unit); got != want {
				t.Errorf("group of %d: unit %d has %d bytes, want %d", c.group, unit, got, want)
			}
		}
	}
}

// TestSplitIsAPermutation: walking the cells byte by byte gives what split says, and units' lengths are those
// that UnitLen says.
func TestSplitIsAPermutation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPolicy(t)
		group := rapid.Int64Range(0, 4*p.Cell*int64(p.Data)).Draw(t, "group")
		file := make([]byte, group)
		lengths := make([]int64, p.Data)
		for unit, parts := range p.split([]Part{{Off: 0, Buf: file}}) {
			for _, part := range parts {
				if part.Off != lengths[unit] {
					t.Fatalf("unit %d: a part at %d, the one before ends at %d", unit, part.Off, lengths[unit])
				}
				lengths[unit] = part.end()
				for i := range part.Buf {
					part.Buf[i] += byte(unit + 1)
				}
			}
		}
		for at, got := range file {
			if unit := int64(at) / p.Cell % int64(p.Data); got != byte(unit+1) {
				t.Fatalf("byte %d was taken by %d, want unit %d", at, got, unit)
			}
		}
		for unit, n := range lengths {
			if want := p.UnitLen(group, unit); n != want {
				t.Fatalf("unit %d has %d bytes in split, %d in UnitLen", unit, n, want)
			}
		}
	})
}
