package checkpoint

import (
	"context"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stepahead-io/stepahead/store"
)

// The files of a DeepSpeed tag: D is the data-parallel rank, M the model-parallel one.
var (
	zeroOptim  = regexp.MustCompile(`^(?:bf16_)?zero_pp_rank_(\d{1,9})_mp_rank_(\d{1,9})_optim_states\.pt$`)
	zeroModel  = regexp.MustCompile(`^(?:bf16_)?zero_pp_rank_(\d{1,9})_mp_rank_(\d{1,9})_model_states\.pt$`)
	model      = regexp.MustCompile(`^mp_rank_(\d{1,9})_model_states\.pt$`)
	layerFile  = regexp.MustCompile(`^layer_(\d{1,9})-(.+)-model_states\.pt$`)
	expertFile = regexp.MustCompile(`^layer_(\d{1,9})_expert_(\d{1,9})_mp_rank_(\d{1,9})_model_states\.pt$`)
	expertRank = regexp.MustCompile(`^expp_rank_(\d{1,9})_mp_rank_(\d{1,9})_optim_states\.pt$`)
)

// grid is which pairs of numbers a kind of file was seen for.
type grid struct {
	kind   string
	first  string // what the first number counts
	second string
	seen   map[[2]int]bool
	most   [2]int
}

func newGrid(kind, first, second string) *grid {
	return &grid{kind: kind, first: first, second: second, seen: map[[2]int]bool{}, most: [2]int{-1, -1}}
}

func (g *grid) add(numbers []string) {
	var at [2]int
	for i := range min(len(numbers), 2) {
		at[i], _ = strconv.Atoi(numbers[i]) // the expression has digits only
	}
	g.seen[at] = true
	g.most = [2]int{max(g.most[0], at[0]), max(g.most[1], at[1])}
}

// size is how many pairs there must be: the full product of what was seen.
func (g *grid) size() int { return (g.most[0] + 1) * (g.most[1] + 1) }

// readDeepSpeed wants the full product of ranks of each kind of file. `latest`, which rank 0 writes before others are done, says nothing
// about that; how many ranks there are is announced, or guessed from those seen.
func (r *reader) readDeepSpeed() {
	optim := newGrid("optimizer states", "data-parallel rank", "model-parallel rank")
	shards := newGrid("ZeRO-3 model states", "data-parallel rank", "model-parallel rank")
	models := newGrid("model states", "model-parallel rank", "")
	experts := newGrid("states of expert optimizers", "expert rank", "model-parallel rank")
	layers, expertLayers := map[string]map[string]bool{}, map[string]map[string]bool{}
	for _, f := range r.c.Files {
		if m := zeroOptim.FindStringSubmatch(f.Name); m != nil {
			optim.add(m[1:])
		} else if m := zeroModel.FindStringSubmatch(f.Name); m != nil {
			shards.add(m[1:])
		} else if m := model.FindStringSubmatch(f.Name); m != nil {
			models.add(m[1:])
		} else if m := expertRank.FindStringSubmatch(f.Name); m != nil {
			experts.add(m[1:])
		} else if m := expertFile.FindStringSubmatch(f.Name); m != nil {
			note(expertLayers, m[1], "expert "+m[2]+", model-parallel rank "+m[3])
		} else if m := layerFile.FindStringSubmatch(f.Name); m != nil {
			note(layers, m[1], m[2])
		}
	}
	for _, g := range []*grid{optim, shards, models, experts} {
		r.full(g)
	}
	r.alike("layer", layers)
	r.alike("layer of experts", expertLayers)
	r.world(optim, shards, models)
}

func note(sets map[string]map[string]bool, of, what string) {
	if sets[of] == nil {
		sets[of] = map[string]bool{}
	}
	sets[of][what] = true
}

// mostNamed bounds how many missing files are named one by one.
const mostNamed = 20

// full names what a grid lacks.
func (r *reader) full(g *grid) {
	lacks := 0
	for first := 0; first <= g.most[0] && lacks < mostNamed; first++ {
		for second := 0; second <= g.most[1] && lacks < mostNamed; second++ {
			if g.seen[[2]int{first, second}] {
				continue
			}
			where := g.first + " " + strconv.Itoa(first)
			if g.second != "" {
				where += ", " + g.second + " " + strconv.Itoa(second)
			}
			r.problem("rank-missing", "", "no %s of %s", g.kind, where)
			lacks++
		}
	}
}

