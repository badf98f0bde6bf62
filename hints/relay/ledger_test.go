package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/internal/testdata"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func record(id string) Record {
	h := hints.Hint{ID: id, Job: "job", Run: "run", TTL: time.Minute, Confidence: 1, Identity: [32]byte{1}, Checkpoint: &hints.Checkpoint{
		State: hints.Committed, Path: "url/step-1", Step: 7, Layout: "dcp", Files: []hints.CheckpointFile{{Name: "a<b>", Size: 3, CRC: 9}},
	}}
	return RecordOf(h, "ann", time.UnixMilli(1000), func(path string) string { return "/" + path })
}

func ledger(t testing.TB, file string, o Options) *Ledger {
	t.Helper()
	o.File = file
	l, err := Open(o)
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	return l
}

// ids are those of the records after a number; it makes sure that numbers grow.
func ids(t testing.TB, file string, after uint64) []string {
	t.Helper()
	all := []string{}
	last := after
	must(t, Read(file, after, func(r Record) error {
		if r.Number <= last {
			t.Errorf("number %d after %d", r.Number, last)
		}
		last = r.Number
		all = append(all, r.ID)
		return nil
	}))
	return all
}

func TestAppendAndRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "ledger")
	if all := ids(t, file, 0); len(all) != 0 {
		t.Errorf("before there is one: %v", all)
	}
	l := ledger(t, file, Options{})
	for i := range 3 {
		if n, err := l.Append(t.Context(), record(fmt.Sprint(i))); err != nil || n != uint64(i+1) {
			t.Fatalf("%d, %v", n, err)
		}
	}
	if all := ids(t, file, 0); !slices.Equal(all, []string{"0", "1", "2"}) {
		t.Error(all)
	}
	if all := ids(t, file, 2); !slices.Equal(all, []string{"2"}) {
		t.Error(all)
	}
	must(t, Read(file, 0, func(r Record) error {
		want := record(r.ID)
		want.Number = r.Number
		if !reflect.DeepEqual(r, want) || r.Checkpoint.Path != "/url/step-1" {
			t.Errorf("%+v, want %+v", r, want)
		}
		if r.Expired(time.UnixMilli(60_999)) || !r.Expired(time.UnixMilli(61_000)) {
			t.Error("it holds for a minute")
		}
		return nil
	}))
	if _, err := Open(Options{File: file}); !errors.Is(err, ErrInUse) {
		t.Errorf("a second one: %v", err)
	}
	must(t, l.Close())
	again := ledger(t, file, Options{})
	if n, err := again.Append(t.Context(), record("3")); err != nil || n != 4 {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := l.Append(t.Context(), record("x")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestCloseWhileAppending: what Append has taken is there, whenever the ledger is closed.
func TestCloseWhileAppending(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger")
	l := ledger(t, file, Options{})
	var wg sync.WaitGroup
	began := make(chan struct{}, 4)
	var kept atomic.Int64
	for i := range 4 {
		wg.Go(func() {
			for k := 0; ; k++ {
				_, err := l.Append(t.Context(), record(fmt.Sprint(i, "-", k)))
				if errors.Is(err, os.ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				if kept.Add(1); k == 0 {
					began <- struct{}{}
				}
			}
		})
	}
	for range cap(began) {
		<-began
	}
	must(t, l.Close())
	wg.Wait()
	if all := ids(t, file, 0); int64(len(all)) != kept.Load() {
		t.Errorf("%d records are there, %d were taken", len(all), kept.Load())
	}
}

// TestStart keeps every field of a start.
func TestStart(t *testing.T) {
	r := RecordOf(hints.Hint{ID: "i", TTL: time.Second, Start: &hints.Start{Ranks: 8, RanksPerHost: 4, ExpectedIn: time.Minute, Files: []hints.HotFile{{Path: "a", Readers: 8}}}}, "", time.Now(), strings.ToUpper)
	line, err := encode(r)
	must(t, err)
	got, err := decode(line[:len(line)-1])
	if err != nil || got.Identity != "" || got.Start == nil || got.Start.Ranks != 8 || got.Start.RanksPerHost != 4 || got.Start.ExpectedInMS != 60_000 || !slices.Equal(got.Start.Files, []HotFile{{"A", 8}}) || got.Checkpoint != nil {
		t.Errorf("%s: %+v, %v", line, got, err)
	}
}

// TestBounded: however many records come, the files stay within the limit, and the newest are there.
func TestBounded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger")
	l := ledger(t, file, Options{Limit: leastLimit})
	const n = 500
	for i := range n {
		_, err := l.Append(t.Context(), record(fmt.Sprint(i)))
		must(t, err)
	}
	total := int64(0)
	for _, name := range []string{file, file + olderSuffix} {
		info, err := os.Stat(name)
		must(t, err)
		total += info.Size()
	}
	all := ids(t, file, 0)
	if total > leastLimit || len(all) < 50 || all[len(all)-1] != fmt.Sprint(n-1) || all[0] != fmt.Sprint(n-len(all)) {
		t.Errorf("%d bytes, %d records, from %s to %s", total, len(all), all[0], all[len(all)-1])
	}
	must(t, l.Close())
	if k, err := ledger(t, file, Options{Limit: leastLimit}).Append(t.Context(), record("x")); err != nil || k != n+1 {
		t.Errorf("%d, %v", k, err)
	}
}

// TestKilledAnywhere cuts a ledger at every byte, as a crash may: what is whole stays, numbers go on, the rest is gone.
func TestKilledAnywhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger")
	l := ledger(t, file, Options{})
	for _, id := range []string{"a", "b"} {
		_, err := l.Append(t.Context(), record(id))
		must(t, err)
	}
	must(t, l.Close())
	whole, err := os.ReadFile(file)
	must(t, err)
	first := bytes.IndexByte(whole, '\n') + 1
	for cut := range whole {
		if cut%7 != 0 && cut != first && cut != first-1 && cut != len(whole)-1 { // each takes a write of the disk
			continue
		}
		must(t, os.WriteFile(file, whole[:cut], 0o600))
		want := []string{}
		if cut >= first {
			want = []string{"a"}
		}
		if got := ids(t, file, 0); !slices.Equal(got, want) {
			t.Fatalf("cut at %d, read while it is written: %v", cut, got)
		}
		l := ledger(t, file, Options{Warn: func(err error) { t.Errorf("cut at %d: %v", cut, err) }})
		n, err := l.Append(t.Context(), record("c"))
		if got := ids(t, file, 0); err != nil || int(n) != len(want)+1 || !slices.Equal(got, append(want, "c")) {
			t.Fatalf("cut at %d: %d, %v, %v", cut, n, got, err)
		}
		must(t, l.Close())
	}
}

// TestDamaged flips each byte of a ledger's first record: what follows is not believed, the file is set aside and said to be, and a new
// one begins.
func TestDamaged(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger")
	l := ledger(t, file, Options{})
	for _, id := range []string{"a", "b"} {
		_, err := l.Append(t.Context(), record(id))
		must(t, err)
	}
	must(t, l.Close())
	whole, err := os.ReadFile(file)
	must(t, err)
	for at := range bytes.IndexByte(whole, '\n') + 1 {
		if at%5 != 0 && whole[at] != '\n' {
			continue
		}
		bad := slices.Clone(whole)
		bad[at] ^= 1
		must(t, os.WriteFile(file, bad, 0o600))
		if err := Read(file, 0, func(Record) error { return nil }); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "at byte 0") {
			t.Fatalf("byte %d: read: %v", at, err)
		}
		warned := 0
		l := ledger(t, file, Options{Warn: func(err error) {
			if warned++; !errors.Is(err, ErrDamaged) {
				t.Errorf("byte %d: %v", at, err)
			}
		}})
		_, err := l.Append(t.Context(), record("c"))
		aside, _ := os.ReadFile(file + damagedSuffix)
		if got := ids(t, file, 0); err != nil || warned != 1 || !slices.Equal(got, []string{"c"}) || !bytes.Equal(aside, bad) {
			t.Fatalf("byte %d: %v, %v, %d warnings", at, got, err, warned)
		}
		must(t, l.Close())
		must(t, os.Remove(file+damagedSuffix))
	}
}

