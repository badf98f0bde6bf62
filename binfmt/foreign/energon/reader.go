package energon

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/foreign"
	"github.com/stepahead-io/stepahead/binfmt/foreign/tar"
	"github.com/stepahead-io/stepahead/binfmt/media"
)

const (
	tarBlock = 512
	// doubted is how many members' headers are looked at in a shard that is newer than the index, which may be
	// another one than was prepared, or the same one copied later. Of others it is the first.
	doubted = 16
)

// reader makes samples of what the index says of one shard.
type reader struct {
	*part
	f       foreign.File
	to      foreign.Sink
	row     foreign.Row
	sample  int64
	samples int64
	checked int
	skip    int64 // samples between two that are checked
}

func (r *reader) run(ctx context.Context) error {
	r.sample, r.skip = -1, max(1, r.count/doubted)
	if err := r.x.members(ctx, r.id, r.take); err != nil {
		return err
	}
	return r.flush()
}

func (r *reader) take(m member) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("sample %q, part %q: %w: %w", m.key, m.part, fmt.Errorf(format, args...), foreign.ErrContainer)
	}
	if m.off < tarBlock || m.size < 0 || m.off > r.f.Size() || m.size > r.f.Size()-m.off {
		return bad("%d bytes at offset %d are not in the shard's %d bytes", m.size, m.off, r.f.Size())
	}
	if m.sample != r.sample {
		if err := r.flush(); err != nil {
			return err
		}
		r.sample, r.row.Key = m.sample, foreign.KeyText(m.key)
		if err := binfmt.CheckKey(r.row.Key); err != nil {
			return bad("%w", err)
		}
	}
	if r.checked == 0 || r.newer && len(r.row.Parts) == 0 && r.samples%r.skip == 0 {
		if err := r.check(m); err != nil {
			return err
		}
	}
	ext := strings.ToLower(m.part)
	p := foreign.Part{Field: foreign.FieldName(ext)}
	for _, o := range r.row.Parts {
		if o.Field == p.Field {
			return bad("the sample has it twice (case does not count)")
		}
	}
	p.Off, p.Len, p.Type, p.Width, p.Height = m.off, m.size, typeOf(ext), m.width, m.height
	r.row.Parts = append(r.row.Parts, p)
	return r.value(m, ext, p.Field)
}

// check looks whether the shard has the member where the index says.
func (r *reader) check(m member) error {
	r.checked++
	head := make([]byte, tarBlock)
	if _, err := r.f.ReadAt(head, m.off-tarBlock); err != nil {
		return err
	}
	if err := tar.CheckMember(head, m.key+"."+m.part, m.size); err != nil {
		return fmt.Errorf("sample %q, part %q: before offset %d is %w: %w", m.key, m.part, m.off, err, foreign.ErrContainer)
	}
	return nil
}

// value reads the few bytes of a field that is a scalar.
func (r *reader) value(m member, ext, field string) error {
	kind := foreign.ScalarKind(ext)
	if kind == "" || m.size > binfmt.MaxText {
		return nil
	}
	data := make([]byte, m.size)
	if _, err := r.f.ReadAt(data, m.off); err != nil {
		return err
	}
	if v, ok := foreign.Scalar(kind, data); ok {
		r.row.Set(field, v)
	}
	return nil
}

func (r *reader) flush() error {
	if len(r.row.Parts) == 0 {
		return nil
	}
	r.samples++
	err := r.to.Row(r.row)
	r.row.Clear()
	return err
}

// typeOf tells the media type by the end of a name, since the content is not read.
func typeOf(ext string) string {
	switch path.Ext("." + ext) {
	case ".jpg", ".jpeg":
		return "image/jpeg"
	case ".png", ".webp", ".gif", ".bmp", ".tiff", ".avif":
		return "image/" + path.Ext("." + ext)[1:]
	case ".mp4", ".m4v":
		return "video/mp4"
	case ".mkv", ".webm":
		return "video/x-matroska"
	case ".mov":
		return "video/quicktime"
	case ".avi":
		return "video/x-msvideo"
	case ".wav", ".flac":
		return "audio/" + path.Ext("." + ext)[1:]
	case ".mp3":
		return "audio/mpeg"
	case ".ogg", ".opus":
		return "application/ogg"
	}
	return media.Unknown
}
