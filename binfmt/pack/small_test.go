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

	"github.com/stepahead-io/stepahead/internal/testdata"
)

func sha(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
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
