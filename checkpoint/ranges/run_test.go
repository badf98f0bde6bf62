package ranges

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
	"github.com/stepahead-io/stepahead/store/storetest"
)

// memory is a File whose reads are watched.
type memoryFile struct {
	data    []byte
	bridges int64
	takes   time.Duration

	mu                 sync.Mutex
	reads, now, most   int
	offsets            []int64
	lane               store.Lane
	scratch, scratched int64 // bytes in flight outside wanted memory, and the most of them
	isWanted           func(*byte) bool
}

func (f *memoryFile) Size() int64              { return int64(len(f.data)) }
func (f *memoryFile) Identity() store.Identity { return "memory" }
func (f *memoryFile) Close() error             { return nil }
func (f *memoryFile) Bridges() int64           { return f.bridges }

func (f *memoryFile) ReadRanges(ctx context.Context, r []store.Range) error {
	var scratch int64
	for _, x := range r {
		if f.isWanted != nil && !f.isWanted(&x.Buf[0]) {
			scratch += int64(len(x.Buf))
		}
	}
	f.enter(r[0].Off, scratch, store.LaneOf(ctx))
	defer f.leave(scratch)
	if f.takes > 0 {
		if err := store.Sleep(ctx, f.takes); err != nil {
			return err
		}
	}
	for _, x := range r {
		copy(x.Buf, f.data[x.Off:])
	}
	return nil
}

func (f *memoryFile) enter(off, scratch int64, lane store.Lane) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	f.now++
	f.most = max(f.most, f.now)
	f.scratch += scratch
	f.scratched = max(f.scratched, f.scratch)
	f.offsets, f.lane = append(f.offsets, off), lane
}

func (f *memoryFile) leave(scratch int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now--
	f.scratch -= scratch
}

func randomBytes(seed uint64, n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(b)
	return b
}

// guarded gives each want memory with a fence around it, all of it apart.
func guarded(wants []Want) (fences func() error) {
	const guard = 8
	fence := bytes.Repeat([]byte{0xa5}, guard)
	all := make([][]byte, len(wants))
	for i, w := range wants {
		n := len(w.Dst)
		all[i] = bytes.Repeat([]byte{0xa5}, n+2*guard)
		wants[i].Dst = all[i][guard : guard+n]
	}
	return func() error {
		for i, m := range all {
			if !bytes.HasPrefix(m, fence) || !bytes.HasSuffix(m, fence) {
				return fmt.Errorf("want %d: memory beside it was written", i)
			}
		}
		return nil
	}
}

// compare finds the first want with wrong bytes.
func compare(wants []Want, data [][]byte) error {
	for i, w := range wants {
		if !bytes.Equal(w.Dst, data[w.File][w.Off:w.end()]) {
			return fmt.Errorf("want %d, %d:[%d, +%d), has wrong bytes", i, w.File, w.Off, len(w.Dst))
		}
	}
	return nil
}

// memoryOf tells which addresses are those of wants.
func memoryOf(wants []Want) func(*byte) bool {
	return func(b *byte) bool {
		return slices.ContainsFunc(wants, func(w Want) bool {
			at, start := uintptr(unsafe.Pointer(b)), uintptr(unsafe.Pointer(unsafe.SliceData(w.Dst)))
			return start <= at && at < start+uintptr(len(w.Dst))
		})
	}
}

// Whatever is wanted, and whatever the limits and the store: the right bytes, within the limits.
func TestReadFillsAll(t *testing.T) {
	data := make([][]byte, 4)
	for i := range data {
		data[i] = randomBytes(uint64(i), 24<<20)
	}
	rapid.Check(t, func(t *rapid.T) {
		wants, limits := drawWants(t, 10_000), drawLimits(t)
		fences := guarded(wants)
		for i, w := range wants {
			if rapid.Bool().Draw(t, "has crc") {
				wants[i].HasCRC, wants[i].CRC = true, crc32.Checksum(data[w.File][w.Off:w.end()], castagnoli)
			}
		}
		watched := &memoryFile{data: data[0], bridges: rapid.SampledFrom([]int64{0, 1 << 20}).Draw(t, "bridges"), isWanted: memoryOf(wants)}
		files := []File{{"/0", watched}}
		for i := 1; i < 4; i++ {
			files = append(files, File{fmt.Sprint("/", i), &memoryFile{data: data[i]}})
		}
		var last Stats
		stats, err := Read(context.Background(), files, wants, Options{Limits: limits, Progress: func(s Stats) {
			if s.Reads != last.Reads+1 || s.Got < last.Got || s.Read < last.Read {
				t.Errorf("progress from %+v to %+v", last, s)
			}
			last = s
		}})
		if err == nil {
			err = errors.Join(compare(wants, data), fences())
		}
		if err != nil {
			t.Fatal(err)
		}
		if stats.Got != stats.Wanted || stats.Reads != stats.Planned || last != stats && stats.Reads > 0 {
			t.Errorf("at the end %+v, progress %+v", stats, last)
		}
		l := limits.withDefaults()
		if watched.most > smallFactor*l.InFlight || watched.scratched > l.Memory || watched.reads > 0 && watched.lane != store.Bulk {
			t.Errorf("%d in flight, %d bytes of bounce memory, lane %d; limits %+v", watched.most, watched.scratched, watched.lane, l)
		}
	})
}

