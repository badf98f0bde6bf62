package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/address"
)

// lsFlags say how to list.
type lsFlags struct {
	long, locations, json bool
}

func newLsCommand() *cobra.Command {
	var f lsFlags
	c := &cobra.Command{
		Use:   "ls URL",
		Short: "List a folder of a store, or describe a file",
		Long: `List what a folder of a store holds, one name a line, or describe one file. Folders end in a slash. A name with
line breaks or other control characters is quoted; --json gives every name as it is. The exit code is 3 if there
is no such file or folder.

  -l           file or folder (- or d), replicas, owner, bytes, time of change (UTC), name
  --locations  for each block of each file: offset+length and the nodes that hold it, the nearest first`,
		Example: `  stepahead ls -l datasets
  stepahead ls --json --locations datasets/photos | jq -r '.blocks[]?.replicas[].rack' | sort | uniq -c`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runLs(cmd.Context(), args[0], f, cmd.OutOrStdout())
		},
	}
	flags := c.Flags()
	flags.BoolVarP(&f.long, "long", "l", false, "more than names")
	flags.BoolVar(&f.locations, "locations", false, "where the blocks of files lie")
	flags.BoolVar(&f.json, "json", false, "print one JSON object a line")
	return c
}

func runLs(ctx context.Context, url string, f lsFlags, out io.Writer) (err error) {
	p, err := openPlace(ctx, url)
	if err != nil {
		return fmt.Errorf("ls: %w", err)
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	infos, err := list(ctx, p)
	if err != nil {
		return fmt.Errorf("ls: %w", err)
	}
	w := bufio.NewWriter(out)
	if err := errors.Join(f.print(ctx, p, infos, w), w.Flush()); err != nil {
		return fmt.Errorf("ls: %w", err)
	}
	return nil
}

// locatedTogether is of how many files the places are asked for at a time.
const locatedTogether = 1000

// print prints each file as soon as its places are known.
func (f lsFlags) print(ctx context.Context, p *address.Place, infos []store.Info, w io.Writer) error {
	show := f.form(w)
	for some := range slices.Chunk(infos, locatedTogether) {
		if f.locations {
			expect(ctx, p.Store, some)
		}
		for _, info := range some {
			l := describe(p, info)
			if f.locations && !info.Dir {
				var err error
				if l.Blocks, err = blocks(ctx, p.Store, info); err != nil {
					return err
				}
			}
			if err := show(l); err != nil {
				return err
			}
		}
	}
	return nil
}

// form is how a file is printed.
func (f lsFlags) form(w io.Writer) func(listed) error {
	switch {
	case f.json:
		encoder := json.NewEncoder(w)
		return func(l listed) error { return encoder.Encode(l) }
	case f.long:
		return func(l listed) error { return l.long(w) }
	}
	return func(l listed) error { return l.short(w) }
}

// expect has the store learn where all files lie, in few calls where it can.
func expect(ctx context.Context, st store.Store, infos []store.Info) {
	p, ok := st.(store.Prefetcher)
	if !ok {
		return
	}
	var names []string
	for _, i := range infos {
		if !i.Dir {
			names = append(names, i.Name)
		}
	}
	_ = p.Prefetch(ctx, names) // asking for each says what is wrong
}

// list describes what a folder holds, or the one file.
func list(ctx context.Context, p *address.Place) ([]store.Info, error) {
	info, err := p.Store.Stat(ctx, p.Name)
	if err != nil {
		return nil, err
	}
	if !info.Dir {
		return []store.Info{info}, nil
	}
	return p.Store.List(ctx, p.Name)
}

// listed is one line of --json.
type listed struct {
	Name    string `json:"name"`
	NameHex string `json:"name_hex,omitempty"` // the bytes of a name that is not UTF-8
	URL     string `json:"url"`
	Dir     bool   `json:"dir"`
	Size    int64  `json:"size"`
	Changed stamp  `json:"mtime"`
	// Replicas is the number that the file is to have; 0 for folders and where the store cannot tell.
	Replicas int            `json:"replicas"`
	Owner    string         `json:"owner"`
	Identity store.Identity `json:"identity,omitempty"`
	Blocks   []listedBlock  `json:"blocks,omitempty"`
}

// stamp is a time of change. Anyone may give a file any, and a year beyond 9999, which time.Time refuses to write as JSON,
// must not end the list.
type stamp struct{ time.Time }

// MarshalJSON implements json.Marshaler.
func (s stamp) MarshalJSON() ([]byte, error) { return json.Marshal(s.Format(time.RFC3339Nano)) }

type listedBlock struct {
	Off      int64           `json:"off"`
	Len      int64           `json:"len"`
	Replicas []listedReplica `json:"replicas"`
}

type listedReplica struct {
	Node    string `json:"node"`
	Addr    string `json:"addr,omitempty"`
	Rack    string `json:"rack"`
	Storage string `json:"storage,omitempty"`
}

func describe(p *address.Place, info store.Info) listed {
	l := listed{
		Name: path.Base(info.Name), URL: p.Store.Address(info.Name), Dir: info.Dir, Size: info.Size, Changed: stamp{info.ModTime.UTC()},
		Replicas: info.Replicas, Owner: info.Owner, Identity: info.Identity,
	}
	if !utf8.ValidString(l.Name) {
		l.NameHex = hex.EncodeToString([]byte(l.Name))
	}
	return l
}

// blocks asks where a file lies.
func blocks(ctx context.Context, st store.Store, info store.Info) ([]listedBlock, error) {
	rows, err := st.Locate(ctx, info.Name, 0, info.Size)
	if err != nil {
		return nil, err
	}
	found := []listedBlock{}
	for _, r := range rows {
		if n := len(found); n == 0 || found[n-1].Off != r.Off {
			found = append(found, listedBlock{Off: r.Off, Len: r.Len})
		}
		b := &found[len(found)-1]
		b.Replicas = append(b.Replicas, listedReplica{Node: r.Node, Addr: r.Addr, Rack: r.Rack, Storage: r.Storage})
	}
	return found, nil
}

// printable is the name for people: quoted where it could be taken for something else, a slash after folders.
func (l listed) printable() string {
	name := printableName(l.Name)
	if l.Dir && name != "/" {
		name += "/"
	}
	return name
}

// printableName is a name as it is, or quoted where it could be taken for something else.
func printableName(name string) string {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return strconv.Quote(name)
	}
	return name
}

