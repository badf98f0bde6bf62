package binfmt

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// photoFields are the fields of a packed folder of class folders.
func photoFields() []Field {
	return []Field{{Name: "image", Kind: Media}, {Name: "label", Kind: Int64}}
}

// photoRows makes n rows; row i lies at offset 64*(i+1) and has i%50+1 bytes.
func photoRows(n int) []Row {
	rows := make([]Row, n)
	for i := range rows {
		rows[i] = Row{
			Key: fmt.Sprintf("class/%08d.jpg", i),
			Parts: []Part{{
				Extent: Extent{Off: int64(64 * (i + 1)), Len: int64(i%50 + 1), CRC: uint32(i) * 2654435761, HasCRC: true},
				Type:   "image/jpeg", Width: uint32(i%7) * 100, Height: uint32(i%3) * 100,
			}},
			Scalars: []Value{{Kind: Int64, Int: int64(i % 10)}},
		}
	}
	return rows
}

// indexBytes writes an index into memory.
func indexBytes(t testing.TB, fields []Field, uuid [16]byte, rows []Row) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewIndexWriter(&out, fields, uuid)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if err := w.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// manifestOf returns a manifest with one bin, whose index is data.
func manifestOf(fields []Field, uuid [16]byte, rows []Row, data []byte) *Manifest {
	size := int64(HeaderSize)
	for _, r := range rows {
		for _, p := range r.Parts {
			size = max(size, p.Off+p.Len)
		}
	}
	sum := sha256.Sum256(data)
	return &Manifest{Format: Format, Fields: fields, Bins: []Bin{{
		Name: "00000", UUID: hex.EncodeToString(uuid[:]), Samples: int64(len(rows)), Bytes: size,
		IndexSHA256: hex.EncodeToString(sum[:]),
	}}}
}

// openBytes writes an index file and opens it.
func openBytes(t testing.TB, m *Manifest, data []byte) (*Index, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "index.arrow")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return OpenIndex(LocalIndex{Path: path}, m, 0)
}

func mustOpen(t testing.TB, m *Manifest, data []byte) *Index {
	t.Helper()
	x, err := openBytes(t, m, data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}
