package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/sampler"
)

const mixtureSpec = `{"spec":2,"seed":7,"global_batch":10,"sources":[
 {"name":"web","samples":900,"weight":0.7},{"name":"books","samples":20,"weight":0.3,"max_epochs":4}],
 "changes":[{"step":20,"weights":{"books":0.1}}]}`

func specFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "spec.json")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestSpecExplain(t *testing.T) {
	file := specFile(t, mixtureSpec)
	code, out, errs := call(t, "spec", "explain", file)
	if code != exit.OK {
		t.Fatal(code, errs)
	}
	for _, want := range []string{
		"epoch    92 steps", "it does not end by itself", "from step 0: 10 samples a step", "web  70.0000 %       7", "books  30.0000 %       3",
		"from step 20: 10 samples a step", "books  12.5000 %    1.25",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	_, out, _ = call(t, "spec", "explain", file, "--json")
	var e sampler.Explanation
	if err := json.Unmarshal([]byte(out), &e); err != nil {
		t.Fatal(err)
	}
	books := e.Sources[1]
	// 3 a step for 20 steps, then 1.25: the 21st sample is in step 6, the 80th in step 35.
	if !e.Stream || books.Taken != 80 || books.Repeats != 60 || *books.FirstRepeat != 6 || *books.UsedUp != 35 || e.Steps != nil {
		t.Errorf("%s", out)
	}
	if last := e.Stages[len(e.Stages)-1]; last.Step != 35 || !slices.Equal(last.Shares, []float64{1, 0}) {
		t.Errorf("the last stage is %+v", last)
	}
}

func TestSpecExplainsPlainOrders(t *testing.T) {
	file := specFile(t, `{"spec":1,"seed":7,"global_batch":4,"sources":[{"name":"","samples":10}]}`)
	_, out, _ := call(t, "spec", "explain", file)
	for _, want := range []string{"version  1", "an epoch is one pass", "epoch    2 steps", "(unnamed)       10      8     0.8        0                     2"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

func TestSpecCheckAndDigest(t *testing.T) {
	file := specFile(t, mixtureSpec)
	spec, err := sampler.ParseSpec([]byte(mixtureSpec))
	if err != nil {
		t.Fatal(err)
	}
	if _, out, errs := call(t, "spec", "check", file); out != string(spec.Canonical())+"\n" {
		t.Error(out, errs)
	}
	code, out, _ := call(t, "spec", "digest", file, "--json")
	if want := sampler.Spec.Digest(spec); code != exit.OK || !strings.Contains(out, `{"digest":"`) || !strings.Contains(out, fmt.Sprintf("%x", want)) {
		t.Errorf("%s, want %x", out, want)
	}
	bad := specFile(t, strings.Replace(mixtureSpec, "0.7", "-1", 1))
	if code, _, errs := call(t, "spec", "check", bad); code != exit.Found || !strings.Contains(errs, "sources[0].weight: -1: must be") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if code, _, errs := call(t, "order", "--spec", bad); code != exit.Misused || !strings.Contains(errs, "sources[0].weight: -1: must be") {
		t.Errorf("an order of it: exit %d: %s", code, errs)
	}
	if code, _, _ := call(t, "order", "--spec", "/nowhere.json"); code != exit.Environment {
		t.Errorf("an order of a missing file: exit %d", code)
	}
	if code, _, _ := call(t, "spec", "check", "/nowhere.json"); code != exit.Environment {
		t.Errorf("a missing file: exit %d", code)
	}
}

func TestOrderOfASpec(t *testing.T) {
	file := specFile(t, mixtureSpec)
	code, out, errs := call(t, "order", "--spec", file, "--from-step", "100", "--steps", "2", "--world", "2", "--rank", "1", "--json")
	if code != exit.OK {
		t.Fatal(code, errs)
	}
	spec, err := sampler.ParseSpec([]byte(mixtureSpec))
	if err != nil {
		t.Fatal(err)
	}
	s, err := sampler.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range orderLines(t, out) {
		for j, r := range s.Rank(int64(100+i), 1, 2, nil) {
			if l.Sources[j] != r.Source || l.Epochs[j] != r.Epoch || l.Samples[j] != r.Sample {
				t.Errorf("%+v, want %+v at %d", l, r, j)
			}
		}
	}
	if _, out, _ = call(t, "order", "--spec", file); !strings.Contains(out, " web:") || !strings.Contains(out, " books:") {
		t.Error(out)
	}
	if code, _, errs := call(t, "order", "--spec", file, "a", "b"); code != exit.Misused || !strings.Contains(errs, "give no DATASET with it") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if code, _, errs := call(t, "order", "--spec", file, "--seed", "3"); code != exit.Misused || !strings.Contains(errs, "--spec says all of the order") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// The lengths of an order that groups by them are in the datasets' indexes: here by class, so that each step is of one.
func TestOrderOfGroups(t *testing.T) {
	set := filepath.Join(t.TempDir(), "set")
	if code, _, errs := call(t, "pack", gifs(t, 24), "-o", set); code != exit.OK {
		t.Fatal(errs)
	}
	const text = `{"spec":2,"seed":7,"global_batch":4,"sources":[{"name":"","samples":24}],"group_by_length":{"column":"label","steps":6}}`
	file := specFile(t, text)
	code, out, errs := call(t, "order", "--spec", file, set, "--steps", "12", "--json")
	if code != exit.OK {
		t.Fatal(code, errs)
	}
	seen := map[uint64]int{}
	for _, l := range orderLines(t, out) {
		for _, id := range l.Samples {
			seen[id]++
			if id/12 != l.Samples[0]/12 {
				t.Errorf("step %d has samples of both classes: %v", l.Step, l.Samples)
			}
		}
	}
	if len(seen) != 24 {
		t.Errorf("%d of 24 samples in two epochs", len(seen))
	}
	_, one, _ := call(t, "order", "--spec", file, set, "--from-step", "3", "--world", "2", "--rank", "1", "--json")
	if got, want := orderLines(t, one)[0].Samples, orderLines(t, out)[3].Samples[2:]; !slices.Equal(got, want) {
		t.Errorf("rank 1 of step 3: %v, want %v", got, want)
	}
	for want, args := range map[string][]string{
		`groups samples by the column "label": give the dataset of each source`: {file},
		"has 23 samples, ": {specFile(t, strings.Replace(text, "24", "23", 1)), set},
		"the columns of lengths here are image.{length": {specFile(t, strings.Replace(text, `"label"`, `"tokens"`, 1)), set},
		"no packed dataset there":                       {file, t.TempDir()},
	} {
		if code, _, errs := call(t, append([]string{"order", "--spec"}, args...)...); code == exit.OK || !strings.Contains(errs, want) {
			t.Errorf("exit %d, %q, want %q", code, errs, want)
		}
	}
	if _, out, _ := call(t, "spec", "explain", file); !strings.Contains(out, "grouped  by label, among 6 steps") {
		t.Error(out)
	}
}