func (l listed) short(w io.Writer) error {
	if _, err := fmt.Fprintln(w, l.printable()); err != nil {
		return err
	}
	return l.places(w)
}

func (l listed) long(w io.Writer) error {
	kind, replicas := "-", "-"
	if l.Dir {
		kind = "d"
	}
	if l.Replicas > 0 {
		replicas = strconv.Itoa(l.Replicas)
	}
	owner, changed := cmp.Or(l.Owner, "-"), l.Changed.Format(time.RFC3339)
	if _, err := fmt.Fprintf(w, "%s %4s %-10s %14d  %s  %s\n", kind, replicas, owner, l.Size, changed, l.printable()); err != nil {
		return err
	}
	return l.places(w)
}

// places prints a line for each block.
func (l listed) places(w io.Writer) error {
	for _, b := range l.Blocks {
		var nodes []string
		for _, r := range b.Replicas {
			words := []string{r.Node, r.Rack}
			if r.Addr != "" {
				words[0] = r.Addr
			}
			if r.Storage != "" {
				words = append(words, r.Storage)
			}
			nodes = append(nodes, strings.Join(words, " "))
		}
		if _, err := fmt.Fprintf(w, "    %d+%d  %s\n", b.Off, b.Len, strings.Join(nodes, ", ")); err != nil {
			return err
		}
	}
	return nil
}
