package proof

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/internal/testdata"
)

type golden struct {
	Digest string
	Files  map[string]string
}

func readGolden(t *testing.T) ([]byte, golden) {
	t.Helper()
	data, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	return data, g
}

// write puts files into a folder of their own and returns their paths in order of name.
func write(t testing.TB, files map[string]string) []string {
	t.Helper()
	dir := t.TempDir()
	var paths []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(files[name]), 0o644); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

func TestGoldenDigest(t *testing.T) {
	_, g := readGolden(t)
	paths := write(t, g.Files)
	sum, s, err := Digest(paths...)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%x", sum); got != g.Digest {
		t.Errorf("digest %s, want %s", got, g.Digest)
	}
	if want := (Summary{Records: 72, Steps: 9, Batch: 8, LastStep: 8, Duplicates: 16, Cut: 1}); s != want {
		t.Errorf("summary %+v, want %+v", s, want)
	}
	slices.Reverse(paths)
	if again, _, err := Digest(paths...); again != sum || err != nil {
		t.Errorf("files in another order give %x, %v", again, err)
	}
}

func TestGoldenDigestComesFromTheDescription(t *testing.T) {
	python, err := findPython()
	if err != nil {
		testdata.Missing(t, "the golden digest is not recomputed: no Python: %v", err)
	}
	want, _ := readGolden(t)
	got, err := exec.Command(python, "testdata/digest.py").Output()
	if err != nil {
		t.Fatalf("testdata/digest.py: %v", err)
	}
	if string(got) != string(want) {
		t.Fatal("testdata/digest.py does not give testdata/golden.json")
	}
}

func findPython() (string, error) {
	venv, err := filepath.Abs("../../.venv/bin/python")
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(venv); err == nil {
		return venv, nil
	}
	return exec.LookPath("python3")
}

func someRecord(step, position int64) Record {
	sample := uint64(step*1000 + position)
	return Record{Step: step, Position: position, Sample: sample, Fields: []Field{
		{Name: "image", Dtype: "uint8", Shape: []int64{3, 8, 8}, SHA256: sha256.Sum256(fmt.Append(nil, sample))},
		{Name: "label", Dtype: "int64", SHA256: sha256.Sum256([]byte("label"))},
	}}
}

// someLines returns the lines of steps [from, to) and positions [first, last).
func someLines(from, to, first, last int64) string {
	var out []byte
	for s := from; s < to; s++ {
		for p := first; p < last; p++ {
			r := someRecord(s, p)
			out = r.AppendLine(out)
		}
	}
	return string(out)
}

// Invariant 1, as far as this package goes: how a run was cut into ranks, segments and files does
// not show.
func TestTheDigestDoesNotDependOnTheFiles(t *testing.T) {
	const steps, batch = 12, 8
	want, _, err := Digest(write(t, map[string]string{"all": someLines(0, steps, 0, batch)})...)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		files := make(map[string]string)
		step, segment := int64(0), 0
		for step < steps {
			world := rapid.SampledFrom([]int64{1, 2, 4, 8}).Draw(rt, "world")
			stop := rapid.Int64Range(step+1, steps).Draw(rt, "stop")
			for r := range world {
				name := fmt.Sprintf("rank%d", r) // a file is continued by the next segment
				if rapid.Bool().Draw(rt, "new file") {
					name += fmt.Sprintf("-%d", segment)
				}
				files[name] += someLines(step, stop, r*batch/world, (r+1)*batch/world)
			}
			segment++
			if step = stop; stop < steps {
				step = rapid.Int64Range(0, stop).Draw(rt, "resume")
			}
			if segment > 20 {
				step = max(step, stop)
			}
		}
		got, s, err := Digest(write(t, files)...)
		if err != nil || got != want || s.Records != steps*batch || s.Steps != steps {
			rt.Fatalf("%x, want %x: %+v: %v", got, want, s, err)
		}
	})
}

