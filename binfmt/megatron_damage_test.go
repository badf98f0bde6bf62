package binfmt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// idxFile is an .idx to be broken.
type idxFile struct {
	magic               string
	version             uint64
	code                byte
	sequences, entries  uint64
	lengths             []int32
	pointers, documents []int64
	tail                []byte
}

// goodIdx has 3 documents of 4 sequences of uint16 tokens, 20 bytes in all.
func goodIdx() idxFile {
	return idxFile{idxMagic, 1, 8, 4, 4, []int32{3, 0, 5, 2}, []int64{0, 6, 6, 16}, []int64{0, 2, 2, 4}, nil}
}

const goodBytes = 20

func (f idxFile) bytes() []byte {
	var b bytes.Buffer
	b.WriteString(f.magic)
	for _, v := range []any{f.version, f.code, f.sequences, f.entries, f.lengths, f.pointers, f.documents} {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			panic(err)
		}
	}
	return append(b.Bytes(), f.tail...)
}

func tokensInMemory(data []byte, binBytes int64) (*TokenIndex, error) {
	x := &TokenIndex{mapping: memoryOf(data), bytes: binBytes}
	if err := x.mapping.read(x.load); err != nil {
		return nil, err
	}
	return x, nil
}

// TestTokensRefuse: each rule of the format, broken, is an error that names the numbers and is found at open, or, where only reading
// everything tells, by Check.
func TestTokensRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*idxFile)
		bin     int64
		want    error
		words   string
		atCheck bool
	}{
		"wrong magic":                 {func(f *idxFile) { f.magic = "MMIDIDX\x01\x00" }, goodBytes, ErrIndex, "not an .idx file", false},
		"legacy format":               {func(f *idxFile) { f.magic = "TNTIDX\x00\x00\x00" }, goodBytes, ErrIndex, "TNTIDX", false},
		"version 2":                   {func(f *idxFile) { f.version = 2 }, goodBytes, ErrVersion, "version 2 at offset 9", false},
		"type 0":                      {func(f *idxFile) { f.code = 0 }, goodBytes, ErrIndex, "type code 0", false},
		"type 9":                      {func(f *idxFile) { f.code = 9 }, goodBytes, ErrIndex, "type code 9", false},
		"2^63 sequences":              {func(f *idxFile) { f.sequences = 1 << 63 }, goodBytes, ErrIndex, "9223372036854775808 sequences", false},
		"counts that wrap to 80":      {func(f *idxFile) { f.sequences, f.entries = 1<<62+4, 4 }, goodBytes, ErrIndex, "counts", false},
		"2^61 entries":                {func(f *idxFile) { f.entries = 1 << 61 }, goodBytes, ErrIndex, "2305843009213693952 entries", false},
		"no document array":           {func(f *idxFile) { f.entries, f.documents = 0, nil }, goodBytes, ErrIndex, "is empty", false},
		"one sequence too many":       {func(f *idxFile) { f.sequences++ }, goodBytes, ErrIndex, "need", false},
		"one byte behind":             {func(f *idxFile) { f.tail = []byte{0} }, goodBytes, ErrIndex, "something behind", false},
		"cut by a byte":               {func(f *idxFile) { f.sequences, f.lengths, f.tail = 0, nil, nil; f.pointers = f.pointers[:3] }, goodBytes, ErrIndex, "need", false},
		"first pointer":               {func(f *idxFile) { f.pointers[0] = 2 }, goodBytes, ErrIndex, "at byte 2", false},
		"last pointer past the end":   {func(f *idxFile) { f.pointers[3] = 1 << 40 }, goodBytes, ErrIndex, "1099511627776: outside the .bin's 20 bytes", false},
		"last pointer negative":       {func(f *idxFile) { f.pointers[3] = -16 }, goodBytes, ErrIndex, "outside", false},
		"last length negative":        {func(f *idxFile) { f.lengths[3] = -2 }, goodBytes, ErrIndex, "has -2 elements", false},
		"cut .bin":                    {nil, goodBytes - 2, ErrIndex, "outside the .bin's 18 bytes", false},
		"longer .bin":                 {nil, goodBytes + 2, ErrMismatch, "end at byte 20 of the .bin, which has 22", false},
		"first document":              {func(f *idxFile) { f.documents[0] = 1 }, goodBytes, ErrIndex, "document 0 starts with sequence 1", false},
		"document array ends early":   {func(f *idxFile) { f.documents[3] = 2 }, goodBytes, ErrIndex, "ends with 2, there are 4", false},
		"pointers not sorted":         {func(f *idxFile) { f.pointers[1], f.pointers[2] = 16, 0 }, goodBytes, ErrIndex, "sequence 1 lies at byte 16", true},
		"a gap":                       {func(f *idxFile) { f.pointers[2] = 8 }, goodBytes, ErrIndex, "sequence 2 lies at byte 8", true},
		"a length negative":           {func(f *idxFile) { f.lengths[1] = -1 }, goodBytes, ErrIndex, "sequence 1 has -1 elements", true},
		"a length past the end":       {func(f *idxFile) { f.lengths[2] = math.MaxInt32 }, goodBytes, ErrIndex, "sequence 2 has 2147483647", true},
		"documents not sorted":        {func(f *idxFile) { f.documents[1], f.documents[2] = 3, 1 }, goodBytes, ErrIndex, "entry 2 of the document array is 1", true},
		"a document past the end":     {func(f *idxFile) { f.documents[1] = 9 }, goodBytes, ErrIndex, "entry 1 of the document array is 9", true},
		"a document before the start": {func(f *idxFile) { f.documents[1] = -1 }, goodBytes, ErrIndex, "entry 1 of the document array is -1", true},
	} {
		t.Run(name, func(t *testing.T) {
			f := goodIdx()
			if c.change != nil {
				c.change(&f)
			}
			x, err := tokensInMemory(f.bytes(), c.bin)
			if c.atCheck {
				if err != nil {
					t.Fatalf("at open: %v", err)
				}
				err = x.Check(t.Context())
			}
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.words) {
				t.Fatalf("error %v, want %v with %q", err, c.want, c.words)
			}
		})
	}
	x, err := tokensInMemory(goodIdx().bytes(), goodBytes)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := x.Check(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled check: %v", err)
	}
}

