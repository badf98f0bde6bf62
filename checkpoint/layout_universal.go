package checkpoint

import (
	"context"
	"path"
	"slices"
	"strings"
)

const (
	// weightState is the state that every parameter of a universal checkpoint has; those that never had a gradient have no other.
	weightState = "fp32.pt"
	// optimizerState is written when all parameters are joined.
	optimizerState = universalFolder + "/optimizer_state.pt"
	// leastPickle is the shortest file of torch.save: a zip file has a first record and a last.
	leastPickle = 4 + zipEnd
)

// readUniversal wants what DeepSpeed's conversion writes: the states of each parameter, then those of the optimizer, then the model states of
// ranks, which it copies. Nothing in the folder says how many of these there are; latest_universal beside it is written at the very end.
func (r *reader) readUniversal(ctx context.Context) error {
	models := newGrid("model states", "model-parallel rank", "")
	shards := newGrid("ZeRO-3 model states", "data-parallel rank", "model-parallel rank")
	states := map[string]map[string]bool{} // of each parameter
	scratch := false
	for _, f := range r.c.Files {
		if rest, ok := strings.CutPrefix(f.Name, universalFolder+"/"); ok {
			if at := strings.LastIndexByte(rest, '/'); at > 0 {
				note(states, rest[:at], rest[at+1:])
			}
		} else if m := model.FindStringSubmatch(f.Name); m != nil {
			models.add(m[1:])
		} else if m := zeroModel.FindStringSubmatch(f.Name); m != nil {
			shards.add(m[1:])
		}
		scratch = scratch || strings.HasPrefix(f.Name, universalScratch+"/")
		if strings.HasSuffix(f.Name, ".pt") && f.Size < leastPickle {
			r.problem("file-short", f.Name, "it is too short for a file of torch.save")
		}
	}
	r.full(models)
	r.full(shards)
	r.wantParameters(states)
	if r.c.file(optimizerState) < 0 {
		r.problem("optimizer-state-missing", optimizerState, "it is written when all parameters are: the conversion is under way, or was killed")
	}
	if len(models.seen)+len(shards.seen) == 0 {
		r.problem("model-missing", "", "there are no model states, which the conversion copies last")
	}
	if scratch {
		r.doubt("scratch-left", universalScratch, "the conversion has not removed its pieces: it is under way, was killed, or was to keep them")
	}
	t, err := trackerFile{universalTracker, plainFolder}.read(ctx, r.c.st, path.Dir(r.c.Path))
	if err == nil && (t == nil || t.Names != r.c.Path) {
		r.guess = universalTracker + ", which is written last, does not name it, and nothing else says how many files it has"
	}
	return err
}

// wantParameters wants the weights of each parameter.
func (r *reader) wantParameters(states map[string]map[string]bool) {
	if len(states) == 0 {
		r.problem("weights-missing", universalFolder, "there are no parameters")
	}
	var without []string
	for parameter, files := range states {
		if !files[weightState] {
			without = append(without, parameter)
		}
	}
	slices.Sort(without)
	for _, parameter := range without[:min(len(without), mostNamed)] {
		r.problem("file-missing", universalFolder+"/"+parameter+"/"+weightState, "the parameter has other states")
	}
}
