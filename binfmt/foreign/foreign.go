// Package foreign makes datasets of containers that other programs wrote: where they lie, reading their structure, writing indexes
// and a manifest, and moving none of their bytes; or packed into bins, of what has no bytes at places of their own too. Each child
// package knows one kind of container.
package foreign

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/media"
	"github.com/stepahead-io/stepahead/store"
)

// ErrContainer: a container breaks a rule of its format, or cannot be read in place. The message names
// file, offset, rule and what to do.
var ErrContainer = errors.New("refused")

// Policy says what happens to odd input.
type Policy string

const (
	// Strict makes all that the peer's reader passes over without a word an error.
	Strict Policy = "strict"
	// AsPeer gives the samples that the peer's reader gives, with a warning for what it passes over.
	AsPeer Policy = binfmt.AsPeer
)

// Source is what is to be indexed.
type Source struct {
	Store store.Store
	// Names are files and folders of the store, in the user's order, with braces and globs expanded.
	Names []string
	// Chosen says that the user chose the container: files that are named are its, whatever their names.
	Chosen bool
	// Unpack says that compressed files are taken too. Rows then gets what they unpack to.
	Unpack bool
}

// Shard is one data file, which becomes one bin.
type Shard struct {
	// Name of the data file in the store. For a container of many small files, their folder.
	Name string
	// Index names the container's own index of the shard in the store, for containers that are Indexed.
	Index string
	// Known is what Shards found out and Rows needs; only the container looks at it.
	Known any
	// Depends names what Rows depends on besides the data file's version, such as the version of the container's
	// own index: what an earlier run found is used again only where it is the same.
	Depends string
	// Compression of the data file, by one of the names in this package, or ByContent. Only with Source.Unpack.
	Compression string
}

// File is one version of a shard's data file. ReadAt fills the buffer or returns an error: a read behind
// the end of the file reads nothing and is an error, so look at Size first. It may be used concurrently.
type File interface {
	io.ReaderAt
	Size() int64
}

// Part is one named piece of a sample. Off, Len, Type and, for containers of many files, File and Version are
// set by the container; Type and the sizes of pictures only where they are known without reading more.
type Part struct {
	Field string
	// Data are the bytes of a part of a Loose container, not nil; good until Row returns.
	Data []byte `json:"-"`
	binfmt.Part
}

// Sniff sets the part's type, and a picture's width and height, as far as its first bytes tell: media.SniffLen of them, or more.
func (p *Part) Sniff(first []byte) {
	if p.Type = media.Type(first); p.Type != media.Unknown {
		p.Width, p.Height = media.Size(p.Type, bytes.NewReader(first))
	}
}

// Row is one sample. A value that is small and that training wants as it is (a class, a caption) is both
// among Parts, where its bytes are, and in Scalars under the same name: the field becomes a scalar if every
// sample of the dataset has it as a scalar of one kind, else it stays a media field.
type Row struct {
	Key     string
	Parts   []Part // at most one a field, in any order
	Scalars map[string]binfmt.Value
}

// Set makes v the scalar of a field.
func (r *Row) Set(field string, v binfmt.Value) {
	if r.Scalars == nil {
		r.Scalars = make(map[string]binfmt.Value)
	}
	r.Scalars[field] = v
}

// Clear empties the row and keeps its memory, for the next sample.
func (r *Row) Clear() {
	r.Key, r.Parts = "", r.Parts[:0]
	clear(r.Scalars)
}

// Sink takes what a container finds in a shard. It is used by one goroutine.
type Sink interface {
	// Row takes the next sample. The container may reuse the row's memory after it. An error ends Rows.
	Row(Row) error
	// Warn tells the user about something odd that was passed over. The shard's name is put before it.
	Warn(format string, args ...any)
}

// Container knows one kind of container. Its methods may run concurrently.
type Container interface {
	// Name is the container's name in the manifest, such as "tar".
	Name() string
	// Reading names the way in which the container is read, such as "tar 1". It is part of the identity of datasets, and
	// changes when Rows gives other samples of the same bytes.
	Reading() string
	// Shards lists the data files in the order in which the peer reads them. It lists folders and reads the
	// dataset's own small index files, never data files. A source that is none of this container's is
	// (nil, nil); one that is, and cannot be read in place, is an error that matches ErrContainer.
	Shards(ctx context.Context, src Source) ([]Shard, error)
	// Rows gives the samples of a shard in the peer's order. It reads structure, and payload only where the
	// format demands it or for scalars. f is nil for a container of many small files.
	Rows(ctx context.Context, src Source, s Shard, f File, to Sink) error
}

// Loose is a Container whose samples have no bytes at places of their own in its files: it can be packed, and not indexed. Rows gives
// every part with its bytes.
type Loose interface{ Loose() }

// Named is a Container whose samples have names of their own, which their keys then have too when they are packed.
type Named interface{ Named() }

// Renamer is a Container that has fields which training code calls by other names.
type Renamer interface {
	// Defaults are the renamings that hold unless the user says otherwise, each where every sample has exactly
	// one of its fields.
	Defaults() []Rename
}

// Labelled is a Container that has classes: the names of the values 0, 1, ... of the scalar "label".
type Labelled interface {
	Classes(shards []Shard) []string
}

// Indexed is a Container whose own index files are used as they are, in place of an Arrow index. Rows is
// not called.
type Indexed interface {
	Container
	// Describe checks a shard's own index against its data file, and returns the dataset's fields, which must
	// be the same for all shards, and the number of samples.
	Describe(ctx context.Context, s Shard, data, index File) (fields []binfmt.Field, samples int64, err error)
}
