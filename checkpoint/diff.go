package checkpoint

import (
	"bytes"
	"context"
	"fmt"
	"slices"
)

// Difference is one thing in which two checkpoints differ.
type Difference struct {
	// Kind is "only-first", "only-second", "dtype", "shape" or "bytes".
	Kind string `json:"kind"`
	// Tensor, Blob or File names what differs.
	Tensor string `json:"tensor,omitempty"`
	Blob   string `json:"blob,omitempty"`
	File   string `json:"file,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// String is one line.
func (d Difference) String() string {
	what, name := "tensor", d.Tensor
	switch {
	case d.Blob != "":
		what, name = "value", d.Blob
	case d.File != "":
		what, name = "file", d.File
	}
	text := fmt.Sprintf("%s: %s %q", d.Kind, what, name)
	if d.Detail != "" {
		text += ": " + d.Detail
	}
	return text
}

// DiffOptions say how to compare. The zero value compares everything.
type DiffOptions struct {
	// Metadata compares names, dtypes and shapes alone.
	Metadata bool
	// Progress, if not nil, is called with the bytes read so far, of those of both; one call at a time. Of tensors only elements are read.
	Progress func(done int64)
}

// after returns Progress of one checkpoint after so many bytes of another.
func (o DiffOptions) after(before int64) func(done int64) {
	if o.Progress == nil {
		return nil
	}
	return func(done int64) { o.Progress(before + done) }
}

// add returns what tells Progress of n more bytes.
func (o DiffOptions) add() func(n int) {
	done := int64(0)
	return func(n int) {
		if done += int64(n); o.Progress != nil {
			o.Progress(done)
		}
	}
}

// Diff compares two checkpoints, whatever layouts they have, and calls show with each difference, in the order of names; an error of show
// ends it. Tensors are compared whole, two at a time in memory. Where the tensors of one are torch's to load, files are compared.
func Diff(ctx context.Context, a, b *Checkpoint, o DiffOptions, show func(Difference) error) error {
	if a.Tensors == nil || b.Tensors == nil {
		return diffFiles(ctx, a, b, o, show)
	}
	read := o.add()
	names := func(c *Checkpoint) []string {
		var all []string
		for _, t := range c.Tensors {
			all = append(all, t.Name)
		}
		return all
	}
	err := inBoth(names(a), names(b), func(name, kind string) error {
		if kind != "" {
			return show(Difference{Kind: kind, Tensor: name})
		}
		first, _ := a.Lookup(name)
		second, _ := b.Lookup(name)
		return diffTensor(ctx, a, b, first, second, o, read, show)
	})
	if err != nil {
		return err
	}
	return diffBlobs(ctx, a, b, o, read, show)
}

// inBoth goes through two sorted lists of names. kind is "" of a name that both have.
func inBoth(a, b []string, each func(name, kind string) error) error {
	for len(a) > 0 || len(b) > 0 {
		var err error
		switch {
		case len(b) == 0 || len(a) > 0 && a[0] < b[0]:
			err = each(a[0], "only-first")
			a = a[1:]
		case len(a) == 0 || b[0] < a[0]:
			err = each(b[0], "only-second")
			b = b[1:]
		default:
			err = each(a[0], "")
			a, b = a[1:], b[1:]
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func diffTensor(ctx context.Context, a, b *Checkpoint, first, second *Tensor, o DiffOptions, read func(int), show func(Difference) error) error {
	switch {
	case !SameDtype(first.Dtype, second.Dtype):
		return show(Difference{Kind: "dtype", Tensor: first.Name, Detail: first.Dtype + " and " + second.Dtype})
	case !slices.Equal(first.Shape, second.Shape):
		return show(Difference{Kind: "shape", Tensor: first.Name, Detail: fmt.Sprintf("%v and %v", first.Shape, second.Shape)})
	case o.Metadata:
		return nil
	}
	x, err := a.Load(ctx, first)
	if err != nil {
		return err
	}
	y, err := b.Load(ctx, second)
	if err != nil {
		return err
	}
	read(len(x) + len(y))
	if at := differAt(x, y); at >= 0 {
		return show(Difference{Kind: "bytes", Tensor: first.Name, Detail: fmt.Sprintf("the first at byte %d of %d", at, len(x))})
	}
	return nil
}

// differAt is the first byte in which two texts differ; -1 if they are equal.
func differAt(x, y []byte) int {
	if bytes.Equal(x, y) {
		return -1
	}
	n := min(len(x), len(y))
	for i := range n {
		if x[i] != y[i] {
			return i
		}
	}
	return n
}

func diffBlobs(ctx context.Context, a, b *Checkpoint, o DiffOptions, read func(int), show func(Difference) error) error {
	byName := func(c *Checkpoint) (map[string]*Blob, []string) {
		all, names := map[string]*Blob{}, []string(nil)
		for i := range c.Blobs {
			all[c.Blobs[i].Name] = &c.Blobs[i]
			names = append(names, c.Blobs[i].Name)
		}
		return all, names
	}
	inA, namesA := byName(a)
	inB, namesB := byName(b)
	return inBoth(namesA, namesB, func(name, kind string) error {
		if kind != "" {
			return show(Difference{Kind: kind, Blob: name})
		}
		if o.Metadata {
			return nil
		}
		x, err := a.LoadBlob(ctx, inA[name])
		if err != nil {
			return err
		}
		y, err := b.LoadBlob(ctx, inB[name])
		if err != nil {
			return err
		}
		read(len(x) + len(y))
		if at := differAt(x, y); at >= 0 {
			return show(Difference{Kind: "bytes", Blob: name, Detail: fmt.Sprintf("the first at byte %d", at)})
		}
		return nil
	})
}

// diffFiles compares files by name, length and CRC32C.
func diffFiles(ctx context.Context, a, b *Checkpoint, o DiffOptions, show func(Difference) error) error {
	var sums [2]map[string]FileDigest
	var names [2][]string
	before := int64(0)
	for i, c := range []*Checkpoint{a, b} {
		sums[i] = map[string]FileDigest{}
		d := c.DigestOf(make([]uint32, len(c.Files)))
		if !o.Metadata {
			var err error
			if d, err = c.Digest(ctx, ReadOptions{Progress: o.after(before)}); err != nil {
				return err
			}
			before += c.Bytes()
		}
		for _, f := range d.Files {
			sums[i][f.Name] = f
			names[i] = append(names[i], f.Name)
		}
	}
	return inBoth(names[0], names[1], func(name, kind string) error {
		x, y := sums[0][name], sums[1][name]
		switch {
		case kind != "":
			return show(Difference{Kind: kind, File: name})
		case x.Size != y.Size:
			return show(Difference{Kind: "bytes", File: name, Detail: fmt.Sprintf("%d bytes and %d", x.Size, y.Size)})
		case x.CRC32C != y.CRC32C:
			return show(Difference{Kind: "bytes", File: name, Detail: fmt.Sprintf("CRC32C %08x and %08x", x.CRC32C, y.CRC32C)})
		}
		return nil
	})
}
