package copies

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/checkpoint"
	"github.com/stepahead-io/stepahead/store"
)

// TestTasks: every byte of what is missing is sent once, and nothing is larger than it may be.
func TestTasks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := make([]checkpoint.File, rapid.IntRange(0, 300).Draw(t, "files"))
		var missing []int
		for i := range files {
			files[i].Size = rapid.OneOf(rapid.Int64Range(0, 2*usual.small), rapid.Int64Range(0, 1<<33), rapid.Just(int64(0)), rapid.Just(usual.small)).Draw(t, "size")
			if rapid.Bool().Draw(t, "missing") {
				missing = append(missing, i)
			}
		}
		block := rapid.SampledFrom([]int64{0, 1 << 20, 32 << 20, 128 << 20}).Draw(t, "block")
		sent := map[int]int64{}
		for _, x := range usual.tasks(files, missing, block) {
			if !x.piece {
				n := int64(0)
				for _, f := range x.files {
					if _, twice := sent[f]; twice || files[f].Size > usual.small {
						t.Fatalf("file %d of %d bytes in %+v", f, files[f].Size, x)
					}
					sent[f] = files[f].Size
					n += files[f].Size
				}
				if n != x.n || n > usual.batch || len(x.files) == 0 || len(x.files) > batchFiles {
					t.Fatalf("%+v", x)
				}
				continue
			}
			f := x.files[0]
			if x.off != sent[f] || x.n < 1 || x.n > usual.most || block > 0 && x.n > block || len(x.files) != 1 { // pieces of a file come in their order
				t.Fatalf("%+v after %d bytes", x, sent[f])
			}
			sent[f] += x.n
			if sent[f] < files[f].Size && x.n%min(usual.least, max(block, 1)) != 0 && block == 0 {
				t.Fatalf("%+v", x)
			}
		}
		for i, f := range files {
			if n, ok := sent[i]; ok != slices.Contains(missing, i) || n != f.Size && ok {
				t.Fatalf("file %d: %d of %d bytes, missing: %v", i, n, f.Size, !ok)
			}
		}
	})
}

// TestResume: what is taken for whole has a sum of just the version that lies there, of just the version of the original.
func TestResume(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom([]string{"a", "b", "c"})
		size := rapid.Int64Range(0, 2)
		var files []checkpoint.File
		for _, name := range []string{"a", "b", "c"} {
			files = append(files, checkpoint.File{Name: name, Size: size.Draw(t, "size"), Identity: store.Identity(word.Draw(t, "original"))})
		}
		attempts := make([]attempt, rapid.IntRange(0, 3).Draw(t, "attempts"))
		var sums []sum
		for i := range attempts {
			attempts[i].files = map[string]store.Info{}
			for range rapid.IntRange(0, 4).Draw(t, "files") {
				name := word.Draw(t, "name")
				attempts[i].files[name] = store.Info{Name: "/" + name, Size: size.Draw(t, "there"), Identity: store.Identity(word.Draw(t, "here"))}
			}
			for range rapid.IntRange(0, 4).Draw(t, "sums") {
				s := sum{word.Draw(t, "of"), size.Draw(t, "long"), store.Identity(word.Draw(t, "from")), store.Identity(word.Draw(t, "version")), 1, false}
				if !slices.ContainsFunc(sums, func(o sum) bool { return o.Name == s.Name && o.Here == s.Here }) { // a version is one
					attempts[i].sums, sums = append(attempts[i].sums, s), append(sums, s)
				}
			}
		}
		for i, f := range resume(files, attempts) {
			may := false
			for _, a := range attempts {
				info, there := a.files[files[i].Name]
				may = may || there && info.Size == files[i].Size && slices.Contains(sums, sum{files[i].Name, files[i].Size, files[i].Identity, info.Identity, 1, false})
			}
			if may != (f != nil) || f != nil && (f.Original != files[i].Identity || f.Size != files[i].Size) {
				t.Fatalf("%+v of %+v in %+v: it may be taken: %v", f, files[i], attempts, may)
			}
		}
	})
}

// TestBucket: in no time more passes than the rates of that time, and what is saved up and taken ahead.
func TestBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := bucket{}
		now, most, got := time.Duration(0), 0.0, int64(0)
		rate, highest := int64(0), int64(0)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			if rapid.IntRange(0, 9).Draw(t, "change") == 0 {
				rate = rapid.SampledFrom([]int64{0, 1, 1000, 1 << 20, 1 << 30}).Draw(t, "rate")
				highest = max(highest, rate)
				b.pass(now, rate)
			}
			b.pass(now, rate)
			if rate > 0 && b.due() == 0 {
				n := rapid.Int64Range(1, sliceOf(rate)).Draw(t, "bytes")
				b.level -= float64(n)
				got += n
			}
			d := rapid.SampledFrom([]time.Duration{0, time.Microsecond, time.Millisecond, time.Second}).Draw(t, "time")
			if rate > 0 && rapid.Bool().Draw(t, "in time") {
				d = b.due()
			}
			now += d
			most += float64(rate) * d.Seconds()
		}
		if float64(got) > most+float64(highest)*slack.Seconds()+float64(sliceOf(highest))+1 {
			t.Fatalf("%d bytes passed where %.0f may", got, most)
		}
	})
}

func TestMarkers(t *testing.T) {
	for layout, names := range map[checkpoint.Layout][]string{ // the last is the marker
		checkpoint.DCP:                {"__0_0.distcp", "__1_0.distcp", ".metadata"},
		checkpoint.TorchDist:          {".metadata", "__0_0.distcp", "common.pt", "metadata.json"},
		checkpoint.Safetensors:        {"config.json", "model-1.safetensors", "model.safetensors.index.json"},
		checkpoint.HuggingFace:        {"model.safetensors", "model.safetensors.index.json", "trainer_state.json"},
		checkpoint.TorchCheckpointing: {"model_0.pt", "metadata.pkl"},
		checkpoint.Torch:              {"a.pt", "b.pt"},
	} {
		var files []checkpoint.File
		for _, name := range names {
			files = append(files, checkpoint.File{Name: name})
		}
		slices.SortFunc(files, func(a, b checkpoint.File) int {
			if a.Name < b.Name {
				return -1
			}
			return 1
		})
		if got := files[lastOf(layout, files)].Name; got != names[len(names)-1] {
			t.Errorf("%s: %s is the last", layout, got)
		}
	}
}
