package worker

import (
	"bytes"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/transform"
)

// touchedBytes returns how much memory a worker's output holds.
func touchedBytes(t *testing.T, p *Pool) int64 {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	var st syscall.Stat_t
	if err := syscall.Fstat(int(p.idle[0].out.file.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	return 512 * st.Blocks
}

// Rows that a picture leaves before it fails, or that the caller has no room for, are given back as those of a whole one.
func TestLargeOutputsGoBackAfterFailuresToo(t *testing.T) {
	p := realPool(t, Options{Workers: 1})
	job, out := Job{Plan: decodePlan(t, "")}, make([]byte, 3<<20)
	rows := bytes.Repeat([]byte{0}, 3000*(1+3*3000))
	cut := pngOf(3000, 3000, 0, rows[:len(rows)-9001])
	if _, err := p.Run(t.Context(), job, Part{Name: "cut", Data: cut}, make([]byte, 27<<20)); err == nil {
		t.Error("a cut picture passes")
	}
	if n := touchedBytes(t, p); n > keepBytes {
		t.Errorf("after a failure the output holds %d bytes", n)
	}
	if _, err := p.Run(t.Context(), job, Part{Name: "short", Data: pngOf(3000, 3000, 0, rows)}, out); err == nil {
		t.Error("27 MB fit into 3 MiB")
	}
	if n := touchedBytes(t, p); n > keepBytes {
		t.Errorf("after a result that does not fit the output holds %d bytes", n)
	}
}

// What says nothing about the sample may be the worker's own trouble, so the next try has another.
func TestAWorkerAtFaultIsReplaced(t *testing.T) {
	p := fakePool(t, "good", Options{})
	_, _, err := run(t.Context(), t, p, "bug...", 6)
	wantKind(t, err, transform.KindCrash, "index out of range")
	if s := p.Stats(); s.Killed[reasonRetired] != 1 || s.Running != 0 {
		t.Errorf("stats are %+v", s)
	}
}

// The largest picture that the limits allow passes whatever comes before it, with operators that hold two of it at once, and leaves no
// large worker behind.
func TestTheLargestPicturesFollowEachOther(t *testing.T) {
	testdata.Soak(t)
	p := realPool(t, Options{Workers: 1, Deadline: 10 * time.Minute})
	plan, err := transform.ParsePlan([]byte(`{"plan":1,"ops":[{"op":"DecodeImage","truncated":"fill"},{"op":"RandAugment","num_ops":4},{"op":"Resize","size":[8,8]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	frame := gif(13377, 13377, gifFrame(13377, 13377, []byte{0x44, 1}))
	scans := jpegOf(0xC2, 13377, 13377, scan(0, 0, 0), []byte("\xff\xd9"))
	for _, in := range [][]byte{frame, scans, frame, scans} {
		if _, err := p.Run(t.Context(), Job{Plan: plan}, Part{Name: "large", Data: in}, make([]byte, 8*8*3)); err != nil {
			t.Error(err)
		}
	}
	if s := p.Stats(); s.Killed[reasonRetired] == 0 || s.Killed[reasonCrash] != 0 {
		t.Errorf("stats are %+v", s)
	}
}

// On some hosts threads get a gigabyte of stack, of which a worker's address space holds few.
func TestAHostWithLargeStacksHasWorkers(t *testing.T) {
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_STACK, &old); err != nil {
		t.Fatal(err)
	}
	large := unix.Rlimit{Cur: min(3<<30, old.Max), Max: old.Max}
	if err := unix.Setrlimit(unix.RLIMIT_STACK, &large); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Setrlimit(unix.RLIMIT_STACK, &old) }()
	if _, err := realPool(t, Options{Workers: 1}).Golden(t.Context()); err != nil {
		t.Error(err)
	}
}
