package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/internal/testdata"
)

// readersByName are the readers of files by their names.
func readersByName(t testing.TB, c *Checkpoint, p Parallel) map[string]int {
	t.Helper()
	all, err := c.Readers(p)
	must(t, err)
	counts := map[string]int{}
	for _, r := range all {
		counts[c.Files[r.File].Name] = r.Readers
		if want := map[bool]Share{r.Readers == 0: ReadByNone, r.Readers == 1: ReadByOne, r.Readers == p.Ranks: ReadByAll}[true]; want != "" && r.Share != want && p.Ranks > 1 {
			t.Errorf("%s: %d readers of %d are %q", c.Files[r.File].Name, r.Readers, p.Ranks, r.Share)
		}
	}
	return counts
}

// cutEvenly cuts a dimension as torch.chunk does and returns the rows of part i: the test's own way to say it.
func cutEvenly(size, parts, i int64) (from, to int64) {
	length := size / parts
	if size%parts != 0 {
		length++
	}
	return min(i*length, size), min((i+1)*length, size)
}

// TestReadersOfSharded compares the counts for sharded tensors with what each rank of a job would read, element by element.
func TestReadersOfSharded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		saved := rapid.Int64Range(1, 6).Draw(t, "ranks that saved")
		shards := rapid.IntRange(1, 6).Draw(t, "shards of the job")
		replicas := rapid.IntRange(1, 3).Draw(t, "replicas")
		c := &Checkpoint{Layout: DCP}
		for r := range saved {
			c.Files = append(c.Files, File{Name: fmt.Sprintf("__%d_0.distcp", r)})
		}
		reads := make([]map[int]bool, saved) // by file, the shards of the job
		for i := range reads {
			reads[i] = map[int]bool{}
		}
		for n := range rapid.IntRange(1, 4).Draw(t, "tensors") {
			rows := rapid.Int64Range(1, 9).Draw(t, "rows")
			tensor := Tensor{Name: fmt.Sprint(n), Dtype: "U8", Shape: []int64{rows, 3}}
			for r := range saved {
				from, to := cutEvenly(rows, saved, r)
				if from == to {
					continue
				}
				tensor.Chunks = append(tensor.Chunks, Chunk{File: int(r), Offsets: []int64{from, 0}, Sizes: []int64{to - from, 3}})
				for s := range shards {
					mine, end := cutEvenly(rows, int64(shards), int64(s))
					for row := from; row < to; row++ {
						if row >= mine && row < end || to-from == rows { // what is not cut is read by all
							reads[r][s] = true
						}
					}
				}
			}
			c.Tensors = append(c.Tensors, tensor)
		}
		all, err := c.Readers(Parallel{Ranks: shards * replicas, Shards: shards})
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range all {
			if want := len(reads[i]) * replicas; r.Readers != want {
				t.Fatalf("%s: %d readers, want %d", c.Files[i].Name, r.Readers, want)
			}
		}
	})
}

