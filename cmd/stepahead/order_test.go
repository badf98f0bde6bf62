package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/sampler"
)

// call runs the program with arguments and returns exit code, standard output and error output.
func call(t *testing.T, args ...string) (int, string, string) {
	t.Helper()
	root := newRoot()
	var out, errs bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errs)
	code := exit.Run(t.Context(), root, args)
	return code, out.String(), errs.String()
}

func orderLines(t *testing.T, out string) []orderLine {
	t.Helper()
	var lines []orderLine
	for text := range strings.Lines(out) {
		var l orderLine
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		lines = append(lines, l)
	}
	return lines
}

func TestOrderPrintsWhatTheSamplerGives(t *testing.T) {
	code, out, errs := call(t, "order", "--samples", "100000", "--seed", "7", "--batch", "64", "--world", "8", "--rank", "3",
		"--from-step", "1000000", "--steps", "2", "--json")
	if code != exit.OK {
		t.Fatal(code, errs)
	}
	s, err := sampler.New(sampler.Spec{Version: 1, Seed: 7, GlobalBatch: 64, Sources: []sampler.Source{{Samples: 100000}}})
	if err != nil {
		t.Fatal(err)
	}
	lines := orderLines(t, out)
	if len(lines) != 2 {
		t.Fatalf("%d lines", len(lines))
	}
	for i, l := range lines {
		step := int64(1000000 + i)
		var want []uint64
		for _, r := range s.Rank(step, 3, 8, nil) {
			want = append(want, r.Sample)
		}
		if l.Step != step || l.Epoch != step/1562 || !slices.Equal(l.Samples, want) {
			t.Errorf("%+v, want step %d epoch %d samples %v", l, step, step/1562, want)
		}
	}
}

func TestOrderPrintsTheWholeGlobalBatchWithoutRank(t *testing.T) {
	_, out, _ := call(t, "order", "--samples", "10", "--batch", "4", "--world", "2", "--shuffle", "none", "--last", "pad", "--steps", "3")
	want := "        step    epoch  samples\n" +
		"           0        0  0 1 2 3\n" +
		"           1        0  4 5 6 7\n" +
		"           2        0  8 9 0 1\n"
	if out != want {
		t.Errorf("%s\nwant\n%s", out, want)
	}
}

// manifest is of two bins with 3 and 5 samples.
const manifest = `{"format":1,"fields":[{"name":"image","kind":"media"}],"classes":[],"bins":[` +
	`{"name":"a","uuid":"00112233445566778899aabbccddeeff","samples":3,"bytes":100,"index_sha256":"` +
	`0000000000000000000000000000000000000000000000000000000000000001"},` +
	`{"name":"b","uuid":"00112233445566778899aabbccddeef0","samples":5,"bytes":100,"index_sha256":"` +
	`0000000000000000000000000000000000000000000000000000000000000002"}]}`

func TestOrderOfADataset(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "dataset.json")
	if err := os.WriteFile(file, []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, errs := call(t, "order", folder, "--batch", "8", "--json")
	if code != exit.OK {
		t.Fatal(code, errs)
	}
	ids := orderLines(t, out)[0].Samples
	slices.Sort(ids)
	if !slices.Equal(ids, []uint64{0, 1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("%v", ids)
	}
	if err := os.WriteFile(file, []byte(manifest[:100]), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := call(t, "order", folder, "--batch", "8"); code != exit.Found || !strings.Contains(errs, "dataset.json") {
		t.Errorf("a cut manifest: exit %d: %s", code, errs)
	}
	if code, _, errs := call(t, "order", t.TempDir(), "--batch", "8"); code != exit.Environment || !strings.Contains(errs, "no packed dataset there") {
		t.Errorf("an empty folder: exit %d: %s", code, errs)
	}
}

func TestOrderRefuses(t *testing.T) {
	for want, args := range map[string]string{
		"either a DATASET or --samples": "--batch 4",
		"either a DATASET or":           "/somewhere --samples 4 --batch 4",
		"at most 1 arg":                 "a b --batch 4",
		"--batch B is missing":          "--samples 10",
		"fewer samples than one":        "--samples 10 --batch 11",
		"world size 3, global batch 4":  "--samples 10 --batch 4 --world 3",
		"fewer samples than ranks":      "--samples 10 --batch 4 --world 16",
		"--rank 2: must be 0 to 1":      "--samples 10 --batch 4 --world 2 --rank 2",
		"--rank -1":                     "--samples 10 --batch 4 --world 2 --rank -1",
		"--from-step -1":                "--samples 10 --batch 4 --from-step -1",
		"--steps 0":                     "--samples 10 --batch 4 --steps 0",
		"below 2^63":                    "--samples 10 --batch 4 --from-step 9223372036854775807 --steps 1",
		`shuffle: "blick"`:              "--samples 10 --batch 4 --shuffle blick",
		`last: "keep"`:                  "--samples 10 --batch 4 --last keep",
		"invalid argument":              "--samples -10 --batch 4",
		"unknown flag":                  "--samples 10 --batch 4 --sead 3",
	} {
		code, out, errs := call(t, append([]string{"order"}, strings.Fields(args)...)...)
		if code != exit.Misused || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %q, %q, want %q", args, code, out, errs, want)
		}
	}
}
