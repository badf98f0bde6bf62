package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/checkpoint/dcp"
	"github.com/stepahead-io/stepahead/checkpoint/safetensors"
	"github.com/stepahead-io/stepahead/internal/testdata"
)

func with(files map[string][]byte, changes map[string][]byte) map[string][]byte {
	all := maps.Clone(files)
	for name, data := range changes {
		if all[name] = data; data == nil {
			delete(all, name)
		}
	}
	return all
}

func deepSpeed(ranks, models int) map[string][]byte {
	files := map[string][]byte{}
	for m := range models {
		files[fmt.Sprintf("mp_rank_%02d_model_states.pt", m)] = torchZip(8)
		for d := range ranks {
			files[fmt.Sprintf("bf16_zero_pp_rank_%d_mp_rank_%02d_optim_states.pt", d, m)] = torchZip(8)
		}
	}
	return files
}

// universal is a folder as DeepSpeed's conversion leaves it.
func universal(parameters, models int) map[string][]byte {
	files := map[string][]byte{"zero/optimizer_state.pt": torchZip(8)}
	for p := range parameters {
		for _, state := range []string{"fp32", "exp_avg", "exp_avg_sq", "step"} {
			files[fmt.Sprintf("zero/layers.%d.weight/%s.pt", p, state)] = torchZip(8)
		}
	}
	for m := range models {
		files[fmt.Sprintf("mp_rank_%02d_model_states.pt", m)] = torchZip(8)
	}
	return files
}

// ofRanks is a folder as torch_checkpointing leaves it.
func ofRanks(ranks int, items ...string) map[string][]byte {
	files := map[string][]byte{"metadata.pkl": []byte("\x80\x04N.")}
	for _, item := range items {
		for r := range ranks {
			files[fmt.Sprintf("%s_%d.pt", item, r)] = torchZip(8)
		}
	}
	return files
}

