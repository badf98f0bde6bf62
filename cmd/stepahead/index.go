package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/draft"
	"github.com/stepahead-io/stepahead/binfmt/foreign"
	"github.com/stepahead-io/stepahead/binfmt/foreign/energon"
	"github.com/stepahead-io/stepahead/binfmt/foreign/folder"
	"github.com/stepahead-io/stepahead/binfmt/foreign/mds"
	"github.com/stepahead-io/stepahead/binfmt/foreign/megatron"
	"github.com/stepahead-io/stepahead/binfmt/foreign/tar"
	"github.com/stepahead-io/stepahead/binfmt/foreign/tfrecord"
	"github.com/stepahead-io/stepahead/binfmt/pack"
	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/address"
	"github.com/stepahead-io/stepahead/store/dir"
)

// indexFlags say what to index and where to.
type indexFlags struct {
	sources        []string
	output         string
	format, policy string
	split          string
	fields         []string
	classes        string
	group          bool
	options        foreign.Options
	json           bool
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
			return runIndex(cmd.Context(), f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := c.Flags()
	flags.StringVarP(&f.output, "output", "o", "", "folder or URL of the dataset (required)")
	flags.StringVar(&f.format, "format", "", "container: "+strings.Join(containerNames(), ", ")+" (default: found out)")
	flags.StringVar(&f.policy, "policy", string(foreign.Strict), "odd input: strict makes it an error, as-peer takes what the usual reader takes")
	flags.StringVar(&f.split, "split", "", "part of a dataset prepared by Energon, or all (default: train)")
	flags.StringArrayVar(&f.fields, "field", nil, "a field of the dataset, as name or name=theirs,theirs; may be repeated (default: all fields)")
	flags.StringSliceVar(&f.options.Media, "media", nil, "fields that stay media fields although their values are small")
	flags.StringVar(&f.classes, "classes", "", "file with the names of the classes, one a line, for the field label")
	flags.BoolVar(&f.group, "group", false, "of a folder of files, one sample of those with the same name up to the first dot (a.jpg and a.txt)")
	flags.BoolVar(&f.options.SkipIncomplete, "skip-incomplete", false, "leave out samples that lack a field")
	flags.BoolVar(&f.options.Force, "force", false, "replace another dataset at the destination")
	flags.IntVar(&f.options.Workers, "workers", 0, "shards read at the same time (default: the number of processors, at least 4; 16 on another machine)")
	flags.BoolVar(&f.json, "json", false, "print the result as one JSON object")
	return c
}

// container is a kind of container that the command knows.
type container struct {
	name string
	make func(f *indexFlags, p foreign.Policy) foreign.Container
}

// containers are asked in this order whether a source is theirs. Megatron's come first, because a pair may be named by what its
// two names begin with, which is no file; folders of files come last, because any folder may be one.
func containers() []container {
	return []container{
		{binfmt.Megatron, func(*indexFlags, foreign.Policy) foreign.Container { return megatron.New() }},
		{"energon", func(f *indexFlags, p foreign.Policy) foreign.Container {
			return energon.New(energon.Options{Policy: p, Split: f.split})
		}},
		{binfmt.Tar, func(_ *indexFlags, p foreign.Policy) foreign.Container { return tar.New(p) }},
		{binfmt.MDS, func(_ *indexFlags, p foreign.Policy) foreign.Container { return mds.New(p) }},
		{binfmt.TFRecord, func(_ *indexFlags, p foreign.Policy) foreign.Container { return tfrecord.New(p) }},
		{"", func(*indexFlags, foreign.Policy) foreign.Container { return foreign.Refusals() }}, // has no name to be chosen by
		{binfmt.Folder, func(f *indexFlags, p foreign.Policy) foreign.Container {
			return folder.New(folder.Options{Policy: p, Group: f.group})
		}},
	}
}

func containerNames() []string {
	var names []string
	for _, c := range containers() {
		if c.name != "" {
			names = append(names, c.name)
		}
	}
	return names
}

// containers returns the containers to ask.
func (f *indexFlags) containers() ([]foreign.Container, error) {
	policy := foreign.Policy(f.policy)
	if policy != foreign.Strict && policy != foreign.AsPeer {
		return nil, fmt.Errorf("--policy %s: want %s or %s", f.policy, foreign.Strict, foreign.AsPeer)
	}
	f.options.Policy = policy
	var found []foreign.Container
	for _, c := range containers() {
		if f.format == "" || f.format == c.name {
			found = append(found, c.make(f, policy))
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("--format %s: want one of %s", f.format, strings.Join(containerNames(), ", "))
	}
	return found, nil
}

// renames reads --field.
func (f *indexFlags) renames() ([]foreign.Rename, error) {
	var all []foreign.Rename
	for _, text := range f.fields {
		name, from, ok := strings.Cut(text, "=")
		r := foreign.Rename{Field: name, From: []string{name}}
		if ok {
			r.From = strings.Split(from, ",")
		}
		if err := binfmt.CheckFieldName(r.Field); err != nil {
			return nil, fmt.Errorf("--field %s: %w", text, err)
		}
		if slices.Contains(r.From, "") || slices.ContainsFunc(all, func(o foreign.Rename) bool { return o.Field == r.Field }) {
			return nil, fmt.Errorf("--field %s: want name or name=theirs,theirs, and every name once", text)
		}
		for i, theirs := range r.From { // as containers call them: seg.png is seg_png, and case counts where it does in the container
			r.From[i] = foreign.FieldName(theirs)
			if lower := foreign.FieldName(strings.ToLower(theirs)); lower != r.From[i] {
				r.From = append(r.From, lower)
			}
		}
		all = append(all, r)
	}
	return all, nil
}

func runIndex(ctx context.Context, f indexFlags, out, errOut io.Writer) error {
	if f.output == "" {
		return exit.Usage(errors.New("index: -o DATASET is missing"))
	}
	kinds, err := f.containers()
	if err == nil {
		f.options.Fields, err = f.renames()
	}
	if err == nil {
		f.options.Classes, err = readClasses(f.classes)
	}
	if err == nil {
		err = checkWorkers(f.options.Workers)
	}
	if err != nil {
		return exit.Usage(fmt.Errorf("index: %w", err))
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
	for _, p := range patterns {
		names, err := foreign.Expand(ctx, place.Store, p)
		if err != nil {
			return codeOfIndex(fmt.Errorf("index: %w", err))
		}
		src.Names = append(src.Names, names...)
	}
	report := new(foreign.Report)
	f.options.Report = report
	progress := newMeter(errOut)
	progress.bytes = true
	f.options.Progress = func(p foreign.Progress) { progress.show(pack.Progress{Phase: p.Phase, Done: p.Done, Total: p.Total}) }
	defer closeAll(kinds)
	start := time.Now()
	m, err := foreign.Index(ctx, kinds, src, place.Name, f.options)
	progress.done()
	if err != nil {
		return codeOfIndex(err)
	}
	return printIndexed(out, f, m, report, time.Since(start))
}

// closeAll frees what containers hold. They were only read from.
func closeAll(kinds []foreign.Container) {
	for _, c := range kinds {
		if held, ok := c.(io.Closer); ok {
			_ = held.Close()
		}
	}
}

func readClasses(name string) ([]string, error) {
	if name == "" {
		return nil, nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimRight(string(data), "\n"), "\n"), nil
}

// openBoth opens the store that holds the dataset and its sources, and returns what the sources mean in it.
func openBoth(ctx context.Context, output string, sources []string) (*address.Place, []string, error) {
	place, err := openPlace(ctx, output)
	if err != nil {
		return nil, nil, err
	}
	patterns, err := resolveAll(place, sources)
	if _, local := place.Store.(*dir.Store); !local {
		return place, patterns, err
	}
	// A plain folder is a store of its own; one that points outside of itself says so. Of a folder that is not there yet
	// the store is the one above it, in which the sources may lie: it will not be when the folder is there.
	err = place.Close()
	if err == nil {
		err = dir.Widen(output, fixedParts(sources)...)
	}
	if err != nil {
		return nil, nil, err
	}
	if place, err = openPlace(ctx, output); err != nil {
		return nil, nil, err
	}
	if patterns, err = resolveAll(place, sources); err != nil {
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
			return nil, fmt.Errorf("the source must be in the store of the dataset, which points at it: %w", err)
		}
		names = append(names, name)
	}
	return names, nil
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

func codeOfIndex(err error) error {
	switch {
	case errors.Is(err, foreign.ErrContainer), store.ClassOf(err) == store.IdentityChanged:
		return exit.Finding(err)
	case errors.Is(err, draft.ErrExists):
		return exit.Usage(err)
	}
	return err
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
	fmt.Fprintf(&text, "%s: %s, %d samples in %d shards (%s) of %s, of which %s were read\nidentity %x\n",
		verb, f.output, m.Samples(), r.Shards, r.Container, formatBytes(r.Bytes), formatBytes(r.Read), id)
	for _, field := range m.Fields {
		fmt.Fprintf(&text, "field %s (%s)\n", field.Name, field.Kind)
	}
	if r.Empty > 0 {
		fmt.Fprintf(&text, "left out: %d shards without a sample\n", r.Empty)
	}
	if r.Incomplete > 0 {
		fmt.Fprintf(&text, "left out: %d samples that lack a field\n", r.Incomplete)
	}
	for _, w := range r.Warnings {
		fmt.Fprintln(&text, "warning:", w)
	}
	_, err := io.WriteString(out, text.String())
	return err
}
