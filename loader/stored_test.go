package loader

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/sampler"
	"github.com/stepahead-io/stepahead/transform"
)

// checkNotes holds the notes of a batch against those of its samples.
func (k *kit) checkNotes(t testing.TB, b *Batch) {
	t.Helper()
	note := field0(b, "note")
	if note.Dtype != "bytes" || fmt.Sprint(note.Shape, note.Strides) != fmt.Sprintf("[%d] [1]", len(b.Samples)) || note.Addr()%fieldAlign != 0 {
		t.Fatalf("note: %s %v %v at %#x", note.Dtype, note.Shape, note.Strides, note.Addr())
	}
	if n := len(note.Offsets); n != len(b.Samples)+1 || note.Offsets[0] != 0 || note.Offsets[n-1] != int64(len(note.Bytes)) {
		t.Fatalf("offsets %v of %d bytes", note.Offsets, len(note.Bytes))
	}
	for i, ref := range b.Samples {
		if got, want := note.Stored(i), k.notes[ref.Sample]; !bytes.Equal(got, want) || cap(got) != len(want) {
			t.Fatalf("note of %d: %q, want %q", ref.Sample, got, want)
		}
	}
}

// A field without a plan is delivered as it is stored, beside pictures that are what they are without it.
func TestStoredParts(t *testing.T) {
	k := newKit(t, 50, 13, nil)
	plain := contents(t, mustOpen(t, k.options(t)), 8)
	k.note(t)
	o := k.options(t)
	o.Fields = slices.DeleteFunc(o.Fields, func(name string) bool { return name == "note" })
	if contents(t, mustOpen(t, o), 8) != plain {
		t.Error("a field that is left out changes the others")
	}
	l := mustOpen(t, k.options(t))
	for step := range int64(6) {
		b, err := l.Next(t.Context())
		must(t, err)
		checkBatch(t, k, l, b, step)
		k.checkNotes(t, b)
		if names := fieldsOf(b); names != "image note label weight good caption " {
			t.Fatalf("fields: %s", names)
		}
		b.Release()
	}
	if s := l.Stats(); s.Local != 48 || s.StoreReads < 2*48 {
		t.Errorf("%d parts made here, %d read", s.Local, s.StoreReads)
	}
}

func fieldsOf(b *Batch) (names string) {
	for _, f := range b.Fields {
		names += f.Name + " "
	}
	return names
}

// Where nothing has a plan, no worker is needed, and large parts come too: pictures as they are stored, say.
func TestStoredPartsAlone(t *testing.T) {
	k := newKit(t, 40, 13, nil)
	k.note(t)
	for _, want := range []string{"note ", "image ", "image note ", "note label "} {
		o := k.options(t)
		o.Fields, o.Plans, o.Runner, o.WorkerPath = strings.Fields(want), nil, nil, "/nonexistent"
		l := mustOpen(t, o)
		l.maxPart = 10 // of parts for workers
		for range 5 {
			b, err := l.Next(t.Context())
			must(t, err)
			if fieldsOf(b) != want {
				t.Fatalf("fields %s, want %s", fieldsOf(b), want)
			}
			if image := field0(b, "image"); image != nil {
				for i, ref := range b.Samples {
					if !bytes.Equal(image.Stored(i), k.parts[ref.Sample]) {
						t.Fatalf("image of sample %d differs", ref.Sample)
					}
				}
			}
			if field0(b, "note") != nil {
				k.checkNotes(t, b)
			}
			b.Release()
		}
		if s := l.Stats(); s.Local != 0 || s.StoreReads == 0 || s.WorkerCPU != 0 {
			t.Errorf("%s: %d parts made here, %d read, %v s of workers", want, s.Local, s.StoreReads, s.WorkerCPU)
		}
		must(t, l.Close())
		nothingHeld(t, l)
	}
}

// Wrong bytes of a stored part are a bad sample, whose substitute has parts of other lengths; what is right already is
// kept.
func TestStoredPartsOfBadSamples(t *testing.T) {
	k := notedKit(t)
	o := k.options(t)
	l := mustOpen(t, o)
	var got [][]uint64
	for range 6 {
		b, err := l.Next(t.Context())
		must(t, err)
		k.checkNotes(t, b)
		got = append(got, idsOf(b))
		b.Release()
	}
	equal(t, "epoch with substitutes", got, wantIDs(l, 5, 9, 20))
	s := l.Stats()
	if s.Substituted != 3 || s.CRCFailures == 0 {
		t.Errorf("%d substituted, %d CRC failures", s.Substituted, s.CRCFailures)
	}
	must(t, l.Close())
	nothingHeld(t, l)

	o = k.options(t)
	o.OnBad, o.Shuffle, o.GlobalBatch, o.Fields, o.Plans = sampler.OnBadRaise, sampler.ShuffleNone, 24, []string{"note"}, nil
	_, err := mustOpen(t, o).Next(t.Context())
	var bad *BadSampleError
	if !errors.As(err, &bad) || bad.Sample != 20 || bad.Field != "note" || bad.Kind != KindChecksum || bad.Offset != k.noteOffs[20] {
		t.Errorf("%v, want the note of sample 20", err)
	}

	one := newKit(t, 24, 24, nil)
	one.note(t)
	one.flip(t, 20, one.noteOffs[20])
	o = one.options(t)
	pool := o.Runner.(*fakePool)
	o.GlobalBatch, o.Prefetch, o.Epochs = 24, 1, 1
	epoch(t, mustOpen(t, o))
	if runs := pool.runs.Load(); runs != 24+1 {
		t.Errorf("%d pictures were decoded for 24 and a substitute", runs)
	}
}

