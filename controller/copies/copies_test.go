package copies

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/internal/testdata"
)

// folderOf reads the files of a folder of real data.
func folderOf(t *testing.T, name string) map[string][]byte {
	t.Helper()
	root := testdata.Path(t, name)
	infos, err := os.ReadDir(root)
	must(t, err)
	files := map[string][]byte{}
	for _, info := range infos {
		data, err := os.ReadFile(filepath.Join(root, info.Name()))
		must(t, err)
		files[info.Name()] = data
	}
	return files
}

// TestCopies: checkpoints of every layout arrive as they are, are found, and go without a trace.
func TestCopies(t *testing.T) {
	universal := map[string][]byte{"mp_rank_00_model_states.pt": noise(100, 1)}
	for i := range 100 {
		for _, k := range []string{"fp32", "exp_avg", "exp_avg_sq"} {
			universal[fmt.Sprintf("zero/layer.%d/%s.pt", i, k)] = noise(i%7*100, uint64(i))
		}
	}
	for name, files := range map[string]map[string][]byte{
		"/runs/dcp": folderOf(t, "checkpoints/dcp-2ranks"), "/runs/iter_0000010": folderOf(t, "checkpoints/megatron-tp2"), "/runs/global_step5": deepSpeed(),
		"/universal": universal, "/runs/pt": folderOf(t, "checkpoints/burn-pt"),
		"/runs/checkpoint-500": {"pytorch_model.bin": noise(5000, 9)}, // a Trainer's folder by its name alone
	} {
		t.Run(filepath.Base(name), func(t *testing.T) {
			w := newWorld(t)
			w.home.put(t, name, files)
			p := w.placement(name)
			var progress int64
			made, err := w.mk.Make(w.ctx, p, controller.Tools{Progress: func(n int64) { progress = n }})
			must(t, err)
			if progress != p.Make.Content {
				t.Errorf("progress %d of %d", progress, p.Make.Content)
			}
			w.wantCopy(p, made)
			w.site.took()
			again, err := w.mk.Make(w.ctx, p, controller.Tools{})
			if must(t, err); again != made || w.site.took() > 2000 { // the mark
				t.Errorf("a second Make: %v, it sent %d bytes", again, w.site.took())
			}
			w.remove(p)
		})
	}
}

// TestOneFile: a checkpoint that is one file.
func TestOneFile(t *testing.T) {
	w := newWorld(t)
	w.home.put(t, "/m", map[string][]byte{"mnist.safetensors": testdata.Read(t, "checkpoints/burn/mnist.safetensors")})
	p := w.placement("/m/mnist.safetensors")
	made, err := w.mk.Make(w.ctx, p, controller.Tools{})
	must(t, err)
	w.wantCopy(p, made)
	w.remove(p)
}

// TestUsualSizes: the same with the sizes of real life, and to a store that writes files in order only.
func TestUsualSizes(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		w := newWorld(t)
		w.mk.sizes = usual
		w.site.noPart = ordered
		w.home.put(t, "/step-1", map[string][]byte{"a.pt": noise(21<<20+5, 1), "b.pt": noise(8<<20+1, 2), "c.pt": noise(8<<20, 3), "d.pt": noise(1, 4), "e.pt": nil})
		p := w.placement("/step-1")
		made, err := w.mk.Make(w.ctx, p, controller.Tools{})
		must(t, err)
		w.wantCopy(p, made)
		w.remove(p)
	}
}

// TestLinks: what links lead to is copied, as whoever opens the checkpoint reads it.
func TestLinks(t *testing.T) {
	w := newWorld(t)
	w.home.put(t, "/blobs", map[string][]byte{"x": noise(3000, 1), "sub/mp_rank_01_model_states.pt": noise(30, 2)})
	w.home.put(t, "/tag", deepSpeed())
	must(t, os.Symlink("../blobs/x", filepath.Join(w.home.root, "tag", "mp_rank_02_model_states.pt")))
	must(t, os.Symlink("../blobs/sub", filepath.Join(w.home.root, "tag", "more")))
	must(t, os.Symlink("nowhere", filepath.Join(w.home.root, "tag", "broken.pt")))
	p := w.placement("/tag")
	made, err := w.mk.Make(w.ctx, p, controller.Tools{})
	must(t, err)
	row := w.wantCopy(p, made)
	if len(row.Copy.Files) != len(deepSpeed())+2 {
		t.Errorf("%d files", len(row.Copy.Files))
	}
	w.remove(p)
}
