package relay

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/stepahead-io/stepahead/internal/localfile"
)

// kept is what is to be known of a record to decide whether it stays.
type kept struct {
	job  string
	size int64
}

// keep decides which records stay when there is room for so many bytes: it returns their places, in ascending order. Of each job the newest
// come first, and jobs get the same: of n jobs each keeps at least its newest room/n bytes of records, whatever others send, and the room that
// one does not need is for the others. Records are in the order of their numbers.
func keep(records []kept, room int64) []int {
	depth := make([]int64, len(records)) // bytes of the job's records from this one on
	of := map[string]int64{}
	for i := len(records) - 1; i >= 0; i-- {
		of[records[i].job] += records[i].size
		depth[i] = of[records[i].job]
	}
	order := make([]int, len(records))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(depth[a], depth[b]), cmp.Compare(b, a)) })
	n := 0
	for ; n < len(order) && records[order[n]].size <= room; n++ {
		room -= records[order[n]].size
	}
	order = order[:n]
	slices.Sort(order)
	return order
}

// turnOver makes the newest records of each job the older half and begins another file. A crash at any time leaves all of them in one of
// the files; those that are in both are told by their numbers.
func (l *Ledger) turnOver() error {
	draft := l.o.File + draftSuffix
	if err := l.writeOlder(draft); err != nil {
		return errors.Join(err, removed(draft))
	}
	if err := localfile.Replace(draft, l.o.File+olderSuffix); err != nil {
		return err
	}
	err := errors.Join(l.file.Close(), os.Remove(l.o.File))
	l.file = nil
	if err != nil {
		return err
	}
	return l.reopen()
}

func removed(name string) error {
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// place is where a record's line is.
type place struct {
	file *os.File
	off  int64
}

// writeOlder writes the records that stay of both files into another.
func (l *Ledger) writeOlder(name string) (err error) {
	var all []kept
	var places []place
	last := uint64(0)
	for _, n := range []string{l.o.File + olderSuffix, l.o.File} {
		f, err := open(n)
		if err != nil {
			return err
		}
		if f == nil {
			continue
		}
		defer f.Close()
		off := int64(0)
		_, err = scan(f, func(r Record, behind int64) error {
			if r.Number > last {
				all = append(all, kept{r.Job, behind - off})
				places = append(places, place{f, off})
				last = r.Number
			}
			off = behind
			return nil
		})
		if errors.Is(err, ErrDamaged) { // since it was opened
			l.o.Warn(fmt.Errorf("relay.Append %s: %w: what follows is lost", n, err))
			err = nil
		}
		if err != nil {
			return err
		}
	}
	out, err := localfile.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	w := bufio.NewWriterSize(out, 1<<20)
	for _, i := range keep(all, l.o.Limit/2) {
		if _, err := io.Copy(w, io.NewSectionReader(places[i].file, places[i].off, all[i].size)); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return out.Sync()
}
