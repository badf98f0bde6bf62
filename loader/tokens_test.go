package loader

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/sampler"
	"github.com/stepahead-io/stepahead/sampler/tokens"
	"github.com/stepahead-io/stepahead/transform"
)

// Every field of every batch is what the pieces of the order say, for every packing, type and choice of fields.
func TestTokenBatches(t *testing.T) {
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		lengths := rapid.SliceOfN(rapid.SliceOfN(rapid.Int64Range(0, 40), 1, 12), 1, 3).Draw(t, "bins")
		lengths[0][0] += 60
		k := newTokenKit(outer, rapid.SampledFrom([]string{"uint8", "int8", "uint16", "int16", "int32", "int64"}).Draw(t, "dtype"), lengths...)
		o := TokenOptions{
			SequenceLength: rapid.Int64Range(1, 50).Draw(t, "length"),
			Packing:        rapid.SampledFrom([]string{tokens.Windows, tokens.Chunk, tokens.BestFit}).Draw(t, "packing"),
			VocabSize:      rapid.SampledFrom([]int64{0, 98}).Draw(t, "vocab"),
		}
		lo := k.options(o, 1)
		lo.Shuffle = rapid.SampledFrom([]string{sampler.ShuffleFull, sampler.ShuffleNone}).Draw(t, "shuffle")
		have := []string{"tokens", "labels", "loss_mask", "position_ids", "text"}
		if o.Packing == tokens.BestFit {
			have = append(have[:4], "document_ids", "cu_seqlens")
		}
		lo.Fields = rapid.SliceOfNDistinct(rapid.SampledFrom(have), 1, len(have), rapid.ID).Draw(t, "fields")
		order, err := tokens.New(outer.Context(), k.lengths(), o.order(lo.Seed, "", lo.Shuffle == sampler.ShuffleFull))
		must(outer, err)
		lo.GlobalBatch = rapid.Int64Range(1, order.Samples()).Draw(t, "batch")
		l, err := Open(t.Context(), lo)
		must(outer, err)
		defer func() { must(outer, l.Close()) }()
		pieces := func(ref sampler.SampleRef) []sampler.Piece {
			pieces, err := order.Pieces(outer.Context(), ref.Epoch, int64(ref.Sample), nil)
			must(outer, err)
			return pieces
		}
		for range 4 {
			b, err := l.Next(t.Context())
			if errors.Is(err, io.EOF) {
				continue
			}
			must(outer, err)
			if len(b.Fields) != len(lo.Fields) {
				t.Fatalf("%d fields, want %v", len(b.Fields), lo.Fields)
			}
			checkTokenBatch(t, k, o, pieces, b)
			b.Release()
		}
	})
}

// tokenRun makes one run in segments: each with its own ranks, prefetch and steps; it returns what every place of
// every step held.
type tokenSegment struct{ world, prefetch, steps int }

func runTokens(t *testing.T, k *tokenKit, o Options, segments []tokenSegment) map[string]string {
	t.Helper()
	got := map[string]string{}
	var state *sampler.State
	for _, s := range segments {
		var next sampler.State
		for rank := range s.world {
			o := o
			o.Rank, o.World, o.Prefetch, o.Resume = rank, s.world, s.prefetch, state
			l := mustOpen(t, o)
			for range s.steps {
				b, err := l.Next(t.Context())
				for errors.Is(err, io.EOF) {
					b, err = l.Next(t.Context())
				}
				must(t, err)
				for slot, ref := range b.Samples {
					text := fmt.Sprint(ref)
					for i := range b.Fields {
						if f := &b.Fields[i]; f.Name != "cu_seqlens" {
							n := len(f.Bytes) / len(b.Samples)
							text += fmt.Sprintf(" %s %x", f.Name, f.Bytes[slot*n:(slot+1)*n])
						}
					}
					got[fmt.Sprintf("%d/%d", b.Step, ref.Position)] = text
				}
				b.Release()
			}
			next = l.State()
			must(t, l.Close())
		}
		state = &next
	}
	return got
}