// alike wants the same files of every layer.
func (r *reader) alike(what string, layers map[string]map[string]bool) {
	all := map[string]bool{}
	for _, files := range layers {
		maps.Copy(all, files)
	}
	lacks := 0
	for _, layer := range slices.Sorted(maps.Keys(layers)) {
		for _, f := range slices.Sorted(maps.Keys(all)) {
			if !layers[layer][f] && lacks < mostNamed {
				r.problem("rank-missing", "", "%s %s has nothing of %s, which others have", what, layer, f)
				lacks++
			}
		}
	}
}

// world compares the ranks seen with those announced. ZeRO has a file for each rank, otherwise only model-parallel ones write.
func (r *reader) world(optim, shards, models *grid) {
	if len(models.seen) == 0 && len(shards.seen) == 0 {
		r.problem("model-missing", "", "there are no model states")
	}
	ranks := max(optim.size(), shards.size())
	switch want := r.o.WorldSize; {
	case want == 0:
		r.guess = "nothing says how many ranks saved"
		if n := max(ranks, models.size()); n > 0 {
			r.guess += "; there are files of " + strconv.Itoa(n)
		}
	case ranks > 0 && ranks != want:
		r.problem("rank-missing", "", "files of %d ranks, and %d saved", ranks, want)
	case ranks == 0 && models.size() > want:
		r.problem("rank-missing", "", "files of %d ranks, and %d saved", models.size(), want)
	}
}

// readTorch has files of torch.save, of which only the names and the ends are looked at.
func (r *reader) readTorch(ctx context.Context) error {
	ranks := newGrid("model states", "tensor-parallel rank", "pipeline rank")
	for _, f := range r.c.Files {
		if folder, _, ok := strings.Cut(f.Name, "/"); ok && megatronRank.MatchString(folder) {
			ranks.add(strings.Split(folder, "_")[2:])
		}
	}
	r.full(ranks)
	r.numbered()
	pickles := r.c.pickles()
	switch {
	case len(pickles) == 0:
		r.problem("weights-missing", "", "there are no files of torch.save")
	case len(pickles) > 1:
		r.guess = "nothing says how many files the save has"
	}
	cut, doubtful, err := r.c.cutPickles(ctx, pickles)
	r.c.Problems = append(r.c.Problems, cut...)
	r.c.Doubts = append(r.c.Doubts, doubtful...)
	return err
}

// pickles are the files of torch.save.
func (c *Checkpoint) pickles() []int {
	var found []int
	for i, f := range c.Files {
		switch path.Ext(f.Name) {
		case ".pt", ".pth", ".bin", ".ckpt":
			found = append(found, i)
		}
	}
	return found
}

// zipEnd is the length of the record at the end of a zip file, of which torch.save writes one without a comment.
const zipEnd = 22

// cutPickles looks at the first and last bytes of files of torch.save: a zip file that does not end as one is cut. Of the format
// before that nothing can be said.
func (c *Checkpoint) cutPickles(ctx context.Context, numbers []int) (cut, doubtful []Problem, err error) {
	err = c.withFiles(ctx, numbers, func(first int, files []store.File) error {
		reads := make([]store.FileRanges, len(files))
		for k, f := range files {
			reads[k] = store.FileRanges{File: f}
			if f.Size() >= 4+zipEnd {
				reads[k].Ranges = []store.Range{{Buf: make([]byte, 4)}, {Off: f.Size() - zipEnd, Buf: make([]byte, zipEnd)}}
			}
		}
		if err := store.ReadMany(ctx, c.st, reads); err != nil {
			return err
		}
		for k, read := range reads {
			if read.Err != nil {
				return read.Err
			}
			name := c.Files[numbers[first+k]].Name
			switch {
			case read.Ranges == nil:
				cut = append(cut, Problem{Kind: "file-short", File: name, Detail: "it is too short for a file of torch.save"})
			case string(read.Ranges[0].Buf) != "PK\x03\x04":
				doubtful = append(doubtful, Problem{Kind: "file-unknown", File: name, Detail: "it is no zip file, as torch.save writes them since 1.6: whether it is whole is not known"})
			case !strings.HasPrefix(string(read.Ranges[1].Buf), "PK\x05\x06"):
				cut = append(cut, Problem{Kind: "file-short", File: name, Detail: "it begins as a zip file and does not end as one: it is cut, or something was appended"})
			}
		}
		return nil
	})
	return cut, doubtful, err
}
