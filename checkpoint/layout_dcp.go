package checkpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stepahead-io/stepahead/checkpoint/dcp"
)

// readDCP reads the metadata of a distributed checkpoint, in one file or, of a save without collectives, in one for each rank.
func (r *reader) readDCP(ctx context.Context) error {
	if i := r.c.file(dcp.MetadataName); i >= 0 {
		m, err := r.decode(ctx, i)
		if err != nil {
			return err
		}
		if r.c.Layout == DCP && m.Megatron && r.c.file(megatronConfig) < 0 {
			r.c.Layout = TorchDist
			r.problem("metadata-missing", megatronConfig, "Megatron writes it last: the save is under way, or was killed")
		}
		return r.add(ctx, m, m.Files(), i)
	}
	var ranks []int
	for i, f := range r.c.Files {
		if rankMetadata.MatchString(f.Name) {
			ranks = append(ranks, i)
		}
	}
	if len(ranks) == 0 {
		r.problem("metadata-missing", dcp.MetadataName, "it is written last: the save is under way, or was killed")
		return nil
	}
	return r.readRanks(ctx, ranks)
}

func (r *reader) decode(ctx context.Context, i int) (*dcp.Metadata, error) {
	data, err := r.c.readFile(ctx, i)
	if err != nil {
		return nil, err
	}
	m, err := dcp.Decode(data)
	if err != nil {
		return nil, wrap(r.c.at(r.c.Files[i]), err)
	}
	return m, nil
}

// readRanks joins the metadata of ranks.
func (r *reader) readRanks(ctx context.Context, ranks []int) error {
	var parts []*dcp.Metadata
	seen, ends := map[int]bool{}, map[string]int64{}
	for _, i := range ranks {
		m, err := r.decode(ctx, i)
		if err != nil {
			return err
		}
		parts = append(parts, m)
		for file, end := range m.Files() {
			ends[file] = max(ends[file], end)
		}
		rank, _ := strconv.Atoi(rankMetadata.FindStringSubmatch(r.c.Files[i].Name)[1])
		seen[rank] = true
	}
	m, err := dcp.Join(parts)
	if err != nil {
		return wrap(r.c.URL(), err)
	}
	r.wantRanks(seen)
	return r.add(ctx, m, ends, ranks[0])
}

// wantRanks wants ranks without a gap, and as many as were announced.
func (r *reader) wantRanks(seen map[int]bool) {
	world := r.o.WorldSize
	if world == 0 {
		world = slices.Max(slices.Collect(maps.Keys(seen))) + 1
		r.guess = fmt.Sprintf("nothing says how many ranks saved; there is metadata of %d", len(seen))
	}
	lacks := 0
	for rank := 0; rank < world && lacks < mostNamed; rank++ {
		if !seen[rank] {
			r.problem("rank-missing", "", "nothing of rank %d of %d", rank, world)
			lacks++
		}
	}
	if len(seen) > world {
		r.doubt("rank-unlisted", "", "files of %d ranks, and %d saved: some are of an older save", len(seen), world)
	}
}

// add takes over tensors and blobs, and compares the files there are with where the items of each end.
func (r *reader) add(ctx context.Context, m *dcp.Metadata, ends map[string]int64, metadata int) error {
	r.c.SaveID, r.c.Tensors = m.SaveID, make([]Tensor, 0, len(m.Tensors))
	for _, name := range slices.Sorted(maps.Keys(ends)) {
		r.compare(name, ends[name], metadata)
	}
	for _, f := range r.c.Files {
		if _, listed := ends[f.Name]; !listed && strings.HasSuffix(f.Name, dcp.DataSuffix) {
			r.doubt("file-unlisted", f.Name, "the metadata does not name it: left by an older save of more ranks?")
		}
	}
	for i := range m.Tensors {
		t := &m.Tensors[i]
		own := Tensor{Name: t.Name, Dtype: t.Dtype, Shape: t.Shape}
		for _, c := range t.Chunks {
			own.Chunks = append(own.Chunks, Chunk{File: r.c.file(c.File), Off: c.Off, Len: c.Len, Item: c.Len >= 0, Offsets: c.Offsets, Sizes: c.Sizes})
		}
		r.c.Tensors = append(r.c.Tensors, own)
		if err := t.Covered(); err != nil {
			r.c.Problems = append(r.c.Problems, Problem{Kind: "not-covered", Tensor: t.Name, Detail: err.Error()})
		}
	}
	for _, b := range m.Blobs {
		r.c.Blobs = append(r.c.Blobs, Blob{Name: b.Name, File: r.c.file(b.File), Off: b.Off, Len: b.Len})
	}
	return r.placeSafetensors(ctx)
}

