package mds

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/stepahead-io/stepahead/binfmt/foreign"
)

// indexName is the name of a Mosaic dataset's list of shards.
const indexName = "index.json"

// maxIndex bounds an index.json, in bytes: 100,000 shards of ten columns take about 60 MB.
const maxIndex = 256 << 20

// maxSamples bounds the samples of one shard, whose offsets are held in memory.
const maxSamples = 1 << 26

// index is an index.json.
type index struct {
	Version *int    `json:"version"`
	Shards  []entry `json:"shards"`
}

// entry is what index.json says of one shard.
type entry struct {
	Columns     []string  `json:"column_names"`
	Encodings   []string  `json:"column_encodings"`
	Sizes       []*int64  `json:"column_sizes"` // null or 0: variable
	Compression *string   `json:"compression"`
	Format      string    `json:"format"`
	Version     int       `json:"version"`
	Samples     int64     `json:"samples"`
	Raw         *fileInfo `json:"raw_data"`
	Zip         *fileInfo `json:"zip_data"`
}

type fileInfo struct {
	Name  string `json:"basename"`
	Bytes int64  `json:"bytes"`
}

// parseIndex reads an index.json; ok is false if it is not Mosaic's: other programs use the name too.
func parseIndex(data []byte) (x index, ok bool, err error) {
	var keys map[string]json.RawMessage
	if json.Unmarshal(data, &keys) != nil || keys["shards"] == nil {
		return x, false, nil
	}
	if err := json.Unmarshal(data, &x); err != nil {
		return x, true, fmt.Errorf("%w: %w", err, foreign.ErrContainer)
	}
	if x.Version == nil || *x.Version != 2 {
		return x, true, fmt.Errorf("version is %s, this program reads 2: %w", keys["version"], foreign.ErrContainer)
	}
	for i, e := range x.Shards {
		if err := e.check(); err != nil {
			return x, true, fmt.Errorf("shards[%d]: %w: %w", i, err, foreign.ErrContainer)
		}
		if first := x.Shards[0]; !slices.Equal(e.Columns, first.Columns) || !slices.Equal(e.Encodings, first.Encodings) {
			return x, true, fmt.Errorf("shards[%d]: the columns are %s, those of the first shard %s: index datasets of different columns one by one: %w", i, e.columns(), first.columns(), foreign.ErrContainer)
		}
	}
	return x, true, nil
}

func (e entry) columns() string {
	var b strings.Builder
	for i, name := range e.Columns {
		fmt.Fprintf(&b, " %q", name)
		if i < len(e.Encodings) {
			fmt.Fprintf(&b, " (%s)", e.Encodings[i])
		}
	}
	return strings.TrimSpace(b.String())
}

// check says what is wrong with an entry.
func (e entry) check() error {
	switch {
	case e.Format != "mds":
		return fmt.Errorf("the format is %q: only shards of the format mds can be read where they are; rows of json, csv, tsv and xsv have to be parsed: convert them with Mosaic's MDSWriter, or pack them with `stepahead pack`", e.Format)
	case e.Version != 2:
		return fmt.Errorf("version is %d, this program reads 2", e.Version)
	case len(e.Columns) == 0 || len(e.Encodings) != len(e.Columns) || len(e.Sizes) != len(e.Columns):
		return fmt.Errorf("%d column_names, %d column_encodings and %d column_sizes: want as many of each, and at least one", len(e.Columns), len(e.Encodings), len(e.Sizes))
	case e.Raw == nil || e.Raw.Bytes < 0 || e.Samples < 0 || e.Samples > maxSamples:
		return fmt.Errorf("raw_data and its bytes are needed, and 0 to %d samples, not %d", maxSamples, e.Samples)
	}
	for _, f := range []*fileInfo{e.Raw, e.Zip} {
		if f == nil {
			continue
		}
		if n := f.Name; n == "" || path.IsAbs(n) || path.Clean(n) != n || n == ".." || strings.HasPrefix(n, "../") || strings.ContainsRune(n, 0) {
			return fmt.Errorf("basename is %q, which is no file below the dataset's folder", n)
		}
	}
	for i, size := range e.Sizes {
		if size != nil && (*size < 0 || *size > 1<<32) {
			return fmt.Errorf("column_sizes[%d] is %d", i, *size)
		}
	}
	fields := make(map[string]string)
	for _, c := range e.Columns {
		f := foreign.FieldName(c)
		if other, ok := fields[f]; ok {
			return fmt.Errorf("the columns %q and %q would both be the field %q: write the dataset with other names", other, c, f)
		}
		fields[f] = c
	}
	return nil
}

// fixed returns the size of a column's values, 0 if each sample has its own; as in Mosaic's reader the index decides
// this, whatever the encoding is.
func (e entry) fixed(column int) int64 {
	if size := e.Sizes[column]; size != nil {
		return *size
	}
	return 0
}
