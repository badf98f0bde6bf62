package pack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/internal/testdata"
)

func sha(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// TestLayout: whatever the lengths, parts do not overlap, are aligned, do not straddle blocks, bins
// are filled in order and not beyond their size if they have more than one part.
func TestLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		block := binfmt.Alignment * rapid.Int64Range(1, 100).Draw(t, "block")
		binSize := rapid.Int64Range(1, 30_000).Draw(t, "bin size")
		var items []item
		for _, n := range rapid.SliceOfN(rapid.Int64Range(1, 9_000), 1, 50).Draw(t, "lengths") {
			items = append(items, item{part: binfmt.Part{Extent: binfmt.Extent{Len: n}}})
		}
		total := 0
		for _, b := range layout(items, block, binSize) {
			end := int64(binfmt.HeaderSize)
			for _, it := range b.items {
				p := it.part
				if p.Off < end || p.Off%binfmt.Alignment != 0 || p.Len <= block && p.Off/block != (p.Off+p.Len-1)/block {
					t.Fatalf("offset %d, length %d after %d in blocks of %d", p.Off, p.Len, end, block)
				}
				if p.Off-end >= max(block, binfmt.Alignment) {
					t.Fatalf("a hole of %d in blocks of %d", p.Off-end, block)
				}
				end = p.Off + p.Len
			}
			if b.Bytes != end || b.Samples != int64(len(b.items)) || len(b.items) == 0 || len(b.items) > 1 && end > binSize {
				t.Fatalf("a bin of %d bytes, %d samples, ending at %d; bin size %d", b.Bytes, b.Samples, end, binSize)
			}
			total += len(b.items)
		}
		if total != len(items) {
			t.Fatalf("%d of %d samples", total, len(items))
		}
	})
}

func TestHistogram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.OneOf(rapid.Uint64(), rapid.Uint64Max(5000)), 1, 100).Draw(t, "values")
		var h histogram
		for _, v := range values {
			h.add(v)
		}
		slices.Sort(values)
		d := h.distribution()
		if d.Min != values[0] || d.Max != values[len(values)-1] || d.Count != int64(len(values)) {
			t.Fatalf("%+v of %v", d, values)
		}
		for q, got := range map[float64]uint64{0.5: d.P50, 0.9: d.P90, 0.99: d.P99} {
			want := values[int(q*float64(len(values)-1))]
			if got > want || float64(got) < float64(want)*0.99-1 {
				t.Fatalf("quantile %v is %d, want %d", q, got, want)
			}
		}
	})
	if b := bucket(math.MaxUint64); b >= len(histogram{}.buckets) || lowest(b) > math.MaxUint64-1 {
		t.Errorf("the largest number is in bucket %d", b)
	}
}

// TestRealFiles: real pictures of all kinds, broken ones among them, are packed as they are.
func TestRealFiles(t *testing.T) {
	source := testdata.Path(t, "jpeg")
	st, root := openDir(t)
	report := new(Report)
	m := mustPack(t, Folder{Root: filepath.Dir(source) + "/jpeg"}, st, Options{SkipBad: true, Report: report})
	readAll(t, m, root, source)
	clean(t, st)
	sum, err := Inspect(context.Background(), st, "/set", "")
	if err != nil {
		t.Fatal(err)
	}
	image := sum.Media["image"]
	if image.Types["image/jpeg"] < 10 || image.Width.Count < image.Types["image/jpeg"]/2 {
		t.Errorf("%+v", image)
	}
	for _, s := range report.Skipped {
		if !strings.Contains(s, "is empty") && !strings.Contains(s, "no known media type") {
			t.Errorf("skipped without a reason: %s", s)
		}
	}
	t.Logf("%d samples, %d skipped: %s", m.Samples(), len(report.Skipped), some(report.Skipped))
}
