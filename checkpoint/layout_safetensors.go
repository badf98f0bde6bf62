package checkpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/stepahead-io/stepahead/checkpoint/dcp"
	"github.com/stepahead-io/stepahead/checkpoint/safetensors"
	"github.com/stepahead-io/stepahead/store"
)

// headers reads the headers of files. What is wrong with one is an error with its name.
func (r *reader) headers(ctx context.Context, files []int) ([]*safetensors.Header, error) {
	headers := make([]*safetensors.Header, len(files))
	err := r.c.withFiles(ctx, files, func(first int, open []store.File) error {
		some, errs, err := safetensors.ReadMany(ctx, r.c.st, open)
		if err != nil {
			return err
		}
		for k, err := range errs {
			if err != nil {
				return wrap(r.c.at(r.c.Files[files[first+k]]), err)
			}
		}
		copy(headers[first:], some)
		return nil
	})
	return headers, err
}

// readSafetensors reads a single file, a set with an index, or what torch's distributed checkpoint wrote and nobody consolidated.
func (r *reader) readSafetensors(ctx context.Context) error {
	r.c.Tensors = []Tensor{}
	var indexes, weights []int
	for i, f := range r.c.Files {
		switch {
		case strings.Contains(f.Name, "/"):
		case strings.HasSuffix(f.Name, safetensors.IndexSuffix):
			indexes = append(indexes, i)
		case strings.HasSuffix(f.Name, ".safetensors"):
			weights = append(weights, i)
		}
	}
	switch main := r.c.file("model" + safetensors.IndexSuffix); {
	case main >= 0:
		return r.readIndexed(ctx, main, weights)
	case len(indexes) == 1:
		return r.readIndexed(ctx, indexes[0], weights)
	case len(indexes) > 1:
		r.problem("index-ambiguous", r.c.Files[indexes[1]].Name, "there are %d indexes, and none is model%s", len(indexes), safetensors.IndexSuffix)
		return nil
	}
	if single := r.c.file("model.safetensors"); single >= 0 {
		weights = []int{single}
	} else if len(weights) == 0 {
		r.problem("weights-missing", "", "there are no files with tensors")
		return nil
	} else if r.numbered() {
		r.problem("index-missing", "", "the names of files say that they are a set, whose index is written last")
	}
	headers, err := r.headers(ctx, weights)
	if err != nil {
		return err
	}
	if len(weights) == 1 {
		if _, parts, err := headers[0].Sharding(); err != nil || !parts {
			r.addWhole(weights[0], headers[0])
			return wrap(r.c.at(r.c.Files[weights[0]]), err)
		}
	}
	return r.readParts(weights, headers)
}

// numbered looks for files that say how many of them there are, such as model-00001-of-00004.safetensors, and names those that are not
// there; true if there are any sets of more than one.
func (r *reader) numbered() bool {
	if r.c.dir != r.c.Path {
		return false // one file was asked for
	}
	seen := map[[3]string]bool{} // what is before the number, how many, and the ending
	for _, f := range r.c.Files {
		if m := numbered.FindStringSubmatch(f.Name); m != nil && m[3] != "00001" {
			seen[[3]string{m[1], m[3], m[4]}] = true
		}
	}
	for set := range seen {
		most, _ := strconv.Atoi(set[1]) // five digits
		lacks := 0
		for n := 1; n <= most && lacks < mostNamed; n++ {
			if name := fmt.Sprintf("%s-%05d-of-%s.%s", set[0], n, set[1], set[2]); r.c.file(name) < 0 {
				r.problem("file-missing", name, "the names of others say that it belongs to them")
				lacks++
			}
		}
	}
	return len(seen) > 0
}

// readIndexed reads a set of files by its index. Files that it does not name belong to other uses of the folder.
func (r *reader) readIndexed(ctx context.Context, index int, weights []int) error {
	data, err := r.c.readFile(ctx, index)
	if err != nil {
		return err
	}
	x, err := safetensors.ParseIndex(data)
	if err != nil {
		return wrap(r.c.at(r.c.Files[index]), err)
	}
	folder := path.Dir(r.c.Files[index].Name)
	var files []int
	for _, name := range x.Files {
		if i := r.c.file(path.Join(folder, name)); i >= 0 {
			files = append(files, i)
		}
	}
	headers, err := r.headers(ctx, files)
	if err != nil {
		return err
	}
	byFile := map[string]*safetensors.Header{}
	for k, i := range files {
		byFile[path.Base(r.c.Files[i].Name)] = headers[k]
		r.addWhole(i, headers[k])
	}
	r.c.Problems = append(r.c.Problems, x.Check(byFile)...)
	for _, i := range weights {
		if byFile[r.c.Files[i].Name] == nil {
			r.doubt("file-unlisted", r.c.Files[i].Name, "the index does not name it")
		}
	}
	return nil
}