// What a step may take is checked before its memory is.
func TestStoredPartsHaveALimit(t *testing.T) {
	k := newKit(t, 32, 32, nil)
	k.note(t)
	o := k.options(t)
	o.Fields, o.Plans, o.Shuffle, o.Prefetch = []string{"note"}, nil, sampler.ShuffleNone, 1
	var first, second int64
	for i := range 8 {
		first, second = first+int64(len(k.notes[i])), second+int64(len(k.notes[8+i]))
	}
	if first >= second {
		t.Fatalf("the first step has %d bytes, the second %d", first, second)
	}
	l := mustOpen(t, o)
	l.maxStored = first
	b, err := l.Next(t.Context())
	must(t, err)
	b.Release()
	before := l.Stats()
	_, err = l.Next(t.Context())
	for _, want := range []string{"step 1: ", fmt.Sprintf("more than the %d bytes", first), `sample 8, field "note" takes 296`, "lower the batch size"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	if after := l.Stats(); after.MappedBytes != before.MappedBytes || after.StoreBytes != before.StoreBytes {
		t.Errorf("%d bytes mapped, %d before", after.MappedBytes, before.MappedBytes)
	}
}

// The memory of stored parts may be given back before that of the others.
func TestReleaseStored(t *testing.T) {
	k := newKit(t, 16, 16, nil)
	k.note(t)
	o := k.options(t)
	o.GlobalBatch, o.Epochs = 16, 1
	l := mustOpen(t, o)
	b, err := l.Next(t.Context())
	must(t, err)
	for i, want := range []int{2, 1, 1, 0, 0} {
		if got := l.Stats().Mappings; got != want {
			t.Fatalf("%d pieces of memory are in use, want %d", got, want)
		}
		if i < 2 {
			b.ReleaseStored()
		} else {
			b.Release()
		}
	}
}

// Agents prepare pictures and know nothing of what is delivered as it is stored; without pictures they are not asked.
func TestStoredPartsBesideAgents(t *testing.T) {
	k := newKit(t, 48, 17, nil)
	k.note(t)
	c := newCluster(t, k, kitNodes...)
	o := c.options(t)
	o.CanaryEvery = 1 << 60 // never
	l := mustOpen(t, o)
	c.warm(t, l)
	for step := range int64(6) {
		b, err := l.Next(t.Context())
		must(t, err)
		checkBatch(t, k, l, b, step)
		k.checkNotes(t, b)
		b.Release()
	}
	if s := l.Stats(); s.Prepared != 48 || s.PreparedShare != 1 || s.Local+s.Raw != 0 || s.StoreReads < 48 || s.StoreReads > int64(48+8*l.o.Prefetch) {
		t.Errorf("prepared %d (share %.2f), raw %d, local %d, %d read: %v", s.Prepared, s.PreparedShare, s.Raw, s.Local, s.StoreReads, s.ByReason)
	}
	o = c.options(t)
	o.Fields, o.Plans = []string{"note"}, nil
	l = mustOpen(t, o)
	epoch(t, l)
	if s := l.Stats(); s.Prepared+s.Raw+s.Local != 0 || len(s.ByReason) != 0 || len(s.Hints) != 0 {
		t.Errorf("agents of a run without pictures: %+v", s)
	}
}

// Which fields come as they are stored is said, never guessed.
func TestStoredPartsAreNamed(t *testing.T) {
	k := newKit(t, 40, 40, nil)
	k.note(t)
	other := k.beside(t, "other", 12, 1)
	other.note(t)
	for _, c := range []struct {
		change func(*Options)
		want   string
	}{
		{func(o *Options) { o.Fields = nil }, `media field "note" has no plan: give it one with transform=, or leave it out with fields=; one that fields= names comes as it is stored`},
		{func(o *Options) { o.Plans = map[string]*transform.Plan{"": cropPlan(t)} }, "one plan for the media fields [image note]: give a plan for each"},
		{func(o *Options) { o.Fields = []string{"image", "notes"} }, `fields: "notes": the dataset "data" has [image (media) note (media) label (int64)`},
		{func(*Options) { asText(t, other, "note") }, `field "note" is media in the dataset "data", and utf8 in the dataset "other": index or pack the one in which it is no media again, with --media note`},
	} {
		o := k.options(t)
		c.change(&o)
		l, err := Open(t.Context(), o)
		if err == nil {
			must(t, l.Close())
		}
		if !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q in it", err, c.want)
		}
	}
}

// asText has a dataset's manifest say that a media field is one of text.
func asText(t testing.TB, k *kit, field string) {
	t.Helper()
	name := filepath.Join(k.root, k.folder, binfmt.ManifestName)
	data, err := os.ReadFile(name)
	must(t, err)
	m, err := binfmt.ParseManifest(name, data)
	must(t, err)
	for i := range m.Fields {
		if m.Fields[i].Name == field {
			m.Fields[i].Kind = binfmt.UTF8
		}
	}
	must(t, os.WriteFile(name, m.Canonical(), 0o644))
}

// Sequences of tokens come as they are stored too, empty ones among them.
func TestStoredTokens(t *testing.T) {
	k := newTokenKit(t, "uint16", []int64{30, 0, 7}, []int64{55, 12, 1})
	o := Options{Store: k.store, Dir: "/data", GlobalBatch: 3, Seed: 1, Fields: []string{binfmt.TokensField}}
	l := mustOpen(t, o)
	for range 4 { // two epochs
		b, err := l.Next(t.Context())
		if errors.Is(err, io.EOF) {
			b, err = l.Next(t.Context())
		}
		must(t, err)
		for i, ref := range b.Samples {
			if got, want := b.Fields[0].Stored(i), encodeTokens("uint16", k.sequences[ref.Sample]); !bytes.Equal(got, want) {
				t.Errorf("sequence %d: %x, want %x", ref.Sample, got, want)
			}
		}
		b.Release()
	}
}