// compare wants a file that ends where the last of its items does.
func (r *reader) compare(name string, end int64, metadata int) {
	i := r.c.file(name)
	if i < 0 {
		r.problem("file-missing", name, "the metadata names it")
		return
	}
	f := r.c.Files[i]
	switch isData := strings.HasSuffix(name, dcp.DataSuffix); {
	case f.Size < end:
		r.problem("file-short", name, "its last item ends at byte %d, the file has %d: it is cut, or of another save", end, f.Size)
	case f.Size > end && isData:
		r.problem("file-long", name, "its last item ends at byte %d, the file has %d: something was appended, or it is of another save", end, f.Size)
	}
	if f.changed.After(r.c.Files[metadata].changed) {
		r.doubt("file-newer", name, "it was written after the metadata, which is written last: the folder was copied, or is being overwritten")
	}
}

// placeSafetensors finds the chunks that lie in safetensors files, whose headers say where.
func (r *reader) placeSafetensors(ctx context.Context) error {
	numbers := map[int]bool{}
	for _, t := range r.c.Tensors {
		for _, c := range t.Chunks {
			if c.Len < 0 && c.File >= 0 {
				numbers[c.File] = true
			}
		}
	}
	files := slices.Sorted(maps.Keys(numbers))
	headers, err := r.headers(ctx, files)
	if err != nil {
		return err
	}
	for _, t := range r.c.Tensors {
		for k := range t.Chunks {
			c := &t.Chunks[k]
			if c.Len >= 0 {
				continue
			}
			at, found := slices.BinarySearch(files, c.File)
			if !found {
				c.Len = 0
				continue // the file is missing, which was said
			}
			inFile, ok := headers[at].Lookup(t.Name)
			switch at := r.c.at(r.c.Files[c.File]); {
			case !ok:
				return wrapFormat(at, "the metadata says that it holds a part of tensor %.200q, and its header does not", t.Name)
			case !SameDtype(inFile.Dtype.String(), t.Dtype) || !slices.Equal(inFile.Shape, c.Sizes):
				return wrapFormat(at, "tensor %.200q: the file holds %s %v, the metadata says %s %v: the file is of another save", t.Name, inFile.Dtype, inFile.Shape, t.Dtype, c.Sizes)
			}
			c.Off, c.Len = inFile.Off, inFile.Len
		}
	}
	return nil
}

func wrapFormat(name, format string, args ...any) error {
	return fmt.Errorf("checkpoint: %s: %s: %w", name, fmt.Sprintf(format, args...), ErrFormat)
}

// megatronBackend is what metadata.json says.
type megatronBackend struct {
	Sharded string `json:"sharded_backend"`
	Common  string `json:"common_backend"`
}

// readTorchDist reads what Megatron wrote, which is a DCP with a description that is written last and with common state, in a
// file of its own or, of later versions, among the items.
func (r *reader) readTorchDist(ctx context.Context) error {
	i := r.c.file(megatronConfig)
	if i < 0 {
		r.problem("metadata-missing", megatronConfig, "Megatron writes it last: the save is under way, or was killed")
		return r.readMegatron(ctx)
	}
	data, err := r.c.readFile(ctx, i)
	if err != nil {
		return err
	}
	var b megatronBackend
	switch err := json.Unmarshal(data, &b); {
	case err != nil:
		return wrapFormat(r.c.at(r.c.Files[i]), "%v", err)
	case b.Sharded == "" && (r.c.file(dcp.MetadataName) >= 0):
		r.c.Layout = DCP // the file is somebody else's
		return r.readDCP(ctx)
	case b.Sharded != "torch_dist":
		return fmt.Errorf("checkpoint %s: metadata.json names the sharded backend %.100q, of which only torch_dist is read: load and save it with the version of Megatron that wrote it: %w", r.c.URL(), b.Sharded, ErrUnsupported)
	}
	return r.readMegatron(ctx)
}

func (r *reader) readMegatron(ctx context.Context) error {
	if err := r.readDCP(ctx); err != nil {
		return err
	}
	common := r.c.file(commonState) >= 0 ||
		slices.ContainsFunc(r.c.Blobs, func(b Blob) bool { return strings.HasPrefix(b.Name, "common_state") }) ||
		slices.ContainsFunc(r.c.Tensors, func(t Tensor) bool { return strings.HasPrefix(t.Name, "common_state") })
	if !common {
		r.problem("common-missing", commonState, "neither the file nor an item common_state holds the common state")
	}
	return nil
}
