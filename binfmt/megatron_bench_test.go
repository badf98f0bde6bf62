package binfmt

import (
	"bufio"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// largeIdx writes an index of 10 million documents of one sequence each, 200 MB.
func largeIdx(b *testing.B) (path string, binBytes int64) {
	b.Helper()
	const n = 10_000_000
	path = filepath.Join(b.TempDir(), "large.idx")
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	out := bufio.NewWriterSize(f, 1<<20)
	put := func(p []byte) {
		if _, err := out.Write(p); err != nil {
			b.Fatal(err)
		}
	}
	le, word := binary.LittleEndian, make([]byte, 8)
	head := append([]byte(idxMagic), 1, 0, 0, 0, 0, 0, 0, 0, 8)
	put(le.AppendUint64(le.AppendUint64(head, n), n+1))
	length := func(i int) uint32 { return uint32(i%2000 + 1) }
	for i := range n {
		le.PutUint32(word, length(i))
		put(word[:4])
	}
	for i := range n {
		le.PutUint64(word, uint64(binBytes))
		put(word)
		binBytes += 2 * int64(length(i))
	}
	for i := range n + 1 {
		le.PutUint64(word, uint64(i))
		put(word)
	}
	if err := out.Flush(); err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	return path, binBytes
}

// BenchmarkOpenTokens opens an index of 10 million documents, finds the sequence in the middle and the last document, and closes it.
func BenchmarkOpenTokens(b *testing.B) {
	path, size := largeIdx(b)
	for b.Loop() {
		x, err := OpenTokenIndex(LocalIndex{Path: path}, size)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := x.Extent(x.Sequences() / 2); err != nil {
			b.Fatal(err)
		}
		if _, _, err := x.Document(x.Documents() - 1); err != nil {
			b.Fatal(err)
		}
		if err := x.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCheckTokens reads all of it and checks every entry, which indexing does once.
func BenchmarkCheckTokens(b *testing.B) {
	path, size := largeIdx(b)
	x, err := OpenTokenIndex(LocalIndex{Path: path}, size)
	if err != nil {
		b.Fatal(err)
	}
	defer x.Close()
	for b.Loop() {
		if err := x.Check(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
