package journal

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"pgregory.net/rapid"
)

// TestMain runs the tests, or, in a process of TestKill or TestFullDisk, a writer that is killed or whose disk is full.
func TestMain(m *testing.M) {
	if file := os.Getenv("JOURNAL_WRITER"); file != "" {
		writeForEver(file)
	}
	if file := os.Getenv("JOURNAL_FULL"); file != "" {
		if err := fillDisk(file); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func open(t rapid.TB, file string) *Journal {
	t.Helper()
	j, err := Open(Options{File: file})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func record(n uint64) Record {
	body := fmt.Sprintf(`{"n":%d,"fill":"%0*d"}`, n, int(n*37%900)+1, n)
	return Record{At: time.Unix(int64(n), 0).UTC(), Placement: n % 7, Kind: Intent, Action: "make", Body: []byte(body)}
}

// numbers reads a journal, compares every record with what was written, and returns their numbers.
func numbers(t rapid.TB, j *Journal) []uint64 {
	t.Helper()
	list := []uint64{}
	err := j.Read(0, func(r Record) error {
		want := record(r.Number)
		if r.Placement != want.Placement || r.Kind != want.Kind || r.Action != want.Action || string(r.Body) != string(want.Body) || !r.At.Equal(want.At) {
			t.Fatalf("record %d is %+v, want %+v", r.Number, r, want)
		}
		list = append(list, r.Number)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// fill appends records with numbers up to last, three to a transaction.
func fill(t rapid.TB, j *Journal, last uint64) {
	t.Helper()
	for n := uint64(len(numbers(t, j))) + 1; n <= last; n += 3 {
		var some []Record
		for i := n; i <= min(n+2, last); i++ {
			some = append(some, record(i))
		}
		if got, err := j.Append(some...); err != nil || got != n {
			t.Fatalf("record %d has number %d: %v", n, got, err)
		}
	}
}

func isPrefix(list []uint64) bool {
	for i, n := range list {
		if n != uint64(i)+1 {
			return false
		}
	}
	return true
}

func TestAppendAndRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "deep", "journal")
	j := open(t, file)
	fill(t, j, 100)
	if _, err := Open(Options{File: file}); !errors.Is(err, ErrInUse) {
		t.Fatalf("opened twice: %v", err)
	}
	if first, err := j.Append(record(101), record(102)); err != nil || first != 101 {
		t.Fatal(first, err)
	}
	if err := errors.Join(j.Close(), j.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Append(record(1)); !errors.Is(err, fs.ErrClosed) {
		t.Fatalf("appended after Close: %v", err)
	}
	j = open(t, file)
	defer j.Close()
	if list := numbers(t, j); len(list) != 102 || !isPrefix(list) {
		t.Fatal(list)
	}
	var from []uint64
	if err := j.Read(100, func(r Record) error { from = append(from, r.Number); return nil }); err != nil || len(from) != 3 {
		t.Fatal(from, err)
	}
}

func TestCompact(t *testing.T) {
	file := filepath.Join(t.TempDir(), "journal")
	j := open(t, file)
	fill(t, j, 600)
	before, _ := os.Stat(file)
	if err := j.Compact(func(p uint64) bool { return p != 3 }); err != nil {
		t.Fatal(err)
	}
	after, _ := os.Stat(file)
	if after.Size() > before.Size()/2 {
		t.Errorf("%d bytes before, %d after", before.Size(), after.Size())
	}
	j.Close()
	j = open(t, file)
	defer j.Close()
	for _, n := range numbers(t, j) {
		if n%7 != 3 {
			t.Fatalf("record %d is still there", n)
		}
	}
	if err := j.Compact(func(uint64) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if last, err := j.LastPlacement(); err != nil || last != 6 {
		t.Fatalf("the largest placement is %d: %v", last, err)
	}
	if got, err := j.Append(record(601)); err != nil || got != 601 {
		t.Fatalf("numbers go on with %d: %v", got, err)
	}
}

// TestCompactAfterOneThatFailed: what a compaction left that had no room for the new form, as any of these, keeps no later one from being made.
func TestCompactAfterOneThatFailed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "journal")
	j := open(t, file)
	fill(t, j, 600)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, left := range [][]byte{nil, whole[:100], whole[:len(whole)/2], whole} {
		if err := os.WriteFile(file+compactSuffix, left, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := j.Compact(func(p uint64) bool { return p != 3 }); err != nil {
			t.Errorf("with %d bytes: %v", len(left), err)
		}
	}
	for _, n := range numbers(t, j) {
		if n%7 != 3 {
			t.Fatalf("record %d is still there", n)
		}
	}
	j.Close()
}

// TestCrash makes what the disk has after a crash in the middle of a transaction: some of the pages that it wrote, cut at sectors, with the meta page, which is
// written after all others are durable, in its old form; or all of them and some sectors of the meta page. The journal is then what it was before,
// or with all of the transaction.
func TestCrash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "journal")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		file := filepath.Join(dir, "journal")
		j := open(t, file)
		defer j.Close()
		last := uint64(rapid.IntRange(0, 20).Draw(t, "records"))
		fill(t, j, last)
		old, _ := os.ReadFile(file)
		if first, err := j.Append(record(last+1), record(last+2)); err != nil || first != last+1 {
			t.Fatal(first, err)
		}
		now, _ := os.ReadFile(file)
		image := append([]byte(nil), now...)
		metaToo := rapid.Bool().Draw(t, "the meta page was being written")
		clear(image[min(len(old), len(image)):])
		copy(image, old)
		for sector := 0; sector < len(now); sector += 512 {
			written := rapid.Bool().Draw(t, "sector")
			if isMeta := sector < 2*pageSize; isMeta && metaToo && written || !isMeta && (metaToo || written) {
				copy(image[sector:min(sector+512, len(image))], now[sector:])
			}
		}
		if !metaToo && rapid.Bool().Draw(t, "the file had not grown") {
			image = image[:max(len(old), 0)]
		}
		crashed := filepath.Join(dir, "crashed")
		if err := os.WriteFile(crashed, image, 0o600); err != nil {
			t.Fatal(err)
		}
		after := open(t, crashed)
		defer after.Close()
		list := numbers(t, after)
		if n := uint64(len(list)); !isPrefix(list) || n != last && (n != last+2 || !metaToo) {
			t.Fatalf("%d records before the crash, then %v", last, list)
		}
		if _, err := after.Append(record(uint64(len(list)) + 1)); err != nil {
			t.Fatal(err)
		}
	})
}

// TestDamage changes or cuts the file anywhere: it is opened with the records that were written, but for those of the last transaction, or refused by name.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "journal")
	j := open(t, file)
	fill(t, j, 150)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	whole, _ := os.ReadFile(file)
	damaged := filepath.Join(dir, "damaged")
	rapid.Check(t, func(t *rapid.T) {
		image := append([]byte(nil), whole...)
		if rapid.IntRange(0, 3).Draw(t, "cut") == 0 {
			image = image[:rapid.IntRange(0, len(image)-1).Draw(t, "bytes")]
		} else {
			for range rapid.IntRange(1, 3).Draw(t, "changes") {
				image[rapid.IntRange(0, len(image)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "to")
			}
		}
		if err := os.WriteFile(damaged, image, 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := Open(Options{File: damaged})
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrVersion) {
				t.Fatalf("an error without a name: %v", err)
			}
			return
		}
		defer j.Close()
		if list := numbers(t, j); !isPrefix(list) || len(list) < 147 {
			t.Fatalf("%d records", len(list))
		}
	})
}

