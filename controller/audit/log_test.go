package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, o Options) *Log {
	t.Helper()
	l, err := Open(o)
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	return l
}

// numbers are those of all lines after one.
func numbers(t *testing.T, l *Log, after uint64) (got []uint64) {
	t.Helper()
	must(t, l.Read(after, time.Time{}, func(line Line) error {
		got = append(got, line.Number)
		return nil
	}))
	return got
}

// upTo are the numbers from one to another.
func upTo(from, to uint64) (list []uint64) {
	for n := from; n <= to; n++ {
		list = append(list, n)
	}
	return list
}

// TestLines: an entry comes back as it was, from memory, from the file, and by those who read the file themselves.
func TestLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a", "audit.log")
	full := Entry{
		At: time.Date(2027, 1, 2, 3, 4, 5, 600, time.UTC), Who: "ada", What: "make", Placement: 7, Means: "copy", Path: "/ck/1 <é\n>", Site: "east", Job: "j", Bytes: 1 << 40,
		Until: time.Date(2027, 1, 2, 4, 4, 5, 0, time.UTC), Why: "saves 2 s", Err: "site: full", Took: 3,
	}
	empty := Entry{At: time.Unix(0, 1).UTC(), What: "drain"}
	for i := range 2 { // the second reads the file
		l := open(t, Options{File: file})
		if i == 0 {
			l.Add(full)
			l.Add(empty)
		}
		var got []Line
		must(t, l.Read(0, time.Time{}, func(line Line) error { got = append(got, line); return nil }))
		if want := []Line{{1, full}, {2, empty}}; !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
		must(t, l.Close())
	}
	text, err := os.ReadFile(file)
	must(t, err)
	want := `{"n":1,"at":"2027-01-02T03:04:05.0000006Z","who":"ada","what":"make","placement":7,"means":"copy","path":"/ck/1 <é\n>","site":"east","job":"j","bytes":1099511627776,"until":"2027-01-02T04:04:05Z","why":"saves 2 s","error":"site: full","took_ns":3}
{"n":2,"at":"1970-01-01T00:00:00.000000001Z","who":"","what":"drain"}
`
	if string(text) != want {
		t.Errorf("the file is\n%s, want\n%s", text, want)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// TestTurnOver: the file is put aside at its limit, the oldest goes, and numbers go on, also for the next process.
func TestTurnOver(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	o := Options{File: file, Limit: 1000, Keep: 2}
	const all = 60
	for part := range 3 {
		l := open(t, o)
		for i := range all / 3 {
			l.Add(Entry{What: "make", Why: strings.Repeat("x", 100)})
			if i%5 == 0 { // let it be written, so that batches are small
				waitWritten(t, l)
			}
		}
		must(t, l.Close())
		_ = part
	}
	l := open(t, o)
	got := numbers(t, l, 0)
	if len(got) == 0 || len(got) >= all || !reflect.DeepEqual(got, upTo(all+1-uint64(len(got)), all)) {
		t.Errorf("kept are %v", got)
	}
	found, err := filepath.Glob(file + "*")
	must(t, err)
	if want := []string{file, file + ".1", file + ".2", file + ".lock"}; !reflect.DeepEqual(found, want) {
		t.Errorf("there are %v, want %v", found, want)
	}
	if got := numbers(t, l, all-2); !reflect.DeepEqual(got, upTo(all-1, all)) {
		t.Errorf("after %d: %v", all-2, got)
	}
}

// TestAddDoesNotWait: while a disk takes its time to open or rename files, lines are added all the same.
func TestAddDoesNotWait(t *testing.T) {
	l := open(t, Options{File: filepath.Join(t.TempDir(), "audit.log"), Limit: 1, Keep: 20})
	l.Add(Entry{What: "make"})
	waitWritten(t, l)
	l.names.Lock()
	for range 10 {
		l.Add(Entry{What: "make"}) // for which another file is needed
	}
	if h := l.Health(); h.Waiting != 10 {
		t.Errorf("%d lines wait", h.Waiting)
	}
	l.names.Unlock()
	waitWritten(t, l)
	if got := numbers(t, l, 0); !reflect.DeepEqual(got, upTo(1, 11)) {
		t.Errorf("there are %v", got)
	}
}

// waitWritten waits until nothing is pending.
func waitWritten(t *testing.T, l *Log) {
	t.Helper()
	for began := time.Now(); l.Health().Waiting > 0; time.Sleep(time.Millisecond) {
		if time.Since(began) > 2*time.Minute {
			t.Fatal("the log is not written")
		}
	}
}

// TestAfterACrash: whatever a killed process or a bad disk left at the end or amid the file, the log opens, keeps all whole lines, and adds behind them.
func TestAfterACrash(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		file := filepath.Join(dir, fmt.Sprint(n))
		l, err := Open(Options{File: file})
		if err != nil {
			r.Fatal(err)
		}
		for range 5 {
			l.Add(Entry{What: "make", Why: "because"})
		}
		if err := l.Close(); err != nil {
			r.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			r.Fatal(err)
		}
		cut := rapid.IntRange(0, len(text)).Draw(r, "cut")
		whole := uint64(strings.Count(string(text[:cut]), "\n"))
		if err := os.WriteFile(file, text[:cut], 0o600); err != nil {
			r.Fatal(err)
		}
		l, err = Open(Options{File: file, Warn: func(err error) { r.Errorf("warned: %v", err) }})
		if err != nil {
			r.Fatal(err)
		}
		l.Add(Entry{What: "remove"})
		if err := l.Close(); err != nil {
			r.Fatal(err)
		}
		after, err := os.ReadFile(file)
		if err != nil {
			r.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(string(after), "\n"), "\n")
		if uint64(len(lines)) != whole+1 {
			r.Fatalf("%d lines after a cut at %d, want %d", len(lines), cut, whole+1)
		}
		for i, text := range lines {
			var line Line
			if err := json.Unmarshal([]byte(text), &line); err != nil || line.Number != uint64(i+1) {
				r.Fatalf("line %d is %q: %v", i+1, text, err)
			}
		}
	})
}

