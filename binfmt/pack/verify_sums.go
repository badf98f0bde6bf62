package pack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/draft"
	"github.com/stepahead-io/stepahead/store"
)

// sumsDir is the folder inside a dataset's while sums are added to it.
const sumsDir = ".stepahead-sums"

// newSums collects the sums of parts, bin by bin, in a file of this machine: they are published when all are there.
type newSums struct {
	*binfmt.Sums
	tmp *os.File
}

// openSums opens the sums that were added to the dataset, if there are any. Damaged ones are a finding, unless they are to be made anew.
func (v *verifier) openSums(ctx context.Context) error {
	name := path.Join(v.dir, binfmt.SumsName)
	f, err := store.OpenPieces(ctx, v.st, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	v.old, err = binfmt.OpenSums(ctx, v.m, v.st.Address(name), f)
	if err == nil {
		return nil
	}
	if !badSums(err) {
		return errors.Join(err, f.Close())
	}
	if !v.add {
		v.report(Finding{Kind: FoundSums, File: name, Sample: -1, Offset: -1, Got: err.Error()})
		v.checked.Findings++
	}
	return f.Close()
}

// badSums tells sums that are of no use from those that cannot be read now.
func badSums(err error) bool {
	return errors.Is(err, binfmt.ErrIndex) || errors.Is(err, binfmt.ErrMismatch) || errors.Is(err, binfmt.ErrVersion)
}

// withSums gives the index of a bin the sums that were added to it, if there are any.
func (c *binCheck) withSums(ctx context.Context, x binfmt.BinIndex) (binfmt.BinIndex, error) {
	if c.v.old == nil || c.bin.Foreign == nil {
		return x, nil
	}
	with, err := c.v.old.WithSums(ctx, x, c.place)
	switch {
	case err == nil:
		return with, nil
	case badSums(err):
		if !c.v.add {
			c.file(FoundSums, path.Join(c.v.dir, binfmt.SumsName), "", err.Error())
		}
		return x, nil
	}
	return nil, errors.Join(err, x.Close())
}

// collect prepares for the sums of a bin, if they are to be added.
func (c *binCheck) collect() {
	if c.v.sums != nil {
		_, n := c.v.sums.Range(c.place)
		c.newSums = make([]byte, n)
	}
}

// keep puts the sums of a bin, whose parts were all read, aside.
func (c *binCheck) keep() error {
	if c.newSums == nil {
		return nil
	}
	off, _ := c.v.sums.Range(c.place)
	c.v.sums.Seal(c.newSums)
	_, err := c.v.sums.tmp.WriteAt(c.newSums, off)
	c.newSums = nil
	return err
}

// collectIn makes the verifier collect sums in a file below a folder of this machine.
func (v *verifier) collectIn(tmp string) (done func(), err error) {
	if !v.add {
		return func() {}, nil
	}
	f, err := os.CreateTemp(tmp, "sums-")
	if err != nil {
		return nil, err
	}
	v.sums = &newSums{Sums: binfmt.NewSums(v.m), tmp: f}
	_, err = f.WriteAt(v.sums.Header(), 0)
	return func() { f.Close() }, err
}

// publish stores the sums that were collected, in one step, if there are parts without and nothing is wrong with the dataset.
func (v *verifier) publish(ctx context.Context) error {
	if v.sums == nil || v.checked.Findings > 0 || v.checked.NoSums == 0 {
		return nil
	}
	if size, err := v.sums.tmp.Seek(0, io.SeekEnd); err != nil || size != v.sums.Size() {
		return fmt.Errorf("%d bytes of sums, want %d: %w", size, v.sums.Size(), errors.Join(err, io.ErrUnexpectedEOF))
	}
	if _, err := v.sums.tmp.Seek(0, io.SeekStart); err != nil {
		return err
	}
	d := draft.Draft{Store: v.st, Dir: v.dir, Work: sumsDir}
	err := d.WriteFile(ctx, binfmt.SumsName, func(out io.Writer) error {
		_, err := io.Copy(out, v.sums.tmp)
		return err
	})
	if err != nil {
		return err
	}
	if err := v.st.Rename(ctx, path.Join(d.Data(), binfmt.SumsName), path.Join(v.dir, binfmt.SumsName)); err != nil {
		return err
	}
	v.checked.Summed, v.checked.NoSums = v.checked.NoSums, 0
	return draft.RemoveAll(ctx, v.st, d.Folder())
}
