package image

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/transform"
)

// decodeCase is a case of testdata/decode.py.
type decodeCase struct {
	File string `json:"file"`
	Fill bool   `json:"fill"`
	Turn bool   `json:"turn"`
}

// pillowAnswers asks Pillow for the pixels of files, in one process.
func pillowAnswers(t *testing.T, cases []decodeCase) []string {
	t.Helper()
	in, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python(t), "testdata/decode.py")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Answers []string }
	if err := json.Unmarshal(out, &got); err != nil || len(got.Answers) != len(cases) {
		t.Fatalf("decode.py gave %d answers for %d cases: %v", len(got.Answers), len(cases), err)
	}
	return got.Answers
}

// answer is what this package makes of the same.
func (c decodeCase) answer(in []byte) (string, error) {
	rgb, w, h, err := decodeWith(c.decoding(), in, Limits{})
	if err != nil {
		return "error", err
	}
	return fmt.Sprintf("%d %d %s", w, h, digestOf(rgb)), nil
}

func (c decodeCase) decoding() transform.DecodeImage {
	d := transform.DecodeImage{Orientation: "stored", Truncated: "raise"}
	if c.Turn {
		d.Orientation = "apply"
	}
	if c.Fill {
		d.Truncated = "fill"
	}
	return d
}

// comparison gathers files that tests make, to compare all of them with Pillow in one go.
type comparison struct {
	folder string
	cases  []decodeCase
	data   [][]byte
	names  []string
	loose  map[int]bool // of which only the size is compared
}

func newComparison(t *testing.T) *comparison {
	return &comparison{folder: t.TempDir(), loose: map[int]bool{}}
}

func (c *comparison) add(t *testing.T, name string, in []byte, d decodeCase) {
	t.Helper()
	d.File = filepath.Join(c.folder, fmt.Sprint(len(c.cases)))
	if err := os.WriteFile(d.File, in, 0o600); err != nil {
		t.Fatal(err)
	}
	c.cases, c.data, c.names = append(c.cases, d), append(c.data, in), append(c.names, name)
}

// check compares, and returns how many files both decode.
func (c *comparison) check(t *testing.T) int {
	t.Helper()
	decoded := 0
	for i, want := range pillowAnswers(t, c.cases) {
		got, err := c.cases[i].answer(c.data[i])
		if c.loose[i] {
			got, want = sizeOf(got), sizeOf(want)
		}
		if got != want {
			t.Errorf("%s %+v: %s (%v), Pillow has %s", c.names[i], c.cases[i], got, err, want)
		} else if got != "error" {
			decoded++
		}
	}
	return decoded
}

// sizeOf leaves the digest out of an answer.
func sizeOf(answer string) string { return answer[:max(strings.LastIndexByte(answer, ' '), 0)] }
