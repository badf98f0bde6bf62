package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/pack"
	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/address"
)

// packFlags say what to pack and where to.
type packFlags struct {
	containerFlags
	sources    []string
	output     string
	workers    int
	block, bin byteSize
	skipBad    bool
	pathColumn string
	columns    map[string]string
}

// The formats of sources that are files, beside those of containers.
const (
	formatFolder = "folder"
	formatList   = "list"
)

func newPackCommand() *cobra.Command {
	var f packFlags
	c := &cobra.Command{
		Use:   "pack SOURCE... -o DATASET",
		Short: "Pack files or the samples of containers into a dataset",
		Long: `Pack a folder of files, the files that a list names, or the samples of containers into a dataset: large bins, an Arrow
index beside each, and a manifest.

Class folders become labels. A list is a CSV file whose first line names the columns, or a .jsonl file with one object a line; one
column holds the files' paths, relative to the list, and every other one becomes a scalar field. Text in a column called label
becomes classes. Containers are Parquet, LitData, WebDataset tar, Mosaic MDS and TFRecord files, compressed ones too, as a folder, a
file, or a list of files with braces and globs. Where ` + "`stepahead index`" + ` takes a container as it is, nothing need be packed.

Source and dataset may each be a URL of a store; the paths in a list are then names in the list's store. The dataset appears at
the end, in one step. After an error or a kill the same command goes on where it stopped; until then everything is in
DATASET/.stepahead-pack.`,
		Example: `  stepahead pack photos -o datasets/photos
  stepahead pack list.csv -o datasets/listed --column code=utf8 --bin-size 4GiB
  stepahead pack 'cifar/train-*.parquet' -o datasets/cifar
  stepahead pack 'shards/{000..099}.tar.gz' -o datasets/pairs --field image=jpg,png --field caption=txt`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.sources = args
			return runPack(cmd.Context(), f, cmd.Flags().Changed, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := c.Flags()
	flags.StringVarP(&f.output, "output", "o", "", "folder or URL of the dataset (required)")
	f.add(flags, append(packed(), container{name: formatFolder}, container{name: formatList}), " of containers")
	flags.StringArrayVar(&f.fields, "field", nil, "name of the media field of files (default image); of containers, a field as name or name=theirs,theirs; may be repeated (default: all fields)")
	flags.IntVar(&f.workers, "workers", 0, "files or shards read at the same time (default: the number of processors; 16 where they come from another machine)")
	flags.Var(&f.block, "block-size", "a part that is not larger lies in one block (default: the destination's block size)")
	flags.Var(&f.bin, "bin-size", "size at which a bin is full (default 16GiB)")
	flags.BoolVar(&f.skipBad, "skip-bad", false, "leave out empty files and, in folders, files of no known media type")
	flags.StringVar(&f.pathColumn, "path-column", "path", "name of a list's column of paths")
	flags.StringToStringVar(&f.columns, "column", nil, "kind of a list's column, as name=int64|float64|bool|utf8")
	return c
}

// ofContainers, ofFiles and ofLists are flags that say something of one kind of source only.
var (
	ofContainers = []string{"policy", "split", "media", "classes", "skip-incomplete"}
	ofFiles      = []string{"skip-bad", "path-column", "column"}
	ofLists      = []string{"path-column", "column"}
)

func runPack(ctx context.Context, f packFlags, given func(flag string) bool, out, errOut io.Writer) error {
	if f.output == "" {
		return exit.Usage(errors.New("pack: -o DATASET is missing"))
	}
	if err := f.fileOptions().Validate(); err != nil {
		return exit.Usage(err)
	}
	found, err := f.findContainers(ctx)
	if err != nil {
		return err
	}
	useless, source := ofContainers, "files"
	if found != nil {
		defer found.close()
		useless, source = ofFiles, found.kind.Name()
	}
	for _, flag := range useless {
		if given(flag) {
			return exit.Usage(fmt.Errorf("pack: --%s says nothing of %s", flag, source))
		}
	}
	if found != nil {
		if err := f.accept(given, found.kind); err != nil {
			return fmt.Errorf("pack: %w", err)
		}
	}
	dst, err := openPlace(ctx, f.output)
	if err != nil {
		return fmt.Errorf("pack: %w", err)
	}
	defer dst.Close()
	if found != nil {
		return f.packContainers(ctx, found, dst, out, errOut)
	}
	return f.packFiles(ctx, given, dst, out, errOut)
}

func (f *packFlags) fileOptions() pack.Options {
	return pack.Options{Workers: f.workers, BlockSize: int64(f.block), BinSize: int64(f.bin), SkipBad: f.skipBad, Force: f.options.Force}
}

// packFiles packs a folder or a list.
func (f *packFlags) packFiles(ctx context.Context, given func(flag string) bool, dst *address.Place, out, errOut io.Writer) error {
	if len(f.sources) > 1 {
		return exit.Usage(fmt.Errorf("pack: %d sources of files: pack a list of them, or one folder", len(f.sources)))
	}
	field, err := f.field()
	if err != nil {
		return exit.Usage(fmt.Errorf("pack: %w", err))
	}
	o := f.fileOptions()
	src, done, err := f.open(ctx, given, dst, field, &o)
	if err != nil {
		return codeOfPack(fmt.Errorf("pack: %w", err))
	}
	defer done()
	report := new(pack.Report)
	o.Report = report
	progress := newMeter(errOut)
	o.Progress = progress.show
	m, err := pack.Pack(ctx, src, dst.Store, dst.Name, o)
	progress.done()
	if err != nil {
		return codeOfPack(err)
	}
	return printPacked(out, f, m, report)
}

// field is the name of the media field of files.
func (f *packFlags) field() (string, error) {
	switch {
	case len(f.fields) == 0:
		return pack.ImageField, nil
	case len(f.fields) > 1 || strings.Contains(f.fields[0], "="):
		return "", fmt.Errorf("--field %s: of files it is the name of the one media field, given once", strings.Join(f.fields, " --field "))
	}
	return f.fields[0], nil
}

// remoteWorkers is how many files are read at the same time from a store that is not this machine: each waits for the
// network most of the time.
const remoteWorkers = 16

// open takes a folder for a folder and everything else for a list. The function it returns closes what it opened.
func (f *packFlags) open(ctx context.Context, given func(flag string) bool, dst *address.Place, field string, o *pack.Options) (pack.Source, func(), error) {
	path, from, err := openSource(ctx, f.sources[0])
	if err != nil {
		return nil, nil, err
	}
	done := func() {}
	var st store.Store
	isDir := false
	if from == nil {
		info, err := os.Stat(path)
		if err != nil {
			return nil, nil, err
		}
		isDir = info.IsDir()
	} else {
		done = func() { _ = from.Close() } // it was only read from
		info, err := from.Store.Stat(ctx, path)
		if err == nil {
			err = apart(f.sources[0], info, dst)
		}
		if err != nil {
			done()
			return nil, nil, err
		}
		st, isDir = from.Store, info.Dir
		if o.Workers == 0 {
			o.Workers = remoteWorkers
		}
	}
	if isDir {
		for _, flag := range ofLists {
			if given(flag) {
				done()
				return nil, nil, exit.Usage(fmt.Errorf("--%s says nothing of a folder: it is of a list of files", flag))
			}
		}
		return pack.Folder{Store: st, Root: path, Field: field}, done, nil
	}
	kinds := make(map[string]binfmt.Kind, len(f.columns))
	for name, kind := range f.columns {
		kinds[name] = binfmt.Kind(kind)
		if !slices.Contains([]binfmt.Kind{binfmt.Int64, binfmt.Float64, binfmt.Bool, binfmt.UTF8}, kinds[name]) {
			done()
			return nil, nil, exit.Usage(fmt.Errorf("--column %s=%s: %q is none of int64, float64, bool, utf8", name, kind, kind))
		}
	}
	return pack.List{Store: st, Path: path, Field: field, PathColumn: f.pathColumn, Kinds: kinds}, done, nil
}

// openSource returns the path of a source on this machine, or a name in a store elsewhere.
func openSource(ctx context.Context, url string) (path string, from *address.Place, err error) {
	if !strings.Contains(url, "://") {
		return url, nil, nil
	}
	p, err := openPlace(ctx, url)
	if err != nil {
		return "", nil, err
	}
	if _, local := p.Store.(store.Localizer); local {
		return p.Store.Address(p.Name), nil, p.Close()
	}
	return p.Name, p, nil
}

// apart refuses to pack into what is read, where both are in the same store.
func apart(source string, from store.Info, dst *address.Place) error {
	name, err := dst.Resolve(source)
	if err != nil || !from.Dir {
		return nil
	}
	if dst.Name == name || strings.HasPrefix(dst.Name, strings.TrimSuffix(name, "/")+"/") {
		return fmt.Errorf("the destination %s lies inside the source %s: choose another place: %w", dst.Store.Address(dst.Name), source, pack.ErrSource)
	}
	return nil
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

func printPacked(out io.Writer, f *packFlags, m *binfmt.Manifest, r *pack.Report) error {
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
	fmt.Fprintf(&text, "%s: %s, %s, %s, %s, %s\nidentity %x\n", verb, f.output,
		counted(m.Samples(), "sample"), counted(len(m.Classes), "class"), counted(len(m.Bins), "bin"), formatBytes(size), id)
	if r.Hidden > 0 {
		fmt.Fprintf(&text, "left out: %d hidden, by names that start with a dot\n", r.Hidden)
	}
	for _, s := range r.Skipped {
		fmt.Fprintln(&text, "left out:", s)
	}
	_, err := io.WriteString(out, text.String())
	return err
}
