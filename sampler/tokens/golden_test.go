package tokens

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/sampler"
)

type goldenCase struct {
	Lengths        lengths
	SequenceLength int64 `json:"sequence_length"`
	Packing        string
	Shuffle        bool
	Seed           uint64
	Source         string
	Epochs         [][][][3]int64 // epoch, sample, piece: sequence, first token, tokens
}

func readGolden(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Which tokens make a sample is a promise across versions: a change that breaks this test breaks running jobs.
func TestGoldenVectors(t *testing.T) {
	var cases []goldenCase
	if err := json.Unmarshal(readGolden(t), &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		order := mustNew(t, c.Lengths, Options{SequenceLength: c.SequenceLength, Packing: c.Packing, Shuffle: c.Shuffle, Seed: c.Seed, Source: c.Source})
		for epoch, samples := range c.Epochs {
			if order.Samples() != int64(len(samples)) {
				t.Errorf("%s of %v: %d samples, want %d", c.Packing, c.Lengths, order.Samples(), len(samples))
				continue
			}
			for s, pieces := range samples {
				var want []sampler.Piece
				for _, p := range pieces {
					want = append(want, sampler.Piece{Sequence: p[0], Off: p[1], Len: p[2]})
				}
				if got := piecesOf(t, order, uint64(epoch), int64(s)); !slices.Equal(got, want) {
					t.Errorf("%s of %v, shuffle %t, seed %d: epoch %d, sample %d: %v, want %v", c.Packing, c.Lengths, c.Shuffle, c.Seed, epoch, s, got, want)
				}
			}
		}
	}
}

// The vectors come from another implementation, in another language, of the published description.
func TestGoldenVectorsComeFromTheDescription(t *testing.T) {
	python := "../../.venv/bin/python"
	if _, err := os.Stat(python); err != nil {
		if python, err = exec.LookPath("python3"); err != nil {
			testdata.Missing(t, "the golden vectors are not recomputed: no Python: %v", err)
		}
	}
	script, err := filepath.Abs("testdata/tokens.py")
	if err != nil {
		t.Fatal(err)
	}
	got, err := exec.Command(python, script).Output()
	if err != nil {
		t.Fatalf("testdata/tokens.py: %v", err)
	}
	if string(got) != string(readGolden(t)) {
		t.Fatal("testdata/tokens.py does not give testdata/golden.json")
	}
}
