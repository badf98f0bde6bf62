package foreign

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/stepahead-io/stepahead/store"
)

// Refusals returns a Container that takes nothing, and says why of sources whose samples are at no place of their own in a
// file: it is asked after those that can be read in place, and before one that takes any folder.
func Refusals() Container { return refusals{} }

type refusals struct{}

// refusalHead is how much of a file is looked at; refusalFiles is how many files of a folder are.
const (
	refusalHead  = 64
	refusalFiles = 8
)

// Name implements Container.
func (refusals) Name() string { return "none" }

// Reading implements foreign.Container.
func (refusals) Reading() string { return "none 1" }

// Rows implements Container; it is not called.
func (refusals) Rows(context.Context, Source, Shard, File, Sink) error { return ErrContainer }

// Shards implements Container: an error, or nothing. A folder is refused if its first files all are of one such kind.
func (refusals) Shards(ctx context.Context, src Source) ([]Shard, error) {
	for _, name := range src.Names {
		info, err := src.Store.Stat(ctx, name)
		if err != nil {
			return nil, err
		}
		if !info.Dir {
			if info.Size == 0 {
				return nil, refused(src.Store.Address(name), "the file is empty", nil)
			}
			if why, err := refusal(ctx, src.Store, info); err != nil || why != "" {
				return nil, refused(src.Store.Address(name), why, err)
			}
			continue
		}
		if why, err := refusedFolder(ctx, src.Store, name); err != nil || why != "" {
			return nil, refused(src.Store.Address(name), why, err)
		}
	}
	return nil, nil
}

func refused(address, why string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	return fmt.Errorf("%s: %s: %w", address, why, ErrContainer)
}

func refusedFolder(ctx context.Context, st store.Store, name string) (why string, err error) {
	index, err := Exists(ctx, st, path.Join(name, "index.json"))
	if err != nil {
		return "", err
	}
	if index != nil {
		return refusal(ctx, st, *index)
	}
	src := Source{Store: st, Names: []string{name}}
	files, err := Files(ctx, src, func(string) bool { return true })
	if err != nil {
		return "", err
	}
	for i, f := range files[:min(len(files), refusalFiles)] {
		this, err := refusal(ctx, st, f)
		if err != nil || this == "" || i > 0 && this != why {
			return "", err
		}
		why = this
	}
	return why, nil
}

const (
	packIt  = "pack it with `stepahead pack`"
	convert = "convert it to Parquet, WebDataset or MDS shards, or write its samples as files and pack them with `stepahead pack`"
)

// refusal says why a file cannot be read in place, "" if nothing is known against it.
func refusal(ctx context.Context, st store.Store, f store.Info) (string, error) {
	head, err := Head(ctx, st, f.Name, refusalHead)
	if err != nil {
		return "", err
	}
	base := strings.ToLower(path.Base(f.Name))
	has := func(magic string) bool { return bytes.HasPrefix(head, []byte(magic)) }
	switch {
	case has("PAR1") || has("PARE"):
		return "Parquet: a row is at no place of its own, its values lie in encoded and most often compressed pages of columns: " + packIt, nil
	case has("ARROW1\x00\x00"):
		return "an Arrow file: its rows are columns of record batches, which this program does not index: " + convert, nil
	case has("\x83\xaf\x70\xd1\x0d\x88\x4a\x3f"):
		return "ArrayRecord (Riegeli): its records lie in chunks that are compressed, or are split by headers of blocks: " + convert, nil
	case strings.HasSuffix(base, ".beton") && has("\x02\x00"):
		return "FFCV: its samples are bound to fields' tables of their own, which this program does not read: " + convert, nil
	case base == "index.json" && isLitData(ctx, st, f):
		return "LitData: what the leaves of its items are, their serialisers know, in chunks that may be compressed: " + packIt, nil
	}
	if how := Compression(head); how != "" {
		return fmt.Sprintf("the file is compressed (%s): a byte in it has no place of its own that could be read: uncompress it, or pack a container that is compressed with `stepahead pack`", how), nil
	}
	if strings.HasSuffix(base, ".bin") {
		return "a .bin without an .idx of the same name beside it: Megatron's tokens need it, and LitData's chunks are not read in place", nil
	}
	return "", nil
}

// isLitData tells LitData's index.json from others.
func isLitData(ctx context.Context, st store.Store, f store.Info) bool {
	const most = 256 << 20
	data, err := store.ReadFile(ctx, st, f.Name, most)
	var keys struct{ Chunks, Config json.RawMessage }
	return err == nil && json.Unmarshal(data, &keys) == nil && keys.Chunks != nil && keys.Config != nil
}
