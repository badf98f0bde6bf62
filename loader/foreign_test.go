package loader

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/foreign"
	webdataset "github.com/stepahead-io/stepahead/binfmt/foreign/tar"
	"github.com/stepahead-io/stepahead/sampler"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/transform"
)

// inTars writes the kit's parts into tar files and indexes them as the dataset "/tars".
func (k *kit) inTars(t testing.TB) {
	t.Helper()
	must(t, os.Mkdir(filepath.Join(k.root, "shards"), 0o755))
	for from := 0; from < len(k.parts); from += k.perBin {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for i := from; i < min(from+k.perBin, len(k.parts)); i++ {
			must(t, w.WriteHeader(&tar.Header{Name: fmt.Sprintf("photos/%05d.jpg", i), Size: int64(len(k.parts[i]))}))
			_, err := w.Write(k.parts[i])
			must(t, err)
		}
		must(t, w.Close())
		must(t, os.WriteFile(filepath.Join(k.root, "shards", fmt.Sprintf("%05d.tar", from)), b.Bytes(), 0o644))
	}
	src := foreign.Source{Store: k.store, Names: []string{"/shards"}}
	_, err := foreign.Index(t.Context(), []foreign.Container{webdataset.New(foreign.Strict)}, src, "/tars", foreign.Options{})
	must(t, err)
}

// asFiles writes each of the kit's parts as a file and makes the dataset "/files" of them.
func (k *kit) asFiles(t testing.TB) {
	t.Helper()
	fields := []binfmt.Field{{Name: "image", Kind: binfmt.Media}}
	must(t, os.MkdirAll(filepath.Join(k.root, "photos/in"), 0o755))
	must(t, os.Mkdir(filepath.Join(k.root, "files"), 0o755))
	var index bytes.Buffer
	w, err := binfmt.NewForeignIndexWriter(&index, fields, [16]byte{1}, binfmt.Folder)
	must(t, err)
	size := int64(0)
	for i, part := range k.parts {
		name := fmt.Sprintf("in/%05d.jpg", i)
		must(t, os.WriteFile(filepath.Join(k.root, "photos", name), part, 0o644))
		info, err := k.store.Stat(t.Context(), "/photos/"+name)
		must(t, err)
		size += info.Size
		must(t, w.Append(binfmt.Row{Key: name, Parts: []binfmt.Part{{
			Extent: binfmt.Extent{Len: info.Size, File: name, Version: string(info.Identity)}, Type: "image/jpeg",
		}}}))
	}
	must(t, w.Close())
	sum := sha256.Sum256(index.Bytes())
	m := &binfmt.Manifest{Format: binfmt.FormatForeign, Fields: fields, Bins: []binfmt.Bin{{
		Name: "files", UUID: hex.EncodeToString(append([]byte{1}, make([]byte, 15)...)), Samples: int64(len(k.parts)), Bytes: size,
		IndexSHA256: hex.EncodeToString(sum[:]), Foreign: &binfmt.Foreign{Container: binfmt.Folder, Path: "../photos"},
	}}}
	must(t, m.Validate())
	must(t, os.WriteFile(filepath.Join(k.root, "files/files.arrow"), index.Bytes(), 0o644))
	must(t, os.WriteFile(filepath.Join(k.root, "files", binfmt.ManifestName), m.Canonical(), 0o644))
}

// TestForeignSameBytes: the same pictures give the same tensors packed, in tar files and as plain files, and the same bytes as they
// are stored.
func TestForeignSameBytes(t *testing.T) {
	k := newKit(t, 100, 30, nil)
	k.inTars(t)
	k.asFiles(t)
	for _, plans := range []map[string]*transform.Plan{k.options(t).Plans, nil} {
		var want string
		for _, folder := range []string{"/data", "/tars", "/files"} {
			o := k.options(t)
			o.Dir, o.Fields, o.Plans = folder, []string{"image"}, plans
			got := contents(t, mustOpen(t, o), 24)
			if want == "" {
				want = got
			}
			if got != want || len(got) < 100 {
				t.Errorf("%s gives other bytes than /data", folder)
			}
		}
	}
}

// TestForeignChanged: a tar file, or a plain file, that is another one than was indexed is refused, naming both.
func TestForeignChanged(t *testing.T) {
	for _, c := range []struct {
		folder, file string
		stored       bool
	}{{"/tars", "/shards/00000.tar", false}, {"/files", "/photos/in/00003.jpg", false}, {"/tars", "/shards/00000.tar", true}, {"/files", "/photos/in/00003.jpg", true}} {
		k := newKit(t, 16, 16, nil)
		k.inTars(t)
		k.asFiles(t)
		was, err := k.store.Stat(t.Context(), c.file)
		must(t, err)
		local := filepath.Join(k.root, c.file)
		data, err := os.ReadFile(local)
		must(t, err)
		must(t, os.WriteFile(local+".new", data, 0o644)) // the same bytes, and yet another file
		rename(t, local+".new", local)
		now, err := k.store.Stat(t.Context(), c.file)
		must(t, err)
		o := k.options(t)
		o.Dir, o.Fields, o.GlobalBatch = c.folder, []string{"image"}, 16
		if c.stored {
			o.Plans = nil
		}
		_, err = mustOpen(t, o).Next(t.Context())
		refused := errors.Is(err, binfmt.ErrMismatch) || store.ClassOf(err) == store.IdentityChanged
		if !refused || !strings.Contains(err.Error(), string(was.Identity)) || !strings.Contains(err.Error(), string(now.Identity)) {
			t.Errorf("%s: %v, want both %s and %s", c.file, err, was.Identity, now.Identity)
		}
	}
}

// TestForeignSums: sums that were added to a dataset of containers are compared with what is read: bytes that do not have theirs are a bad
// sample, as in a packed dataset.
func TestForeignSums(t *testing.T) {
	k := newKit(t, 20, 10, nil)
	k.inTars(t)
	d, err := openDataset(t.Context(), k.store, "/tars", t.TempDir())
	must(t, err)
	sums := binfmt.NewSums(d.manifest)
	file := make([]byte, sums.Size())
	copy(file, sums.Header())
	for bin := range d.manifest.Bins {
		off, n := sums.Range(bin)
		piece := file[off : off+n]
		for row := range d.manifest.Bins[bin].Samples {
			crc := binfmt.CRC32C(0, k.parts[10*bin+int(row)])
			if bin == 1 && row == 3 {
				crc ^= 1
			}
			sums.Put(piece, row, "image", crc)
		}
		sums.Seal(piece)
	}
	must(t, d.close())
	must(t, os.WriteFile(filepath.Join(k.root, "tars", binfmt.SumsName), file, 0o644))
	for _, plans := range []map[string]*transform.Plan{k.options(t).Plans, nil} {
		o := k.options(t)
		o.Dir, o.Fields, o.GlobalBatch, o.OnBad, o.Plans = "/tars", []string{"image"}, 20, sampler.OnBadRaise, plans
		_, err = mustOpen(t, o).Next(t.Context())
		var bad *BadSampleError
		if !errors.As(err, &bad) || bad.Sample != 13 || bad.Kind != KindChecksum {
			t.Errorf("%v, want sample 13 to have another sum", err)
		}
	}
}
