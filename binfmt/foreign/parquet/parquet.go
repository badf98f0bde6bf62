// Package parquet reads Parquet files, which can be packed, not indexed: the values of a row lie in encoded, and most often compressed,
// pages of columns, and at no place of their own.
package parquet

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/parquet/metadata"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/foreign"
	"github.com/stepahead-io/stepahead/store"
)

// Options configure a Container. The zero value is usable.
type Options struct {
	// Wanted says which fields will be used: the columns of others are not read, and may be of types that are not known. Default: all.
	Wanted func(field string) bool
}

// Container is Parquet files.
type Container struct{ wanted func(string) bool }

// New returns the container.
func New(o Options) *Container {
	if o.Wanted == nil {
		o.Wanted = func(string) bool { return true }
	}
	return &Container{o.Wanted}
}

// Name implements foreign.Container.
func (*Container) Name() string { return "parquet" }

// Reading implements foreign.Container.
func (*Container) Reading() string { return "parquet 1" }

// Loose implements foreign.Loose.
func (*Container) Loose() {}

// known is what Rows needs of a file.
type known struct {
	columns []column // of the first file: all have the same
	classes []string
}

// Shards implements foreign.Container. Of a folder it takes the files whose names end in .parquet or .parq, sorted by bytes; of files that are
// named, those that end so or begin as a Parquet file does. The first one says what the columns are.
func (c *Container) Shards(ctx context.Context, src foreign.Source) ([]foreign.Shard, error) {
	files, err := foreign.Files(ctx, src, named)
	if err != nil || len(files) == 0 {
		return nil, err
	}
	if !named(files[0].Name) && !src.Chosen {
		head, err := foreign.Head(ctx, src.Store, files[0].Name, int64(len(magic)))
		if err != nil || string(head) != magic && string(head) != magicEncrypted {
			return nil, err
		}
	}
	k, err := c.first(ctx, src.Store, files[0].Name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", src.Store.Address(files[0].Name), err)
	}
	var shards []foreign.Shard
	for _, f := range files {
		shards = append(shards, foreign.Shard{Name: f.Name, Known: k, Depends: fmt.Sprint(k.columns)})
	}
	return shards, nil
}

const (
	magic          = "PAR1"
	magicEncrypted = "PARE"
)

func named(name string) bool {
	ext := strings.ToLower(path.Ext(name))
	return ext == ".parquet" || ext == ".parq"
}

// first reads the footer of a file.
func (c *Container) first(ctx context.Context, st store.Store, name string) (known, error) {
	f, err := st.Open(ctx, name)
	if err != nil {
		return known{}, err
	}
	defer f.Close()
	r, err := open(whole{ctx, f})
	if err != nil {
		return known{}, err
	}
	columns, err := columnsOf(r.MetaData().Schema, c.wanted)
	return known{columns, classes(r.MetaData())}, err
}

// classes are the names of the values of the column label, as Hugging Face's datasets writes them; nil if they have none.
func classes(m *metadata.FileMetaData) []string {
	text := m.KeyValueMetadata().FindValue("huggingface")
	if text == nil {
		return nil
	}
	var said struct {
		Info struct {
			Features map[string]struct {
				Type  string   `json:"_type"`
				Names []string `json:"names"`
			} `json:"features"`
		} `json:"info"`
	}
	if json.Unmarshal([]byte(*text), &said) != nil || said.Info.Features[binfmt.LabelField].Type != "ClassLabel" {
		return nil // what it does not say is not there
	}
	return said.Info.Features[binfmt.LabelField].Names
}

// Classes implements foreign.Labelled.
func (*Container) Classes(shards []foreign.Shard) []string { return shards[0].Known.(known).classes }

// Rows implements foreign.Container. The key of a sample is the file's name and the row's number in it. What is null a sample does not have,
// nor a number that an index cannot hold (not a number, infinite, or beyond 64 bits with a sign).
func (c *Container) Rows(ctx context.Context, _ foreign.Source, s foreign.Shard, f foreign.File, to foreign.Sink) error {
	r, err := open(f)
	if err != nil {
		return err
	}
	columns, err := columnsOf(r.MetaData().Schema, c.wanted)
	if err != nil {
		return err
	}
	if want := s.Known.(known).columns; fmt.Sprint(columns) != fmt.Sprint(want) {
		return fmt.Errorf("the columns are %v, those of the first file %v: pack files of different columns one by one: %w", columns, want, foreign.ErrContainer)
	}
	base, row := foreign.KeyText(path.Base(s.Name)), int64(0)
	for i := range r.NumRowGroups() {
		g := group{number: i, columns: columns}
		err := g.rows(ctx, r, func(r foreign.Row) error {
			r.Key = base + "/" + strconv.FormatInt(row, 10)
			row++
			return to.Row(r)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