func TestTheDigestSeesEverything(t *testing.T) {
	digestOf := func(change func(r *Record)) [32]byte {
		r := someRecord(0, 0)
		change(&r)
		sum, _, err := Digest(write(t, map[string]string{"a": string(r.AppendLine(nil))})...)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	seen := map[[32]byte]string{digestOf(func(*Record) {}): "nothing"}
	for name, change := range map[string]func(r *Record){
		"step":    func(r *Record) { r.Step++ },
		"sample":  func(r *Record) { r.Sample++ },
		"fields":  func(r *Record) { r.Fields = r.Fields[:1] },
		"name":    func(r *Record) { r.Fields[1].Name = "labem" },
		"dtype":   func(r *Record) { r.Fields[0].Dtype = "int8" },
		"rank":    func(r *Record) { r.Fields[1].Shape = []int64{1} },
		"shape":   func(r *Record) { r.Fields[0].Shape[0], r.Fields[0].Shape[1] = 8, 3 },
		"sha256":  func(r *Record) { r.Fields[0].SHA256[31] ^= 1 },
		"regroup": func(r *Record) { r.Fields[0].Name, r.Fields[0].Dtype = "imageu", "int8" },
	} {
		sum := digestOf(change)
		if other, twice := seen[sum]; twice {
			t.Errorf("changing %s gives the digest of %s", name, other)
		}
		seen[sum] = name
	}
}

func TestFindings(t *testing.T) {
	other := someRecord(1, 1)
	other.Fields[0].SHA256[0] ^= 1
	changed := string(other.AppendLine(nil))
	bad := strings.Replace(someLines(1, 2, 0, 1), `"sample"`, `"sampel"`, 1)
	for name, c := range map[string]struct {
		files map[string]string
		kind  Kind
		what  string
		at    []string
	}{
		"conflict":     {map[string]string{"a": someLines(0, 3, 0, 2), "b": changed}, Conflict, `step 1 position 1 was delivered twice and differs: field "image": sha256`, []string{"a:4", "b:1"}},
		"within":       {map[string]string{"a": someLines(0, 3, 0, 2) + changed}, Conflict, "differs", []string{"a:4", "a:7"}},
		"lost place":   {map[string]string{"a": someLines(0, 3, 0, 1), "b": someLines(0, 3, 2, 4)}, Gap, "nothing between step 0 position 0 and step 0 position 2", []string{"a:1", "b:1"}},
		"lost step":    {map[string]string{"a": someLines(0, 2, 0, 2), "b": someLines(3, 4, 0, 2)}, Gap, "nothing between step 1 position 1 and step 3 position 0", []string{"a:4", "b:1"}},
		"lost start":   {map[string]string{"a": someLines(0, 2, 1, 2)}, Gap, "the first record is step 0 position 1", []string{"a:1"}},
		"short step":   {map[string]string{"a": someLines(0, 1, 0, 4) + someLines(1, 2, 0, 3) + someLines(2, 3, 0, 4)}, Gap, "step 1 ends at position 2, the steps before it at 3", []string{"a:7", "a:8"}},
		"short end":    {map[string]string{"a": someLines(0, 1, 0, 4) + someLines(1, 2, 0, 3)}, Gap, "step 1 ends at position 2", []string{"a:7"}},
		"longer step":  {map[string]string{"a": someLines(0, 1, 0, 4) + someLines(1, 2, 0, 5)}, Gap, "step 1 ends at position 4", []string{"a:9"}},
		"no record":    {map[string]string{"a": ""}, Empty, "no record in 1 files", nil},
		"only a cut":   {map[string]string{"a": `{"st`}, Empty, "no record", nil},
		"no files":     {nil, Empty, "no record", nil},
		"cut inside":   {map[string]string{"a": someLines(0, 1, 0, 1) + `{"step":1,"posi` + someLines(1, 2, 0, 1)}, Malformed, "not a record", []string{"a:2"}},
		"unknown key":  {map[string]string{"a": someLines(0, 1, 0, 1) + bad}, Malformed, `"sampel"`, []string{"a:2"}},
		"empty line":   {map[string]string{"a": someLines(0, 1, 0, 1) + "\n"}, Malformed, "not a record", []string{"a:2"}},
		"giant line":   {map[string]string{"a": someLines(0, 1, 0, 1) + strings.Repeat("x", maxLine+1) + "\n"}, Malformed, "exceeds", []string{"a:2"}},
		"out of order": {map[string]string{"a": strings.Repeat(someLines(1, 2, 0, 1)+someLines(0, 1, 0, 1), maxRuns+1)}, Malformed, "step back more than 8192 times", []string{"a:16384"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Digest(write(t, c.files)...)
			var f *Finding
			if !errors.As(err, &f) || f.Kind != c.kind || !strings.Contains(err.Error(), c.what) {
				t.Fatalf("%v, want %s: %s", err, c.kind, c.what)
			}
			var at []string
			for _, p := range f.At {
				at = append(at, fmt.Sprintf("%s:%d", filepath.Base(p.File), p.Line))
				if !strings.Contains(err.Error(), p.String()) {
					t.Errorf("%v does not name %v", err, p)
				}
			}
			if !slices.Equal(at, c.at) {
				t.Errorf("at %v, want %v", at, c.at)
			}
		})
	}
}

func TestAMissingFileIsNoFinding(t *testing.T) {
	_, _, err := Digest(filepath.Join(t.TempDir(), "gone"))
	var f *Finding
	if !errors.Is(err, fs.ErrNotExist) || errors.As(err, &f) {
		t.Fatalf("%v", err)
	}
}

func TestADigestMayStartLate(t *testing.T) {
	_, s, err := Digest(write(t, map[string]string{"a": someLines(1000, 1003, 0, 2)})...)
	if err != nil || s.FirstStep != 1000 || s.LastStep != 1002 || s.Steps != 3 {
		t.Fatalf("%+v, %v", s, err)
	}
}

// Ten million records in bounded memory; how long it takes is logged.
func TestTenMillionRecords(t *testing.T) {
	testdata.Soak(t)
	const steps, world, each = 39063, 8, 32
	dir := t.TempDir()
	var paths []string
	for r := range int64(world) {
		paths = append(paths, filepath.Join(dir, fmt.Sprint(r)))
		w, err := Open(paths[r])
		if err != nil {
			t.Fatal(err)
		}
		for s := range int64(steps) {
			if err := w.Append([]byte(someLines(s, s+1, r*each, (r+1)*each))); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	_, s, err := Digest(paths...)
	if err != nil || s.Records != steps*world*each {
		t.Fatalf("%+v, %v", s, err)
	}
	t.Logf("%d records in %v", s.Records, time.Since(start))
}

func BenchmarkDigest(b *testing.B) {
	paths := write(b, map[string]string{"a": someLines(0, 500, 0, 16), "b": someLines(0, 500, 16, 32)})
	for b.Loop() {
		if _, _, err := Digest(paths...); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/16000, "ns/record")
}