// TestReadersOfMegatron: 8 ranks of 2 x 2 model-parallel ranks, with tensors cut by layers, by tensor-parallel ranks, by both, and not.
func TestReadersOfMegatron(t *testing.T) {
	c := &Checkpoint{Layout: TorchDist}
	file := func(name string) int {
		c.Files = append(c.Files, File{Name: name})
		return len(c.Files) - 1
	}
	stacked := Tensor{Name: "decoder.layers.mlp.weight", Shape: []int64{4, 8}}
	for layer := range int64(4) {
		for half := range int64(2) {
			stacked.Chunks = append(stacked.Chunks, Chunk{File: file(fmt.Sprintf("layer%d-half%d", layer, half)), Offsets: []int64{layer, 4 * half}, Sizes: []int64{1, 4}})
		}
	}
	c.Tensors = []Tensor{
		stacked,
		{Name: "decoder.layers.0.norm.weight", Shape: []int64{8}, Chunks: []Chunk{{File: file("norm of the first layer"), Offsets: []int64{0}, Sizes: []int64{8}}}},
		{Name: "decoder.layers.3.norm.weight", Shape: []int64{8}, Chunks: []Chunk{{File: file("norm of the last layer"), Offsets: []int64{0}, Sizes: []int64{8}}}},
		{Name: "embedding.weight", Shape: []int64{8, 2}, Chunks: []Chunk{{File: file("first words"), Offsets: []int64{0, 0}, Sizes: []int64{4, 2}}, {File: file("other words"), Offsets: []int64{4, 0}, Sizes: []int64{4, 2}}}},
		{Name: "norm.weight", Shape: []int64{8}, Chunks: []Chunk{{File: file("one for all"), Offsets: []int64{0}, Sizes: []int64{8}}}},
		{Name: "mlp.experts.weight", Shape: []int64{4, 8}, Chunks: []Chunk{{File: file("two experts"), Offsets: []int64{0, 0}, Sizes: []int64{2, 8}}, {File: file("the other experts"), Offsets: []int64{2, 0}, Sizes: []int64{2, 8}}}},
	}
	c.Blobs = []Blob{{Name: "rng_state/shard_1.0_2.1", File: file("random of a stage")}, {Name: "rng_state/shard_1.1_2.2", File: file("random of a rank")}, {Name: "decoder.layers.mlp._extra_state/shard_0_4", File: file("values of a layer")},
		{Name: "common_state", File: file("common")}, {Name: "x/shard_0_3", File: file("of nobody knows whom")}}
	for _, name := range []string{".metadata", "metadata.json", "common.pt", "__0.metadata", "README"} {
		file(name)
	}
	got := readersByName(t, c, Parallel{Ranks: 16, Tensor: 2, Pipeline: 2, Expert: 2})
	want := map[string]int{
		"norm of the first layer": 8, "norm of the last layer": 8, "first words": 8, "other words": 8, "one for all": 16, "two experts": 8, "the other experts": 8,
		"random of a stage": 8, "random of a rank": 4, "values of a layer": 8, "common": 16, "of nobody knows whom": 16, ".metadata": 16, "metadata.json": 16, "common.pt": 16, "__0.metadata": 1, "README": 0,
	}
	for layer := range 4 {
		for half := range 2 {
			want[fmt.Sprintf("layer%d-half%d", layer, half)] = 4
		}
	}
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s: %d readers, want %d", name, got[name], n)
		}
	}
}

// TestReadersByName holds for the layouts whose files say by their names who reads them.
func TestReadersByName(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string][]byte
		p     Parallel
		want  map[string]int
	}{
		{"safetensors", set(), Parallel{Ranks: 8, Tensor: 2}, map[string]int{"model-00001-of-00002.safetensors": 8, "model.safetensors.index.json": 8, "config.json": 8}},
		{"safetensors with another's file", with(set(), map[string][]byte{"consolidated.safetensors": safetensorsFile("", bytesTensor("a", 8)), "README.md": nil}), Parallel{Ranks: 8}, map[string]int{"consolidated.safetensors": 0, "README.md": 0}},
		{"trainer", with(set(), map[string][]byte{"trainer_state.json": []byte("{}"), "optimizer.pt": torchZip(1), "rng_state_3.pth": torchZip(1), "training_args.bin": torchZip(1), "scheduler.pt": torchZip(1)}),
			Parallel{Ranks: 8}, map[string]int{"optimizer.pt": 8, "rng_state_3.pth": 1, "training_args.bin": 0, "trainer_state.json": 8, "scheduler.pt": 8, "model-00001-of-00002.safetensors": 8}},
		{"trainer with DeepSpeed", with(set(), map[string][]byte{"trainer_state.json": []byte("{}"), "global_step5/mp_rank_00_model_states.pt": torchZip(1), "global_step5/zero_pp_rank_0_mp_rank_00_optim_states.pt": torchZip(1)}),
			Parallel{Ranks: 1}, map[string]int{"global_step5/mp_rank_00_model_states.pt": 1, "global_step5/zero_pp_rank_0_mp_rank_00_optim_states.pt": 1}},
		{"one pickle", map[string][]byte{"model.pt": torchZip(1)}, Parallel{Ranks: 8}, map[string]int{"model.pt": 8}},
		{"pickles of ranks", map[string][]byte{"model_rank_0.pt": torchZip(1), "model_rank_1.pt": torchZip(1), "optim-rank-0.pt": torchZip(1)}, Parallel{Ranks: 8}, map[string]int{"model_rank_1.pt": 1, "optim-rank-0.pt": 1}},
		{"megatron's old format", map[string][]byte{"mp_rank_00/model_optim_rng.pt": torchZip(1), "mp_rank_01/model_optim_rng.pt": torchZip(1), "mp_rank_00/distrib_optim.pt": torchZip(1)},
			Parallel{Ranks: 8, Tensor: 2}, map[string]int{"mp_rank_00/model_optim_rng.pt": 4, "mp_rank_00/distrib_optim.pt": 1}},
		{"deepspeed", deepSpeed(4, 2), Parallel{Ranks: 8, Tensor: 2}, map[string]int{"mp_rank_01_model_states.pt": 4, "bf16_zero_pp_rank_3_mp_rank_01_optim_states.pt": 1}},
		{"deepspeed in another number of ranks", deepSpeed(4, 2), Parallel{Ranks: 16, Tensor: 2}, map[string]int{"mp_rank_01_model_states.pt": 8, "bf16_zero_pp_rank_3_mp_rank_01_optim_states.pt": 8}},
		{"deepspeed pipeline with experts", map[string][]byte{"mp_rank_00_model_states.pt": torchZip(1), "layer_00-model_00-model_states.pt": torchZip(1), "layer_00-model_01-model_states.pt": torchZip(1),
			"layer_1_expert_0_mp_rank_00_model_states.pt": torchZip(1), "expp_rank_0_mp_rank_00_optim_states.pt": torchZip(1), "expp_rank_1_mp_rank_00_optim_states.pt": torchZip(1), "offloaded_tensors/rank0/a": nil},
			Parallel{Ranks: 16, Tensor: 2, Pipeline: 2, Expert: 4}, map[string]int{"mp_rank_00_model_states.pt": 16, "layer_00-model_01-model_states.pt": 4, "layer_1_expert_0_mp_rank_00_model_states.pt": 4, "expp_rank_1_mp_rank_00_optim_states.pt": 8, "offloaded_tensors/rank0/a": 1}},
		{"universal", universal(2, 2), Parallel{Ranks: 8, Tensor: 2}, map[string]int{"mp_rank_00_model_states.pt": 4, "zero/layers.0.weight/fp32.pt": 2, "zero/optimizer_state.pt": 8}},
		{"universal of ZeRO-3", with(universal(1, 0), map[string][]byte{"zero_pp_rank_0_mp_rank_00_model_states.pt": torchZip(1)}), Parallel{Ranks: 8}, map[string]int{"zero/layers.0.weight/fp32.pt": 8, "zero_pp_rank_0_mp_rank_00_model_states.pt": 8}},
		{"torch_checkpointing", ofRanks(4, "model"), Parallel{Ranks: 4}, map[string]int{"metadata.pkl": 4, "model_2.pt": 1}},
		{"torch_checkpointing in another number of ranks", ofRanks(4, "model"), Parallel{Ranks: 8}, map[string]int{"model_2.pt": 8}},
	} {
		f := newFolder(t)
		f.writeAll("a", c.files)
		got := readersByName(t, f.open("/a", Options{}), c.p)
		for name, n := range c.want {
			if got[name] != n {
				t.Errorf("%s: %s: %d readers, want %d", c.name, name, got[name], n)
			}
		}
	}
}

