package loader

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/sampler"
	"github.com/stepahead-io/stepahead/sampler/tokens"
	"github.com/stepahead-io/stepahead/store/dir"
)

// tokenKit is a dataset of Megatron files, "/data", and what they hold.
type tokenKit struct {
	store     *dir.Store
	root      string
	sequences [][]int64
}

// megatronCodes are the codes of element types in .idx files.
var megatronCodes = map[string]byte{"uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "float32": 7, "uint16": 8}

// newTokenKit writes a pair of files for each element of bins, which has the lengths of its sequences. Ids count
// up from 1 and stay below 100.
func newTokenKit(t testing.TB, dtype string, bins ...[]int64) *tokenKit {
	t.Helper()
	k := &tokenKit{root: t.TempDir()}
	next := int64(0)
	m := &binfmt.Manifest{Format: binfmt.FormatForeign, Fields: []binfmt.Field{{Name: binfmt.TokensField, Kind: binfmt.Tokens, Dtype: dtype}}}
	must(t, os.Mkdir(filepath.Join(k.root, "data"), 0o755))
	var err error
	k.store, _, err = dir.Open(k.root, dir.Options{})
	must(t, err)
	for i, lengths := range bins {
		var values []int64
		for _, n := range lengths {
			sequence := make([]int64, n)
			for j := range sequence {
				next = next%97 + 1
				sequence[j] = next
			}
			k.sequences = append(k.sequences, sequence)
			values = append(values, sequence...)
		}
		m.Bins = append(m.Bins, k.writePair(t, i, dtype, lengths, values))
	}
	must(t, os.WriteFile(filepath.Join(k.root, "data", binfmt.ManifestName), m.Canonical(), 0o644))
	return k
}

func (k *tokenKit) writePair(t testing.TB, i int, dtype string, lengths, values []int64) binfmt.Bin {
	t.Helper()
	name := fmt.Sprintf("corpus-%d", i)
	data := encodeTokens(dtype, values)
	must(t, os.WriteFile(filepath.Join(k.root, name+".bin"), data, 0o644))
	index := encodeIndex(dtype, lengths)
	must(t, os.WriteFile(filepath.Join(k.root, name+".idx"), index, 0o644))
	sum := sha256.Sum256(index)
	info, err := k.store.Stat(t.Context(), "/"+name+".bin")
	must(t, err)
	return binfmt.Bin{
		Name: name, UUID: strings.Repeat("0", 31) + fmt.Sprint(i), Samples: int64(len(lengths)), Bytes: int64(len(data)), IndexSHA256: hex.EncodeToString(sum[:]),
		Foreign: &binfmt.Foreign{Container: binfmt.Megatron, Path: "../" + name + ".bin", Identity: string(info.Identity)},
	}
}

func encodeTokens(dtype string, values []int64) (out []byte) {
	for _, v := range values {
		out = append(out, binary.LittleEndian.AppendUint64(nil, uint64(v))[:binfmt.TokenSize(dtype)]...)
	}
	return out
}

func encodeIndex(dtype string, lengths []int64) []byte {
	le := binary.LittleEndian
	out := append([]byte("MMIDIDX\x00\x00"), 1, 0, 0, 0, 0, 0, 0, 0, megatronCodes[dtype])
	out = le.AppendUint64(out, uint64(len(lengths)))
	out = le.AppendUint64(out, uint64(len(lengths)+1))
	for _, n := range lengths {
		out = le.AppendUint32(out, uint32(n))
	}
	off := int64(0)
	for _, n := range lengths {
		out = le.AppendUint64(out, uint64(off))
		off += n * binfmt.TokenSize(dtype)
	}
	for i := range len(lengths) + 1 {
		out = le.AppendUint64(out, uint64(i))
	}
	return out
}

// options are those of a loader of the kit.
func (k *tokenKit) options(o TokenOptions, batch int64) Options {
	options := Options{Store: k.store, Dir: "/data", GlobalBatch: batch, Tokens: &o}
	if o.Megatron == nil { // whose order has a seed of its own
		options.Seed = 3
	}
	return options
}

func (k *tokenKit) lengths() (lengths sequenceLengths) {
	for _, s := range k.sequences {
		lengths = append(lengths, uint32(len(s)))
	}
	return lengths
}

// want are the rows of a sample, by the pieces of its order, put together in the simplest way.
func (k *tokenKit) want(o TokenOptions, pieces []sampler.Piece) map[string][]int64 {
	length := int(o.SequenceLength)
	rows := map[string][]int64{}
	put := func(name string, v int64) { rows[name] = append(rows[name], v) }
	if o.Packing != tokens.BestFit {
		var all []int64
		for _, p := range pieces {
			all = append(all, k.sequences[p.Sequence][p.Off:p.Off+p.Len]...)
		}
		for i := range length {
			put("tokens", all[i])
			put("labels", all[i+1])
			put("loss_mask", 1)
			put("position_ids", int64(i))
		}
		rows["text"] = all
		return rows
	}
	for n, p := range pieces {
		for i := range p.Len {
			s := k.sequences[p.Sequence]
			label, mask := int64(0), int64(0)
			if p.Off+i+1 < int64(len(s)) {
				label, mask = s[p.Off+i+1], 1
			}
			put("tokens", s[p.Off+i])
			put("labels", label)
			put("loss_mask", mask)
			put("position_ids", i)
			put("document_ids", int64(n))
		}
	}
	for i := int64(0); len(rows["tokens"]) < length; i++ {
		put("tokens", 0)
		put("labels", 0)
		put("loss_mask", 0)
		put("position_ids", i)
		put("document_ids", -1)
	}
	return rows
}

// cuSeqlens are the boundaries of a batch of packs, by its document ids.
func cuSeqlens(documents [][]int64) []int64 {
	var out []int64
	at := int64(0)
	for _, row := range documents {
		for i, d := range row {
			if i == 0 || row[i-1] != d {
				out = append(out, at)
			}
			at++
		}
	}
	return append(out, at)
}

// fataler is what checks need of *testing.T and *rapid.T.
type fataler interface{ Fatalf(string, ...any) }

// values are the elements of a field, as integers.
func (f *FieldData) values(t fataler) (out []int64) {
	for b := f.Bytes; len(b) > 0; {
		switch f.Dtype {
		case dtypeInt64:
			out, b = append(out, int64(binary.LittleEndian.Uint64(b))), b[8:]
		case dtypeInt32:
			out, b = append(out, int64(int32(binary.LittleEndian.Uint32(b)))), b[4:]
		case dtypeFloat32:
			out, b = append(out, int64(math.Float32frombits(binary.LittleEndian.Uint32(b)))), b[4:]
		default:
			t.Fatalf("field %s is %s", f.Name, f.Dtype)
		}
	}
	return out
}

// checkTokenBatch holds every field of a batch against the simplest way to make it.
func checkTokenBatch(t fataler, k *tokenKit, o TokenOptions, pieces func(sampler.SampleRef) []sampler.Piece, b *Batch) {
	want := map[string][]int64{}
	var documents [][]int64
	for _, ref := range b.Samples {
		rows := k.want(o, pieces(ref))
		for name, row := range rows {
			want[name] = append(want[name], row...)
		}
		documents = append(documents, rows["document_ids"])
	}
	want["cu_seqlens"] = cuSeqlens(documents)
	for i := range b.Fields {
		f := &b.Fields[i]
		if got := f.values(t); !slices.Equal(got, want[f.Name]) {
			t.Fatalf("step %d, %s: %v, want %v", b.Step, f.Name, got, want[f.Name])
		}
		row := int(o.SequenceLength)
		if f.Name == "text" {
			row++
		}
		if f.Name != "cu_seqlens" && (!slices.Equal(f.Shape, []int{len(b.Samples), row}) || !slices.Equal(f.Strides, []int{row, 1})) {
			t.Fatalf("%s: shape %v, strides %v", f.Name, f.Shape, f.Strides)
		}
	}
}