// tryTokens opens what may be damaged and reads all of it: errors, or extents inside the .bin.
func tryTokens(t testing.TB, data []byte, binBytes int64) {
	x, err := tokensInMemory(data, binBytes)
	if err != nil {
		if !errors.Is(err, ErrIndex) && !errors.Is(err, ErrVersion) && !errors.Is(err, ErrMismatch) {
			t.Fatalf("an error of no class: %v", err)
		}
		return
	}
	checked := x.Check(context.Background())
	if checked != nil && !errors.Is(checked, ErrIndex) {
		t.Fatalf("an error of no class: %v", checked)
	}
	var tokens int64
	for i := range x.Sequences() {
		e, err := x.Extent(i)
		if err == nil && (e.Off < 0 || e.Len < 0 || e.Off > binBytes-e.Len) {
			t.Fatalf("sequence %d: %+v of %d bytes", i, e, binBytes)
		}
		tokens += e.Len / TokenSize(x.Dtype())
		if checked == nil && err != nil {
			t.Fatalf("checked, and then: %v", err)
		}
		if _, err := x.Mode(i); err != nil {
			t.Fatal(err)
		}
	}
	for d := range x.Documents() {
		first, end, err := x.Document(d)
		if err == nil && (first < 0 || end < first || end > x.Sequences()) || checked == nil && err != nil {
			t.Fatalf("document %d: %d to %d, %v", d, first, end, err)
		}
	}
	if checked == nil && tokens != x.Tokens() {
		t.Fatalf("%d tokens, %d in all", tokens, x.Tokens())
	}
}

// TestTokensCut cuts an index at every length: always an error that says so.
func TestTokensCut(t *testing.T) {
	f := goodIdx()
	f.tail = []byte{0, 1, 0, 1}
	data := f.bytes()
	for n := range data {
		if n == len(data)-len(f.tail) {
			continue // the same set without modes
		}
		if _, err := tokensInMemory(data[:n], goodBytes); !errors.Is(err, ErrIndex) {
			t.Fatalf("cut to %d of %d bytes: %v", n, len(data), err)
		}
	}
}

// TestTokensFlips flips every byte. In the head each flip is refused, but for the kind of numbers of the same width.
func TestTokensFlips(t *testing.T) {
	data := goodIdx().bytes()
	for i := range data {
		for _, flip := range []byte{0x01, 0x80, 0xff} {
			bad := slices.Clone(data)
			bad[i] ^= flip
			tryTokens(t, bad, goodBytes)
			x, err := tokensInMemory(bad, goodBytes)
			if i < idxHeadSize && err == nil && TokenSize(x.Dtype()) != 2 {
				t.Errorf("byte %d of the head, ^%#x: accepted", i, flip)
			}
		}
	}
}

