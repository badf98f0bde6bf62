// Package tfrecord indexes TFRecord files that are not compressed: each record is a sample, its payload one part. What the
// payload is made of (most often a tf.train.Example) is not looked at.
package tfrecord

import (
	"context"
	"encoding/binary"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/foreign"
	"github.com/stepahead-io/stepahead/binfmt/media"
	"github.com/stepahead-io/stepahead/store"
)

// A record is its length (u64), the length's masked CRC32C (u32), the payload, and its masked CRC32C (u32).
const (
	headSize = 12
	tailSize = 4
)

// Field is the name of the media field that the payloads become.
const Field = "record"

// Container is TFRecord files.
type Container struct{}

// New returns the container. There is nothing odd that the usual reader passes over: one policy is as the other.
func New() *Container { return &Container{} }

// Name implements foreign.Container.
func (*Container) Name() string { return binfmt.TFRecord }

// Reading implements foreign.Container.
func (*Container) Reading() string { return "tfrecord 1" }

// Shards implements foreign.Container. A file is known by its first record's length, whose checksum must be right. Of a folder, the
// files with tfrecord in their names are taken, sorted by bytes. Empty files, which hold no record, are left out.
func (c *Container) Shards(ctx context.Context, src foreign.Source) ([]foreign.Shard, error) {
	files, err := foreign.Files(ctx, src, named)
	if err != nil {
		return nil, err
	}
	var shards []foreign.Shard
	for _, f := range files {
		if f.Size > 0 {
			shards = append(shards, foreign.Shard{Name: f.Name})
		}
	}
	if len(shards) == 0 {
		return nil, nil
	}
	if src.Unpack {
		if err := packedOnes(ctx, src.Store, shards); err != nil {
			return nil, err
		}
		if shards[0].Compression != "" && (named(shards[0].Name) || src.Chosen) {
			return shards, nil
		}
	}
	// One file tells what the source is; the others are held to it when they are read.
	first := shards[0].Name
	head, err := foreign.Head(ctx, src.Store, first, headSize)
	if err != nil {
		return nil, err
	}
	_, err = length(head)
	switch {
	case err == nil:
		return shards, nil
	case (named(first) || src.Chosen) && foreign.Compression(head) == "":
		return nil, fmt.Errorf("%s: offset 0: %w", src.Store.Address(first), err)
	}
	return nil, nil // not a TFRecord file, or a compressed one, which is refused as all compressed files are
}

// packedOnes finds out which shards are compressed. A record's length may begin as a compressed file does, so its checksum is asked first.
func packedOnes(ctx context.Context, st store.Store, shards []foreign.Shard) error {
	for i, s := range shards {
		head, err := foreign.Head(ctx, st, s.Name, headSize)
		if err != nil {
			return err
		}
		if _, err := length(head); err != nil {
			shards[i].Compression = foreign.Compression(head)
		}
	}
	return nil
}

func named(name string) bool { return strings.Contains(strings.ToLower(path.Base(name)), "tfrecord") }

// Rows implements foreign.Container. The key of a sample is the file's name and the record's number in it. A part's checksum is that
// of the record.
func (c *Container) Rows(ctx context.Context, _ foreign.Source, s foreign.Shard, f foreign.File, to foreign.Sink) error {
	w, size, base := foreign.NewWindow(f), f.Size(), foreign.KeyText(path.Base(s.Name))
	row := foreign.Row{Parts: make([]foreign.Part, 1)}
	for at, i := int64(0), int64(0); at < size; i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		end, part, err := record(w, at, size)
		if err != nil {
			return fmt.Errorf("record %d at offset %d: %w", i, at, err)
		}
		row.Key, row.Parts[0] = base+"/"+strconv.FormatInt(i, 10), part
		if err := to.Row(row); err != nil {
			return err
		}
		at = end
	}
	return nil
}

// record reads the head and the tail of the record at an offset of a file of size bytes, and returns its end and its payload.
func record(w *foreign.Window, at, size int64) (end int64, p foreign.Part, err error) {
	if size-at < headSize {
		return 0, p, fmt.Errorf("%d bytes are left, a record's head has %d: the file is cut, or still being written: %w", size-at, headSize, foreign.ErrContainer)
	}
	head, behind, err := w.At(at, headSize)
	if err != nil {
		return 0, p, err
	}
	n, err := length(head)
	if err != nil {
		return 0, p, err
	}
	if left := size - at - headSize; n > uint64(left) || uint64(left)-n < tailSize {
		return 0, p, fmt.Errorf("it has %d bytes and a checksum, %d are left: the file is cut, or still being written: %w", n, left, foreign.ErrContainer)
	}
	p.Field, p.Off, p.Len, p.Type = Field, at+headSize, int64(n), media.Type(behind[:min(n, uint64(len(behind)))])
	end = at + headSize + int64(n) + tailSize
	tail, _, err := w.At(end-tailSize, min(tailSize+headSize, size-end+tailSize))
	if err != nil {
		return 0, p, err
	}
	p.CRC, p.HasCRC = unmask(binary.LittleEndian.Uint32(tail)), true
	return end, p, nil
}

// length returns the length in a record's head. It is believed only if its checksum is right.
func length(head []byte) (uint64, error) {
	if len(head) < headSize {
		return 0, fmt.Errorf("%d bytes, a record's head has %d: cut, or not a TFRecord file: %w", len(head), headSize, foreign.ErrContainer)
	}
	want, got := binary.LittleEndian.Uint32(head[8:]), mask(binfmt.CRC32C(0, head[:8]))
	if want != got {
		return 0, fmt.Errorf("the length's checksum is %08x, its bytes give %08x: damaged, compressed with zlib, or not a TFRecord file: %w", want, got, foreign.ErrContainer)
	}
	return binary.LittleEndian.Uint64(head), nil
}

// maskDelta is added to a rotated checksum, so that data with checksums inside can be given one themselves (TensorFlow, crc32c.h).
const maskDelta = 0xa282ead8

func mask(crc uint32) uint32 { return (crc>>15 | crc<<17) + maskDelta }

func unmask(masked uint32) uint32 {
	rotated := masked - maskDelta
	return rotated>>17 | rotated<<15
}

var _ foreign.Container = (*Container)(nil)