// The reads of a file begin in the order of their offsets, and as many at a time as told.
func TestReadInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &memoryFile{data: make([]byte, 4<<20), takes: time.Second}
		limits := Limits{MinRead: 64 << 10, MaxRead: 128 << 10, Memory: 1 << 20, InFlight: 4}
		start := time.Now()
		_, err := Read(t.Context(), []File{{"/f", f}}, []Want{want(0, 0, 4<<20)}, Options{Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
		for i := range f.offsets { // those that begin together may come to the file in any order
			if i >= 4 && f.offsets[i] < f.offsets[i-4] {
				t.Errorf("offset %d after %d", f.offsets[i], f.offsets[i-4])
			}
		}
		if took := time.Since(start); f.most != 4 || took != time.Duration(f.reads/4)*time.Second {
			t.Errorf("%d reads, %d at a time, in %v", f.reads, f.most, took)
		}
	})
}

// A thousand small reads on a link with a long round trip wait together.
func TestSmallReadsWaitTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &memoryFile{data: make([]byte, 52<<20), takes: 100 * time.Millisecond}
		var wants []Want
		for i := range int64(512) {
			wants = append(wants, want(0, i*100_000, 4096))
		}
		start := time.Now()
		stats, err := Read(t.Context(), []File{{"/f", f}}, wants, Options{})
		if took := time.Since(start); err != nil || stats.Reads != 512 || took > 400*time.Millisecond {
			t.Errorf("%+v in %v, %v", stats, took, err)
		}
	})
}

func open(t *testing.T, faults string, data []byte) (store.Store, []File) {
	t.Helper()
	s, _, err := dir.Open(t.TempDir(), dir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	storetest.Put(t, s, "/ckpt/shard", data)
	all, err := store.ParseFaults(faults)
	if err != nil {
		t.Fatal(err)
	}
	return s, []File{{"/ckpt/shard", storetest.Open(t, store.Faults(s, all), "/ckpt/shard")}}
}

// some wants a tensor every 100 KB, all of 10 KB.
func some(n int) (wants []Want) {
	for i := range n {
		wants = append(wants, want(0, int64(i)*100_000, 10_000))
	}
	return wants
}

// What goes wrong is an error of the right class that names the file and the range; nothing is left running.
func TestReadFaults(t *testing.T) {
	data := randomBytes(1, 3_000_000)
	wrong := some(10)
	wrong[7].HasCRC, wrong[7].CRC = true, 1
	empty := append(some(3), Want{Off: 5, HasCRC: true, CRC: 1})
	twice := append(some(3), some(3)...)
	twice[4].HasCRC, twice[4].CRC = true, 1
	for name, c := range map[string]struct {
		faults string
		wants  []Want
		class  store.Class
		texts  []string
	}{
		"a short file":        {"", some(31), store.Permanent, []string{"/ckpt/shard", "10000 bytes at offset 3000000", "3000000"}},
		"a wrong crc":         {"", wrong, store.Corrupt, []string{"/ckpt/shard", "[700000, +10000)", "00000001"}},
		"of nothing":          {"", empty, store.Corrupt, []string{"/ckpt/shard", "[5, +0)"}},
		"of what is copied":   {"", twice, store.Corrupt, []string{"/ckpt/shard", "[100000, +10000)"}},
		"no such file":        {"", []Want{want(1, 0, 1)}, store.Permanent, []string{"want 0", "file 1 of 1"}},
		"closed":              {"fail(op=read, err=permanent)", some(2), store.Permanent, []string{"/ckpt/shard"}},
		"a negative offset":   {"", []Want{want(0, -1, 1)}, store.Permanent, []string{"/ckpt/shard", "-1"}},
		"a read that fails":   {"fail(op=read, nth=2, err=unavailable)", some(30), store.Retryable, []string{"/ckpt/shard", "[", "+"}},
		"a read that is cut":  {"short(op=read, nth=3)", some(30), store.Retryable, []string{"/ckpt/shard"}},
		"a changed file":      {"fail(op=read, nth=4, err=identity)", some(30), store.IdentityChanged, []string{"/ckpt/shard"}},
		"a file that is gone": {"fail(op=read, nth=1, err=not-found)", some(30), store.NotFound, []string{"/ckpt/shard"}},
		"a corrupt replica":   {"fail(op=read, nth=2, err=corrupt)", some(30), store.Corrupt, []string{"/ckpt/shard"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, files := open(t, c.faults, data)
			_, err := Read(t.Context(), files, c.wants, Options{})
			if store.ClassOf(err) != c.class || !strings.HasPrefix(fmt.Sprint(err), "ranges.Read: ") {
				t.Fatalf("class %s, want %s: %v", store.ClassOf(err), c.class, err)
			}
			for _, text := range c.texts {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q is not in: %v", text, err)
				}
			}
		})
	}
}