// TestTokensInPieces: a file is checked as it is read, by the megabyte, and a wrong entry is found wherever it is.
func TestTokensInPieces(t *testing.T) {
	const n = 1<<18 + 3 // a piece of lengths, and a little
	f := idxFile{idxMagic, 1, 8, n, n + 1, make([]int32, n), make([]int64, n), make([]int64, n+1), nil}
	for i := range n {
		f.lengths[i], f.pointers[i], f.documents[i+1] = 1, int64(2*i), int64(i+1)
	}
	data := f.bytes()
	fields, samples, err := CheckTokens(t.Context(), bytes.NewReader(data), int64(len(data)), 2*n)
	if err != nil || samples != n || !slices.Equal(fields, []Field{{TokensField, Tokens, "uint16"}}) {
		t.Fatalf("%d samples with %v, %v", samples, fields, err)
	}
	for _, i := range []int64{1<<17 - 1, 1 << 17, 1<<18 - 1, 1 << 18, n - 1} {
		bad := slices.Clone(data)
		bad[idxHeadSize+4*n+8*i] ^= 1
		if _, _, err := CheckTokens(t.Context(), bytes.NewReader(bad), int64(len(bad)), 2*n); !errors.Is(err, ErrIndex) || !strings.Contains(err.Error(), fmt.Sprintf("sequence %d lies", i)) {
			t.Errorf("pointer %d: %v", i, err)
		}
		bad = slices.Clone(data)
		bad[idxHeadSize+12*n+8*i+7] ^= 0x80
		if _, _, err := CheckTokens(t.Context(), bytes.NewReader(bad), int64(len(bad)), 2*n); !errors.Is(err, ErrIndex) {
			t.Errorf("document %d: %v", i, err)
		}
	}
	if _, _, err := CheckTokens(t.Context(), bytes.NewReader(data[:100]), int64(len(data)), 2*n); err == nil {
		t.Error("a file that is shorter than it says: accepted")
	}
}

// TestTokensOutside: numbers outside are errors, also after Close, and windows stay in their sequence.
func TestTokensOutside(t *testing.T) {
	x, err := tokensInMemory(goodIdx().bytes(), goodBytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int64{-1, 4, math.MaxInt64, math.MinInt64} {
		if _, err := x.Extent(i); !errors.Is(err, ErrNoSample) {
			t.Errorf("Extent(%d): %v", i, err)
		}
		if _, err := x.Key(i); !errors.Is(err, ErrNoSample) {
			t.Errorf("Key(%d): %v", i, err)
		}
	}
	if err := x.Lengths(make([]uint32, 2), 3); !errors.Is(err, ErrNoSample) {
		t.Errorf("Lengths: %v", err)
	}
	for _, w := range [][2]int64{{-1, 1}, {0, 6}, {5, 1}, {6, 0}, {0, -1}, {math.MaxInt64, 1}, {1, math.MaxInt64}} {
		if e, err := x.Window(2, w[0], w[1]); !errors.Is(err, ErrShort) {
			t.Errorf("Window(2, %d, %d): %+v, %v", w[0], w[1], e, err)
		}
	}
	if e, err := x.Window(2, 1, 3); err != nil || e.Off != 8 || e.Len != 6 {
		t.Errorf("window %+v, %v", e, err)
	}
	if _, err := x.Part(0, "image"); !errors.Is(err, ErrNoField) {
		t.Errorf("Part: %v", err)
	}
	if _, err := x.Scalar(0, ModeField); !errors.Is(err, ErrNoField) {
		t.Errorf("Scalar of a set without modes: %v", err)
	}
	x.data = nil // as Close leaves it
	if _, err := x.Extent(0); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestTokensOfAnySet: what is written is read, for any lengths, documents and type.
func TestTokensOfAnySet(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := idxFile{magic: idxMagic, version: 1, code: byte(rapid.IntRange(1, 8).Draw(rt, "type"))}
		size := TokenSize(dtypeOf(f.code))
		f.lengths = rapid.SliceOfN(rapid.OneOf(rapid.Just(int32(0)), rapid.Int32Min(0)), 0, 50).Draw(rt, "lengths")
		end := int64(0)
		for _, n := range f.lengths {
			f.pointers = append(f.pointers, end)
			end += int64(n) * size
		}
		f.documents = append(f.documents, 0)
		for _, d := range slices.Sorted(slices.Values(rapid.SliceOfN(rapid.IntRange(0, len(f.lengths)), 0, 20).Draw(rt, "documents"))) {
			f.documents = append(f.documents, int64(d))
		}
		if f.documents[len(f.documents)-1] != int64(len(f.lengths)) {
			f.documents = append(f.documents, int64(len(f.lengths)))
		}
		f.sequences, f.entries = uint64(len(f.lengths)), uint64(len(f.documents))
		x, err := tokensInMemory(f.bytes(), end)
		if err != nil {
			rt.Fatal(err)
		}
		want := peerSays{Dtype: dtypeOf(f.code), Pointers: f.pointers, Documents: f.documents}
		for _, n := range f.lengths {
			want.Lengths = append(want.Lengths, int64(n))
		}
		sameArrays(t, x, want)
	})
}

func FuzzTokens(f *testing.F) {
	good := goodIdx()
	f.Add(good.bytes(), int64(goodBytes))
	good.tail = []byte{0, 1, 2, 3}
	f.Add(good.bytes(), int64(goodBytes))
	f.Add(good.bytes()[:50], int64(0))
	f.Fuzz(func(t *testing.T, data []byte, binBytes int64) { tryTokens(t, data, binBytes) })
}
