package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/pack"
	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/address"
)

// mostRows bounds the tables of classes and bins; --json has all rows.
const mostRows = 30

func newInspectCommand() *cobra.Command {
	var asJSON bool
	var cache string
	c := &cobra.Command{
		Use:     "inspect DATASET",
		Short:   "Show what a dataset holds",
		Long:    `Show fields, classes, media types, sizes and bins of a dataset. Manifest and indexes are read, the media are not.`,
		Example: `  stepahead inspect datasets/photos --json | jq .classes`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runInspect(cmd.Context(), args[0], cache, asJSON, cmd.OutOrStdout())
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.Flags().StringVar(&cache, "cache", "", "folder for copies of remote indexes (default: stepahead in the user's cache folder)")
	return c
}

func runInspect(ctx context.Context, url, cache string, asJSON bool, out io.Writer) error {
	p, err := openPlace(ctx, url)
	if err != nil {
		return fmt.Errorf("inspect: %w", err)
	}
	defer p.Close()
	if cache, err = indexCache(cache); err != nil {
		return fmt.Errorf("inspect: %w, give one with --cache", err)
	}
	s, err := pack.Inspect(ctx, p.Store, p.Name, cache)
	if err != nil {
		return codeOfDataset(err)
	}
	if asJSON {
		return json.NewEncoder(out).Encode(s)
	}
	return printSummary(out, p, url, s)
}

// indexCache is the folder for copies of remote indexes: the one given, else one of the user's.
func indexCache(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	user, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder: %w", err)
	}
	return filepath.Join(user, "stepahead", "indexes"), nil
}

// codeOfDataset gives a damaged dataset the exit code of a finding.
func codeOfDataset(err error) error {
	for _, bad := range []error{binfmt.ErrManifest, binfmt.ErrIndex, binfmt.ErrVersion, binfmt.ErrMismatch, binfmt.ErrChanged, store.ErrCorrupt} {
		if errors.Is(err, bad) {
			return exit.Finding(err)
		}
	}
	return err
}

func printSummary(out io.Writer, p *address.Place, url string, s *pack.Summary) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "dataset\t%s\nidentity\t%s\nsamples\t%d\nbins\t%d, %s\n", url, s.Identity, s.Samples, len(s.Bins), formatBytes(s.Bytes))
	for _, f := range s.Fields {
		fmt.Fprintf(w, "field\t%s\t%s\n", f.Name, f.Kind)
	}
	fmt.Fprintf(w, "sums\t%s\n", sumsOf(s.Sums))
	for _, field := range slices.Sorted(maps.Keys(s.Media)) {
		printMedia(w, field, s.Media[field])
	}
	if len(s.Classes) > 0 {
		fmt.Fprint(w, "\nclass\tname\tsamples\n")
		rows(w, len(s.Classes), func(i int) { fmt.Fprintf(w, "%d\t%s\t%d\n", i, s.Classes[i].Name, s.Classes[i].Samples) })
	}
	fmt.Fprint(w, "\nbin\tuuid\tsamples\tbytes\n")
	rows(w, len(s.Bins), func(i int) {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\n", s.Bins[i].Name, s.Bins[i].UUID, s.Bins[i].Samples, s.Bins[i].Bytes)
	})
	printForeign(w, p, s.Bins)
	return w.Flush()
}

// sumsOf says which parts have checksums, and where.
func sumsOf(s pack.SumsSummary) string {
	var said []string
	for _, c := range []struct {
		n     int64
		where string
	}{{s.Index, "in the index"}, {s.Beside, "in " + binfmt.SumsName}, {s.None, "none: `stepahead verify --checksum` adds them"}} {
		if c.n > 0 {
			said = append(said, counted(c.n, "part")+" "+c.where)
		}
	}
	return strings.Join(said, ", ")
}

// printForeign says where the bins are that other programs wrote, and which version of each was indexed.
func printForeign(w io.Writer, p *address.Place, bins []binfmt.Bin) {
	var foreign []binfmt.Bin
	for _, b := range bins {
		if b.Foreign != nil {
			foreign = append(foreign, b)
		}
	}
	if len(foreign) == 0 {
		return
	}
	fmt.Fprint(w, "\nbin\tcontainer\tpath\tidentity\n")
	rows(w, len(foreign), func(i int) {
		b, identity := foreign[i], foreign[i].Foreign.Identity
		if b.IsFolder() {
			identity = "of each file, in the index"
		}
		if b.Foreign.Policy != "" {
			identity += " (" + b.Foreign.Policy + ")"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", b.Name, b.Foreign.Container, printableName(p.Store.Address(path.Join(p.Name, b.DataName()))), identity)
	})
}

// rows prints the first rows and says how many more there are.
func rows(w io.Writer, n int, row func(i int)) {
	for i := range min(n, mostRows) {
		row(i)
	}
	if n > mostRows {
		fmt.Fprintf(w, "and %d more: see --json\n", n-mostRows)
	}
}

func printMedia(w io.Writer, field string, m pack.MediaSummary) {
	for _, t := range slices.Sorted(maps.Keys(m.Types)) {
		fmt.Fprintf(w, "type\t%s\t%s\t%d\n", field, t, m.Types[t])
	}
	fmt.Fprintf(w, "\n%s\tmin\tp50\tp90\tp99\tmax\tmean\tknown of\n", field)
	for _, d := range []struct {
		name string
		pack.Distribution
	}{{"bytes", m.Bytes}, {"width", m.Width}, {"height", m.Height}} {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%.1f\t%d\n", d.name, d.Min, d.P50, d.P90, d.P99, d.Max, d.Mean, d.Count)
	}
}
