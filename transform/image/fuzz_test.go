package image

import (
	"bytes"
	"crypto/sha512"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/image/internal/encode"
	"github.com/stepahead-io/stepahead/transform/image/internal/oracle"
)

// small bounds what an input made by a machine may cost.
var small = Limits{MaxPixels: 1 << 18, MaxOutput: 1 << 21, MaxMemory: 64 << 20, MaxScans: 20}

// checked is what must hold of every input: an error has a name, all kernels and batches give the same, and a region is
// what the whole picture has there.
func checked(lim Limits) oracle.Pipeline {
	return oracle.Pipeline{
		Run: func(plan *transform.Plan, key transform.Key, in, out []byte) (transform.TensorSpec, error) {
			return Run(plan, key, in, out, lim)
		},
		Same:      Ways(lim),
		MaxOutput: int(lim.MaxOutput),
	}
}

// planned puts before an image the bytes that choose a plan: always the same ones for a name.
func planned(name string, in []byte) []byte {
	sum := sha512.Sum512([]byte(name))
	return append(sum[:oracle.Control], in...)
}

func FuzzRun(f *testing.F) {
	names, err := filepath.Glob("vectors/*")
	if err != nil || len(names) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, name := range names {
		in, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(planned(name, in))
		f.Add(planned(name, in[:len(in)*2/3]))
	}
	tiny, err := encode.JPEG(photo(1, 9, 7, 3), 9, 7, encode.Options{Sampling: samplings["4:2:0"], Quality: 20, Arithmetic: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(planned("tiny", tiny))
	f.Add(planned("header", pngHeader(1, 1)))
	p := checked(small)
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := p.Check(data); err != nil {
			t.Fatal(err)
		}
	})
}

// Every input that `make fuzz-worker` found something with, made smaller; the name says what it was.
func TestFoundInputs(t *testing.T) {
	names, err := filepath.Glob("testdata/found/*")
	if err != nil {
		t.Fatal(err)
	}
	p := checked(small)
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err == nil {
			err = p.Check(data)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// often is how many of a kind of input a test tries: all that make sense when the long tests were asked for.
func often(ordinary, soak int) int {
	if os.Getenv(testdata.SoakEnv) != "" {
		return soak
	}
	return ordinary
}

// Inputs that once broke decoders, and odd ones, each with a plan of its own.
func TestHostileFiles(t *testing.T) {
	p := checked(small)
	for _, e := range expectations(t) {
		in := testdata.Read(t, e.path)
		if len(in) > often(8, 256)<<10 {
			continue
		}
		if err := p.Check(planned(e.path, in)); err != nil {
			t.Errorf("%s: %v", e.path, err)
		}
	}
}

func TestEveryCutAndFlippedBit(t *testing.T) {
	p := checked(small)
	names, err := filepath.Glob("vectors/*")
	if err != nil || len(names) == 0 {
		t.Fatal("no vectors", err)
	}
	for i, name := range names {
		in, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for n := i % 7; n < len(in); n += 1 + len(in)/often(16, 200) {
			broken := bytes.Clone(in)
			broken[n] ^= 1 << (n % 8)
			for _, bad := range [][]byte{in[:n], broken} {
				if err := p.Check(planned(name, bad)); err != nil {
					t.Errorf("%s, cut or broken at %d: %v", strings.TrimPrefix(name, "vectors/"), n, err)
				}
			}
		}
	}
}
