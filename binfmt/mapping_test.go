package binfmt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// program is a file that nobody writes to.
var program = sync.OnceValue(func() *os.File {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		panic(err)
	}
	return f
})

// memoryOf stands for a mapping of a file that holds data and that nobody writes to. It is not to be closed.
func memoryOf(data []byte) mapping {
	v, err := versionOf(program())
	if err != nil {
		panic(err)
	}
	return mapping{name: "memory", file: program(), data: data, pinned: v}
}

// mapped is an index of one kind, several pages long, and a read of all that its last row has.
type mapped struct {
	path string
	data []byte
	m    *Manifest
	x    BinIndex
	read func(x BinIndex) (any, error)
}

// mappedRows are so many that each column of an index has pages of its own.
const mappedRows = 1000

// mapFiles writes and opens an index of each kind: of a packed bin, of a tar file without sums and with sums beside it, of a folder, of tokens.
func mapFiles(t *testing.T) map[string]*mapped {
	t.Helper()
	fields, rows := photoFields(), photoRows(mappedRows)
	readPhoto := func(x BinIndex) (any, error) {
		p, err := x.Part(x.Rows()-1, "image")
		key, keyErr := x.Key(x.Rows() - 1)
		v, labelErr := x.Scalar(x.Rows()-1, "label")
		return []any{p, key, v}, errors.Join(err, keyErr, labelErr)
	}
	data := indexBytes(t, fields, testUUID, rows)
	all := map[string]*mapped{"packed": {data: data, m: manifestOf(fields, testUUID, rows, data), read: readPhoto}}
	for i := range rows {
		rows[i].Parts[0].HasCRC, rows[i].Parts[0].CRC = false, 0
		rows[i].Parts[0].File, rows[i].Parts[0].Version = rows[i].Key, "dir:1"
	}
	for kind, container := range map[string]string{"tar": Tar, "summed": Tar, "folder": Folder} {
		data := foreignBytes(t, fields, rows, container)
		m := manifestOf(fields, testUUID, rows, data)
		m.Format, m.Bins[0].Foreign = FormatForeign, &Foreign{Container: container, Path: "x", Identity: "dir:1"}
		all[kind] = &mapped{data: data, m: m, read: readPhoto}
	}
	tokens := idxFile{idxMagic, 1, 1, mappedRows, mappedRows + 1, make([]int32, mappedRows), make([]int64, mappedRows), make([]int64, mappedRows+1), nil}
	for i := range int64(mappedRows) {
		tokens.lengths[i], tokens.pointers[i], tokens.documents[i+1] = 2, 2*i, i+1
	}
	all["tokens"] = &mapped{data: tokens.bytes(), read: func(x BinIndex) (any, error) {
		return x.Part(x.Rows()-1, TokensField)
	}, m: &Manifest{Format: FormatForeign, Fields: []Field{{Name: TokensField, Kind: Tokens, Dtype: "uint8"}}, Bins: []Bin{{
		Name: "0", Samples: mappedRows, Bytes: 2 * mappedRows, Foreign: &Foreign{Container: Megatron, Path: "x.bin", Identity: "dir:1"},
	}}}}
	for kind, f := range all {
		f.path = filepath.Join(t.TempDir(), "index")
		write(t, f.path, f.data)
		x, err := OpenBin(LocalIndex{Path: f.path}, f.m, 0)
		if err != nil {
			t.Fatal(kind, err)
		}
		if kind == "summed" {
			sums := NewSums(f.m)
			_, n := sums.Range(0)
			x = &summed{x, sums, make([]byte, n)}
		}
		f.x = x
		t.Cleanup(func() {
			if err := x.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return all
}

// write writes a file of a time that no later write gives it, however coarse the file system's clock is.
func write(t testing.TB, path string, data []byte) {
	t.Helper()
	then := time.Unix(1_000_000_000, 0)
	if err := errors.Join(os.WriteFile(path, data, 0o600), os.Chtimes(path, then, then)); err != nil {
		t.Fatal(err)
	}
}

// overwrite writes data over the start of a file.
func overwrite(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	return errors.Join(err, f.Close())
}

// TestIndexChangedInPlace: after an index of any kind was cut, made longer or written over, nothing is read of it, and the error names the file,
// what it was and what it is. What was read before was right.
func TestIndexChangedInPlace(t *testing.T) {
	for name, change := range map[string]func(path string, data []byte) error{
		"cut":               func(path string, _ []byte) error { return os.Truncate(path, 100) },
		"cut to nothing":    func(path string, _ []byte) error { return os.Truncate(path, 0) },
		"cut by a byte":     func(path string, data []byte) error { return os.Truncate(path, int64(len(data)-1)) },
		"made longer":       func(path string, data []byte) error { return os.Truncate(path, int64(len(data)+1)) },
		"zeros":             func(path string, data []byte) error { return overwrite(path, make([]byte, len(data))) },
		"one byte":          func(path string, data []byte) error { return overwrite(path, []byte{data[0] ^ 1}) },
		"the same again":    overwrite,
		"written, as files": func(path string, data []byte) error { return os.WriteFile(path, data[:len(data)/2], 0o600) },
	} {
		for kind, f := range mapFiles(t) {
			if _, err := f.read(f.x); err != nil {
				t.Fatal(kind, err)
			}
			was, err := os.Stat(f.path)
			if err != nil {
				t.Fatal(err)
			}
			if err := change(f.path, f.data); err != nil {
				t.Fatal(err)
			}
			now, err := os.Stat(f.path)
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.read(f.x)
			var changed *ChangedError
			if !errors.As(err, &changed) || !errors.Is(err, ErrChanged) || changed.Name != f.path {
				t.Fatalf("%s, %s: %v, want a ChangedError of %s", kind, name, err, f.path)
			}
			if !strings.Contains(changed.Pinned, fmt.Sprintf("%d bytes, written 2001-09-09", was.Size())) || !strings.Contains(changed.Now, fmt.Sprintf("%d bytes, written %d-", now.Size(), now.ModTime().UTC().Year())) {
				t.Errorf("%s, %s: was %s, is %s", kind, name, changed.Pinned, changed.Now)
			}
			if strings.Contains(err.Error(), "nil pointer") {
				t.Errorf("%s, %s: %v", kind, name, err)
			}
		}
	}
}

// TestIndexReplaced: an index whose name leads elsewhere by now, or nowhere, is read as before.
func TestIndexReplaced(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"by another": func(path string) error {
			return errors.Join(os.WriteFile(path+".new", []byte("something else"), 0o600), os.Rename(path+".new", path))
		},
		"removed": os.Remove,
		"made anew": func(path string) error {
			return errors.Join(os.Remove(path), os.WriteFile(path, make([]byte, 10), 0o600))
		},
		"moved away":   func(path string) error { return os.Rename(path, path+".old") },
		"linked":       func(path string) error { return os.Link(path, path+".link") },
		"only allowed": func(path string) error { return os.Chmod(path, 0o400) },
	} {
		for kind, f := range mapFiles(t) {
			want, err := f.read(f.x)
			if err != nil {
				t.Fatal(kind, err)
			}
			if err := change(f.path); err != nil {
				t.Fatal(err)
			}
			if got, err := f.read(f.x); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %s: %v, %v, want %v", kind, name, got, err, want)
			}
		}
	}
}

// TestTokensChangedInPlace: every way to read an .idx file notices.
func TestTokensChangedInPlace(t *testing.T) {
	f := mapFiles(t)["tokens"]
	x := f.x.(*TokenIndex)
	if err := overwrite(f.path, f.data); err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func() error{
		"Lengths":  func() error { return x.Lengths(make([]uint32, 3), 0) },
		"Extent":   func() error { _, err := x.Extent(0); return err },
		"Window":   func() error { _, err := x.Window(0, 0, 1); return err },
		"Document": func() error { _, _, err := x.Document(0); return err },
		"Mode":     func() error { _, err := x.Mode(0); return err },
		"Key":      func() error { _, err := x.Key(0); return err },
		"Check":    func() error { return x.Check(t.Context()) },
	} {
		if err := read(); !errors.Is(err, ErrChanged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUnreadableIndex: a piece of an unchanged file that cannot be read is a memory fault, which is an error that says where.
func TestUnreadableIndex(t *testing.T) {
	for kind, f := range mapFiles(t) {
		var m *mapping
		switch x := f.x.(type) {
		case *Index:
			m = &x.mapping
		case *TokenIndex:
			m = &x.mapping
		default:
			continue
		}
		if err := os.Truncate(f.path, 4096); err != nil {
			t.Fatal(err)
		}
		own := *m
		*m = memoryOf(own.data)
		_, err := f.read(f.x)
		*m = own
		if !errors.Is(err, ErrIndex) || !strings.Contains(err.Error(), fmt.Sprintf(" of %d cannot be read", len(f.data))) || strings.Contains(err.Error(), "nil pointer") {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// TestDatasetAfterAChange: the call that meets a change fails, those after it open what is there then, and what was open is closed.
func TestDatasetAfterAChange(t *testing.T) {
	member := memberOf(t, "a", 3, 2)
	u := NewUnion([]Member{memberOf(t, "b", 4), member})
	d, before := member.Data, openFiles(t)
	opened := d.index
	var digests error // what the caller's look at the file says
	d.index = func(ctx context.Context, bin int) (LocalIndex, error) {
		local, err := opened(ctx, bin)
		return local, errors.Join(err, digests)
	}
	want, err := u.Part(t.Context(), 8, "image")
	if err != nil {
		t.Fatal(err)
	}
	local, err := opened(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	path := local.Path
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Repeat([]byte{0}, len(data)+1), 0o600); err != nil {
		t.Fatal(err)
	}
	var changed *ChangedError
	if p, err := u.Part(t.Context(), 8, "image"); !errors.As(err, &changed) || changed.Name != path {
		t.Fatalf("%+v, %v, want a ChangedError of %s", p, err, path)
	}
	digests = errors.New("it has another digest")
	for range 2 {
		if _, err := u.Scalar(t.Context(), 8, "label"); !errors.Is(err, digests) || !errors.Is(err, ErrChanged) {
			t.Fatalf("%v, want %v, and why it was opened again", err, digests)
		}
	}
	digests = nil
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err := u.Part(t.Context(), 8, "image"); err != nil || p != want {
		t.Fatalf("restored: %+v, %v, want %+v", p, err, want)
	}
	if n := openFiles(t) - before; n != 1 {
		t.Errorf("%d indexes are open, want 1", n)
	}
	digests = errors.New("it has another digest")
	if err := d.evict(0); err != nil {
		t.Fatal(err)
	}
	if _, err := u.Part(t.Context(), 8, "image"); !errors.Is(err, digests) || errors.Is(err, ErrChanged) {
		t.Errorf("%v: what was mended is not told again", err)
	}
}

// TestDatasetChangesUnderReaders: some readers write over the file that all read. Each gets what is right or the error, and nothing is
// left open.
func TestDatasetChangesUnderReaders(t *testing.T) {
	const rows, readers, reads = 50, 4, 300
	member, before := memberOf(t, "a", rows), openFiles(t)
	d, dir := member.Data, t.TempDir()
	local, err := d.index(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(local.Path)
	if err != nil {
		t.Fatal(err)
	}
	opened := 0 // by one at a time
	d.index = func(context.Context, int) (LocalIndex, error) {
		opened++
		next := filepath.Join(dir, fmt.Sprint(opened))
		write(t, next, data)
		return LocalIndex{Path: next}, nil
	}
	bad := bytes.Repeat([]byte{0xa5}, len(data))
	var right, failed atomic.Int64
	var wg sync.WaitGroup
	for g := range int64(readers) {
		wg.Go(func() {
			for i := range int64(reads) {
				var p Part
				err := d.with(context.Background(), uint64((g*13+i)%rows), func(x BinIndex, row int64) error {
					if i%10 == 9 {
						if err := overwrite(x.(*Index).name, bad); err != nil {
							return err
						}
					}
					var err error
					p, err = x.Part(row, "image")
					return err
				})
				switch {
				case err == nil && p.Off == HeaderSize+64*((g*13+i)%rows):
					right.Add(1)
				case errors.Is(err, ErrChanged):
					failed.Add(1)
				default:
					t.Errorf("reader %d, read %d: %+v, %v", g, i, p, err)
				}
			}
		})
	}
	wg.Wait()
	if failed.Load() < readers*reads/10 || right.Load() == 0 {
		t.Errorf("%d reads were right, %d failed", right.Load(), failed.Load())
	}
	if n := openFiles(t) - before; n > 1 {
		t.Errorf("%d files are open, want at most 1", n)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if n := openFiles(t) - before; n != 0 {
		t.Errorf("%d files are open after Close", n)
	}
}

// TestIndexChangedBeforeItIsOpened: an index that is another one when it is opened than it was when its digest was compared is verified
// and opened again, a few times.
func TestIndexChangedBeforeItIsOpened(t *testing.T) {
	for name, change := range map[string]func(path string, data []byte) error{
		"written": overwrite,
		"replaced": func(path string, data []byte) error {
			return errors.Join(os.WriteFile(path+".new", data, 0o600), os.Rename(path+".new", path))
		},
	} {
		for changes, opens := range map[int]bool{0: true, openings - 1: true, openings: false} {
			d := memberOf(t, "a", 9).Data
			inner, left := d.index, changes
			d.index = func(ctx context.Context, bin int) (LocalIndex, error) {
				local, err := inner(ctx, bin)
				if err != nil {
					return local, err
				}
				data, err := os.ReadFile(local.Path)
				if err != nil {
					return local, err
				}
				write(t, local.Path, data)
				if local.Verified, err = os.Stat(local.Path); err != nil || left == 0 {
					return local, err
				}
				left--
				return local, change(local.Path, data)
			}
			p, err := d.Part(t.Context(), 5, "image")
			if opens && (err != nil || p.Off != HeaderSize+64*5) || !opens && !errors.Is(err, ErrChanged) {
				t.Errorf("%s %d times: %+v, %v", name, changes, p, err)
			}
		}
	}
}
