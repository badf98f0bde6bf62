package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/foreign"
	"github.com/stepahead-io/stepahead/binfmt/pack"
	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/address"
	"github.com/stepahead-io/stepahead/store/dir"
)

// indexFlags say what to index and where to.
type indexFlags struct {
	containerFlags
	sources []string
	output  string
}

func newIndexCommand() *cobra.Command {
	var f indexFlags
	c := &cobra.Command{
		Use:   "index SOURCE... -o DATASET",
		Short: "Make a dataset of containers that other programs wrote, where they lie",
		Long: `Make a dataset of containers that other programs wrote: an index and a manifest that point into them. The containers
stay where they are and none of their bytes is copied, so they must be in the store of the dataset. A source is a
folder, a file, or a list of files with braces and globs, as a path or a URL.

The dataset appears at the end, in one step. After an error or a kill the same command goes on where it stopped;
until then everything is in DATASET/.stepahead-index. A container that is changed later is refused when it is read.`,
		Example: `  stepahead index 'shards/train-{0000..0099}.tar' -o datasets/train
  stepahead index corpus/train_text_document -o datasets/tokens
  stepahead index hdfs://ns/laion/*.tar -o hdfs://ns/laion/index --field image=jpg,png --field caption=txt`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.sources = args
			return runIndex(cmd.Context(), f, cmd.Flags().Changed, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := c.Flags()
	flags.StringVarP(&f.output, "output", "o", "", "folder or URL of the dataset (required)")
	f.add(flags, indexed(), "")
	flags.StringArrayVar(&f.fields, "field", nil, "a field of the dataset, as name or name=theirs,theirs; may be repeated (default: all fields)")
	flags.BoolVar(&f.group, "group", false, "of a folder of files, one sample of those with the same name up to the first dot (a.jpg and a.txt)")
	flags.IntVar(&f.options.Workers, "workers", 0, "shards read at the same time (default: the number of processors, at least 4; 16 on another machine)")
	return c
}

func runIndex(ctx context.Context, f indexFlags, given func(flag string) bool, out, errOut io.Writer) error {
	if f.output == "" {
		return exit.Usage(errors.New("index: -o DATASET is missing"))
	}
	kinds, err := f.containers(indexed())
	defer closeAll(kinds)
	if err == nil {
		err = checkWorkers(f.options.Workers)
	}
	if err != nil {
		return fmt.Errorf("index: %w", err)
	}
	place, patterns, err := openBoth(ctx, f.output, f.sources)
	if err != nil {
		return fmt.Errorf("index: %w", err)
	}
	defer place.Close()
	if place.Remote && f.options.Workers == 0 {
		f.options.Workers = remoteWorkers
	}
	src := foreign.Source{Store: place.Store, Chosen: f.format != ""}
	if src.Names, err = expandAll(ctx, place.Store, patterns); err != nil {
		return codeOfContainer(fmt.Errorf("index: %w", err))
	}
	report := new(foreign.Report)
	f.options.Report = report
	f.options.Accept = func(c foreign.Container) error { return f.accept(given, c) }
	progress := newMeter(errOut)
	progress.bytes = true
	f.options.Progress = func(p foreign.Progress) { progress.show(pack.Progress{Phase: p.Phase, Done: p.Done, Total: p.Total}) }
	start := time.Now()
	m, err := foreign.Index(ctx, kinds, src, place.Name, f.options)
	progress.done()
	if err != nil {
		return codeOfContainer(err)
	}
	return printIndexed(out, f, m, report, time.Since(start))
}

// expandAll returns the names that patterns mean.
func expandAll(ctx context.Context, st store.Store, patterns []string) ([]string, error) {
	var all []string
	for _, p := range patterns {
		names, err := foreign.Expand(ctx, st, p)
		if err != nil {
			return nil, err
		}
		all = append(all, names...)
	}
	return all, nil
}

// openBoth opens the store that holds the dataset and its sources, and returns what the sources mean in it.
func openBoth(ctx context.Context, output string, sources []string) (*address.Place, []string, error) {
	place, err := openPlace(ctx, output)
	if err != nil {
		return nil, nil, err
	}
	if _, local := place.Store.(*dir.Store); local {
		// A plain folder is a store of its own; one that points outside of itself says so. Of a folder that is not there yet
		// the store is the one above it, in which the sources may lie: it will not be when the folder is there.
		err := place.Close()
		if err == nil {
			err = dir.Widen(output, fixedParts(sources)...)
		}
		if errors.Is(err, store.ErrName) {
			err = outside(err)
		}
		if err != nil {
			return nil, nil, err
		}
		if place, err = openPlace(ctx, output); err != nil {
			return nil, nil, err
		}
	}
	patterns, err := resolveAll(place, sources)
	if err != nil {
		return nil, nil, errors.Join(err, place.Close())
	}
	return place, patterns, nil
}

// resolveAll returns the names that sources mean in the dataset's store.
func resolveAll(place *address.Place, sources []string) ([]string, error) {
	var names []string
	for _, s := range sources {
		s, err := absolute(s)
		if err != nil {
			return nil, err
		}
		name, err := place.Resolve(s)
		if err != nil {
			return nil, outside(err)
		}
		names = append(names, name)
	}
	return names, nil
}

// outside says of a source that it lies in another store than the dataset.
func outside(err error) error {
	return exit.Usage(fmt.Errorf("the source must be in the store of the dataset, which points at it: %w", err))
}

func absolute(source string) (string, error) {
	if strings.Contains(source, "://") {
		return source, nil
	}
	return filepath.Abs(source)
}

// fixedParts are the folders of sources, up to the first brace or glob.
func fixedParts(sources []string) []string {
	var fixed []string
	for _, s := range sources {
		if i := strings.IndexAny(s, "{*?["); i >= 0 {
			s = s[:strings.LastIndexByte(s[:i], '/')+1]
		}
		if s == "" {
			s = "."
		}
		fixed = append(fixed, s)
	}
	return fixed
}

func printIndexed(out io.Writer, f indexFlags, m *binfmt.Manifest, r *foreign.Report, took time.Duration) error {
	id := m.Identity()
	if f.json {
		return json.NewEncoder(out).Encode(map[string]any{
			"dataset": f.output, "identity": hex.EncodeToString(id[:]), "samples": m.Samples(), "bins": len(m.Bins),
			"fields": m.Fields, "classes": len(m.Classes), "container": r.Container, "shards": r.Shards, "empty": r.Empty,
			"incomplete": r.Incomplete, "bytes": r.Bytes, "read": r.Read, "already": r.Already, "seconds": took.Seconds(),
			"warnings": append([]string{}, r.Warnings...),
		})
	}
	verb := "indexed"
	if r.Already {
		verb = "already indexed"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s, %s in %s (%s) of %s, of which %s were read\nidentity %x\n",
		verb, f.output, counted(m.Samples(), "sample"), counted(r.Shards, "shard"), r.Container, formatBytes(r.Bytes), formatBytes(r.Read), id)
	for _, field := range m.Fields {
		fmt.Fprintf(&text, "field %s (%s)\n", field.Name, field.Kind)
	}
	text.WriteString(notes(r))
	_, err := io.WriteString(out, text.String())
	return err
}
