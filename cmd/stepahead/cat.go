package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"github.com/stepahead-io/stepahead/binfmt/pack"
	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/store"
)

const (
	// catPiece is what one read asks for: large enough that a round trip costs little.
	catPiece = 8 << 20
	// catAhead pieces are read before the first of them is written.
	catAhead = 2
)

func newCatCommand() *cobra.Command {
	var part byteRange
	c := &cobra.Command{
		Use:   "cat URL",
		Short: "Write a file, or a range of it, to standard output",
		Long: `Write a file of a store, or a range of its bytes, to standard output, and nothing else. All bytes are of one
version: a file that is replaced meanwhile is an error. The exit code is 0 only if every byte was written; 1 if bytes
are damaged on every replica, 2 for a range outside the file or a folder, 3 if the file cannot be read.

With STEPAHEAD_CATALOGUE=URL of this site's store, temporary copies of checkpoints there are read (docs/checkpoints.md).`,
		Example: `  stepahead cat datasets/photos/dataset.json | jq .classes
  stepahead cat datasets/photos/00000-3f0c1f2e7a51.bin --range 64:1MiB > part`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runCat(cmd.Context(), args[0], part, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	c.Flags().Var(&part, "range", "OFF:LEN, or OFF: for all that follows; sizes may have a unit")
	return c
}

func runCat(ctx context.Context, url string, part byteRange, out, errOut io.Writer) (err error) {
	place, err := openPlace(ctx, url)
	if err != nil {
		return fmt.Errorf("cat: %w", err)
	}
	p, err := readThrough(ctx, place, errOut)
	if err != nil {
		return fmt.Errorf("cat: %w", err)
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	f, err := p.Store.Open(ctx, p.Name)
	if err != nil {
		return codeOfCat(fmt.Errorf("cat: %w", err))
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	off, n, err := part.of(f.Size())
	if err != nil {
		return exit.Usage(fmt.Errorf("cat %s: %w", url, err))
	}
	progress := new(meter)
	if file, ok := out.(*os.File); !ok || !term.IsTerminal(int(file.Fd())) { // a bar would stand in the bytes
		progress = newMeter(errOut)
	}
	defer progress.done()
	return codeOfCat(copyRange(ctx, out, f, off, n, progress))
}

// codeOfCat tells damaged bytes and folders from what is merely not there.
func codeOfCat(err error) error {
	switch {
	case store.ClassOf(err) == store.Corrupt:
		return exit.Finding(err)
	case errors.Is(err, syscall.EISDIR):
		return exit.Usage(fmt.Errorf("%w: list it with `stepahead ls`", err))
	}
	return err
}

// copyRange writes [off, off+n) of f, reading ahead of the writing.
func copyRange(ctx context.Context, out io.Writer, f store.File, off, n int64, progress *meter) error {
	g, ctx := errgroup.WithContext(ctx)
	full, free := make(chan []byte, catAhead), make(chan []byte, catAhead)
	for range catAhead {
		free <- make([]byte, min(catPiece, n))
	}
	g.Go(func() error {
		defer close(full)
		for at := off; at < off+n; {
			var buf []byte
			select {
			case buf = <-free:
			case <-ctx.Done():
				return ctx.Err()
			}
			buf = buf[:min(catPiece, off+n-at)]
			if err := f.ReadRanges(ctx, []store.Range{{Off: at, Buf: buf}}); err != nil {
				return fmt.Errorf("cat: %w", err)
			}
			at += int64(len(buf))
			full <- buf // has room for all buffers there are
		}
		return nil
	})
	g.Go(func() error {
		written := int64(0)
		for buf := range full {
			if _, err := out.Write(buf); err != nil {
				return fmt.Errorf("cat: %w", err)
			}
			written += int64(len(buf))
			progress.show(pack.Progress{Phase: "read", Done: written, Total: n})
			free <- buf[:cap(buf)]
		}
		return nil
	})
	return g.Wait()
}

// byteRange is a flag: OFF:LEN. The zero value is the whole file.
type byteRange struct {
	text   string
	off, n int64 // n is negative for all that follows
}

// Set implements pflag.Value.
func (r *byteRange) Set(text string) error {
	first, rest, ok := strings.Cut(text, ":")
	bad := fmt.Errorf("%q is no range: write OFF:LEN such as 4096:1MiB, or OFF: for all that follows", text)
	off, err := parseSize(first)
	if !ok || err != nil {
		return bad
	}
	n := int64(-1)
	if rest != "" {
		if n, err = parseSize(rest); err != nil {
			return bad
		}
	}
	*r = byteRange{text: text, off: off, n: n}
	return nil
}

// String implements pflag.Value.
func (r *byteRange) String() string { return r.text }

// Type implements pflag.Value.
func (r *byteRange) Type() string { return "OFF:LEN" }

// of returns the range in a file of size bytes.
func (r byteRange) of(size int64) (off, n int64, err error) {
	if r.text == "" {
		return 0, size, nil
	}
	n = r.n
	if n < 0 {
		n = size - r.off
	}
	if r.off > size || n > size-r.off {
		return 0, 0, fmt.Errorf("--range %s: the file has %s", r.text, counted(size, "byte"))
	}
	return r.off, n, nil
}
