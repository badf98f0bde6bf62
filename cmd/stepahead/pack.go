package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/pack"
	"github.com/stepahead-io/stepahead/cmd/exit"
)

// packFlags say what to pack and where to.
type packFlags struct {
	output            string
	options           pack.Options
	block, bin        byteSize
	field, pathColumn string
	columns           map[string]string
	json              bool
	source            string
}

func newPackCommand() *cobra.Command {
	var f packFlags
	c := &cobra.Command{
		Use:   "pack DIR|LIST -o DATASET",
		Short: "Pack a folder or a list of files into a dataset",
		Long: `Pack a folder of files, or the files that a list names, into a dataset: large bins, an Arrow index beside
each, and a manifest. Class folders become labels. A list is a CSV file whose first line names the columns, or
a .jsonl file with one object a line; one column holds the files' paths, relative to the list, and every other
one becomes a scalar field. Text in a column called label becomes classes.

The dataset appears at the end, in one step. After an error or a kill the same command goes on where it stopped;
until then everything is in DATASET/.stepahead-pack.`,
		Example: `  stepahead pack photos -o datasets/photos
  stepahead pack list.csv -o datasets/listed --column code=utf8 --bin-size 4GiB`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.source = args[0]
			return runPack(cmd.Context(), f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := c.Flags()
	flags.StringVarP(&f.output, "output", "o", "", "folder or URL of the dataset (required)")
	flags.IntVar(&f.options.Workers, "workers", 0, "files read at the same time (default: the number of processors)")
	flags.Var(&f.block, "block-size", "a part that is not larger lies in one block (default: the destination's block size)")
	flags.Var(&f.bin, "bin-size", "size at which a bin is full (default 16GiB)")
	flags.BoolVar(&f.options.SkipBad, "skip-bad", false, "leave out empty files and, in folders, files of no known media type")
	flags.BoolVar(&f.options.Force, "force", false, "replace another dataset at the destination")
	flags.StringVar(&f.field, "field", pack.ImageField, "name of the media field")
	flags.StringVar(&f.pathColumn, "path-column", "path", "name of a list's column of paths")
	flags.StringToStringVar(&f.columns, "column", nil, "kind of a list's column, as name=int64|float64|bool|utf8")
	flags.BoolVar(&f.json, "json", false, "print the result as one JSON object")
	return c
}

func runPack(ctx context.Context, f packFlags, out, errOut io.Writer) error {
	if f.output == "" {
		return exit.Usage(errors.New("pack: -o DATASET is missing"))
	}
	f.options.BlockSize, f.options.BinSize = int64(f.block), int64(f.bin)
	if err := f.options.Validate(); err != nil {
		return exit.Usage(err)
	}
	src, err := f.open()
	if err != nil {
		return fmt.Errorf("pack: %w", err)
	}
	dst, err := openPlace(ctx, f.output)
	if err != nil {
		return fmt.Errorf("pack: %w", err)
	}
	defer dst.Close()
	report := new(pack.Report)
	f.options.Report = report
	progress := newMeter(errOut)
	f.options.Progress = progress.show
	m, err := pack.Pack(ctx, src, dst.Store, dst.Name, f.options)
	progress.done()
	if err != nil {
		return codeOfPack(err)
	}
	return printPacked(out, f, m, report)
}

// open takes a folder for a folder and everything else for a list.
func (f packFlags) open() (pack.Source, error) {
	info, err := os.Stat(f.source)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return pack.Folder{Root: f.source, Field: f.field}, nil
	}
	kinds := make(map[string]binfmt.Kind, len(f.columns))
	for name, kind := range f.columns {
		kinds[name] = binfmt.Kind(kind)
	}
	return pack.List{Path: f.source, Field: f.field, PathColumn: f.pathColumn, Kinds: kinds}, nil
}

func codeOfPack(err error) error {
	switch {
	case errors.Is(err, pack.ErrSource), errors.Is(err, pack.ErrChanged):
		return exit.Finding(err)
	case errors.Is(err, pack.ErrExists):
		return exit.Usage(err)
	}
	return err
}

func printPacked(out io.Writer, f packFlags, m *binfmt.Manifest, r *pack.Report) error {
	id := m.Identity()
	size := int64(0)
	for _, b := range m.Bins {
		size += b.Bytes
	}
	if f.json {
		return json.NewEncoder(out).Encode(map[string]any{
			"dataset": f.output, "identity": hex.EncodeToString(id[:]), "samples": m.Samples(), "bins": len(m.Bins), "bytes": size,
			"classes": len(m.Classes), "already": r.Already, "hidden": r.Hidden, "skipped": append([]string{}, r.Skipped...),
		})
	}
	verb := "packed"
	if r.Already {
		verb = "already packed"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s, %d samples, %d classes, %d bins, %s\nidentity %x\n", verb, f.output, m.Samples(), len(m.Classes), len(m.Bins), formatBytes(size), id)
	if r.Hidden > 0 {
		fmt.Fprintf(&text, "left out: %d files and folders whose name starts with a dot\n", r.Hidden)
	}
	for _, s := range r.Skipped {
		fmt.Fprintln(&text, "left out:", s)
	}
	_, err := io.WriteString(out, text.String())
	return err
}
