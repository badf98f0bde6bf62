package folder

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/foreign"
	"github.com/stepahead-io/stepahead/binfmt/media"
	"github.com/stepahead-io/stepahead/store"
)

const (
	// together is how many files are read at a time: enough to keep many storage nodes busy.
	together = 64
	// headSize is what is read of each file: most pictures tell their size in it.
	headSize = 8 << 10
)

// reader makes samples of the files of a folder.
type reader struct {
	o       Options
	st      store.Store
	root    string
	classes []string
	to      foreign.Sink
	row     foreign.Row
	rows    int64
}

// read opens some files, reads their heads, and makes parts of them.
func (r *reader) read(ctx context.Context, some []file) (err error) {
	names := make([]string, len(some))
	for i, f := range some {
		names[i] = path.Join(r.root, f.path)
	}
	if p, ok := r.st.(store.Prefetcher); ok {
		_ = p.Prefetch(ctx, names) // opening a file says what is wrong with it
	}
	reads := make([]store.FileRanges, 0, len(some))
	defer func() {
		for _, f := range reads {
			err = errors.Join(err, f.File.Close())
		}
	}()
	for i, name := range names {
		f, err := r.st.Open(ctx, name)
		if err != nil {
			return fmt.Errorf("%s: %w", some[i].path, err)
		}
		head := make([]byte, min(f.Size(), headOf(some[i])))
		reads = append(reads, store.FileRanges{File: f, Ranges: []store.Range{{Buf: head}}})
	}
	if err := store.ReadMany(ctx, r.st, reads); err != nil {
		return err
	}
	for i, f := range reads {
		if f.Err != nil {
			return fmt.Errorf("%s: %w", some[i].path, f.Err)
		}
		if err := r.add(some[i], f.File, f.Ranges[0].Buf); err != nil {
			return err
		}
	}
	return nil
}

func headOf(f file) int64 {
	if foreign.ScalarKind(f.field) != "" {
		return binfmt.MaxText
	}
	return headSize
}

// add makes a part of a file, and, of a value, a scalar.
func (r *reader) add(f file, content store.File, head []byte) error {
	var p foreign.Part
	p.Len, p.File, p.Version = content.Size(), f.path, string(content.Identity())
	p.Sniff(head)
	if r.o.Group {
		return r.join(f, p, head)
	}
	p.Field = Field
	if ok, err := r.check(f, p); !ok || err != nil {
		return err
	}
	r.row.Key = foreign.KeyText(f.path)
	r.row.Parts = append(r.row.Parts, p)
	if first, _, _ := strings.Cut(f.path, "/"); len(r.classes) > 0 {
		n, _ := slices.BinarySearch(r.classes, first)
		r.row.Set(binfmt.LabelField, binfmt.Value{Kind: binfmt.Int64, Int: int64(n)})
	}
	return r.flush()
}

// check says whether a file can be a sample by itself.
func (r *reader) check(f file, p foreign.Part) (ok bool, err error) {
	why := error(nil)
	switch {
	case p.Len == 0:
		why = errors.New("the file is empty")
	case p.Type == media.Unknown:
		why = errUnknown
	default:
		return true, nil
	}
	if r.o.Policy == foreign.AsPeer {
		r.to.Warn("%s: %v: left out", f.path, why)
		return false, nil
	}
	return false, fmt.Errorf("%s: %w: remove it, or leave such files out with --policy as-peer: %w", f.path, why, foreign.ErrContainer)
}

// join adds a part to the sample that it belongs to.
func (r *reader) join(f file, p foreign.Part, head []byte) error {
	key := foreign.KeyText(f.key)
	if key != r.row.Key {
		if err := r.flush(); err != nil {
			return err
		}
		r.row.Key = key
	}
	p.Field = foreign.FieldName(f.field)
	if slices.ContainsFunc(r.row.Parts, func(o foreign.Part) bool { return o.Field == p.Field }) {
		return fmt.Errorf("%s: the second file of the sample %q with the field %q (case does not count): rename one: %w", f.path, key, p.Field, foreign.ErrContainer)
	}
	r.row.Parts = append(r.row.Parts, p)
	kind := foreign.ScalarKind(f.field)
	if kind == "" || p.Len > int64(len(head)) {
		return nil
	}
	if v, ok := foreign.Scalar(kind, head); ok {
		r.row.Set(p.Field, v)
	}
	return nil
}

// flush gives the sample away.
func (r *reader) flush() error {
	if len(r.row.Parts) == 0 {
		return nil
	}
	if err := binfmt.CheckKey(r.row.Key); err != nil {
		return fmt.Errorf("%w: %w", err, foreign.ErrContainer)
	}
	err := r.to.Row(r.row)
	r.rows++
	r.row.Clear()
	return err
}