// Ranks, prefetch and resumes change nothing, for every packing.
func TestTokensSameSeedSameBytes(t *testing.T) {
	k := newTokenKit(t, "uint16", []int64{30, 0, 7, 55, 12}, []int64{44, 3, 3, 90})
	for _, packing := range []string{tokens.Windows, tokens.Chunk, tokens.BestFit} {
		o := k.options(TokenOptions{SequenceLength: 9, Packing: packing}, 6)
		want := runTokens(t, k, o, []tokenSegment{{1, 1, 12}})
		for _, segments := range [][]tokenSegment{
			{{2, 4, 12}},
			{{3, 2, 5}, {1, 7, 1}, {6, 1, 6}},
			{{1, 3, 11}, {2, 1, 1}},
		} {
			got := runTokens(t, k, o, segments)
			if len(got) != len(want) {
				t.Fatalf("%s, %v: %d places, want %d", packing, segments, len(got), len(want))
			}
			for place, text := range want {
				if got[place] != text {
					t.Fatalf("%s, %v: step/position %s holds %s, want %s", packing, segments, place, got[place], text)
				}
			}
		}
	}
}

// An id that is no token stops the run and names its place.
func TestWrongTokens(t *testing.T) {
	k := newTokenKit(t, "int32", []int64{40}, []int64{40})
	for _, c := range []struct {
		id    int64
		vocab int64
		words string
	}{{-1, 0, "not negative"}, {-5, 98, "not negative"}, {98, 98, "ids 0 to 97"}, {1 << 30, 98, "vocab_size"}} {
		path := filepath.Join(k.root, "corpus-1.bin")
		data, err := os.ReadFile(path)
		must(t, err)
		bad := slices.Clone(data)
		binary.LittleEndian.PutUint32(bad[4*13:], uint32(c.id))
		must(t, k.rewrite(t, 1, bad))
		for _, fields := range [][]string{nil, {"labels"}, {"tokens"}} {
			o := k.options(TokenOptions{SequenceLength: 8, VocabSize: c.vocab}, 9)
			o.Fields = fields
			l := mustOpen(t, o)
			_, err = l.Next(t.Context())
			var wrong *BadSampleError
			if !errors.As(err, &wrong) || wrong.Kind != KindToken || wrong.Bin != path || wrong.Offset != 4*13 || wrong.Length != 4 || !strings.Contains(wrong.Reason, c.words) {
				t.Errorf("id %d: %v, want a BadSampleError for byte 52 of /corpus-1.bin with %q", c.id, err, c.words)
			}
			must(t, l.Close())
		}
		must(t, k.rewrite(t, 1, data))
	}
}

// rewrite replaces the content of a .bin and keeps its identity in the manifest true.
func (k *tokenKit) rewrite(t *testing.T, bin int, data []byte) error {
	must(t, os.WriteFile(filepath.Join(k.root, fmt.Sprintf("corpus-%d.bin", bin)), data, 0o644))
	manifest := filepath.Join(k.root, "data", binfmt.ManifestName)
	text, err := os.ReadFile(manifest)
	must(t, err)
	m, err := binfmt.ParseManifest(manifest, text)
	must(t, err)
	info, err := k.store.Stat(t.Context(), fmt.Sprintf("/corpus-%d.bin", bin))
	must(t, err)
	m.Bins[bin].Foreign.Identity, m.Bins[bin].Bytes = string(info.Identity), info.Size
	return os.WriteFile(manifest, m.Canonical(), 0o644)
}

// What cannot work is said when the loader opens.
func TestTokenOptionsThatCannotWork(t *testing.T) {
	k := newTokenKit(t, "uint16", []int64{30, 10})
	floats := newTokenKit(t, "float32", []int64{30, 10})
	pictures := newKit(t, 4, 4, nil)
	for name, c := range map[string]struct {
		o     Options
		is    error
		words string
	}{
		"too long":      {k.options(TokenOptions{SequenceLength: 40}, 1), ErrOptions, "40 tokens in all"},
		"large batch":   {k.options(TokenOptions{SequenceLength: 10}, 4), ErrOptions, "fewer samples than one global batch"},
		"no length":     {k.options(TokenOptions{}, 1), tokens.ErrOptions, "sequence_length"},
		"packing":       {k.options(TokenOptions{SequenceLength: 4, Packing: "worst-fit"}, 1), tokens.ErrOptions, "packing"},
		"vocabulary":    {k.options(TokenOptions{SequenceLength: 4, VocabSize: -1}, 1), nil, "vocab_size"},
		"floats":        {floats.options(TokenOptions{SequenceLength: 4}, 1), ErrOptions, "float32"},
		"boundaries":    {k.options(TokenOptions{SequenceLength: 1 << 20, Packing: tokens.BestFit}, 2048), ErrOptions, "cu_seqlens"},
		"no tokens":     {Options{Store: pictures.store, Dir: "/data", GlobalBatch: 1, Tokens: &TokenOptions{SequenceLength: 4}}, ErrOptions, "no tokens"},
		"raw fields":    {Options{Store: k.options(TokenOptions{}, 1).Store, Dir: k.options(TokenOptions{}, 1).Dir, GlobalBatch: 1}, ErrOptions, "tokens="},
		"unknown field": {with1Field(k.options(TokenOptions{SequenceLength: 4}, 1), "image"), ErrOptions, "image"},
		"packs only":    {with1Field(k.options(TokenOptions{SequenceLength: 4}, 1), "cu_seqlens"), ErrOptions, "cu_seqlens"},
	} {
		l, err := Open(t.Context(), c.o)
		if err == nil {
			must(t, l.Close())
		}
		if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v, want %v and %q", name, err, c.is, c.words)
		}
	}
}

