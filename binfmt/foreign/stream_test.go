package foreign

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// inMemory is a File of bytes in memory that counts reads.
type inMemory struct {
	data  []byte
	reads int
}

func (m *inMemory) Size() int64 { return int64(len(m.data)) }

func (m *inMemory) ReadAt(p []byte, off int64) (int, error) {
	m.reads++
	return bytes.NewReader(m.data).ReadAt(p, off)
}

// TestStream: whatever is read and released in whatever order, what comes is what is there; of a compressed file what was released is gone,
// and an error.
func TestStream(t *testing.T) {
	data := make([]byte, 3<<20)
	for i := range data {
		data[i] = byte(i * 7 >> 8)
	}
	rapid.Check(t, func(t *rapid.T) {
		plain := rapid.Bool().Draw(t, "plain")
		s := newStream(bytes.NewReader(data), int64(len(data)))
		if plain {
			s = newPlainStream(&inMemory{data: data})
		}
		released := int64(0)
		for range rapid.IntRange(1, 20).Draw(t, "reads") {
			off := rapid.Int64Range(0, int64(len(data))).Draw(t, "offset")
			n := rapid.Int64Range(0, min(1<<20, int64(len(data))-off)).Draw(t, "length")
			p := make([]byte, n)
			_, err := s.ReadAt(p, off)
			switch gone := !plain && off < s.base; {
			case gone && !errors.Is(err, ErrContainer), !gone && (err != nil || !bytes.Equal(p, data[off:off+n])):
				t.Fatalf("%d bytes at %d, at %d: %v", n, off, s.base, err)
			}
			released = max(released, rapid.Int64Range(0, off).Draw(t, "release"))
			s.release(released)
		}
	})
	s := newStream(bytes.NewReader(data), 1<<40)
	if _, err := s.ReadAt(make([]byte, 1), 2<<30); !errors.Is(err, ErrContainer) || !strings.Contains(err.Error(), "uncompress it") {
		t.Errorf("far ahead: %v", err)
	}
	if _, err := s.ReadAt(make([]byte, 1), int64(len(data))); !errors.Is(err, ErrContainer) || !strings.Contains(err.Error(), "ends at offset 3145728") {
		t.Errorf("behind the end: %v", err)
	}
}

// TestStreamJumps: a file that is not compressed is not read where nothing is wanted.
func TestStreamJumps(t *testing.T) {
	m := &inMemory{data: make([]byte, 64<<20)}
	s := newPlainStream(m)
	for off := int64(0); off < m.Size(); off += 16 << 20 {
		if _, err := s.ReadAt(make([]byte, 512), off); err != nil {
			t.Fatal(err)
		}
		s.release(off)
	}
	if m.reads != 4 {
		t.Errorf("%d reads", m.reads)
	}
}
