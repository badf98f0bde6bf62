package loader

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/foreign"
	"github.com/stepahead-io/stepahead/binfmt/foreign/folder"
	"github.com/stepahead-io/stepahead/binfmt/foreign/mds"
	"github.com/stepahead-io/stepahead/binfmt/foreign/tfrecord"
	"github.com/stepahead-io/stepahead/binfmt/pack"
	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/transform"
)

// TestForeignSameTensors: the same pictures give the same tensors whether they were packed or lie in a folder, in a Mosaic shard or in
// TFRecords, through real workers.
func TestForeignSameTensors(t *testing.T) {
	c := realClusterOf(t, "jpeg/exif-orientation")
	source := testdata.Path(t, "jpeg/exif-orientation")
	names, err := os.ReadDir(source)
	must(t, err)
	var pictures [][]byte
	for _, n := range names { // sorted, as pack does
		b, err := os.ReadFile(filepath.Join(source, n.Name()))
		must(t, err)
		pictures = append(pictures, b)
		must(t, os.MkdirAll(filepath.Join(c.root, "files"), 0o755))
		must(t, os.WriteFile(filepath.Join(c.root, "files", n.Name()), b, 0o644))
	}
	writeMDS(t, filepath.Join(c.root, "mds"), pictures)
	writeTFRecords(t, filepath.Join(c.root, "x.tfrecord"), pictures)
	containers := []foreign.Container{mds.New(), tfrecord.New(), folder.New(folder.Options{})}
	want := contents(t, mustOpen(t, c.foreignOptions(t, "/photos")), 3)
	for name, o := range map[string]foreign.Options{
		"/files":      {},
		"/mds":        {},
		"/x.tfrecord": {Fields: []foreign.Rename{{Field: "image", From: []string{tfrecord.Field}}}},
	} {
		set := "/set" + name
		m, err := foreign.Index(t.Context(), containers, foreign.Source{Store: c.store, Names: []string{name}}, set, o)
		must(t, err)
		if m.Samples() != int64(len(pictures)) || m.Bins[0].Foreign == nil {
			t.Fatalf("%s: %d samples, %+v", name, m.Samples(), m.Bins[0])
		}
		if contents(t, mustOpen(t, c.foreignOptions(t, set)), 3) != want {
			t.Errorf("%s: other tensors than packed", name)
		}
		_, err = pack.Verify(t.Context(), c.store, set, pack.VerifyOptions{}, func(f pack.Finding) { t.Errorf("%s: verify says %+v", name, f) })
		must(t, err)
	}
}

func (c *realCluster) foreignOptions(t *testing.T, set string) Options {
	o := c.options(t)
	o.Dir, o.URL, o.GlobalBatch = set, set, 3
	o.Fields = []string{"image"}
	o.Plans = map[string]*transform.Plan{"image": plan(t, `{"op":"DecodeImage","mode":"RGB"},{"op":"RandomResizedCrop","size":[32,32]}`)}
	return o
}

// writeMDS writes a Mosaic dataset of one shard with a number and a picture a sample.
func writeMDS(t *testing.T, dir string, pictures [][]byte) {
	config := map[string]any{"column_names": []string{"i", "image"}, "column_encodings": []string{"int", "jpeg"}, "column_sizes": []any{8, nil}, "version": 2, "format": "mds"}
	head, err := json.Marshal(config)
	must(t, err)
	var offsets, body []byte
	at := 4*(len(pictures)+2) + len(head)
	offsets = binary.LittleEndian.AppendUint32(offsets, uint32(len(pictures)))
	for i, p := range pictures {
		offsets = binary.LittleEndian.AppendUint32(offsets, uint32(at+len(body)))
		body = binary.LittleEndian.AppendUint32(body, uint32(len(p)))
		body = binary.LittleEndian.AppendUint64(body, uint64(i))
		body = append(body, p...)
	}
	offsets = binary.LittleEndian.AppendUint32(offsets, uint32(at+len(body)))
	shard := slices.Concat(offsets, head, body)
	config["samples"], config["raw_data"] = len(pictures), map[string]any{"basename": "shard.00000.mds", "bytes": len(shard), "hashes": map[string]any{}}
	index, err := json.Marshal(map[string]any{"version": 2, "shards": []any{config}})
	must(t, err)
	must(t, os.MkdirAll(dir, 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "shard.00000.mds"), shard, 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "index.json"), index, 0o644))
}

// writeTFRecords writes records whose payloads are pictures.
func writeTFRecords(t *testing.T, file string, pictures [][]byte) {
	masked := func(b []byte) uint32 {
		crc := binfmt.CRC32C(0, b)
		return (crc>>15 | crc<<17) + 0xa282ead8
	}
	var out bytes.Buffer
	for _, p := range pictures {
		head := binary.LittleEndian.AppendUint64(nil, uint64(len(p)))
		out.Write(binary.LittleEndian.AppendUint32(head, masked(head)))
		out.Write(p)
		out.Write(binary.LittleEndian.AppendUint32(nil, masked(p)))
	}
	must(t, os.WriteFile(file, out.Bytes(), 0o644))
}
