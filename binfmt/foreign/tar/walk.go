package tar

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/stepahead-io/stepahead/binfmt/foreign"
)

// Limits of what belongs to one member, checked before memory is taken.
const (
	maxExtended = 1 << 20 // of an extended header or a long name, in bytes
	maxHeaders  = 64      // headers before the one of the member itself
)

// member is one file in the archive.
type member struct {
	name   string // raw bytes
	header int64  // offset of its first header
	off    int64  // of its data
	size   int64
}

// silent is damage at which Python's tarfile, and with it every reader that is made of it, ends as if the archive
// ended there.
type silent struct {
	off int64
	why string
}

func (e *silent) Error() string { return fmt.Sprintf("offset %d: %s", e.off, e.why) }

// walker goes through the members of an archive.
type walker struct {
	*foreign.Window
	f      foreign.File
	policy foreign.Policy
	pos    int64 // of the next header
	warn   func(format string, args ...any)
}

// next returns the next member that is a file; io.EOF at the end.
func (w *walker) next() (member, error) {
	for {
		m, typ, err := w.member()
		if err != nil {
			return member{}, err
		}
		if isFile(typ) {
			return m, nil
		}
	}
}

// member reads headers up to that of a member itself. What comes first of several extended headers wins, as
// tarfile has it.
func (w *walker) member() (m member, typ byte, err error) {
	m.header = w.pos
	var said records
	for range maxHeaders {
		h, err := w.header(w.pos > m.header)
		if err != nil {
			return m, 0, err
		}
		at := w.pos
		w.pos += block
		switch h.typ {
		case typeLong, typeLongTo, typePax, typePaxSun, typeGlobal:
			r, err := w.extended(h, at)
			if err != nil {
				return m, 0, err
			}
			said = said.over(r)
		default:
			return w.itself(m, h, said)
		}
	}
	return m, 0, fmt.Errorf("offset %d: more than %d extended headers before one member: %w", m.header, maxHeaders, foreign.ErrContainer)
}

// header reads the header at pos. inside says that it is one that an extended header announced, where tarfile
// does not pass over damage.
func (w *walker) header(inside bool) (header, error) {
	left := w.f.Size() - w.pos
	var h header
	err := error(nil)
	switch {
	case left == 0 && !inside && w.pos > 0:
		w.warn("the archive has no end: it was cut between members, or its writer was stopped")
		return h, io.EOF
	case left < block:
		err = fmt.Errorf("a header of %d bytes: the file is cut", left)
	default:
		var b []byte
		if b, _, err = w.At(w.pos, block); err != nil {
			return h, err // of the store
		}
		h, err = parseHeader(b)
	}
	switch {
	case err == nil:
		return h, nil
	case inside:
		return h, fmt.Errorf("offset %d: the header that the extended header before it announces: %w: %w", w.pos, err, foreign.ErrContainer)
	case errors.Is(err, errEnd):
		return h, w.end()
	case w.pos == 0:
		return h, fmt.Errorf("offset 0: %w: not a tar file: %w", err, foreign.ErrContainer)
	}
	return h, &silent{w.pos, err.Error()}
}

// end looks behind the first zero block: there is nothing but zeros, or what readers do not see.
func (w *walker) end() error {
	for off := w.pos; off < w.f.Size(); {
		n := min(w.f.Size()-off, 64<<10)
		b, _, err := w.At(off, n)
		if err != nil {
			return err
		}
		if !allZero(b) {
			return &silent{w.pos, "the archive ends here, but bytes that are not zero follow: a second archive, of which no reader sees the members, or rubbish"}
		}
		off += n
	}
	return io.EOF
}

// extended reads the data of an extended header.
func (w *walker) extended(h header, at int64) (r records, err error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("offset %d: extended header: %w: %w", at, fmt.Errorf(format, args...), foreign.ErrContainer)
	}
	if h.size < 0 || h.size > maxExtended {
		return r, bad("%d bytes, more than the limit of %d", h.size, maxExtended)
	}
	padded := roundUp(h.size)
	if padded > w.f.Size()-w.pos {
		return r, bad("%d bytes, the file ends after %d", h.size, w.f.Size()-w.pos)
	}
	b, _, err := w.At(w.pos, h.size)
	if err != nil {
		return r, err
	}
	w.pos += padded
	switch h.typ {
	case typeLong:
		return records{path: text(b), hasPath: true}, nil
	case typeLongTo:
		return records{}, nil
	}
	if r, err = parsePax(b); err != nil {
		return r, bad("%w", err)
	}
	if h.typ == typeGlobal && (r.hasPath || r.hasSize || r.sparse) {
		return r, bad("a global one that gives every member one path, size or sparse map")
	}
	return r, nil
}

// itself finishes the member whose own header is h.
func (w *walker) itself(m member, h header, said records) (member, byte, error) {
	m.name, m.size, m.off = h.name, h.size, w.pos
	if h.typ == typeFolder {
		m.name = strings.TrimRight(m.name, "/")
	}
	// GNU's writers use the room of the prefix for times; tarfile takes it for a prefix all the same.
	if h.pre != "" && h.typ != typeSparse && (h.posix || w.policy == foreign.AsPeer) {
		m.name = h.pre + "/" + m.name
	}
	if said.hasPath {
		m.name = said.path
	}
	if said.hasSize {
		m.size = said.size
	}
	switch {
	case h.typ == typeSparse, said.sparse:
		return m, 0, fmt.Errorf("offset %d: member %q is sparse: its bytes are not as they are in the archive, so that it cannot be read in place: write the shard again without -S: %w", m.header, m.name, foreign.ErrContainer)
	case m.size < 0:
		return m, 0, fmt.Errorf("offset %d: member %q has a size of %d: %w", m.header, m.name, m.size, foreign.ErrContainer)
	case !hasData(h.typ):
		return m, h.typ, nil
	}
	left := w.f.Size() - m.off
	if m.size > left || roundUp(m.size) > left {
		return m, 0, fmt.Errorf("offset %d: member %q has %d bytes, of which, padded to %d, the file holds %d: it was cut: %w", m.header, m.name, m.size, block, left, foreign.ErrContainer)
	}
	w.pos = m.off + roundUp(m.size)
	return m, h.typ, nil
}

// roundUp returns the first multiple of block from n on, which is at most the size of a file that exists plus block.
func roundUp(n int64) int64 {
	if n > 1<<62 {
		return n
	}
	return (n + block - 1) / block * block
}
