package binfmt

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/internal/testdata"
)

const megatronGolden = "testdata/megatron"

// peerSays is what megatron-core's IndexedDataset gives for a pair of files (testdata/megatron/make.py).
type peerSays struct {
	Dtype     string
	Lengths   []int64
	Pointers  []int64
	Documents []int64
	Modes     []int8
	Sequences []string
	Bytes     int64
	Marks     map[string]string
	Windows   [][]any
}

func readPeer(t testing.TB) map[string]peerSays {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(megatronGolden, "expect.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]peerSays
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func openPair(t testing.TB, prefix string) *TokenIndex {
	t.Helper()
	info, err := os.Stat(prefix + ".bin")
	if err != nil {
		t.Fatal(err)
	}
	return openTokens(t, prefix+".idx", info.Size())
}

func openTokens(t testing.TB, path string, size int64) *TokenIndex {
	t.Helper()
	x, err := OpenTokenIndex(LocalIndex{Path: path}, size)
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

// sameArrays compares all that the two readers say about an index.
func sameArrays(t *testing.T, x *TokenIndex, want peerSays) {
	t.Helper()
	if err := x.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if x.Dtype() != want.Dtype || x.Sequences() != int64(len(want.Lengths)) || x.Documents() != int64(len(want.Documents))-1 || x.HasModes() != (want.Modes != nil) {
		t.Fatalf("%s, %d sequences, %d documents, modes %v; the peer: %s, %d, %d, %v", x.Dtype(), x.Sequences(), x.Documents(), x.HasModes(),
			want.Dtype, len(want.Lengths), len(want.Documents)-1, want.Modes != nil)
	}
	bulk := make([]uint32, len(want.Lengths))
	if err := x.Lengths(bulk, 0); err != nil {
		t.Fatal(err)
	}
	size := TokenSize(x.Dtype())
	for i := range x.Sequences() {
		e, err := x.Extent(i)
		if err != nil || e.Off != want.Pointers[i] || e.Len != want.Lengths[i]*size || int64(bulk[i]) != want.Lengths[i] {
			t.Fatalf("sequence %d: %+v, length %d (%v); the peer: %d tokens at byte %d", i, e, bulk[i], err, want.Lengths[i], want.Pointers[i])
		}
		if x.HasModes() {
			if mode, err := x.Mode(i); err != nil || mode != want.Modes[i] {
				t.Fatalf("sequence %d: mode %d (%v), the peer: %d", i, mode, err, want.Modes[i])
			}
		}
	}
	for d := range x.Documents() {
		first, end, err := x.Document(d)
		if err != nil || first != want.Documents[d] || end != want.Documents[d+1] {
			t.Fatalf("document %d: sequences %d to %d (%v), the peer: %d to %d", d, first, end, err, want.Documents[d], want.Documents[d+1])
		}
	}
}

// TestTokensAsMegatron compares every sequence of the golden files, byte for byte, with what megatron-core reads. "zero" has
// the lengths 0,5,0,0,7 and documents without sequences.
func TestTokensAsMegatron(t *testing.T) {
	for name, want := range readPeer(t) {
		if name == "huge" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			prefix := filepath.Join(megatronGolden, name)
			x := openPair(t, prefix)
			sameArrays(t, x, want)
			bin, err := os.ReadFile(prefix + ".bin")
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range want.Sequences {
				part, err := x.Part(int64(i), TokensField)
				if err != nil {
					t.Fatal(err)
				}
				if got := hex.EncodeToString(bin[part.Off : part.Off+part.Len]); got != s {
					t.Errorf("sequence %d: %s, the peer reads %s", i, got, s)
				}
			}
		})
	}
}

// TestTokensOfNothing: a set of empty sequences opens, checks and ends at once.
func TestTokensOfNothing(t *testing.T) {
	x := openPair(t, filepath.Join(megatronGolden, "none"))
	if err := x.Check(t.Context()); err != nil || x.Sequences() != 3 || x.Tokens() != 0 {
		t.Fatalf("%d sequences of %d tokens (%v), want 3 of 0", x.Sequences(), x.Tokens(), err)
	}
}

// TestTokensPast32Bits reads windows of a .bin of 4.4 GB, which is a hole with a few bytes in it, as megatron-core did.
func TestTokensPast32Bits(t *testing.T) {
	want := readPeer(t)["huge"]
	path := filepath.Join(t.TempDir(), "huge.bin")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(want.Bytes); err != nil {
		testdata.Missing(t, "a file system with holes: %v", err)
	}
	for at, mark := range want.Marks {
		off, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		b, err := hex.DecodeString(mark)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(b, off); err != nil {
			t.Fatal(err)
		}
	}
	x := openTokens(t, filepath.Join(megatronGolden, "huge.idx"), want.Bytes)
	sameArrays(t, x, want)
	for _, w := range want.Windows {
		e, err := x.Window(int64(w[0].(float64)), int64(w[1].(float64)), int64(w[2].(float64)))
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, e.Len)
		if _, err := f.ReadAt(got, e.Off); err != nil {
			t.Fatal(err)
		}
		if hex.EncodeToString(got) != w[3] {
			t.Errorf("window %v: %x", w, got)
		}
	}
}

