package binfmt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/stepahead-io/stepahead/internal/testdata"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// manyBins returns a dataset whose n bins all have the same small index, in one file that is mapped
// for each.
func manyBins(t testing.TB, n, rows, most int, opened *atomic.Int64) *Dataset {
	t.Helper()
	r := photoRows(rows)
	data := indexBytes(t, photoFields(), testUUID, r)
	m := manifestOf(photoFields(), testUUID, r, data)
	one := m.Bins[0]
	m.Bins = nil
	for i := range n {
		b := one
		b.Name = fmt.Sprintf("%05d", i)
		m.Bins = append(m.Bins, b)
	}
	path := filepath.Join(t.TempDir(), "index.arrow")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	d := NewDataset(m, func(context.Context, int) (LocalIndex, error) {
		opened.Add(1)
		return LocalIndex{Path: path}, nil
	})
	if most > 0 {
		d.max = most
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func openFiles(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		testdata.Missing(t, "/proc: %v", err)
	}
	return len(entries)
}

func mappings(t testing.TB) int {
	t.Helper()
	data, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		testdata.Missing(t, "/proc: %v", err)
	}
	return strings.Count(string(data), ".arrow")
}

// TestTenThousandBins: any number of bins needs a bounded number of file descriptors and
// mappings, and nothing stays mapped or open after Close.
func TestTenThousandBins(t *testing.T) {
	const bins, rows = 10_000, 2
	var opened atomic.Int64
	before := openFiles(t)
	d := manyBins(t, bins, rows, 256, &opened)
	ctx := context.Background()
	for sample := range uint64(bins * rows) {
		p, err := d.Part(ctx, sample, "image")
		if err != nil {
			t.Fatal(err)
		}
		if p.Bin != int(sample/rows) || p.Off != int64(64*(sample%rows+1)) {
			t.Fatalf("sample %d: %+v", sample, p)
		}
	}
	if n := openFiles(t) - before; n > 256 {
		t.Errorf("%d file descriptors after %d bins, the limit is 256", n, bins)
	}
	if n := mappings(t); n > 256 {
		t.Errorf("%d indexes are mapped, the limit is 256", n)
	}
	if opened.Load() != bins {
		t.Errorf("%d indexes opened, want %d", opened.Load(), bins)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if n := mappings(t); n != 0 {
		t.Errorf("%d indexes are mapped after Close", n)
	}
	if n := openFiles(t) - before; n > 0 {
		t.Errorf("%d file descriptors after Close", n)
	}
	if _, err := d.Key(ctx, 0); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestDatasetConcurrent reads at random from many goroutines over few slots.
func TestDatasetConcurrent(t *testing.T) {
	const bins, rows = 40, 50
	var opened atomic.Int64
	d := manyBins(t, bins, rows, 3, &opened)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(g)))
			for range 400 {
				sample := rnd.Uint64N(bins * rows)
				key, err := d.Key(context.Background(), sample)
				if err != nil || key != fmt.Sprintf("class/%08d.jpg", sample%rows) {
					t.Errorf("sample %d: %q, %v", sample, key, err)
					return
				}
				v, err := d.Scalar(context.Background(), sample, "label")
				if err != nil || v.Int != int64(sample%rows%10) {
					t.Errorf("sample %d: %v, %v", sample, v, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := mappings(t); n > 3 {
		t.Errorf("%d indexes are mapped, the limit is 3", n)
	}
}

// TestDatasetOpensOnce: callers that come while an index is opened wait for it.
func TestDatasetOpensOnce(t *testing.T) {
	var opened atomic.Int64
	d := manyBins(t, 1, 10, 0, &opened)
	inner := d.index
	release := make(chan struct{})
	d.index = func(ctx context.Context, bin int) (LocalIndex, error) {
		<-release
		return inner(ctx, bin)
	}
	var wg sync.WaitGroup
	for i := range uint64(10) {
		wg.Go(func() {
			if _, err := d.Key(context.Background(), i); err != nil {
				t.Error(err)
			}
		})
	}
	close(release)
	wg.Wait()
	if opened.Load() != 1 {
		t.Errorf("opened %d times", opened.Load())
	}
}

// TestDatasetWaiterOutlivesOpener: the caller that opens gives up, the one that waits does not.
func TestDatasetWaiterOutlivesOpener(t *testing.T) {
	var opened atomic.Int64
	d := manyBins(t, 1, 10, 0, &opened)
	inner := d.index
	started := make(chan struct{})
	var once sync.Once
	d.index = func(ctx context.Context, bin int) (local LocalIndex, err error) {
		local, err = inner(ctx, bin)
		once.Do(func() {
			close(started)
			<-ctx.Done()
			err = ctx.Err()
		})
		return local, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := d.Key(ctx, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("the opener got %v", err)
		}
	})
	<-started
	wg.Go(func() {
		if _, err := d.Key(context.Background(), 1); err != nil {
			t.Errorf("the waiter got %v", err)
		}
	})
	cancel()
	wg.Wait()
}

// TestDatasetErrorsAreNotRemembered: after the cause has gone the same call works.
func TestDatasetErrorsAreNotRemembered(t *testing.T) {
	var opened atomic.Int64
	d := manyBins(t, 2, 1, 0, &opened)
	inner := d.index
	broken := true
	d.index = func(ctx context.Context, bin int) (LocalIndex, error) {
		if broken {
			return LocalIndex{}, fs.ErrNotExist
		}
		return inner(ctx, bin)
	}
	_, err := d.Key(context.Background(), 1)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "00001") {
		t.Fatalf("error %v, want one that names the bin", err)
	}
	broken = false
	if _, err := d.Key(context.Background(), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Key(context.Background(), 2); !errors.Is(err, ErrNoSample) {
		t.Fatalf("error %v", err)
	}
}

func BenchmarkPart(b *testing.B) {
	var opened atomic.Int64
	d := manyBins(b, 100, 1000, 0, &opened)
	rnd := rand.New(rand.NewPCG(1, 2))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Part(context.Background(), rnd.Uint64N(100_000), "image"); err != nil {
			b.Fatal(err)
		}
	}
}
