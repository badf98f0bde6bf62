package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/checkpoint/ranges"
	"github.com/stepahead-io/stepahead/store"
)

// allBoxes are boxes of all chunks of a checkpoint, whole or as shape draws them.
func allBoxes(c *Checkpoint, part func(size int64) (at, n int64)) []Box {
	var boxes []Box
	for _, t := range c.Tensors {
		bits, _ := ElementBits(t.Dtype)
		for _, ch := range t.Chunks {
			b := Box{Name: t.Name, Dtype: t.Dtype, Chunk: ch}
			n := bits / 8
			for _, size := range ch.Sizes {
				at, length := part(size)
				b.At, b.Shape = append(b.At, at), append(b.Shape, length)
				n *= length
			}
			b.Dst = make([]byte, n)
			boxes = append(boxes, b)
		}
	}
	return boxes
}

func whole(size int64) (at, n int64) { return 0, size }

// boxOf is a box's part of a whole tensor.
func boxOf(whole []byte, t *Tensor, b *Box) []byte {
	bits, _ := ElementBits(t.Dtype)
	at, data := make([]int64, len(b.At)), []byte{}
	for d := range at {
		at[d] = b.Offsets[d] + b.At[d]
	}
	eachIndex(b.Shape, func(index []int64) {
		off := int64(0)
		for d, stride := range cOrder(t.Shape) {
			off += (at[d] + index[d]) * stride * bits / 8
		}
		data = append(data, whole[off:off+bits/8]...)
	})
	return data
}

// everyWay are limits under which items are read in each of the ways there are.
var everyWay = map[string]boxLimits{
	"as usual":         usualLimits,
	"heads, long runs": {whole: 0, small: 0, window: 1000, run: 0},
	"heads, stretches": {whole: 100, small: 0, window: 1000, run: 1 << 40},
	"small windows":    {whole: 1 << 40, small: 1 << 40, window: 1, run: 8},
}

// TestBoxes compares any parts of tensors with the whole tensors.
func TestBoxes(t *testing.T) {
	f := newFolder(t)
	var all []*Checkpoint
	for _, save := range []string{"plain", "threads", "ranks"} {
		f.writeAll(save, torchSave(t, save))
		all = append(all, f.open("/"+save, Options{}))
	}
	f.writeAll("set", set())
	all = append(all, f.open("/set", Options{}))
	for _, c := range all {
		loaded := map[string][]byte{}
		for i := range c.Tensors {
			data, err := c.Load(t.Context(), &c.Tensors[i])
			must(t, err)
			loaded[c.Tensors[i].Name] = data
		}
		for way, limits := range everyWay {
			rapid.Check(t, func(r *rapid.T) {
				boxes := allBoxes(c, func(size int64) (at, n int64) {
					if size == 0 || rapid.Bool().Draw(r, "whole") {
						return whole(size)
					}
					at = rapid.Int64Range(0, size-1).Draw(r, "at")
					return at, rapid.Int64Range(0, size-at).Draw(r, "n")
				})
				torch, err := c.readBoxes(t.Context(), boxes, nil, limits)
				if err != nil || len(torch) != 0 {
					r.Fatalf("%s, %s: %v, %v", c.Path, way, torch, err)
				}
				for _, b := range boxes {
					tensor, _ := c.Lookup(b.Name)
					if !bytes.Equal(b.Dst, boxOf(loaded[b.Name], tensor, &b)) {
						r.Fatalf("%s, %s: %q at %v of %v has other bytes", c.Path, way, b.Name, b.At, b.Shape)
					}
				}
			})
		}
	}
}

// TestBoxesFindDamage: one byte of a tensor that is not as torch wrote it is an error that names file and tensor, however it is read.
func TestBoxesFindDamage(t *testing.T) {
	f := newFolder(t)
	for way, limits := range everyWay {
		files := torchSave(t, "plain")
		f.writeAll("a", files)
		clean := f.open("/a", Options{})
		victim := &clean.Tensors[0]
		for i := range clean.Tensors {
			if n, _ := clean.Tensors[i].Bytes(); n > 16 && len(clean.Tensors[i].Chunks) == 1 {
				victim = &clean.Tensors[i]
			}
		}
		data, err := clean.Load(t.Context(), victim)
		must(t, err)
		name := clean.Files[victim.Chunks[0].File].Name
		at := bytes.Index(files[name][victim.Chunks[0].Off:], data)
		files[name][int(victim.Chunks[0].Off)+at] ^= 4
		f.writeAll("a", files)
		c := f.open("/a", Options{})
		_, err = c.readBoxes(t.Context(), allBoxes(c, whole), nil, limits)
		if way == "heads, stretches" {
			continue // read as part of a longer stretch, without its sum
		}
		if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), victim.Name) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want %s and %q named", way, err, name, victim.Name)
		}
	}
}