// TestTokensOfMegatronLM reads a real pair of files; what its head says is in the table of the test data.
func TestTokensOfMegatronLM(t *testing.T) {
	prefix := strings.TrimSuffix(testdata.Path(t, "tokens/megatron/test_text_document.idx"), ".idx")
	x := openPair(t, prefix)
	if err := x.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if x.Dtype() != "int32" || x.Sequences() != 1000 || x.Documents() != 1000 || x.Tokens() != 5000 {
		t.Errorf("%s, %d sequences, %d documents, %d tokens", x.Dtype(), x.Sequences(), x.Documents(), x.Tokens())
	}
}

// TestTokensOfADataset: a manifest's bins of tokens are found like others, and given whole to token orders.
func TestTokensOfADataset(t *testing.T) {
	prefix := filepath.Join(megatronGolden, "modes")
	size := int64(100)
	m := &Manifest{Format: FormatForeign, Fields: []Field{{TokensField, Tokens, "int32"}, {ModeField, Int64, ""}}, Bins: []Bin{{
		Name: "0", UUID: strings.Repeat("0", 32), Samples: 9, Bytes: size, IndexSHA256: strings.Repeat("0", 64),
		Foreign: &Foreign{Container: Megatron, Path: "../modes.bin", Identity: "v1"},
	}}}
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	d := NewDataset(m, func(context.Context, int) (LocalIndex, error) { return LocalIndex{Path: prefix + ".idx"}, nil })
	defer d.Close()
	want := readPeer(t)["modes"]
	for i := range uint64(9) {
		p, err := d.Part(t.Context(), i, TokensField)
		if err != nil || p.Off != want.Pointers[i] || p.Len != 4*want.Lengths[i] {
			t.Errorf("sample %d: %+v, %v", i, p, err)
		}
		v, err := d.Scalar(t.Context(), i, ModeField)
		if err != nil || v != (Value{Kind: Int64, Int: int64(want.Modes[i])}) {
			t.Errorf("sample %d: mode %v, %v", i, v, err)
		}
		if key, err := d.Key(t.Context(), i); err != nil || key != strconv.FormatUint(i, 10) {
			t.Errorf("sample %d: key %q, %v", i, key, err)
		}
	}
	x, release, err := d.Tokens(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := x.Extent(0); err != nil || x.Tokens() != 25 || e.Len != 3*TokenSize(x.Dtype()) {
		t.Errorf("%d tokens, the first sequence is %+v (%v)", x.Tokens(), e, err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Manifest){
		"fewer samples": func(m *Manifest) { m.Bins[0].Samples = 8 },
		"another dtype": func(m *Manifest) { m.Fields[0].Dtype = "float32" },
		"no modes":      func(m *Manifest) { m.Fields = m.Fields[:1] },
		"another .bin":  func(m *Manifest) { m.Bins[0].Bytes += 4 },
	} {
		other := *m
		other.Bins, other.Fields = slices.Clone(m.Bins), slices.Clone(m.Fields)
		change(&other)
		if x, err := OpenBin(LocalIndex{Path: prefix + ".idx"}, &other, 0); !errors.Is(err, ErrMismatch) {
			t.Errorf("%s: %v, %v", name, x, err)
		}
	}
}

// TestTokensOfAPackedBin: a bin that is none of tokens has no TokenIndex.
func TestTokensOfAPackedBin(t *testing.T) {
	rows := photoRows(1)
	data := indexBytes(t, photoFields(), testUUID, rows)
	path := filepath.Join(t.TempDir(), "x.arrow")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	d := NewDataset(manifestOf(photoFields(), testUUID, rows, data), func(context.Context, int) (LocalIndex, error) { return LocalIndex{Path: path}, nil })
	defer d.Close()
	if _, _, err := d.Tokens(t.Context(), 0); !errors.Is(err, ErrNoField) {
		t.Errorf("error %v, want ErrNoField", err)
	}
	if _, _, err := d.Tokens(t.Context(), 1); !errors.Is(err, ErrNoSample) {
		t.Errorf("error %v, want ErrNoSample", err)
	}
}