// TestLayouts holds for every layout whole, and in each way in which it is not.
func TestLayouts(t *testing.T) {
	ranks, plain := torchSave(t, "ranks"), torchSave(t, "plain")
	shard := "__1_0.distcp"
	trainer := with(set(), map[string][]byte{"trainer_state.json": []byte("{}"), "optimizer.pt": torchZip(9)})
	parts := func(at0, at1 string) map[string][]byte {
		info := func(at string) string {
			return fmt.Sprintf(`{"DCP_SHARDING_INFO":"{\"w\":{\"saved_offsets\":%s}}"}`, at)
		}
		return map[string][]byte{
			"shard-00001-model-00001-of-00001.safetensors": safetensorsFile(info(at0), bytesTensor("w", 8)),
			"shard-00002-model-00001-of-00001.safetensors": safetensorsFile(info(at1), bytesTensor("w", 8)),
		}
	}
	settled := Options{Settle: time.Nanosecond}
	for _, c := range []struct {
		name     string
		folder   string
		files    map[string][]byte
		o        Options
		layout   Layout
		problems string
		doubts   string
	}{
		{"dcp", "iter_0000010", ranks, Options{}, DCP, "", ""},
		{"dcp without metadata", "a", with(ranks, map[string][]byte{".metadata": nil}), Options{}, DCP, "metadata-missing", ""},
		{"dcp being committed", "a", with(ranks, map[string][]byte{".metadata": nil, ".metadata.tmp": {1}}), Options{}, DCP, "metadata-missing save-in-flight", ""},
		{"dcp being overwritten", "a", with(ranks, map[string][]byte{".metadata.tmp": {1}}), Options{}, DCP, "save-in-flight", ""},
		{"dcp without a shard", "a", with(ranks, map[string][]byte{shard: nil}), Options{}, DCP, "file-missing", ""},
		{"dcp with a short shard", "a", with(ranks, map[string][]byte{shard: ranks[shard][:len(ranks[shard])-1]}), Options{}, DCP, "file-short", ""},
		{"dcp with an empty shard", "a", with(ranks, map[string][]byte{shard: {}}), Options{}, DCP, "file-short", ""},
		{"dcp with a long shard", "a", with(ranks, map[string][]byte{shard: append(slices.Clone(ranks[shard]), 0)}), Options{}, DCP, "file-long", ""},
		{"dcp with a shard of before", "a", with(ranks, map[string][]byte{"__2_0.distcp": {1}}), Options{}, DCP, "", "file-unlisted"},
		{"rank metadata", "a", with(plain, map[string][]byte{".metadata": nil, "__0.metadata": plain[".metadata"]}), Options{WorldSize: 1}, DCP, "", ""},
		{"rank metadata of an unknown world", "a", with(plain, map[string][]byte{".metadata": nil, "__0.metadata": plain[".metadata"]}), Options{}, DCP, "ranks-unknown", ""},
		{"rank metadata that settled", "a", with(plain, map[string][]byte{".metadata": nil, "__0.metadata": plain[".metadata"]}), settled, DCP, "", "ranks-unknown"},
		{"rank metadata of one of two", "a", with(plain, map[string][]byte{".metadata": nil, "__0.metadata": plain[".metadata"]}), Options{WorldSize: 2}, DCP, "rank-missing", ""},
		{"rank metadata with a gap", "a", with(plain, map[string][]byte{".metadata": nil, "__1.metadata": plain[".metadata"]}), settled, DCP, "rank-missing", "ranks-unknown"},
		{"torch_dist with common.pt", "iter_0000002", with(ranks, map[string][]byte{"metadata.json": []byte(`{"sharded_backend": "torch_dist", "common_backend": "torch"}`), "common.pt": torchZip(1)}), Options{}, TorchDist, "", ""},
		{"torch_dist without common state", "a", with(ranks, map[string][]byte{"metadata.json": []byte(`{"sharded_backend": "torch_dist"}`)}), Options{}, TorchDist, "common-missing", ""},
		{"torch_dist without metadata", "a", map[string][]byte{"metadata.json": []byte(`{"sharded_backend": "torch_dist"}`), "common.pt": torchZip(1)}, Options{}, TorchDist, "metadata-missing", ""},
		{"torch_dist without metadata.json", "a", with(ranks, map[string][]byte{"common.pt": torchZip(1)}), Options{}, TorchDist, "metadata-missing", ""},
		{"torch_dist, common state alone", "a", map[string][]byte{"common.pt": torchZip(1)}, Options{}, TorchDist, "metadata-missing", ""},
		{"metadata.json of somebody else", "a", with(ranks, map[string][]byte{"metadata.json": []byte(`{}`)}), Options{}, DCP, "", ""},
		{"one safetensors file", "a", map[string][]byte{"model.safetensors": safetensorsFile("", bytesTensor("a", 8))}, Options{}, Safetensors, "", ""},
		{"safetensors without tensors", "a", map[string][]byte{"x.safetensors": safetensorsFile("")}, Options{}, Safetensors, "", ""},
		{"a set", "a", set(), Options{}, Safetensors, "", ""},
		{"a set without a file", "a", with(set(), map[string][]byte{"model-00002-of-00002.safetensors": nil}), Options{}, Safetensors, "file-missing", ""},
		{"a set without its index", "a", with(set(), map[string][]byte{"model.safetensors.index.json": nil}), Options{}, Safetensors, "index-missing", ""},
		{"a set of which one file is there", "a", with(set(), map[string][]byte{"model.safetensors.index.json": nil, "model-00002-of-00002.safetensors": nil}), Options{}, Safetensors, "file-missing index-missing", ""},
		{"a set of pickles of which one is there", "a", map[string][]byte{"pytorch_model-00002-of-00003.bin": torchZip(1)}, Options{}, Torch, "file-missing", ""},
		{"a set with a second copy", "a", with(set(), map[string][]byte{"consolidated.safetensors": safetensorsFile("", bytesTensor("a", 8))}), Options{}, Safetensors, "", "file-unlisted"},
		{"a set with a wrong total", "a", with(set(), map[string][]byte{"model.safetensors.index.json": []byte(strings.Replace(string(set()["model.safetensors.index.json"]), "28", "29", 1))}), Options{}, Safetensors, "total-size", ""},
		{"a set with another's file", "a", with(set(), map[string][]byte{"model-00002-of-00002.safetensors": safetensorsFile("", bytesTensor("d", 16))}), Options{}, Safetensors, "tensor-missing tensor-unlisted", ""},
		{"two indexes", "a", map[string][]byte{"a.safetensors.index.json": []byte(`{}`), "b.safetensors.index.json": []byte(`{}`)}, Options{}, Safetensors, "index-ambiguous", ""},
		{"parts", "a", parts("[0]", "[8]"), settled, DCPSafetensors, "", "ranks-unknown"},
		{"parts with a hole", "a", parts("[0]", "[9]"), settled, DCPSafetensors, "not-covered", "ranks-unknown"},
		{"parts that overlap", "a", parts("[0]", "[7]"), Options{}, DCPSafetensors, "not-covered ranks-unknown", ""},
		{"trainer", "checkpoint-500", trainer, Options{}, HuggingFace, "", ""},
		{"trainer without its state", "checkpoint-500", with(trainer, map[string][]byte{"trainer_state.json": nil}), Options{}, HuggingFace, "trainer-state-missing", ""},
		{"trainer with a cut state", "checkpoint-500", with(trainer, map[string][]byte{"trainer_state.json": []byte(`{"a`)}), Options{}, HuggingFace, "trainer-state-cut", ""},
		{"trainer without an optimizer", "checkpoint-500", with(trainer, map[string][]byte{"optimizer.pt": nil}), Options{}, HuggingFace, "", "optimizer-missing"},
		{"trainer without weights", "checkpoint-500", map[string][]byte{"trainer_state.json": []byte("{}"), "optimizer.pt2": {1}}, Options{}, HuggingFace, "weights-missing", ""},
		{"deepspeed", "global_step7", deepSpeed(4, 2), Options{WorldSize: 8}, DeepSpeed, "", ""},
		{"deepspeed of an unknown world", "global_step7", deepSpeed(4, 2), Options{}, DeepSpeed, "ranks-unknown", ""},
		{"deepspeed that settled", "global_step7", deepSpeed(4, 2), settled, DeepSpeed, "", "ranks-unknown"},
		{"deepspeed with a rank missing", "global_step7", with(deepSpeed(4, 2), map[string][]byte{"bf16_zero_pp_rank_1_mp_rank_01_optim_states.pt": nil}), Options{WorldSize: 8}, DeepSpeed, "rank-missing", ""},
		{"deepspeed with the last ranks missing", "global_step7", deepSpeed(3, 2), Options{WorldSize: 8}, DeepSpeed, "rank-missing", ""},
		{"deepspeed without a model", "global_step7", map[string][]byte{"zero_pp_rank_0_mp_rank_00_optim_states.pt": torchZip(1)}, Options{WorldSize: 1}, DeepSpeed, "model-missing", ""},
		{"deepspeed ZeRO-3", "global_step7", map[string][]byte{"zero_pp_rank_0_mp_rank_00_optim_states.pt": torchZip(1), "zero_pp_rank_0_mp_rank_00_model_states.pt": torchZip(1)}, Options{WorldSize: 1}, DeepSpeed, "", ""},
		{"deepspeed pipeline with a layer's part missing", "global_step7", with(deepSpeed(1, 1), map[string][]byte{"layer_00-model_00-model_states.pt": torchZip(1), "layer_00-model_01-model_states.pt": torchZip(1), "layer_03-model_00-model_states.pt": torchZip(1)}), Options{WorldSize: 1}, DeepSpeed, "rank-missing", ""},
		{"universal", "u", universal(3, 2), settled, DeepSpeedUniversal, "", "ranks-unknown"},
		{"universal of which nothing says that it is done", "u", universal(3, 2), Options{}, DeepSpeedUniversal, "ranks-unknown", ""},
		{"universal with a parameter that had no gradient", "u", with(universal(3, 1), map[string][]byte{"zero/frozen/fp32.pt": torchZip(1)}), settled, DeepSpeedUniversal, "", "ranks-unknown"},
		{"universal with a parameter's weights missing", "u", with(universal(3, 1), map[string][]byte{"zero/layers.1.weight/fp32.pt": nil}), settled, DeepSpeedUniversal, "file-missing", "ranks-unknown"},
		{"universal with a nested parameter", "u", with(universal(1, 1), map[string][]byte{"zero/a/b/exp_avg.pt": torchZip(1)}), settled, DeepSpeedUniversal, "file-missing", "ranks-unknown"},
		{"universal with an empty state", "u", with(universal(3, 1), map[string][]byte{"zero/layers.1.weight/exp_avg.pt": {}}), settled, DeepSpeedUniversal, "file-short", "ranks-unknown"},
		{"universal being joined", "u", map[string][]byte{"zero/a/fp32.pt": torchZip(1), "tmp/b/0/fp32.00": torchZip(1)}, settled, DeepSpeedUniversal, "model-missing optimizer-state-missing", "ranks-unknown scratch-left"},
		{"universal of one of two models", "u", with(universal(1, 2), map[string][]byte{"mp_rank_00_model_states.pt": nil}), settled, DeepSpeedUniversal, "rank-missing", "ranks-unknown"},
		{"universal that keeps its pieces", "u", with(universal(1, 1), map[string][]byte{"tmp/a/0/fp32.00": torchZip(1)}), settled, DeepSpeedUniversal, "", "ranks-unknown scratch-left"},
		{"universal without parameters", "u", map[string][]byte{"zero/optimizer_state.pt": torchZip(1), "mp_rank_00_model_states.pt": torchZip(1)}, settled, DeepSpeedUniversal, "weights-missing", "ranks-unknown"},
		{"universal of ZeRO-3", "u", with(universal(1, 0), map[string][]byte{"zero_pp_rank_0_mp_rank_00_model_states.pt": torchZip(1), "zero_pp_rank_1_mp_rank_00_model_states.pt": torchZip(1)}), settled, DeepSpeedUniversal, "", "ranks-unknown"},
		{"torch_checkpointing", "step_7", ofRanks(4, "model", "other"), Options{WorldSize: 4}, TorchCheckpointing, "", ""},
		{"torch_checkpointing of an unknown world", "step_7", ofRanks(4, "model"), Options{}, TorchCheckpointing, "ranks-unknown", ""},
		{"torch_checkpointing that settled", "step_7", ofRanks(4, "model"), settled, TorchCheckpointing, "", "ranks-unknown"},
		{"torch_checkpointing with an item of rank 0 only", "step_7", with(ofRanks(4, "model"), map[string][]byte{"app_0.pt": torchZip(1)}), Options{WorldSize: 4}, TorchCheckpointing, "", ""},
		{"torch_checkpointing with a gap", "step_7", with(ofRanks(4, "model"), map[string][]byte{"model_1.pt": nil}), Options{WorldSize: 4}, TorchCheckpointing, "rank-missing", ""},
		{"torch_checkpointing without its last ranks", "step_7", ofRanks(3, "model"), Options{WorldSize: 4}, TorchCheckpointing, "rank-missing", ""},
		{"torch_checkpointing with cut metadata", "step_7", with(ofRanks(1, "model"), map[string][]byte{"metadata.pkl": []byte("\x80\x04N")}), Options{WorldSize: 1}, TorchCheckpointing, "file-short", ""},
		{"torch_checkpointing with empty metadata", "step_7", with(ofRanks(1, "model"), map[string][]byte{"metadata.pkl": {}}), Options{WorldSize: 1}, TorchCheckpointing, "file-short", ""},
		{"torch_checkpointing, an empty file", "step_7", with(ofRanks(2, "model"), map[string][]byte{"model_1.pt": {}}), Options{WorldSize: 2}, TorchCheckpointing, "file-short", ""},
		{"torch_checkpointing, only metadata", "step_7", ofRanks(0), Options{WorldSize: 1}, TorchCheckpointing, "rank-missing weights-missing", ""},
		{"torch_checkpointing under way", "tmp_step_7", ofRanks(4, "model"), Options{WorldSize: 4}, TorchCheckpointing, "unfinished-name", ""},
		{"torch", "a", map[string][]byte{"model.pt": torchZip(100)}, Options{}, Torch, "", ""},
		{"torch, cut", "a", map[string][]byte{"model.pt": torchZip(100)[:80]}, Options{}, Torch, "file-short", ""},
		{"torch, nothing", "a", map[string][]byte{"model.pt": {}}, Options{}, Torch, "file-short", ""},
		{"torch, old", "a", map[string][]byte{"model.pt": append([]byte("\x80\x02"), make([]byte, 50)...)}, Options{}, Torch, "", "file-unknown"},
		{"torch, two", "a", map[string][]byte{"model.pt": torchZip(1), "optim.pt": torchZip(1)}, Options{}, Torch, "ranks-unknown", ""},
		{"megatron's old format", "iter_0000001", map[string][]byte{"mp_rank_00/model_optim_rng.pt": torchZip(1), "mp_rank_02/model_optim_rng.pt": torchZip(1)}, settled, Torch, "rank-missing", "ranks-unknown"},
		{"a temporary name", "tmp_save", map[string][]byte{"model.pt": torchZip(1)}, Options{}, Torch, "unfinished-name", ""},
	} {
		f := newFolder(t)
		f.writeAll(c.folder, c.files)
		got, err := Open(t.Context(), f, "/"+c.folder, c.o)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		doubts := strings.TrimSpace(strings.ReplaceAll(kinds(got.Doubts), "file-newer", "")) // files are written in any order here
		if got.Layout != c.layout || kinds(got.Problems) != c.problems || doubts != c.doubts {
			t.Errorf("%s: %s, problems %v, doubts %v; want %s, %q, %q", c.name, got.Layout, got.Problems, got.Doubts, c.layout, c.problems, c.doubts)
		}
		if err := got.Complete(); (err == nil) != (c.problems == "") || err != nil && !errors.Is(err, ErrIncomplete) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestRefused(t *testing.T) {
	ranks := torchSave(t, "ranks")
	for _, c := range []struct {
		name  string
		files map[string][]byte
		errs  []error
		want  string
	}{
		{"nothing known", map[string][]byte{"README": {1}}, []error{ErrNone}, "no known layout"},
		{"zarr", map[string][]byte{"metadata.json": []byte(`{"sharded_backend": "zarr"}`), "w/.zarray": {1}}, []error{ErrUnsupported}, `"zarr"`},
		{"metadata.json cut", map[string][]byte{"metadata.json": []byte(`{"sharded`), "common.pt": {1}}, []error{ErrFormat}, "metadata.json"},
		{"metadata cut", with(ranks, map[string][]byte{".metadata": ranks[".metadata"][:100]}), []error{ErrFormat, dcp.ErrFormat}, "/a/.metadata"},
		{"forbidden global", with(ranks, map[string][]byte{".metadata": []byte("\x80\x02cposix\nsystem\nX\x04\x00\x00\x00true\x85R.")}), []error{ErrFormat, dcp.ErrForbidden}, `"system" of module "posix"`},
		{"header", map[string][]byte{"a.safetensors": append(safetensorsFile("", bytesTensor("a", 8)), 0)}, []error{ErrFormat, safetensors.ErrFormat}, "/a/a.safetensors"},
		{"index with a path", map[string][]byte{"model.safetensors.index.json": []byte(`{"weight_map":{"w":"../x"}}`)}, []error{ErrFormat, safetensors.ErrIndex}, "no plain name"},
	} {
		f := newFolder(t)
		f.writeAll("a", c.files)
		_, err := Open(t.Context(), f, "/a", Options{})
		for _, want := range c.errs {
			if !errors.Is(err, want) {
				t.Errorf("%s: %v does not match %v", c.name, err, want)
			}
		}
		if !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	f := newFolder(t)
	if _, err := Open(t.Context(), f, "/gone", Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestUnfinishedMarker(t *testing.T) {
	f := newFolder(t)
	f.write("step-3/model.pt", torchZip(1))
	f.write("step-3-unfinished", nil)
	if c := f.open("/step-3", Options{}); kinds(c.Problems) != "unfinished-marker" || c.Step != 3 {
		t.Errorf("%+v", c)
	}
}

// TestSpecialFiles: what is no file counts as missing, whatever it is, and nothing waits for it.
func TestSpecialFiles(t *testing.T) {
	for kind, make := range map[string]func(name string) error{
		"a pipe":                func(name string) error { return syscall.Mkfifo(name, 0o644) },
		"a link to nothing":     func(name string) error { return os.Symlink("nothing", name) },
		"a link to itself":      func(name string) error { return os.Symlink(filepath.Base(name), name) },
		"a link out of a store": func(name string) error { return os.Symlink("/dev/zero", name) },
	} {
		f := newFolder(t)
		f.writeAll("dcp", torchSave(t, "ranks"))
		f.write("pt/a.pt", torchZip(1))
		f.write("index/model.safetensors.index.json", []byte(`{"weight_map":{"w":"w.safetensors"}}`))
		must(t, os.Mkdir(f.path("single"), 0o755))
		for name, want := range map[string]string{
			"dcp/.metadata": "metadata-missing", "pt/a.pt": "weights-missing", "index/w.safetensors": "file-missing", "single/model.safetensors": "weights-missing",
		} {
			f.remove(name)
			must(t, make(f.path(name)))
			c := f.open("/"+filepath.Dir(name), Options{})
			if !strings.Contains(kinds(c.Problems), want) || !strings.Contains(kinds(c.Doubts), "file-special") {
				t.Errorf("%s for %s: %v, %v", kind, name, c.Problems, c.Doubts)
			}
		}
		if _, _, err := Latest(t.Context(), f, "/", Options{}); !errors.Is(err, ErrNone) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// TestRealCheckpoints opens what others wrote.
func TestRealCheckpoints(t *testing.T) {
	for name, want := range map[string]struct {
		layout  Layout
		tensors int
	}{"dcp-2ranks": {DCP, 4}, "megatron-tp2": {TorchDist, 17}, "burn/multi_layer.safetensors": {Safetensors, 9}, "burn-pt/mixed_types.pt": {Torch, 0}} {
		f := newFolder(t)
		source := testdata.Path(t, "checkpoints/"+name)
		must(t, os.MkdirAll(filepath.Dir(f.path(name)), 0o755))
		if info, err := os.Stat(source); err == nil && info.IsDir() {
			must(t, os.CopyFS(f.path(name), os.DirFS(source)))
		} else {
			f.write(name, testdata.Read(t, "checkpoints/"+name))
		}
		c := f.open("/"+name, Options{})
		if c.Layout != want.layout || len(c.Problems) != 0 || want.tensors != 0 && len(c.Tensors) != want.tensors {
			t.Errorf("%s: %s, %d tensors, %v", name, c.Layout, len(c.Tensors), c.Problems)
		}
		v, err := c.Verify(t.Context(), ReadOptions{})
		if err != nil || len(v.Problems) != 0 {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
	}
}

// TestManyFiles opens a checkpoint of 10,000 files.
func TestManyFiles(t *testing.T) {
	f := newFolder(t)
	f.writeAll("global_step1", deepSpeed(1250, 8))
	c := f.open("/global_step1", Options{WorldSize: 10_000})
	if len(c.Files) != 10_008 || len(c.Problems) != 0 {
		t.Errorf("%d files, %v", len(c.Files), c.Problems)
	}
}

// TestFarRanks: the name of a file may say any number of ranks. What there is not of them is named up to a bound.
func TestFarRanks(t *testing.T) {
	for name, files := range map[string]map[string][]byte{
		"dcp":                 {"__999999999.metadata": torchSave(t, "plain")[".metadata"], "__0_0.distcp": torchSave(t, "plain")["__0_0.distcp"]},
		"deepspeed":           {"zero_pp_rank_999999999_mp_rank_999999999_optim_states.pt": torchZip(1), "mp_rank_00_model_states.pt": torchZip(1)},
		"torch_checkpointing": {"metadata.pkl": []byte("\x80\x04N."), "model_999999999.pt": torchZip(1)},
		"torch":               {"mp_rank_99999999999999999999/model.pt": torchZip(1)},
	} {
		f := newFolder(t)
		f.writeAll("a", files)
		named := 0
		for _, p := range f.open("/a", Options{Settle: time.Nanosecond}).Problems {
			if p.Kind == "rank-missing" {
				named++
			}
		}
		if named != mostNamed {
			t.Errorf("%s: %d missing ranks are named, want %d", name, named, mostNamed)
		}
	}
}

// TestTensorsInSafetensors: metadata of torch that points into safetensors files is held against their headers.
func TestTensorsInSafetensors(t *testing.T) {
	f := newFolder(t)
	part := func(dtype string, cols int64) []byte {
		return safetensorsFile("", simple{"w", dtype, []int64{1, cols}, []byte("012345678901")})
	}
	files := map[string][]byte{
		".metadata": hostileMetadata(t, "hugging face, protocol 4"), "__0_0.distcp": make([]byte, 5010),
		"shard-0.safetensors": part("F32", 3), "shard-1.safetensors": part("F32", 3),
	}
	f.writeAll("a", files)
	c := f.open("/a", Options{})
	tensor, _ := c.Lookup("w")
	if data, err := c.Load(t.Context(), tensor); err != nil || string(data) != "012345678901012345678901" {
		t.Errorf("%q, %v; %v", data, err, c.Problems)
	}
	for named, file := range map[string][]byte{"I32 [1 3]": part("I32", 3), "F16 [1 6]": part("F16", 6)} {
		f.write("a/shard-1.safetensors", file)
		_, err := Open(t.Context(), f, "/a", Options{})
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), named) || !strings.Contains(err.Error(), "float32 [1 3]") {
			t.Errorf("%v, want %s and what the metadata says", err, named)
		}
	}
}

// hostileMetadata is a case of dcp/testdata/hostile.json.
func hostileMetadata(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("dcp", "testdata", "hostile.json"))
	must(t, err)
	var cases []struct {
		Name     string
		Metadata []byte
	}
	must(t, json.Unmarshal(data, &cases))
	for _, c := range cases {
		if c.Name == name {
			return c.Metadata
		}
	}
	t.Fatalf("no case %q", name)
	return nil
}
