package pack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/draft"
	"github.com/stepahead-io/stepahead/store"
)

// ErrSource: what is to be packed breaks a rule. The message names file or line.
var ErrSource = errors.New("cannot be packed")

// ErrChanged: a source file changed or vanished while it was packed.
var ErrChanged = errors.New("the source changed while it was packed")

// Source lists what is to be packed: a Folder or a List.
type Source interface {
	// List returns the samples and what is known about them without reading the media. More than draft.MaxFiles are refused.
	List(ctx context.Context) (*Listing, error)
	// Local returns the paths of this machine's files and folders that the source consists of.
	Local() []string
}

// Entry is one sample to be packed.
type Entry struct {
	Key     string
	Path    string         // of the media file, as the operating system or the source's store knows it
	Scalars []binfmt.Value // one a scalar field, in the listing's order
	line    int            // in a list, else 0
	listed  *version       // as the store's listing told it; nil: ask
}

// Listing is everything to be packed.
type Listing struct {
	Fields  []binfmt.Field // the media field first
	Classes []string
	Entries []Entry
	// Explicit says that each file was named by the user, so that content of no known media type is
	// what the user wants packed and not a stray file.
	Explicit bool
	// Hidden counts files and folders left out because their name starts with a dot.
	Hidden int
	// Store holds the files that the entries name. nil: they are this machine's.
	Store store.Store

	most int // entries
}

// add takes one more entry.
func (l *Listing) add(e Entry) error {
	if len(l.Entries) == l.most {
		return draft.TooManyFiles(e.Key, l.most)
	}
	l.Entries = append(l.Entries, e)
	return nil
}

// arrange sorts the entries by key, checks fields and keys and refuses duplicates.
func (l *Listing) arrange(from string) error {
	if err := binfmt.CheckFields(l.Fields); err != nil {
		return fmt.Errorf("%s: %w: %w", from, err, ErrSource)
	}
	if len(l.Entries) == 0 {
		return fmt.Errorf("%s: no files to pack (%d hidden ones left out): %w", from, l.Hidden, ErrSource)
	}
	for _, e := range l.Entries {
		if err := binfmt.CheckKey(e.Key); err != nil {
			return fmt.Errorf("%s: %s%w: rename the file or give it another place in a list: %w", from, atLine(e.line), err, ErrSource)
		}
	}
	slices.SortStableFunc(l.Entries, func(a, b Entry) int { return strings.Compare(a.Key, b.Key) })
	for i := 1; i < len(l.Entries); i++ {
		if a, b := l.Entries[i-1], l.Entries[i]; a.Key == b.Key {
			return fmt.Errorf("%s: %skey %q occurs twice, first in line %d: keys are unique: %w", from, atLine(b.line), b.Key, a.line, ErrSource)
		}
	}
	return nil
}

func atLine(line int) string {
	if line == 0 {
		return ""
	}
	return fmt.Sprintf("line %d: ", line)
}
