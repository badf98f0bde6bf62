package agent

import (
	"errors"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/internal/auth"
)

// TestForeignBinsNeedRoots: a dataset in a folder that a token covers may point at a file that it does not cover,
// and then neither is the schedule taken nor are the file's bytes served.
func TestForeignBinsNeedRoots(t *testing.T) {
	digest := strings.Repeat("ab", 32)
	foreign := func(name, path string) binfmt.Bin {
		return binfmt.Bin{Name: name, UUID: digest[:32], IndexSHA256: digest, Samples: 1, Bytes: 1024,
			Foreign: &binfmt.Foreign{Container: binfmt.Tar, Path: path, Identity: "dir:1"}}
	}
	m := &binfmt.Manifest{Format: binfmt.FormatForeign, Fields: []binfmt.Field{{Name: "image", Kind: binfmt.Media}}, Bins: []binfmt.Bin{
		foreign("a", "../shards/a.tar"),
		{Name: "b", UUID: digest[:32], IndexSHA256: digest, Samples: 1, Bytes: 1024},
		foreign("c", "../../other/c.tar"),
		foreign("d", "../../../../../etc/d.tar"),
	}}
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	d := &dataset{datasetKey: datasetKey{dir: "/team/set"}, Dataset: binfmt.NewDataset(m, nil)}
	u := newUnion([]string{""}, []*dataset{d})
	for _, c := range []struct {
		roots []string
		all   bool   // of the schedule
		bins  string // that may be served
	}{{[]string{"/"}, true, "abcd"}, {[]string{"/team"}, false, "ab"}, {[]string{"/team/set"}, false, "b"}, {[]string{"/team", "/other"}, false, "abc"}} {
		claims := auth.Claims{User: "u", Job: "j", Roots: c.roots, Rights: []string{auth.RightFetch, auth.RightHint}}
		if err := d.allowed(claims, auth.RightHint); (err == nil) != c.all {
			t.Errorf("%q: schedule: %v", c.roots, err)
		}
		f := &fetching{agent: &Agent{}, task: &task{data: u}, claims: claims}
		for sample := range uint64(4) {
			err := f.mayReadSample(t.Context(), sample)
			if served := strings.Contains(c.bins, m.Bins[sample].Name); served != (err == nil) || !served && !errors.Is(err, auth.ErrRoot) {
				t.Errorf("%q: bin %s: %v", c.roots, m.Bins[sample].Name, err)
			}
		}
	}
}