// A file that is written to while it is open fails: never a mixture. One that was replaced is read as it was, where the store
// can do it.
func TestReadOfAChangedFile(t *testing.T) {
	root := t.TempDir()
	s, _, err := dir.Open(root, dir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	old := randomBytes(1, 1_000_000)
	storetest.Put(t, s, "/f", old)
	files := []File{{"/f", storetest.Open(t, s, "/f")}}
	storetest.Put(t, s, "/new", randomBytes(2, 1_000_000))
	if err := s.Rename(t.Context(), "/new", "/f"); err != nil {
		t.Fatal(err)
	}
	wants := some(10)
	if _, err := Read(t.Context(), files, wants, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := compare(wants, [][]byte{old}); err != nil {
		t.Error(err)
	}
	files[0].File = storetest.Open(t, s, "/f")
	if err := os.Truncate(filepath.Join(root, "f"), 500_000); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(t.Context(), files, wants, Options{}); store.ClassOf(err) != store.IdentityChanged {
		t.Errorf("a file that was cut: %v", err)
	}
}

// One wrong byte that the store does not see is found by its CRC.
func TestReadFindsOneWrongByte(t *testing.T) {
	data := randomBytes(1, 3_000_000)
	_, files := open(t, "corrupt(op=read, offset=1500123)", data)
	wants := some(30)
	for i, w := range wants {
		wants[i].HasCRC, wants[i].CRC = true, crc32.Checksum(data[w.Off:w.end()], castagnoli)
	}
	wants[15].Off, wants[15].CRC = 1_500_100, crc32.Checksum(data[1_500_100:1_510_100], castagnoli)
	_, err := Read(t.Context(), files, wants, Options{})
	if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), "[1500100, +10000)") {
		t.Error(err)
	}
}

// A read that fails and one whose caller gives up end at once, whatever is in flight.
func TestReadEndsSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &memoryFile{data: make([]byte, 100<<20), takes: time.Hour}
		bad := &memoryFile{data: make([]byte, 100<<20), takes: time.Second}
		closing := failing{bad, fs.ErrClosed}
		wants := []Want{want(0, 0, 100<<20), want(1, 0, 100<<20)}
		start := time.Now()
		if _, err := Read(t.Context(), []File{{"/slow", slow}, {"/bad", closing}}, wants, Options{}); !errors.Is(err, fs.ErrClosed) || !strings.Contains(err.Error(), "/bad") {
			t.Errorf("a failing read beside slow ones: %v", err)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("after %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := Read(ctx, []File{{"/slow", slow}}, wants[:1], Options{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after its deadline: %v", err)
		}
		cancel()
		before := slow.reads
		if _, err := Read(ctx, []File{{"/slow", slow}}, wants[:1], Options{}); err == nil || slow.reads != before {
			t.Errorf("cancelled before it began: %v, %d reads", err, slow.reads-before)
		}
		if slow.now != 0 || bad.now != 0 {
			t.Errorf("%d and %d reads are left", slow.now, bad.now)
		}
	})
}

// failing fails all reads.
type failing struct {
	*memoryFile
	err error
}

func (f failing) ReadRanges(ctx context.Context, r []store.Range) error {
	if err := f.memoryFile.ReadRanges(ctx, r); err != nil {
		return err
	}
	return f.err
}

func TestReadOfNothing(t *testing.T) {
	if stats, err := Read(t.Context(), nil, nil, Options{}); err != nil || stats != (Stats{}) {
		t.Errorf("%+v, %v", stats, err)
	}
	if _, err := Read(t.Context(), nil, nil, Options{Limits: Limits{InFlight: -1}}); err == nil {
		t.Error("bad limits are taken")
	}
}

// Memory that was given back is used again, and there is never more than told.
func TestBounce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := bounce{most: 1000}
		var used [][]byte
		var n int64
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(used) > 0 && rapid.Bool().Draw(t, "give") {
				m := used[len(used)-1]
				used, n = used[:len(used)-1], n-int64(cap(m))
				b.give(m)
				continue
			}
			size := rapid.Int64Range(1, 1000).Draw(t, "size")
			m := b.take(size)
			if m == nil && len(used) == 0 {
				t.Fatalf("no %d bytes, and none are in use", size)
			}
			if m != nil {
				used, n = append(used, m), n+int64(cap(m))
			}
			for _, f := range b.free {
				n += int64(cap(f))
			}
			if n > b.most || n != b.taken {
				t.Fatalf("%d bytes, counted as %d, of %d", n, b.taken, b.most)
			}
			for _, f := range b.free {
				n -= int64(cap(f))
			}
		}
	})
}
