// Package tar indexes shards of a WebDataset: tar files in which members side by side, with one name up to the
// first dot, are a sample. It groups them as WebDataset's reader does.
package tar

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/foreign"
)

// Container is the shards of a WebDataset.
type Container struct{ policy foreign.Policy }

// New returns a container that treats odd archives by a policy.
func New(policy foreign.Policy) *Container { return &Container{policy} }

// Name implements foreign.Container.
func (*Container) Name() string { return binfmt.Tar }

// Reading implements foreign.Container.
func (*Container) Reading() string { return "tar 1" }

// Named implements foreign.Named.
func (*Container) Named() {}

// Defaults implements foreign.Renamer.
func (*Container) Defaults() []foreign.Rename { return foreign.NamedFiles() }

// Shards implements foreign.Container. Of a folder it takes the files whose names end in .tar, sorted by bytes; of
// files that are named, those that end so, or all if the user chose this container.
func (*Container) Shards(ctx context.Context, src foreign.Source) ([]foreign.Shard, error) {
	var shards []foreign.Shard
	for _, name := range src.Names {
		names, err := shardsAt(ctx, src, name)
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			if src.Unpack {
				shards = append(shards, foreign.Shard{Name: n, Compression: foreign.ByContent})
				continue
			}
			if end := compressed(n); end != "" {
				return nil, fmt.Errorf("%s: a compressed archive (%s): %s: %w", src.Store.Address(n), end, advice, foreign.ErrContainer)
			}
			shards = append(shards, foreign.Shard{Name: n})
		}
	}
	return shards, nil
}

// shardsAt returns what a name of the source stands for. A name that ends as a shard's does is one: of thousands, each
// is looked at later, and all at once.
func shardsAt(ctx context.Context, src foreign.Source, name string) ([]string, error) {
	if isShard(name) {
		return []string{name}, nil
	}
	info, err := src.Store.Stat(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case info.Dir:
		return shardsIn(ctx, src, name)
	case src.Chosen:
		return []string{name}, nil
	}
	return nil, nil
}

func isShard(name string) bool {
	return strings.EqualFold(path.Ext(name), ".tar") || compressed(name) != ""
}

// shardsIn lists the shards of a folder, in the order of their names.
func shardsIn(ctx context.Context, src foreign.Source, dir string) ([]string, error) {
	infos, err := src.Store.List(ctx, dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, i := range infos {
		if !i.Dir && isShard(i.Name) {
			names = append(names, i.Name)
		}
	}
	return names, nil
}

const advice = "a byte in it has no place of its own that could be read: uncompress the shards (gunzip, zstd -d), or pack them with `stepahead pack`"

// compressed is the end of a compressed archive's name; "" of other names.
func compressed(name string) string {
	lower := strings.ToLower(path.Base(name))
	for _, end := range []string{".tgz", ".tbz2", ".txz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst", ".tar.lz4", ".tar.z"} {
		if strings.HasSuffix(lower, end) {
			return end
		}
	}
	return ""
}

// Rows implements foreign.Container.
func (c *Container) Rows(ctx context.Context, _ foreign.Source, _ foreign.Shard, f foreign.File, to foreign.Sink) error {
	s := &shard{w: walker{Window: foreign.NewWindow(f), f: f, policy: c.policy, warn: to.Warn}, g: newGrouper(c.policy, to)}
	if err := s.head(); err != nil {
		return err
	}
	for {
		m, err := s.w.next()
		if errors.Is(err, io.EOF) {
			return s.g.flush()
		}
		var quiet *silent
		if errors.As(err, &quiet) {
			return s.ended(quiet, to)
		}
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = s.take(m)
		}
		if err != nil {
			return err
		}
	}
}

// shard is one shard on its way into an index.
type shard struct {
	w walker
	g *grouper
}

// head looks at the first bytes.
func (s *shard) head() error {
	if s.w.f.Size() == 0 {
		return fmt.Errorf("the file is empty: not a tar file: %w", foreign.ErrContainer)
	}
	b, _, err := s.w.At(0, min(s.w.f.Size(), block))
	if err != nil {
		return err
	}
	if how := foreign.Compression(b); how != "" {
		return fmt.Errorf("the file is compressed (%s): %s: %w", how, advice, foreign.ErrContainer)
	}
	return nil
}

// ended is where readers stop without a word.
func (s *shard) ended(why *silent, to foreign.Sink) error {
	if err := s.g.flush(); err != nil {
		return err
	}
	if s.w.policy == foreign.AsPeer {
		to.Warn("%v: the samples end here, the last is %q", why, s.g.last)
		return nil
	}
	return fmt.Errorf("%w; the last good sample is %q: readers end here without a word: mend the shard, or take what they give with --policy as-peer: %w",
		why, s.g.last, foreign.ErrContainer)
}

// take adds a member to its sample.
func (s *shard) take(m member) error {
	key, ext, ok := s.g.Split(m.name)
	if !ok {
		return nil
	}
	if err := s.g.begin(m, key, ext); err != nil {
		return err
	}
	p := foreign.Part{Field: foreign.FieldName(ext)}
	p.Off, p.Len = m.off, m.size
	if err := s.w.Sniff(&p); err != nil {
		return err
	}
	v, ok, err := s.value(m, ext)
	if err != nil {
		return err
	}
	s.g.add(p, v, ok)
	return nil
}

// value reads the value of a member that is a scalar.
func (s *shard) value(m member, ext string) (binfmt.Value, bool, error) {
	kind := foreign.ScalarKind(ext)
	if kind == "" || m.size > binfmt.MaxText {
		return binfmt.Value{}, false, nil
	}
	data, _, err := s.w.At(m.off, m.size)
	if err != nil {
		return binfmt.Value{}, false, err
	}
	v, ok := foreign.Scalar(kind, data)
	return v, ok, nil
}

// CheckMember makes sure that the block before off is the header of a file of that size, whose name ends as the
// given one does, with extended headers before it or not.
func CheckMember(head []byte, name string, size int64) error {
	h, err := parseHeader(head)
	if err != nil {
		return err
	}
	end := h.name // cut to 100 bytes where an extended header has the whole name
	if len(h.name) == 100 || h.pre != "" {
		end = path.Base(h.name)
	}
	switch {
	case !isFile(h.typ):
		return fmt.Errorf("a member of type %q, want a file", h.typ)
	case h.size != size && h.size != 0: // 0: where an extended header has it
		return fmt.Errorf("a member of %d bytes, want %d", h.size, size)
	case !strings.HasSuffix(name, end) && !strings.HasPrefix(path.Base(name), path.Base(end)):
		return fmt.Errorf("the member %q, want %q", h.name, name)
	}
	return nil
}
