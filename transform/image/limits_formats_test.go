package image

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/transform"
)

// Every limit holds for every format: one less than what a picture needs is an error of kind limit that names the limit, and what it
// needs is enough.
func TestEveryLimitHoldsForEveryFormat(t *testing.T) {
	names, err := filepath.Glob("vectors/*-*.*")
	if err != nil || len(names) < 15 {
		t.Fatalf("%d vectors, %v", len(names), err)
	}
	plan, err := transform.ParsePlan([]byte(`{"plan":1,"ops":[{"op":"DecodeImage"},{"op":"Resize","size":[9,7]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasPrefix(filepath.Base(name), "fill-") {
			continue // cut on purpose
		}
		in, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, w, h, err := decodeAll(in, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		memory := leastMemory(plan, in)
		for _, c := range []struct {
			limit         string
			enough, short Limits
			says          string
		}{
			{"pixels", Limits{MaxPixels: int64(w * h)}, Limits{MaxPixels: int64(w*h) - 1}, "pixels, the limit is"},
			{"bytes", Limits{MaxInput: int64(len(in))}, Limits{MaxInput: int64(len(in)) - 1}, "bytes, the limit is"},
			{"output", Limits{MaxOutput: 9 * 7 * channels}, Limits{MaxOutput: 9*7*channels - 1}, "the limit is 188 bytes"},
			{"memory", Limits{MaxMemory: memory}, Limits{MaxMemory: memory - 1}, "memory"},
			{"little memory", Limits{MaxMemory: memory}, Limits{MaxMemory: 1}, "memory"},
		} {
			out := make([]byte, 9*7*channels)
			if _, err := Run(plan, transform.Key{}, in, out, c.enough); err != nil {
				t.Errorf("%s with enough %s: %v", name, c.limit, err)
			}
			_, err := Run(plan, transform.Key{}, in, out, c.short)
			if kindOf(err) != transform.KindLimit || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s with too little %s: %v; want kind limit, saying %q", name, c.limit, err, c.says)
			}
		}
	}
}

// leastMemory returns the smallest memory limit under which a plan runs.
func leastMemory(plan *transform.Plan, in []byte) int64 {
	short, enough := int64(0), int64(1<<30)
	for enough-short > 1 {
		middle := (short + enough) / 2
		if _, err := Run(plan, transform.Key{}, in, make([]byte, 9*7*channels), Limits{MaxMemory: middle}); err != nil {
			short = middle
		} else {
			enough = middle
		}
	}
	return enough
}