// TestBoxesOfAnotherSave: a file of a save with other shapes is refused, and both shapes are named.
func TestBoxesOfAnotherSave(t *testing.T) {
	f := newFolder(t)
	f.writeAll("a", torchSave(t, "plain"))
	c := f.open("/a", Options{})
	for way, limits := range everyWay {
		boxes := allBoxes(c, whole)
		for i := range boxes {
			b := &boxes[i]
			b.Sizes, b.Shape = slices.Clone(b.Sizes), slices.Clone(b.Shape)
			slices.Reverse(b.Sizes)
			slices.Reverse(b.Shape)
		}
		_, err := c.readBoxes(t.Context(), boxes, nil, limits)
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "the metadata says") {
			t.Errorf("%s: %v", way, err)
		}
	}
}

// TestBoxesRefused: what a chunk or the memory does not hold is not read.
func TestBoxesRefused(t *testing.T) {
	f := newFolder(t)
	f.writeAll("a", torchSave(t, "plain"))
	c := f.open("/a", Options{})
	for what, spoil := range map[string]func(b *Box){
		"memory":    func(b *Box) { b.Dst = append(b.Dst, 0) },
		"dtype":     func(b *Box) { b.Dtype = "float13" },
		"rank":      func(b *Box) { b.At = append(b.At, 0) },
		"file":      func(b *Box) { b.File = -1 },
		"no file":   func(b *Box) { b.File = len(c.Files) },
		"behind":    func(b *Box) { b.Off = c.Files[b.File].Size },
		"long item": func(b *Box) { b.Len++; b.Off = c.Files[b.File].Size - b.Len + 1 },
	} {
		boxes := allBoxes(c, whole)
		spoil(&boxes[len(boxes)/2])
		if _, err := c.ReadBoxes(t.Context(), boxes, nil); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.ReadBoxes(ctx, allBoxes(c, whole), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestBoxesArePinned: files that were replaced or removed since the checkpoint was opened are an error.
func TestBoxesArePinned(t *testing.T) {
	f := newFolder(t)
	files := torchSave(t, "ranks")
	f.writeAll("a", files)
	c := f.open("/a", Options{})
	f.remove("a/__1_0.distcp")
	_, err := c.ReadBoxes(t.Context(), allBoxes(c, whole), nil)
	if !errors.Is(err, store.ErrIdentity) || !strings.Contains(err.Error(), "__1_0.distcp") {
		t.Errorf("removed: %v", err)
	}
	f.write("a/__1_0.distcp", files["__1_0.distcp"])
	wants := []ranges.Want{{File: c.file("__1_0.distcp"), Dst: make([]byte, 8)}}
	if err := c.ReadFiles(t.Context(), wants, nil); !errors.Is(err, store.ErrIdentity) {
		t.Errorf("replaced: %v", err)
	}
}

// TestReadFiles reads ranges of files in any order.
func TestReadFiles(t *testing.T) {
	f := newFolder(t)
	files := torchSave(t, "ranks")
	f.writeAll("a", files)
	c := f.open("/a", Options{})
	var wants []ranges.Want
	for i := len(c.Files) - 1; i >= 0; i-- {
		wants = append(wants, ranges.Want{File: i, Off: 3, Dst: make([]byte, c.Files[i].Size-3)})
	}
	must(t, c.ReadFiles(t.Context(), wants, nil))
	for _, w := range wants {
		if name := c.Files[w.File].Name; !bytes.Equal(w.Dst, files[name][3:]) {
			t.Errorf("%s has other bytes", name)
		}
	}
	if err := c.ReadFiles(t.Context(), []ranges.Want{{File: len(c.Files)}}, nil); !errors.Is(err, store.ErrRange) {
		t.Errorf("a file that there is not: %v", err)
	}
}
