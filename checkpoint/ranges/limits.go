package ranges

import (
	"cmp"
	"errors"
	"fmt"
)

// Small is the length in bytes below which a read counts as small: it costs storage about as much as one of this length.
// Reads up to it may hold any share of bytes that nobody wants.
const Small = 64 << 10

// Limits bound the reads of a plan and what of it is in flight. Zero fields take the defaults.
type Limits struct {
	// Gap is the largest hole, in bytes, that is read over to join two wanted ranges; a negative one joins only what touches.
	// Default 1 MiB: a storage node answers a request in about the time in which it sends so much.
	Gap int64
	// OverRead bounds the bytes of a read as a multiple of those that are wanted of it, at least 1. Default 2.
	OverRead float64
	// MinRead and MaxRead are the sizes, in bytes, between which reads are kept where what is wanted allows it; MaxRead is at
	// least twice MinRead. Within them reads grow with what is wanted in all. Default 8 MiB and 64 MiB.
	MinRead, MaxRead int64
	// InFlight is how many reads there are at a time. While they are small there are more, up to 8 times as many: as long as
	// they are shorter than InFlight times MinRead together. Default 16.
	InFlight int
	// Memory bounds the bytes of bounce memory; it is at least twice MinRead. Default 128 MiB.
	Memory int64
}

const (
	// smallFactor is how many more small reads there may be in flight: 128 of them wait for one round trip together, and a
	// node is not asked for more at a time than it has threads for.
	smallFactor = 8
	// turns is how many reads each place in flight gets at least, if they are not to be shorter than MinRead: with four of
	// them the last ones, which do not fill all places, cost little.
	turns = 4
)

func (l Limits) withDefaults() Limits {
	l.Gap, l.OverRead = cmp.Or(l.Gap, 1<<20), cmp.Or(l.OverRead, 2)
	l.MinRead, l.MaxRead = cmp.Or(l.MinRead, 8<<20), cmp.Or(l.MaxRead, 64<<20)
	l.InFlight, l.Memory = cmp.Or(l.InFlight, 16), cmp.Or(l.Memory, 128<<20)
	return l
}

// Validate returns all that is wrong with l, defaults filled in.
func (l Limits) Validate() error {
	l = l.withDefaults()
	var errs []error
	if !(l.OverRead >= 1) {
		errs = append(errs, fmt.Errorf("ranges.Limits: OverRead: %v: give at least 1", l.OverRead))
	}
	if l.MinRead < 1 || l.MaxRead/2 < l.MinRead || l.Memory/2 < l.MinRead {
		errs = append(errs, fmt.Errorf("ranges.Limits: MinRead %d, MaxRead %d, Memory %d: give MinRead at least 1, and the others at least twice as much",
			l.MinRead, l.MaxRead, l.Memory))
	}
	if l.InFlight < 1 || l.InFlight > maxInFlight {
		errs = append(errs, fmt.Errorf("ranges.Limits: InFlight: %d: give 1 to %d", l.InFlight, maxInFlight))
	}
	return errors.Join(errs...)
}

// maxInFlight keeps a mistyped number from starting a goroutine for every read.
const maxInFlight = 1 << 12

// most is the size that no read exceeds: its bounce memory must be there.
func (l Limits) most() int64 { return min(l.MaxRead, l.Memory) }

// target is the size of reads when so many bytes are wanted. It leaves room for a short rest.
func (l Limits) target(wanted int64) int64 {
	return min(max(wanted/int64(turns*l.InFlight), l.MinRead), l.most()-l.MinRead)
}

// allows tells whether a read of span bytes may be made for so many wanted ones.
func (l Limits) allows(span, wanted int64) bool {
	return span <= Small || float64(span) <= l.OverRead*float64(wanted)
}

// admits tells whether one more read of n bytes may be in flight beside reads of some bytes.
func (l Limits) admits(n int64, reads int, bytes int64) bool {
	return reads < l.InFlight || reads < smallFactor*l.InFlight && bytes+n <= int64(l.InFlight)*l.MinRead
}