// TestReadersOfReal: of what torch and Megatron saved with two ranks, each file of a rank is read by more than that one, since it holds what
// is saved once for all.
func TestReadersOfReal(t *testing.T) {
	for name, p := range map[string]Parallel{"dcp-2ranks": {Ranks: 2}, "megatron-tp2": {Ranks: 2, Tensor: 2}} {
		f := newFolder(t)
		must(t, os.CopyFS(f.path("a"), os.DirFS(testdata.Path(t, "checkpoints/"+name))))
		c := f.open("/a", Options{})
		for file, n := range readersByName(t, c, p) {
			t.Logf("%s: %s: %d", name, file, n)
			if strings.HasSuffix(file, ".metadata") && n != 2 || strings.HasSuffix(file, ".distcp") && n == 0 {
				t.Errorf("%s: %s has %d readers", name, file, n)
			}
		}
	}
}

func TestParallelRefused(t *testing.T) {
	c := &Checkpoint{Layout: Torch}
	for _, p := range []Parallel{{}, {Ranks: -1}, {Ranks: 1 << 30}, {Ranks: 8, Tensor: 3}, {Ranks: 8, Tensor: 2, Pipeline: 8}, {Ranks: 8, Tensor: -1}, {Ranks: 8, Shards: 3}, {Ranks: 8, Expert: 3}, {Ranks: 8, Tensor: 16}} {
		if _, err := c.Readers(p); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

// TestHottest: files of several readers, those that most is asked of first.
func TestHottest(t *testing.T) {
	c := &Checkpoint{Files: []File{{Name: "a", Size: 1}, {Name: "b", Size: 9}, {Name: "c", Size: 5}, {Name: "d", Size: 7}}}
	hot := c.hottest([]FileReaders{{0, 8, ReadByAll}, {1, 1, ReadByOne}, {2, 8, ReadByAll}, {3, 2, ReadBySome}})
	if got := []int{hot[0].File, hot[1].File, hot[2].File}; len(hot) != 3 || !slices.Equal(got, []int{2, 0, 3}) {
		t.Errorf("%+v", hot)
	}
}
