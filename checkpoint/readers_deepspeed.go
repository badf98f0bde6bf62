package checkpoint

import (
	"path"
	"strings"
)

// deepSpeedReaders says how many ranks read each of DeepSpeed's files, by their names.
func deepSpeedReaders(names []string, p Parallel) []int {
	var models, expertModels, expertOptims = map[string]bool{}, map[string]bool{}, map[string]bool{}
	data := map[string]map[string]bool{} // of each model-parallel rank, the data-parallel ranks that saved
	layers := map[string]map[string]bool{}
	sharded := false // ZeRO-3: model states are divided too
	for _, name := range names {
		if m := model.FindStringSubmatch(name); m != nil {
			models[m[1]] = true
		} else if m := zeroOptim.FindStringSubmatch(name); m != nil {
			note(data, m[2], m[1])
		} else if m := zeroModel.FindStringSubmatch(name); m != nil {
			note(data, m[2], m[1])
			sharded = true
		} else if m := expertFile.FindStringSubmatch(name); m != nil {
			expertModels[m[3]] = true
		} else if m := expertRank.FindStringSubmatch(name); m != nil {
			expertOptims[m[1]+" "+m[2]] = true
		} else if m := layerFile.FindStringSubmatch(name); m != nil {
			note(layers, m[1], m[2])
		}
	}
	counts := make([]int, len(names))
	for i, name := range names {
		switch m := layerFile.FindStringSubmatch(name); {
		case model.MatchString(name):
			counts[i] = perGroup(p.Ranks, len(models))
		case zeroOptim.MatchString(name), zeroModel.MatchString(name):
			counts[i] = 1
			rank := strings.TrimSuffix(name[strings.LastIndex(name, "mp_rank_")+len("mp_rank_"):], ".pt")
			rank, _, _ = strings.Cut(rank, "_")
			if group := perGroup(p.Ranks, len(data)); len(data[rank]) != group {
				counts[i] = group // another number of ranks than saved: each reads all, and takes its part
			}
		case expertFile.MatchString(name):
			counts[i] = perGroup(p.Ranks, p.Expert*len(expertModels))
		case m != nil:
			counts[i] = perGroup(p.Ranks, p.Pipeline*len(layers[m[1]]))
		case expertRank.MatchString(name):
			counts[i] = perGroup(p.Ranks, len(expertOptims))
		case strings.HasPrefix(name, "offloaded_tensors/"):
			counts[i] = 1
		case name == optimizerState:
			counts[i] = p.Ranks
		case strings.HasPrefix(name, universalFolder+"/") && path.Ext(name) == ".pt":
			// Each tensor-parallel rank reads the parameters of its partition, and takes its slice.
			counts[i] = p.Tensor
			if sharded {
				counts[i] = p.Ranks
			}
		}
	}
	return counts
}
