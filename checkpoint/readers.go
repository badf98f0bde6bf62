package checkpoint

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/stepahead-io/stepahead/checkpoint/dcp"
	"github.com/stepahead-io/stepahead/checkpoint/safetensors"
)

// Share says how many of a job's ranks read a file.
type Share string

// The shares.
const (
	ReadByAll  Share = "all"
	ReadBySome Share = "some"
	ReadByOne  Share = "one"
	ReadByNone Share = "none"
)

// FileReaders says who reads a file when a job loads the checkpoint.
type FileReaders struct {
	File    int // an index of Files
	Readers int // ranks
	Share   Share
}

// Readers says, for each file, how many ranks of a job read it when the job loads the checkpoint, as the usual loader of the layout does:
// by where tensors lie, where that is known, and by the names of files, where it is not. It does no I/O. Where a layout leaves open
// which ranks read a file, the count is the larger one. What does not fit together in p matches fs.ErrInvalid.
func (c *Checkpoint) Readers(p Parallel) ([]FileReaders, error) {
	p, err := p.withDefaults()
	if err != nil {
		return nil, err
	}
	counts := c.countReaders(p)
	all := make([]FileReaders, len(c.Files))
	for i, n := range counts {
		n = min(max(n, 0), p.Ranks)
		all[i] = FileReaders{File: i, Readers: n, Share: shareOf(n, p.Ranks)}
	}
	return all, nil
}

func shareOf(readers, ranks int) Share {
	switch {
	case readers == 0:
		return ReadByNone
	case readers == ranks:
		return ReadByAll
	case readers == 1:
		return ReadByOne
	}
	return ReadBySome
}

func (c *Checkpoint) countReaders(p Parallel) []int {
	counts := make([]int, len(c.Files))
	switch c.Layout {
	case DCP, TorchDist:
		c.countParts(p, counts)
	case DeepSpeed, DeepSpeedUniversal:
		names := make([]string, len(c.Files))
		for i, f := range c.Files {
			names[i] = f.Name
		}
		copy(counts, deepSpeedReaders(names, p))
	case TorchCheckpointing:
		c.countItems(p, counts)
	case HuggingFace:
		c.countTrainer(p, counts)
	case Torch:
		c.countPickles(p, counts)
	default: // safetensors: every rank opens every file and reads what it needs of it
		c.countWeights(p, counts)
	}
	return counts
}

// countWeights gives all ranks the files that hold tensors, and what small files say about them.
func (c *Checkpoint) countWeights(p Parallel, counts []int) {
	for _, t := range c.Tensors {
		for _, ch := range t.Chunks {
			if ch.File >= 0 {
				counts[ch.File] = p.Ranks
			}
		}
	}
	for i, f := range c.Files {
		if describesModel(f.Name) {
			counts[i] = p.Ranks
		}
	}
}

// describesModel tells the small files beside weights that every rank reads: configuration, tokenizer, index.
func describesModel(name string) bool {
	if strings.Contains(name, "/") {
		return false
	}
	switch path.Ext(name) {
	case ".json", ".model", ".jinja", ".tiktoken":
		return name != trainerState
	}
	return name == "merges.txt" || name == "vocab.txt" || strings.HasSuffix(name, safetensors.IndexSuffix)
}

var (
	randomOfRank = regexp.MustCompile(`^rng_state_\d+\.pth$`)
	ofOneRank    = regexp.MustCompile(`(^|[^a-z])rank[_-]?\d+([^0-9]|$)`)
	shardOfRank  = regexp.MustCompile(`^__\d+_\d+\.distcp$`)
)

// countTrainer is for a folder of Trainer: weights, what is resumed from, and folders of DeepSpeed or FSDP.
func (c *Checkpoint) countTrainer(p Parallel, counts []int) {
	c.countWeights(p, counts)
	var inside []int
	var names []string
	for i, f := range c.Files {
		folder, base := path.Split(f.Name)
		switch {
		case randomOfRank.MatchString(f.Name), shardOfRank.MatchString(base):
			counts[i] = 1
		case base == "training_args.bin":
		case strings.HasPrefix(folder, "global_step"):
			inside, names = append(inside, i), append(names, base)
		case f.Name == trainerState, base == dcp.MetadataName, slices.Contains([]string{".pt", ".pth", ".bin"}, path.Ext(base)):
			counts[i] = p.Ranks
		}
	}
	for k, n := range deepSpeedReaders(names, p) {
		counts[inside[k]] = n
	}
}

// countPickles is for files of torch.save: each rank loads the whole state, or, of Megatron's old format, that of its model-parallel rank.
func (c *Checkpoint) countPickles(p Parallel, counts []int) {
	folders := map[string]bool{}
	for _, f := range c.Files {
		if folder, _, ok := strings.Cut(f.Name, "/"); ok && megatronRank.MatchString(folder) {
			folders[folder] = true
		}
	}
	for _, i := range c.pickles() {
		folder, base := path.Split(c.Files[i].Name)
		switch {
		case folders[strings.TrimSuffix(folder, "/")] && strings.HasPrefix(base, "distrib_optim"):
			counts[i] = 1 // the first data-parallel rank reads it and hands it out
		case folders[strings.TrimSuffix(folder, "/")]:
			counts[i] = perGroup(p.Ranks, len(folders))
		case ofOneRank.MatchString(c.Files[i].Name):
			counts[i] = 1
		default:
			counts[i] = p.Ranks
		}
	}
}

// countItems is for torch_checkpointing: a rank reads its own files; ranks in another number than saved read those of others too.
func (c *Checkpoint) countItems(p Parallel, counts []int) {
	saved := map[string]int{}
	most := 0
	for _, f := range c.Files {
		if m := itemOfRank.FindStringSubmatch(f.Name); m != nil {
			saved[m[1]]++
			most = max(most, saved[m[1]])
		}
	}
	for i, f := range c.Files {
		switch {
		case f.Name == rankMetadataPickle:
			counts[i] = p.Ranks
		case itemOfRank.MatchString(f.Name) && most == p.Ranks:
			counts[i] = 1
		case itemOfRank.MatchString(f.Name):
			counts[i] = p.Ranks
		}
	}
}

// perGroup is how many of ranks share each of n groups' files.
func perGroup(ranks, n int) int { return max(1, ranks/max(n, 1)) }

// hottest orders files by how much their readers ask for in all, the most first.
func (c *Checkpoint) hottest(files []FileReaders) []FileReaders {
	hot := slices.DeleteFunc(slices.Clone(files), func(r FileReaders) bool { return r.Readers < 2 })
	slices.SortStableFunc(hot, func(a, b FileReaders) int {
		return cmp.Or(cmp.Compare(b.Readers, a.Readers), cmp.Compare(c.Files[b.File].Size, c.Files[a.File].Size))
	})
	return hot
}
