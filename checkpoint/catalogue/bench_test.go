package catalogue

import (
	"testing"

	"github.com/stepahead-io/stepahead/store"
)

// BenchmarkSum is what comparing sums costs a reader of whole files, in pieces of 8 MiB.
func BenchmarkSum(b *testing.B) {
	const size, part = 64 << 20, 8 << 20
	data := noise(size, 1)
	b.SetBytes(size)
	for b.Loop() {
		s := newSum(size, 0)
		for off := 0; off < size; off += part {
			s.add([]store.Range{{Off: int64(off), Buf: data[off : off+part]}})
		}
	}
}

// BenchmarkResolve is what looking into a catalogue that was just read costs an opening.
func BenchmarkResolve(b *testing.B) {
	st := openDir(b, b.TempDir())
	k := testKey("k1", 1)
	must(b, PublishKey(b.Context(), st, k))
	must(b, Write(b.Context(), st, k, aRow("/a")))
	s := Wrap(st, Options{Site: st})
	for b.Loop() {
		s.copyOf(b.Context(), "/runs/7b/iter_0001000/__0_0.distcp")
	}
}