func with1Field(o Options, name string) Options {
	o.Fields = []string{name}
	return o
}

// A file of text and images gives no batches of tokens: its images are not tokens.
func TestTokensOfMultimodalFiles(t *testing.T) {
	k := newTokenKit(t, "int32", []int64{30, 10})
	manifest := filepath.Join(k.root, "data", binfmt.ManifestName)
	index := append(encodeIndex("int32", []int64{30, 10}), 0, 1)
	must(t, os.WriteFile(filepath.Join(k.root, "corpus-0.idx"), index, 0o644))
	text, err := os.ReadFile(manifest)
	must(t, err)
	m, err := binfmt.ParseManifest(manifest, text)
	must(t, err)
	sum := sha256.Sum256(index)
	m.Bins[0].IndexSHA256 = hex.EncodeToString(sum[:])
	m.Fields = append(m.Fields, binfmt.Field{Name: binfmt.ModeField, Kind: binfmt.Int64})
	must(t, os.WriteFile(manifest, m.Canonical(), 0o644))
	l, err := Open(t.Context(), k.options(TokenOptions{SequenceLength: 4}, 2))
	if err == nil {
		must(t, l.Close())
	}
	if !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), "images") {
		t.Errorf("got %v, want ErrOptions and why", err)
	}
}

// A file that is shorter than its index says is refused at the first read, not filled up.
func TestCutTokenFile(t *testing.T) {
	k := newTokenKit(t, "uint16", []int64{30, 10})
	path := filepath.Join(k.root, "corpus-0.bin")
	must(t, os.Truncate(path, 70))
	l, err := Open(t.Context(), k.options(TokenOptions{SequenceLength: 4}, 2))
	if err == nil {
		_, err = l.Next(t.Context())
		must(t, l.Close())
	}
	if !errors.Is(err, binfmt.ErrMismatch) {
		t.Errorf("got %v, want ErrMismatch", err)
	}
}

// widen agrees with the simplest conversion, and memory is little-endian.
func TestWiden(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Fatal("batches are little-endian; this processor is not: widenAs needs a second way")
	}
	rapid.Check(t, func(t *rapid.T) {
		dtype := rapid.SampledFrom([]string{"uint8", "int8", "uint16", "int16", "int32", "int64"}).Draw(t, "dtype")
		size := int(binfmt.TokenSize(dtype))
		src := rapid.SliceOfN(rapid.Byte(), 0, 600).Draw(t, "bytes")
		n := len(src) / size
		dst := make([]byte, 8*n)
		if rapid.Bool().Draw(t, "past the caches") { // at every alignment
			room := make([]byte, 8*n+64)
			dst = room[8*rapid.IntRange(0, 7).Draw(t, "from"):][:8*n]
		}
		done, largest := widenPast(dtype, dst, src)
		largest = max(largest, widen(dtype, dst[8*done:], src[size*done:]))
		var want uint64
		for i := range n {
			var wide [8]byte
			copy(wide[:], src[i*size:(i+1)*size])
			if dtype[0] == 'i' && src[(i+1)*size-1] >= 128 {
				for j := size; j < 8; j++ {
					wide[j] = 0xff
				}
			}
			if got := dst[8*i : 8*i+8]; string(got) != string(wide[:]) {
				t.Fatalf("%s: element %d is % x, want % x", dtype, i, got, wide)
			}
			want = max(want, binary.LittleEndian.Uint64(wide[:]))
		}
		if largest != want {
			t.Fatalf("largest is %d, want %d", largest, want)
		}
	})
}