func FuzzVerify(f *testing.F) {
	file := filepath.Join(f.TempDir(), "journal")
	j, err := Open(Options{File: file})
	if err != nil {
		f.Fatal(err)
	}
	for n := range uint64(5) {
		if _, err := j.Append(record(n + 1)); err != nil {
			f.Fatal(err)
		}
	}
	j.Close()
	whole, _ := os.ReadFile(file)
	f.Add(whole, uint16(0), byte(0))
	f.Add(whole, uint16(4096+16), byte(1))
	f.Fuzz(func(t *testing.T, image []byte, at uint16, to byte) {
		if int(at) < len(image) {
			image[at] = to
		}
		_ = verify(readerAt(image), int64(len(image)), func(_ string, key, value []byte) error {
			_, _ = decode(key, value)
			return nil
		})
	})
}

type readerAt []byte

func (b readerAt) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= int64(len(b)) {
		return 0, fs.ErrInvalid
	}
	n := copy(p, b[off:])
	if n < len(p) {
		return n, fs.ErrInvalid
	}
	return n, nil
}

func TestNewerVersion(t *testing.T) {
	for name, change := range map[string]func(tx *bbolt.Tx) error{
		"file": func(tx *bbolt.Tx) error { return tx.Bucket(aboutBucket).Put(versionKey, []byte{Version + 1}) },
		"record": func(tx *bbolt.Tx) error {
			return tx.Bucket(recordsBucket).Put(keyOf(2), []byte{Version + 1, 0, 0, 0, 0})
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "journal")
			j := open(t, file)
			fill(t, j, 1)
			if err := j.db.Update(change); err != nil {
				t.Fatal(err)
			}
			j.Close()
			if _, err := Open(Options{File: file}); !errors.Is(err, ErrVersion) {
				t.Fatalf("a newer journal: %v", err)
			}
		})
	}
}