// addWhole takes over the tensors of a file, each of which is whole.
func (r *reader) addWhole(file int, h *safetensors.Header) {
	for _, t := range h.Tensors {
		r.c.Tensors = append(r.c.Tensors, Tensor{Name: t.Name, Dtype: t.Dtype.String(), Shape: t.Shape,
			Chunks: []Chunk{{File: file, Off: t.Off, Len: t.Len, Offsets: make([]int64, len(t.Shape)), Sizes: t.Shape}}})
	}
}

// readParts joins the parts of tensors in files that have no index: each file says where its parts belong, none how large tensors
// are and how many files there should be.
func (r *reader) readParts(files []int, headers []*safetensors.Header) error {
	tensors := map[string]*Tensor{}
	for k, h := range headers {
		name := r.c.Files[files[k]].Name
		at, parts, err := h.Sharding()
		if err != nil {
			return wrap(r.c.at(r.c.Files[files[k]]), err)
		}
		if !parts {
			if len(r.c.Problems) == 0 {
				r.problem("index-missing", name, "there are %d files with tensors and no index that says which belong together: name one of the files if each is a model of its own", len(files))
			}
			r.c.Tensors = []Tensor{}
			return nil
		}
		for _, part := range h.Tensors {
			if err := addPart(tensors, part, at[part.Name], files[k]); err != nil {
				return wrapFormat(r.c.at(r.c.Files[files[k]]), "%v", err)
			}
		}
	}
	r.c.Layout = DCPSafetensors
	r.guess = "nothing says how many files the save has"
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		t := tensors[name]
		r.c.Tensors = append(r.c.Tensors, *t)
		if err := covered(t); err != nil {
			r.c.Problems = append(r.c.Problems, Problem{Kind: "not-covered", Tensor: name, Detail: err.Error()})
		}
	}
	return nil
}

func addPart(tensors map[string]*Tensor, part safetensors.Tensor, at []int64, file int) error {
	t := tensors[part.Name]
	if t == nil {
		t = &Tensor{Name: part.Name, Dtype: part.Dtype.String(), Shape: make([]int64, len(part.Shape))}
		tensors[part.Name] = t
	}
	if t.Dtype != part.Dtype.String() || len(t.Shape) != len(part.Shape) {
		return errPart(t, part)
	}
	for d := range at {
		if at[d] > 1<<62-part.Shape[d] {
			return errPart(t, part)
		}
		t.Shape[d] = max(t.Shape[d], at[d]+part.Shape[d])
	}
	t.Chunks = append(t.Chunks, Chunk{File: file, Off: part.Off, Len: part.Len, Offsets: at, Sizes: part.Shape})
	return nil
}

func errPart(t *Tensor, part safetensors.Tensor) error {
	return fmt.Errorf("its part %s %v of tensor %.200q does not fit to the others, %s %v", part.Dtype, part.Shape, part.Name, t.Dtype, t.Shape)
}

// covered is dcp's rule for a tensor of ours.
func covered(t *Tensor) error {
	theirs := dcp.Tensor{Name: t.Name, Shape: t.Shape}
	for _, c := range t.Chunks {
		theirs.Chunks = append(theirs.Chunks, dcp.Chunk{Offsets: c.Offsets, Sizes: c.Sizes})
	}
	return theirs.Covered()
}

// readTrainer reads a folder of Hugging Face's Trainer, which writes weights, then optimizer and scheduler, and its own state last.
func (r *reader) readTrainer(ctx context.Context) error {
	state := r.c.file(trainerState)
	if state < 0 {
		r.problem("trainer-state-missing", trainerState, "Trainer writes it last: the save is under way, or was killed")
	} else {
		data, err := r.c.readFile(ctx, state)
		if err != nil {
			return err
		}
		if !json.Valid(data) {
			r.problem("trainer-state-cut", trainerState, "it is not whole JSON: the save is under way, or was killed")
		}
	}
	optimizer := slices.ContainsFunc(r.c.Files, func(f File) bool {
		return strings.HasPrefix(f.Name, "optimizer") || strings.HasPrefix(f.Name, "global_step")
	})
	if !optimizer {
		r.doubt("optimizer-missing", "", "there is no state of an optimizer: training cannot be resumed from here")
	}
	switch has := func(suffix string) bool {
		return slices.ContainsFunc(r.c.Files, func(f File) bool { return strings.HasSuffix(f.Name, suffix) && !strings.Contains(f.Name, "/") })
	}; {
	case has(".safetensors") || has(safetensors.IndexSuffix):
		return r.readSafetensors(ctx)
	case has(".bin"):
		r.numbered()
	case !has(".pt") && !slices.ContainsFunc(r.c.Files, func(f File) bool { return strings.Contains(f.Name, "/") }):
		r.problem("weights-missing", "", "there are no weights beside the trainer's state")
	}
	return nil
}