// TestBadLines are left out, and said.
func TestBadLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	must(t, os.WriteFile(file, []byte("{\"n\":1,\"what\":\"make\"}\nnonsense\n"+strings.Repeat("y", 2*maxLine)+"\n{\"n\":9,\"what\":\"remove\"}\n"), 0o600))
	var warned []string
	l := open(t, Options{File: file, Warn: func(err error) { warned = append(warned, err.Error()) }})
	warned = nil
	if got := numbers(t, l, 0); !reflect.DeepEqual(got, []uint64{1, 9}) {
		t.Errorf("read %v", got)
	}
	if len(warned) != 2 || !strings.Contains(warned[0], "line 2") || !strings.Contains(warned[1], "line 3") {
		t.Errorf("warned %q", warned)
	}
	l.Add(Entry{What: "next"})
	if got := numbers(t, l, 9); !reflect.DeepEqual(got, []uint64{10}) {
		t.Errorf("after the bad lines: %v", got)
	}
}

// TestFullDisk: what the disk does not take waits, is read all the same, and is written when it takes it again.
func TestFullDisk(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, Options{File: file})
	l.Add(Entry{What: "make"})
	waitWritten(t, l)
	must(t, l.file.Close()) // every write fails, and so does its repair
	must(t, os.Rename(file, file+".away"))
	must(t, os.Mkdir(file, 0o700))
	l.Add(Entry{What: "publish"})
	for began := time.Now(); !l.Health().Failing; time.Sleep(time.Millisecond) {
		if time.Since(began) > 2*time.Minute {
			t.Fatal("it does not fail")
		}
	}
	if got := numbers(t, l, 0); !reflect.DeepEqual(got, upTo(1, 2)) {
		t.Errorf("while it fails: %v", got)
	}
	must(t, os.Remove(file))
	must(t, os.Rename(file+".away", file))
	waitWritten(t, l)
	if h := l.Health(); h.Failing || h.Failures == 0 || h.Lost != 0 {
		t.Errorf("%+v", h)
	}
	must(t, l.Close())
	if got := numbers(t, open(t, Options{File: file}), 0); !reflect.DeepEqual(got, upTo(1, 2)) {
		t.Errorf("in the file: %v", got)
	}
}

// TestWait: who follows wakes up with the next line, with the end of his patience, and with the end of the log.
func TestWait(t *testing.T) {
	l := open(t, Options{File: filepath.Join(t.TempDir(), "audit.log")})
	woke := make(chan error)
	go func() { woke <- l.Wait(t.Context(), 0) }()
	l.Add(Entry{What: "make"})
	must(t, <-woke)
	must(t, l.Wait(t.Context(), 0)) // there already
	ctx, cancel := context.WithCancel(t.Context())
	go func() { woke <- l.Wait(ctx, 1) }()
	cancel()
	if err := <-woke; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	go func() { woke <- l.Wait(context.Background(), 1) }()
	must(t, l.Close())
	if err := <-woke; !errors.Is(err, fs.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// TestSince: what is older is left out, by the lines' own times, and files that were not written to since are not read.
func TestSince(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	o := Options{File: file, Limit: 150, Keep: 5}
	l := open(t, o)
	begin := time.Now().Add(-time.Hour)
	for i := range 5 {
		l.Add(Entry{At: begin.Add(time.Duration(i) * time.Minute), What: "make", Why: strings.Repeat("x", 100)})
		waitWritten(t, l)
	}
	must(t, l.Close())
	must(t, os.Chtimes(file+".4", begin, begin))
	must(t, os.WriteFile(file+".4", []byte("what is not read says nothing\n"), 0o600))
	must(t, os.Chtimes(file+".4", begin, begin))
	o.Warn = func(err error) { t.Errorf("warned: %v", err) }
	l = open(t, o)
	var got []uint64
	must(t, l.Read(0, begin.Add(2*time.Minute), func(line Line) error {
		got = append(got, line.Number)
		return nil
	}))
	if !reflect.DeepEqual(got, upTo(3, 5)) {
		t.Errorf("read %v", got)
	}
}

func TestOneWriter(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	open(t, Options{File: file})
	if _, err := Open(Options{File: file}); !errors.Is(err, ErrInUse) {
		t.Errorf("a second one: %v", err)
	}
}

// TestManyLines: far more lines than memory keeps are read in order, without gaps, while others are added.
func TestManyLines(t *testing.T) {
	l := open(t, Options{File: filepath.Join(t.TempDir(), "audit.log"), Limit: 64 << 10, Keep: 100})
	const all = 5000
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range all {
			l.Add(Entry{What: "make"})
		}
	}()
	var after uint64
	for after < all {
		must(t, l.Wait(t.Context(), after))
		for _, n := range numbers(t, l, after) {
			if n != after+1 {
				t.Fatalf("line %d follows line %d", n, after)
			}
			after = n
		}
	}
	<-done
}

// FuzzLines: no file makes the log panic or stop.
func FuzzLines(f *testing.F) {
	f.Add([]byte("{\"n\":1}\n"))
	f.Add([]byte("{\"n\":18446744073709551615,\"at\":\"x\"}\nno"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file := filepath.Join(t.TempDir(), "audit.log")
		must(t, os.WriteFile(file, text, 0o600))
		l := open(t, Options{File: file})
		l.Add(Entry{What: "make"})
		must(t, l.Read(0, time.Time{}, func(Line) error { return nil }))
	})
}
