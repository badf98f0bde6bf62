package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/draft"
	"github.com/stepahead-io/stepahead/binfmt/foreign"
	"github.com/stepahead-io/stepahead/binfmt/pack"
	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/address"
)

// foundContainers are a source that consists of containers.
type foundContainers struct {
	place  *address.Place
	source foreign.Source
	kind   foreign.Container
	kinds  []foreign.Container // all that were asked
}

func (c *foundContainers) close() {
	closeAll(c.kinds)
	_ = c.place.Close() // it was only read from
}

// findContainers asks the containers whether the source is theirs; nil if it is of files.
func (f *packFlags) findContainers(ctx context.Context) (*foundContainers, error) {
	switch {
	case f.format == formatFolder || f.format == formatList:
		return nil, nil
	case f.format == "" && len(f.sources) == 1 && isList(f.sources[0]):
		return nil, nil
	}
	kinds, err := f.containers(packed())
	if err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	c, err := openContainers(ctx, f.sources)
	if err != nil {
		closeAll(kinds)
		return nil, codeOfContainer(fmt.Errorf("pack: %w", err))
	}
	c.kinds, c.source.Chosen = kinds, f.format != ""
	asked := c.source
	asked.Store = &listedOnce{Store: c.source.Store, folders: make(map[string][]store.Info)}
	for _, kind := range kinds {
		shards, err := kind.Shards(ctx, asked)
		if err != nil {
			c.close()
			return nil, codeOfContainer(fmt.Errorf("pack: %w", err))
		}
		if len(shards) > 0 {
			c.kind = kind
			return c, nil
		}
	}
	c.close()
	if f.format != "" {
		return nil, exit.Finding(fmt.Errorf("pack: %s: nothing that is %s", strings.Join(f.sources, ", "), f.format))
	}
	return nil, nil
}

// isList tells the name of a list of files.
func isList(name string) bool {
	return slices.Contains([]string{".csv", ".jsonl", ".ndjson"}, strings.ToLower(path.Ext(name)))
}

// openContainers opens the store of sources. Those of this machine are in one store, wherever they lie.
func openContainers(ctx context.Context, sources []string) (*foundContainers, error) {
	root := "/"
	if strings.Contains(sources[0], "://") {
		root = sources[0]
	}
	place, err := openPlace(ctx, root)
	if err != nil {
		return nil, err
	}
	c := &foundContainers{place: place, source: foreign.Source{Store: place.Store, Unpack: true}}
	patterns, err := resolveAll(place, sources)
	if err == nil {
		c.source.Names, err = expandAll(ctx, place.Store, patterns)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// listedOnce remembers what folders hold, for several containers that are asked one after the other.
type listedOnce struct {
	store.Store
	folders map[string][]store.Info
}

func (s *listedOnce) List(ctx context.Context, dir string) ([]store.Info, error) {
	if infos, ok := s.folders[dir]; ok {
		return infos, nil
	}
	infos, err := s.Store.List(ctx, dir)
	if err == nil {
		s.folders[dir] = infos
	}
	return infos, err
}

func (f *packFlags) packContainers(ctx context.Context, c *foundContainers, dst *address.Place, out, errOut io.Writer) error {
	o := foreign.PackOptions{Options: f.options, Sizes: draft.Sizes{Block: int64(f.block), Bin: int64(f.bin)}}
	o.Workers = f.workers
	if c.place.Remote && o.Workers == 0 {
		o.Workers = remoteWorkers
	}
	report := new(foreign.Report)
	o.Report = report
	progress := newMeter(errOut)
	progress.bytes = true
	o.Progress = func(p foreign.Progress) { progress.show(pack.Progress{Phase: p.Phase, Done: p.Done, Total: p.Total}) }
	start := time.Now()
	m, err := foreign.Pack(ctx, []foreign.Container{c.kind}, c.source, dst.Store, dst.Name, o)
	progress.done()
	if err != nil {
		return codeOfContainer(err)
	}
	return printPackedContainers(out, f, m, report, time.Since(start))
}

func printPackedContainers(out io.Writer, f *packFlags, m *binfmt.Manifest, r *foreign.Report, took time.Duration) error {
	id := m.Identity()
	size := int64(0)
	for _, b := range m.Bins {
		size += b.Bytes
	}
	if f.json {
		return json.NewEncoder(out).Encode(map[string]any{
			"dataset": f.output, "identity": hex.EncodeToString(id[:]), "samples": m.Samples(), "bins": len(m.Bins), "bytes": size,
			"fields": m.Fields, "classes": len(m.Classes), "container": r.Container, "shards": r.Shards, "read": r.Read,
			"incomplete": r.Incomplete, "already": r.Already, "seconds": took.Seconds(), "warnings": append([]string{}, r.Warnings...),
		})
	}
	verb := "packed"
	if r.Already {
		verb = "already packed"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s, %s of %s (%s), %s, %s, %s\nidentity %x\n",
		verb, f.output, counted(m.Samples(), "sample"), counted(r.Shards, "shard"), r.Container, counted(len(m.Classes), "class"), counted(len(m.Bins), "bin"), formatBytes(size), id)
	for _, field := range m.Fields {
		fmt.Fprintf(&text, "field %s (%s)\n", field.Name, field.Kind)
	}
	text.WriteString(notes(r))
	_, err := io.WriteString(out, text.String())
	return err
}