// TestFullDisk has writes fail at any size of the file: nothing of the record is there then, and when there is room again the journal goes on. The limit is that of a
// process, so it is another one.
func TestFullDisk(t *testing.T) {
	full := exec.Command(os.Args[0])
	full.Env = append(os.Environ(), "JOURNAL_FULL="+filepath.Join(t.TempDir(), "journal"))
	if out, err := full.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// fillDisk is what TestFullDisk does, in a process of its own.
func fillDisk(file string) error {
	signal.Ignore(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		return err
	}
	room := func(bytes uint64) error {
		return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: bytes, Max: before.Max})
	}
	j, err := Open(Options{File: file})
	if err != nil {
		return err
	}
	defer j.Close()
	failed := 0
	for n := uint64(1); n < 200; n++ {
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		if err := room(uint64(info.Size()) / 2); err != nil { // not even what is there may be written again
			return err
		}
		_, full := j.Append(record(n))
		if err := room(before.Cur); err != nil {
			return err
		}
		switch {
		case full == nil:
			n++
		case !strings.Contains(full.Error(), syscall.EFBIG.Error()) || !strings.Contains(full.Error(), file):
			return fmt.Errorf("the error does not say why: %w", full)
		default:
			failed++
		}
		if got, err := j.Append(record(n)); err != nil || got != n {
			return fmt.Errorf("with room again, record %d has number %d: %w", n, got, err)
		}
	}
	next := uint64(1)
	err = j.Read(0, func(r Record) error {
		if r.Number != next || string(r.Body) != string(record(next).Body) {
			return fmt.Errorf("record %d, want %d", r.Number, next)
		}
		next++
		return nil
	})
	if err == nil && (next < 200 || failed == 0) {
		err = fmt.Errorf("%d records, %d writes failed", next-1, failed)
	}
	return err
}

// writeForEver appends records, compacts now and then, and prints the number of each record that is durable.
func writeForEver(file string) {
	j, err := Open(Options{File: file})
	if err != nil {
		fmt.Println(err)
		os.Exit(3)
	}
	n := uint64(0)
	_ = j.Read(0, func(r Record) error { n = r.Number; return nil })
	for {
		n++
		if _, err := j.Append(record(n)); err != nil {
			fmt.Println(err)
			os.Exit(3)
		}
		fmt.Println(n)
		if n%50 == 0 {
			if err := j.Compact(func(uint64) bool { return false }); err != nil {
				fmt.Println(err)
				os.Exit(3)
			}
		}
	}
}

// TestKill kills a writer at moments of its own choice of work: all that it had said to be durable is there, and nothing but a prefix.
func TestKill(t *testing.T) {
	file := filepath.Join(t.TempDir(), "journal")
	said := uint64(0)
	for round := range 8 {
		writer := exec.Command(os.Args[0])
		writer.Env = append(os.Environ(), "JOURNAL_WRITER="+file)
		out, err := writer.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := writer.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 20 + 13*round {
			if !lines.Scan() {
				t.Fatal("the writer ended by itself")
			}
		}
		if err := writer.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
		}
		_ = writer.Wait() // killed
		if said, err = strconv.ParseUint(lastLine(lines.Text(), said), 10, 64); err != nil {
			t.Fatal(err)
		}
		j := open(t, file)
		list := numbers(t, j)
		j.Close()
		if !isPrefix(list) || uint64(len(list)) < said {
			t.Fatalf("round %d: %d were said to be durable, %d are there", round, said, len(list))
		}
	}
}

func lastLine(text string, otherwise uint64) string {
	if text == "" {
		return strconv.FormatUint(otherwise, 10)
	}
	return text
}