// Agents have no part in tokens: those that are named, and not even there, change nothing.
func TestTokensWithAgents(t *testing.T) {
	k := newTokenKit(t, "uint16", []int64{30, 10, 50})
	o := k.options(TokenOptions{SequenceLength: 4}, 2)
	want := runTokens(t, k, o, []tokenSegment{{1, 2, 9}})
	o.Agents, o.URL, o.Job, o.Run = []string{"dn1=127.0.0.1:1"}, "dir:///data", "job", "1"
	if got := runTokens(t, k, o, []tokenSegment{{2, 2, 9}}); !maps.Equal(got, want) {
		t.Error("with agents the run has other tokens")
	}
}

// TestCopyPast copies rows of all short lengths and alignments, and touches nothing around them.
func TestCopyPast(t *testing.T) {
	src := make([]byte, 1024)
	for i := range src {
		src[i] = byte(i*7 + 1)
	}
	for from := range 65 {
		for n := range 300 {
			dst := bytes.Repeat([]byte{0xAA}, 512)
			copyPast(dst[from:from+n], src[3*from:3*from+n])
			want := bytes.Repeat([]byte{0xAA}, 512)
			copy(want[from:], src[3*from:3*from+n])
			if !bytes.Equal(dst, want) {
				t.Fatalf("%d bytes to offset %d are wrong", n, from)
			}
		}
	}
}

// fading is a context that ends after so many looks at it.
type fading struct {
	context.Context
	looks int
}

func (f *fading) Err() error {
	if f.looks--; f.looks < 0 {
		return context.Canceled
	}
	return nil
}

// Planning the samples of many documents, and the order of another epoch's, end with their context. That is not said to be a mistake in the
// options.
func TestTokensCancelledPlanning(t *testing.T) {
	k := newTokenKit(t, "uint8", slices.Repeat([]int64{1, 3}, 1<<16)) // two stretches of documents between looks
	looks := map[string]int{}
	for _, packing := range []string{tokens.Windows, tokens.Chunk, tokens.BestFit} {
		o := k.options(TokenOptions{SequenceLength: 4, Packing: packing}, 64)
		var l *Loader
		for l == nil {
			var err error
			if l, err = Open(&fading{t.Context(), looks[packing]}, o); err == nil {
				break
			}
			if !errors.Is(err, context.Canceled) || errors.Is(err, ErrOptions) {
				t.Fatalf("%s, after %d looks: %v", packing, looks[packing], err)
			}
			looks[packing]++
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _, err := l.tokens.locate(ctx, sampler.SampleRef{Epoch: 3}, nil)
		if chunk := packing == tokens.Chunk; errors.Is(err, context.Canceled) != chunk || !chunk && err != nil {
			t.Errorf("%s: the first sample of another epoch with a context that has ended: %v", packing, err)
		}
		must(t, l.Close())
	}
	if w := looks[tokens.Windows]; looks[tokens.Chunk] < w+2 || looks[tokens.BestFit] < w+8 {
		t.Errorf("Open looked so often at its context: %v; want 2 more for chunks than for windows, 8 more for best fit", looks)
	}
}

// What is about pictures says nothing beside tokens, and is refused.
func TestTokensRefuseWhatIsAboutPictures(t *testing.T) {
	k := newTokenKit(t, "uint8", []int64{30})
	for want, change := range map[string]func(*Options){
		"transform: ":           func(o *Options) { o.Plans = map[string]*transform.Plan{"": cropPlan(t)} },
		"layout: contiguous: ":  func(o *Options) { o.Layout = Contiguous },
		"workers: 2: ":          func(o *Options) { o.Workers = 2 },
		"worker: /w: ":          func(o *Options) { o.WorkerPath = "/w" },
		"on_bad: substitute: ":  func(o *Options) { o.OnBad = sampler.OnBadSubstitute },
		"on_bad: \"otherwise\"": func(o *Options) { o.OnBad = "otherwise" },
	} {
		o := k.options(TokenOptions{SequenceLength: 4}, 2)
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	o := k.options(TokenOptions{SequenceLength: 4}, 2)
	o.OnBad = sampler.OnBadRaise // which is what happens
	must(t, mustOpen(t, o).Close())
}
