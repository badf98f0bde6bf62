package tar

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"sort"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/foreign"
)

// sparse is a file of any length: pieces at offsets, zeros between them.
type sparse struct {
	offs   []int64
	pieces [][]byte
	end    int64
}

func (s *sparse) put(b []byte) {
	s.offs, s.pieces, s.end = append(s.offs, s.end), append(s.pieces, b), s.end+int64(len(b))
}

func (s *sparse) ReadAt(p []byte, off int64) (int, error) {
	clear(p)
	first := sort.Search(len(s.offs), func(i int) bool { return s.offs[i]+int64(len(s.pieces[i])) > off })
	for i := first; i < len(s.offs) && s.offs[i] < off+int64(len(p)); i++ {
		if at := s.offs[i] - off; at >= 0 {
			copy(p[at:], s.pieces[i])
		} else {
			copy(p, s.pieces[i][-at:])
		}
	}
	return len(p), nil
}

// member appends a member whose content is zeros, but for its first bytes.
func (s *sparse) member(t *testing.T, name string, size int64, head string, format tar.Format) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, Format: format}); err != nil {
		t.Fatal(err)
	}
	s.put(b.Bytes())
	s.put([]byte(head))
	s.end += roundUp(size) - int64(len(head))
}

func (s *sparse) file() *memory {
	s.put(make([]byte, 2*block))
	return &memory{ReaderAt: s, size: s.end}
}

// drop is a Sink that counts.
type drop struct{ rows, parts int }

func (d *drop) Row(r foreign.Row) error { d.rows++; d.parts += len(r.Parts); return nil }

func (d *drop) Warn(string, ...any) {}

func index(t *testing.T, f foreign.File) *drop {
	d := new(drop)
	if err := New(foreign.Strict).Rows(t.Context(), foreign.Source{}, foreign.Shard{}, f, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestBytesRead: of members of 1 MiB and more at most 1 % is read; of members of 100 KB at most 1.1 times the file.
func TestBytesRead(t *testing.T) {
	for _, c := range []struct {
		size  int64
		most  float64
		reads string
	}{{1 << 20, 0.01, "1 MiB"}, {4 << 20, 0.01, "4 MiB"}, {100_000, 1.1, "100 KB"}, {5_000, 1.1, "5 KB"}} {
		s := new(sparse)
		for i := range 200 {
			s.member(t, fmt.Sprintf("%06d.jpg", i), c.size, "\xff\xd8\xff", tar.FormatUSTAR)
			s.member(t, fmt.Sprintf("%06d.cls", i), 1, "7", tar.FormatUSTAR)
		}
		f := s.file()
		if d := index(t, f); d.rows != 200 || d.parts != 400 {
			t.Fatalf("%d samples, %d parts", d.rows, d.parts)
		}
		share := float64(f.read) / float64(f.size)
		t.Logf("members of %s: %.4f of the bytes read", c.reads, share)
		if share > c.most {
			t.Errorf("members of %s: %.4f of the bytes read, want at most %.2f", c.reads, share, c.most)
		}
	}
}

// TestBeyond8GiB: sizes that octal digits cannot say, in base 256 and in pax records, and offsets beyond 2^32.
func TestBeyond8GiB(t *testing.T) {
	for _, format := range []tar.Format{tar.FormatGNU, tar.FormatPAX} {
		s := new(sparse)
		s.member(t, "a.mp4", 9<<30, "....ftypisom....", format)
		s.member(t, "a.cls", 2, "42", format)
		s.member(t, "b.mp4", 1<<40, "", format)
		l := &firsts{}
		f := s.file()
		if err := New(foreign.Strict).Rows(t.Context(), foreign.Source{}, foreign.Shard{}, f, l); err != nil {
			t.Fatalf("%v: %v", format, err)
		}
		if l.text != "a:mp4+9663676416 video/mp4,cls+2;b:mp4+1099511627776 application/octet-stream;" || l.values != "42" {
			t.Errorf("%v: %s %s", format, l.text, l.values)
		}
		if f.read > 1<<20 {
			t.Errorf("%v: %d bytes read", format, f.read)
		}
	}
}

// firsts is a Sink that writes down samples without reading them.
type firsts struct{ text, values string }

func (l *firsts) Row(r foreign.Row) error {
	var parts []string
	for _, p := range r.Parts {
		text := fmt.Sprintf("%s+%d", p.Field, p.Len)
		if p.Field == "mp4" {
			text += " " + p.Type
		}
		parts = append(parts, text)
	}
	l.text += r.Key + ":" + strings.Join(parts, ",") + ";"
	if v, ok := r.Scalars["cls"]; ok && v.Kind == binfmt.Int64 {
		l.values += v.String()
	}
	return nil
}

func (l *firsts) Warn(string, ...any) {}

// TestStoreErrors: an error of the store is not taken for damage of the archive.
func TestStoreErrors(t *testing.T) {
	s := new(sparse)
	s.member(t, "a.jpg", 1<<20, "", tar.FormatUSTAR)
	s.member(t, "b.jpg", 1<<20, "", tar.FormatUSTAR)
	f := s.file()
	f.ReaderAt = failing{s}
	err := New(foreign.AsPeer).Rows(t.Context(), foreign.Source{}, foreign.Shard{}, f, new(drop))
	if err == nil || !strings.Contains(err.Error(), io.ErrNoProgress.Error()) {
		t.Errorf("%v", err)
	}
}

type failing struct{ io.ReaderAt }

func (f failing) ReadAt(p []byte, off int64) (int, error) {
	if off > 1<<20 {
		return 0, io.ErrNoProgress
	}
	return f.ReaderAt.ReadAt(p, off)
}
