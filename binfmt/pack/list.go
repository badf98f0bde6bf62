package pack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/draft"
	"github.com/stepahead-io/stepahead/store"
)

// maxRecord bounds one line of a list, in bytes; a quote that is never closed ends there.
const maxRecord = 1 << 20

// List packs the files that a CSV file (name ends in .csv, first line names the columns) or a JSON
// lines file (.jsonl, .ndjson: one object a line) names. One column holds each file's path, relative
// to the list's folder or absolute; it is also the sample's key. Every other column becomes a scalar
// field. Text in a column called label becomes classes, unless Kinds says that it stays text.
type List struct {
	// Store holds the list, whose name in it is Path, and the files. Default: Path is a path of this machine,
	// and so are the files'.
	Store store.Store
	Path  string
	// Field names the media field. Default "image".
	Field string
	// PathColumn names the column of paths. Default "path".
	PathColumn string
	// Kinds says what columns are, where it should not be found out from the values.
	Kinds map[string]binfmt.Kind
}

// Local returns the list's own path, if it is this machine's.
func (s List) Local() []string { return localOnly(s.Store, s.Path) }

// List reads the list. Values missing and kinds mixed in a column are errors that name the line.
func (s List) List(ctx context.Context) (*Listing, error) {
	files := filesIn(s.Store)
	f := files.open(ctx, []Entry{{Path: s.Path}})[0]
	if f.err != nil {
		return nil, fmt.Errorf("pack.List: %w", f.err)
	}
	defer f.Close()
	l, err := s.parse(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("pack.List %s: %w", files.address(s.Path), err)
	}
	return l, nil
}

func (s List) parse(ctx context.Context, r io.Reader) (*Listing, error) {
	var read func(io.Reader, *table) error
	switch ext := strings.ToLower(filepath.Ext(s.Path)); ext {
	case ".csv":
		read = readCSV
	case ".jsonl", ".ndjson":
		read = readJSONL
	default:
		return nil, fmt.Errorf("a list's name ends in .csv, .jsonl or .ndjson, not %q; datasets of other programs (tar, Megatron, MDS, TFRecord) are for `stepahead index`: %w", ext, ErrSource)
	}
	t := &table{ctx: ctx, found: &Listing{Explicit: true, most: draft.MaxFiles}, pathColumn: orDefault(s.PathColumn, "path"), forced: s.Kinds}
	if err := read(bomless(r), t); err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrSource)
	}
	l, err := t.listing(orDefault(s.Field, ImageField))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrSource)
	}
	l.Store = s.Store
	for i := range l.Entries {
		l.Entries[i].Path = s.file(l.Entries[i].Key)
	}
	return l, l.arrange(s.Path)
}

// file is the name of a file that the list names.
func (s List) file(named string) string {
	switch {
	case s.Store == nil && filepath.IsAbs(filepath.FromSlash(named)):
		return filepath.FromSlash(named)
	case s.Store == nil:
		return filepath.Join(filepath.Dir(s.Path), filepath.FromSlash(named))
	case path.IsAbs(named):
		return named
	}
	return path.Join(path.Dir(s.Path), named)
}

// bomless takes away the mark that some spreadsheets put before UTF-8.
func bomless(r io.Reader) io.Reader {
	var head [3]byte
	n, err := io.ReadFull(r, head[:])
	text := string(head[:n])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return io.MultiReader(strings.NewReader(text), failing{err})
	}
	return io.MultiReader(strings.NewReader(strings.TrimPrefix(text, "\ufeff")), r)
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// table collects the rows of a list.
type table struct {
	ctx        context.Context
	pathColumn string
	forced     map[string]binfmt.Kind
	columns    []*listColumn // without the path
	found      *Listing
}

// header sets the columns and returns the place of the path among names.
func (t *table) header(names []string) (int, error) {
	place := -1
	seen := make(map[string]bool)
	for i, n := range names {
		if seen[n] {
			return 0, fmt.Errorf("column %q occurs twice", n)
		}
		seen[n] = true
		if n == t.pathColumn {
			place = i
			continue
		}
		if err := binfmt.CheckFieldName(n); err != nil {
			return 0, fmt.Errorf("column %d: %w", i+1, err)
		}
		t.columns = append(t.columns, &listColumn{name: n, forced: t.forced[n]})
	}
	if place < 0 {
		return 0, fmt.Errorf("no column %q: the columns are %q", t.pathColumn, names)
	}
	for n, k := range t.forced {
		if !seen[n] || n == t.pathColumn {
			return 0, fmt.Errorf("there is no scalar column %q to be of kind %s: the columns are %q", n, k, names)
		}
		switch k {
		case binfmt.Int64, binfmt.Float64, binfmt.Bool, binfmt.UTF8:
		default:
			return 0, fmt.Errorf("column %q: %q is none of int64, float64, bool, utf8", n, k)
		}
	}
	return place, nil
}

// row adds one sample. values are in the columns' order.
func (t *table) row(line int, file string, values []binfmt.Value) error {
	if file == "" {
		return fmt.Errorf("line %d: column %q is empty", line, t.pathColumn)
	}
	if err := t.ctx.Err(); err != nil {
		return err
	}
	for i, c := range t.columns {
		if err := c.add(line, values[i]); err != nil {
			return fmt.Errorf("line %d: column %q: %w", line, c.name, err)
		}
	}
	if err := t.found.add(Entry{Key: path.Clean(file), Scalars: values, line: line}); err != nil {
		return fmt.Errorf("line %d: %w", line, err)
	}
	return nil
}

// listing settles the kinds of all columns and brings the values to them.
func (t *table) listing(media string) (*Listing, error) {
	l := t.found
	l.Fields = []binfmt.Field{{Name: media, Kind: binfmt.Media}}
	for i, c := range t.columns {
		if c.name == media {
			return nil, fmt.Errorf("column %q has the name of the media field: rename it, or give the media field another name", media)
		}
		for _, e := range l.Entries {
			if err := c.settle(&e.Scalars[i]); err != nil {
				return nil, fmt.Errorf("line %d: column %q: %w", e.line, c.name, err)
			}
		}
		if c.name == binfmt.LabelField && c.kind == binfmt.UTF8 && c.forced == "" {
			if err := l.labels(i); err != nil {
				return nil, err
			}
			c.kind = binfmt.Int64
		}
		if c.kind != "" {
			l.Fields = append(l.Fields, binfmt.Field{Name: c.name, Kind: c.kind})
		}
	}
	return l, nil
}

// labels replaces the text of the i-th scalar by its place among the sorted distinct texts.
func (l *Listing) labels(i int) error {
	seen := make(map[string]bool)
	for _, e := range l.Entries {
		if e.Scalars[i].Str == "" {
			return fmt.Errorf("line %d: column %q: an empty text is no class", e.line, binfmt.LabelField)
		}
		seen[e.Scalars[i].Str] = true
	}
	for c := range seen {
		l.Classes = append(l.Classes, c)
	}
	slices.Sort(l.Classes)
	for _, e := range l.Entries {
		n, _ := slices.BinarySearch(l.Classes, e.Scalars[i].Str)
		e.Scalars[i] = binfmt.Value{Kind: binfmt.Int64, Int: int64(n)}
	}
	return nil
}
