package main

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/loader/proof"
)

// writeRecords writes the records of steps 0 to steps-1, two samples each.
func writeRecords(t *testing.T, path string, steps int64, sample uint64) {
	t.Helper()
	w, err := proof.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for s := range steps {
		var lines []byte
		for p := range int64(2) {
			r := proof.Record{Step: s, Position: p, Sample: sample + uint64(p)}
			lines = r.AppendLine(lines)
		}
		if err := w.Append(lines); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestDigestCommand(t *testing.T) {
	folder := t.TempDir()
	a, b := filepath.Join(folder, "a"), filepath.Join(folder, "b")
	writeRecords(t, a, 3, 5)
	writeRecords(t, b, 2, 5)
	sum, _, err := proof.Digest(a, b)
	if err != nil {
		t.Fatal(err)
	}
	digest := hex.EncodeToString(sum[:])

	code, out, errs := call(t, "digest", a, b)
	want := digest + "  6 records, 3 steps (0 to 2) of 2 samples\nleft out: 4 records of steps that were done again after a resume\n"
	if code != exit.OK || out != want {
		t.Errorf("exit %d, %q, %s, want %q", code, out, errs, want)
	}
	_, out, _ = call(t, "digest", "--json", a, b)
	var got map[string]any
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if got["digest"] != digest || got["records"] != 6.0 || got["steps"] != 3.0 || got["duplicates"] != 4.0 {
		t.Errorf("%v", got)
	}
}

func TestDigestCommandExitCodes(t *testing.T) {
	folder := t.TempDir()
	a, b, cut := filepath.Join(folder, "a"), filepath.Join(folder, "b"), filepath.Join(folder, "cut")
	writeRecords(t, a, 3, 5)
	writeRecords(t, b, 3, 6)
	if err := os.WriteFile(cut, []byte(`{"step":`), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{exit.Found, a + ":1 and " + b + ":1: conflict", []string{a, b}},
		{exit.Found, "no record in 1 files", []string{cut}},
		{exit.Misused, "requires at least 1 arg", nil},
		{exit.Misused, "unknown flag", []string{"--yaml", a}},
		{exit.Environment, "no such file", []string{filepath.Join(folder, "gone")}},
	} {
		code, out, errs := call(t, append([]string{"digest"}, c.args...)...)
		if code != c.code || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit %d, %q, %q, want %d, %q", c.args, code, out, errs, c.code, c.want)
		}
	}
	if _, out, _ := call(t, "digest", a, cut); !strings.Contains(out, "which a killed process left, of 1 file\n") {
		t.Errorf("%q", out)
	}
}
