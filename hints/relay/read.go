package relay

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/stepahead-io/stepahead/internal/localfile"
)

// Read calls each with the records of a ledger that have a larger number than after, in their order, while others may add to it. A
// record whose ID was there before says nothing new. A file that is not there has none. Errors match [ErrDamaged] or [ErrVersion] and name
// the byte, or are those of each, or the file system's.
func Read(file string, after uint64, each func(Record) error) error {
	older, current, err := halves(file)
	if err != nil {
		return err
	}
	for _, f := range []*os.File{older, current} { // records that are in both have the same numbers
		if f == nil || err != nil {
			continue
		}
		_, err = scan(f, func(r Record, _ int64) error {
			if r.Number <= after {
				return nil
			}
			after = r.Number
			return each(r)
		})
		if err != nil {
			err = failed(f.Name(), err)
		}
	}
	return errors.Join(err, closeFile(older), closeFile(current))
}

// halves opens both files of a ledger, the newer first, so that no record moves from one to the other unseen; nil for one that is not there.
func halves(file string) (older, current *os.File, err error) {
	if current, err = open(file); err != nil {
		return nil, nil, err
	}
	if older, err = open(file + olderSuffix); err != nil {
		return nil, nil, errors.Join(err, closeFile(current))
	}
	return older, current, nil
}

func failed(file string, err error) error { return fmt.Errorf("relay.Read %s: %w", file, err) }

// open opens a file; nil if there is none.
func open(name string) (*os.File, error) {
	f, err := localfile.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("relay.Read: %w", err)
	}
	return f, nil
}

func closeFile(f *os.File) error {
	if f == nil {
		return nil
	}
	return f.Close()
}