func TestNewer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger")
	r := record("a")
	r.Version = Version + 1
	line, err := encode(r)
	must(t, err)
	must(t, os.WriteFile(file, line, 0o600))
	if err := Read(file, 0, nil); !errors.Is(err, ErrVersion) {
		t.Error(err)
	}
	if _, err := Open(Options{File: file}); !errors.Is(err, ErrVersion) {
		t.Error(err)
	}
	if kept, _ := os.ReadFile(file); !bytes.Equal(kept, line) {
		t.Error("the newer ledger was changed")
	}
}

// TestFailedAppend: after a write that fails nothing of the record is there, and the next one is taken.
func TestFailedAppend(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger")
	l := ledger(t, file, Options{})
	_, err := l.Append(t.Context(), record("a"))
	must(t, err)
	must(t, l.file.Close()) // every write fails
	if n, err := l.Append(t.Context(), record("b")); err == nil {
		t.Fatalf("%d", n)
	}
	if n, err := l.Append(t.Context(), record("c")); err != nil || n != 3 { // somebody may have read "b" under its number
		t.Errorf("%d, %v", n, err)
	}
	if got := ids(t, file, 0); !slices.Equal(got, []string{"a", "c"}) {
		t.Error(got)
	}
}

// TestFullDisk: a disk that is full is an error of the file system's, and when there is room again records are taken.
func TestFullDisk(t *testing.T) {
	if out, err := exec.Command("unshare", "--user", "--map-root-user", "--mount", "true").CombinedOutput(); err != nil {
		testdata.Missing(t, "a user namespace with mounts of its own: %s", out)
	}
	if os.Getenv("RELAY_FULL_DISK") == "" {
		mnt := t.TempDir()
		run := exec.Command("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", `mount -t tmpfs -o size=64k none "$1" && exec "$2" -test.run '^TestFullDisk$' -test.v`, "sh", mnt, os.Args[0])
		run.Env = append(os.Environ(), "RELAY_FULL_DISK="+mnt)
		if out, err := run.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	mnt := os.Getenv("RELAY_FULL_DISK")
	l := ledger(t, filepath.Join(mnt, "ledger"), Options{})
	_, err := l.Append(t.Context(), record("a"))
	must(t, err)
	filler := filepath.Join(mnt, "filler")
	_ = os.WriteFile(filler, make([]byte, 1<<20), 0o600) // as much as there is room for
	taken := 0
	for range 100 {
		if _, err = l.Append(t.Context(), record("b")); err != nil {
			break
		}
		taken++
	}
	if !strings.Contains(fmt.Sprint(err), "no space left") {
		t.Fatalf("after %d: %v", taken, err)
	}
	must(t, os.Remove(filler))
	if _, err := l.Append(t.Context(), record("c")); err != nil {
		t.Fatal(err)
	}
	if got := ids(t, filepath.Join(mnt, "ledger"), 0); len(got) != taken+2 || got[len(got)-1] != "c" {
		t.Errorf("%d records, %d taken", len(got), taken)
	}
}

// TestReadWhileWritten: readers see a growing ledger, in order, across the moment in which it turns over.
func TestReadWhileWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger")
	l := ledger(t, file, Options{Limit: leastLimit})
	const n = 400
	var group sync.WaitGroup
	for w := range 4 {
		group.Go(func() {
			for i := range n / 4 {
				if _, err := l.Append(t.Context(), record(fmt.Sprint(w, "-", i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	last := uint64(0)
	for last < n {
		must(t, Read(file, last, func(r Record) error {
			if r.Number <= last {
				t.Errorf("%d after %d", r.Number, last)
			}
			last = r.Number
			return nil
		}))
	}
	group.Wait()
}

// TestWaits: who waits for others can give up.
func TestWaits(t *testing.T) {
	l := ledger(t, filepath.Join(t.TempDir(), "ledger"), Options{})
	<-l.turn
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Append(ctx, record("a")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	l.turn <- struct{}{}
	if _, err := Open(Options{File: filepath.Join(t.TempDir(), "x"), Limit: 1}); err == nil {
		t.Error("a limit of one byte")
	}
}

func FuzzScan(f *testing.F) {
	line, err := encode(record("a"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Add(append(slices.Clone(line), line...))
	f.Add([]byte("\n"))
	f.Add([]byte("00000000 {}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		rest, err := scan(bytes.NewReader(data), func(r Record, off int64) error {
			again, err := encode(r)
			if err != nil || len(again) == 0 || off <= 0 || off > int64(len(data)) {
				t.Fatalf("record %+v at %d: %v", r, off, err)
			}
			return nil
		})
		if rest < 0 || rest > int64(len(data)) || err == nil && bytes.IndexByte(data[rest:], '\n') >= 0 {
			t.Fatalf("rest at %d of %d: %v", rest, len(data), err)
		}
	})
}
