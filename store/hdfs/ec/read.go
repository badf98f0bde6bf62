package ec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/stepahead-io/stepahead/store"
)

// Units gives the units of one block group. Its methods may be called from several goroutines at once, for
// different units.
type Units interface {
	// Has says whether a unit can be tried: a place is known that is not known to be bad. Units that do not
	// exist because they are empty are never asked for.
	Has(unit int) bool
	// Read fills parts of one unit, which are sorted and disjoint, with verified bytes. With an error, n
	// says that the bytes [parts[0].Off, parts[0].Off+n) were read, verified and are final; the other
	// bytes are read from other units. An error that matches store.ErrIdentity ends the whole read.
	Read(ctx context.Context, unit int, parts []Part) (n int64, err error)
}

// chunk bounds the memory for decoding: a read that must decode holds at most Data + Parity chunks.
const chunk = 1 << 20

// Read fills parts of a block group that holds `group` bytes of a file. Parts must be sorted by Off and
// disjoint; data goes straight from Units into their memory. What a unit cannot give is decoded from any
// Data units of the group. After an error the content of the parts is undefined.
//
// Errors: errors.ErrUnsupported where the policy cannot be read; the context's; what matches store.ErrIdentity as
// it came; with too few units left store.ErrCorrupt where wrong bytes are the only reason, else
// store.ErrUnavailable, naming each unit's reason.
func Read(ctx context.Context, p Policy, group int64, units Units, parts []Part) error {
	if err := p.Validate(); err != nil {
		return fmt.Errorf("ec.Read: %w", err)
	}
	if err := checkParts(group, parts); err != nil {
		return fmt.Errorf("ec.Read: %w", err)
	}
	r := &reader{policy: p, group: group, units: units, wanted: make([]wanted, p.Data+p.Parity), failed: make([]error, p.Data+p.Parity)}
	for unit, parts := range p.split(parts) {
		r.wanted[unit].parts = parts
	}
	if err := r.direct(ctx); err != nil {
		return fmt.Errorf("ec.Read: %w", err)
	}
	for _, span := range r.missing() {
		if err := r.decode(ctx, span); err != nil {
			return fmt.Errorf("ec.Read: %w", err)
		}
	}
	return nil
}

// reader is one Read.
type reader struct {
	policy Policy
	group  int64
	units  Units
	wanted []wanted // by unit; parity units are never wanted
	failed []error  // by unit: why it is not to be asked again
	code   decoder
}

// wanted is what the caller wants of a unit: its bytes before `until` are there.
type wanted struct {
	parts []Part
	until int64
}

// errNoPlace: Units has no place for it.
var errNoPlace = errors.New("no live DataNode is known to hold it")

// direct reads what is wanted from the units that hold it.
func (r *reader) direct(ctx context.Context) error {
	var ask []int
	for unit, w := range r.wanted {
		if len(w.parts) > 0 {
			ask = append(ask, unit)
		}
	}
	return r.each(ctx, ask, func(unit int) error {
		w := &r.wanted[unit]
		n, err := r.units.Read(ctx, unit, w.parts)
		w.until = w.parts[0].Off + n
		if err == nil {
			w.until = w.parts[len(w.parts)-1].end()
		}
		return err
	})
}

// each reads from several units at once, and notes which failed. Its error ends the whole read.
func (r *reader) each(ctx context.Context, units []int, read func(unit int) error) error {
	var wg sync.WaitGroup
	for _, unit := range units {
		if !r.units.Has(unit) {
			r.failed[unit] = errNoPlace
			continue
		}
		wg.Go(func() {
			r.failed[unit] = read(unit)
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, unit := range units {
		if errors.Is(r.failed[unit], store.ErrIdentity) {
			return r.failed[unit]
		}
	}
	return nil
}

// span is an interval of offsets in a unit.
type span struct{ off, end int64 }

// missing returns what must be decoded: intervals in which some unit lacks wanted bytes, sorted, disjoint and
// at most a chunk long.
func (r *reader) missing() []span {
	var all []span
	for _, w := range r.wanted {
		for _, part := range w.parts {
			if part.end() > w.until {
				all = append(all, span{max(part.Off, w.until), part.end()})
			}
		}
	}
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.off, b.off) })
	var out []span
	for _, s := range all {
		if n := len(out); n > 0 && s.off <= out[n-1].end {
			out[n-1].end = max(out[n-1].end, s.end)
		} else {
			out = append(out, s)
		}
	}
	return cut(out)
}

func cut(spans []span) []span {
	var out []span
	for _, s := range spans {
		for ; s.end-s.off > chunk; s.off += chunk {
			out = append(out, span{s.off, s.off + chunk})
		}
		out = append(out, s)
	}
	return out
}

// tooFew is the error of a group that has lost more units than its code can replace.
func (r *reader) tooFew(have int) error {
	kind := store.ErrCorrupt
	var reasons []string
	for unit, err := range r.failed {
		if err == nil {
			continue
		}
		reasons = append(reasons, fmt.Sprintf("unit %d: %v", unit, err))
		if !errors.Is(err, store.ErrCorrupt) {
			kind = store.ErrUnavailable
		}
	}
	return fmt.Errorf("%w: %d of the %d units that the block group needs can be read (it has %d): %s",
		kind, have, r.policy.Data, r.policy.Data+r.policy.Parity, strings.Join(reasons, "; "))
}
