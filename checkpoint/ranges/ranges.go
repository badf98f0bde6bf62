// Package ranges knows how many wanted ranges of many files are read with few large reads: planned together, joined over
// small holes, spread over files and blocks, straight into the memory of whoever wants them.
//
// Checkpoints are what it is for. More than half of their tensors are smaller than 16 KB, so reading them one by one costs a
// round trip for every few KB; read together they cost about the time of their bytes.
package ranges

import (
	"context"
	"fmt"

	"github.com/stepahead-io/stepahead/store"
)

// A File is an open file that ranges are wanted of, with the name that errors call it by.
type File struct {
	Name string
	store.File
}

// A Want is a range of a file that shall be in memory: the bytes [Off, Off+len(Dst)).
type Want struct {
	// File is an index into the files that are given with the wants.
	File int
	Off  int64
	// Dst gets the bytes. The memory of two wants does not overlap; their ranges in the file may.
	Dst []byte
	// CRC is the CRC-32C (Castagnoli) of the bytes, if HasCRC is set.
	CRC    uint32
	HasCRC bool
}

func (w Want) end() int64 { return w.Off + int64(len(w.Dst)) }

// Options configure Read. The zero value is usable.
type Options struct {
	Limits
	// Progress, if not nil, is called after each read, by the goroutine that called Read. No read begins until it returns.
	Progress func(Stats)
}

// Stats say what Read has done so far.
type Stats struct {
	// Wanted counts the distinct bytes that are wanted, Got those of them that have come.
	Wanted, Got int64
	// Read counts the bytes that the reads so far covered, holes between wanted ranges included.
	Read int64
	// Planned is how many reads there are in all, Reads how many of them have ended.
	Planned, Reads int
	// SmallAvoided is how many wanted ranges shorter than 64 KiB take no read of their own, for Planned reads.
	SmallAvoided int
}

// Read fills the memory of all wants, or returns an error that names the file and the range and has the class of what went
// wrong (store.ClassOf): store.ErrRange for a file that is too short, before anything is read; store.ErrCorrupt for a wrong
// CRC; store.ErrIdentity for a file that is not the version any more that was opened. After an error what the memory holds is
// undefined.
//
// The reads are in the lane store.Bulk. They go straight into the caller's memory where that costs nothing, else through
// bounce memory of at most Limits.Memory bytes. The caller's memory belongs to Read until it returns; that is soon after ctx
// ends. Files stay open. Read is safe for concurrent use; the limits are those of each call.
func Read(ctx context.Context, files []File, wants []Want, o Options) (Stats, error) {
	const op = "ranges.Read"
	if err := o.Limits.Validate(); err != nil {
		return Stats{}, fmt.Errorf("%s: %w", op, err)
	}
	if err := check(files, wants); err != nil {
		return Stats{}, fmt.Errorf("%s: %w", op, err)
	}
	r := newRun(files, wants, o)
	if err := r.do(store.WithLane(ctx, store.Bulk)); err != nil {
		return r.stats, fmt.Errorf("%s: %w", op, err)
	}
	return r.stats, nil
}

func check(files []File, wants []Want) error {
	for i, w := range wants {
		if w.File < 0 || w.File >= len(files) {
			return fmt.Errorf("%w: want %d is of file %d of %d", store.ErrRange, i, w.File, len(files))
		}
		f := files[w.File]
		if err := store.CheckRange(w.Off, int64(len(w.Dst)), f.Size()); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return nil
}
