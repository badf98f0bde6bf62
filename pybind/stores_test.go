package pybind

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unsafe"
)

// callNumber gives numbers of calls that no other test uses.
var callNumber int64

// result waits for a call that was begun.
func result[T any](t *testing.T, begun error) (T, error) {
	t.Helper()
	var out T
	if begun != nil {
		return out, begun
	}
	for {
		text, err := CallWait(callNumber, 100)
		if err != nil {
			return out, err
		}
		if text != "" {
			return out, json.Unmarshal([]byte(text), &out)
		}
	}
}

func next() int64 { callNumber++; return callNumber }

func openFolder(t *testing.T) (handle int64, root string) {
	t.Helper()
	root = t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, ".stepahead", "agents"), 0o700); err != nil { // which makes it the store's root
		t.Fatal(err)
	}
	opened, err := result[storeOpened](t, StoreOpen(next(), fmt.Sprintf(`{"url": %q}`, root)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { StoreClose(opened.Store) })
	return opened.Store, root
}

// kept is memory that is addressed by number: it must not lie on a stack, which moves.
var kept [][]byte

func addressOf(b []byte) int64 {
	kept = append(kept, b)
	return int64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

// TestStoreFiles writes a file, reads ranges of it into memory and closes it.
func TestStoreFiles(t *testing.T) {
	s, root := openFolder(t)
	data := []byte("0123456789")
	w, err := result[writerOpened](t, StoreCall(next(), s, "create", `{"name": "/a/f"}`))
	if err == nil {
		_, err = result[any](t, StoreCall(next(), s, "write", fmt.Sprintf(`{"writer": %d, "address": %d, "bytes": 10}`, w.Writer, addressOf(data))))
	}
	if err == nil {
		_, err = result[any](t, StoreCall(next(), s, "finish", fmt.Sprintf(`{"writer": %d}`, w.Writer)))
	}
	if got, errRead := os.ReadFile(filepath.Join(root, "a", "f")); err != nil || string(got) != string(data) {
		t.Fatalf("%q, %v, %v", got, err, errRead)
	}
	f, err := result[fileOpened](t, StoreCall(next(), s, "open", `{"name": "/a/f"}`))
	if err != nil || f.Size != 10 || f.Identity == "" {
		t.Fatalf("%+v, %v", f, err)
	}
	got := make([]byte, 5)
	_, err = result[any](t, StoreCall(next(), s, "read", fmt.Sprintf(`{"files": [%d], "wants": [[0, 8, 2, %d], [0, 1, 3, %d]]}`, f.File, addressOf(got), addressOf(got[2:]))))
	if err != nil || string(got) != "89123" {
		t.Errorf("%q, %v", got, err)
	}
	for range 2 {
		if _, err := result[any](t, StoreCall(next(), s, "close", fmt.Sprintf(`{"file": %d}`, f.File))); err != nil {
			t.Error(err)
		}
	}
}

// TestStoreMistakes: each is an error with a code that Python knows.
func TestStoreMistakes(t *testing.T) {
	s, root := openFolder(t)
	if err := os.WriteFile(filepath.Join(root, "f"), []byte("f"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, arguments, want string }{
		{"no such", `{}`, "EOPTION"},
		{"stat", `{"nam": "/f"}`, "EOPTION"},
		{"stat", `{"name": "/none"}`, "ENOTFOUND"},
		{"stat", `{"name": "f"}`, "ESTORE"},
		{"list", `{"name": "/f"}`, "ENOTDIR"},
		{"create", `{"name": "/f"}`, "EEXIST"},
		{"create", `{"name": "/", "over": true}`, "EISDIR"},
		{"write", `{"writer": 99}`, "ECLOSED"},
		{"read", `{"files": [99], "wants": []}`, "ECLOSED"},
		{"read", `{"files": [], "wants": [[0, 0, 5, 0]]}`, "EOPTION"},
		{"read boxes", `{"checkpoint": 99, "boxes": []}`, "ECLOSED"},
		{"checkpoint", `{"name": "/"}`, "ECHECKPOINT"},
		{"latest", `{"name": "/"}`, "ECHECKPOINT"},
		{"make folder", `{"name": "/f"}`, "E"},
		{"commit", `{"save": 99}`, "ECLOSED"},
	} {
		if _, err := result[any](t, StoreCall(next(), s, c.name, c.arguments)); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %s", c.name, c.arguments, err, c.want)
		}
	}
	if _, err := result[any](t, StoreCall(next(), s+1000, "stat", `{"name": "/"}`)); err == nil || !strings.HasPrefix(err.Error(), "ECLOSED") {
		t.Errorf("a store that is not open: %v", err)
	}
	if _, err := result[any](t, StoreOpen(next(), `{"url": "s3://bucket"}`)); err == nil || !strings.HasPrefix(err.Error(), "ESTORE") {
		t.Errorf("a store that there is not: %v", err)
	}
}

// TestRemoveAll removes a folder with all that is in it, but nothing that a link in it leads to, and not the root.
func TestRemoveAll(t *testing.T) {
	s, root := openFolder(t)
	for _, name := range []string{"kept/f", "d/f", "d/e/f"} {
		file := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"d/folder": "../kept", "d/e/file": "../../kept/f", "d/nothing": "none"} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := result[any](t, StoreCall(next(), s, "remove", `{"name": "/", "recursive": true}`)); err == nil || !strings.Contains(err.Error(), "the root stays") {
		t.Errorf("the root: %v", err)
	}
	if _, err := result[any](t, StoreCall(next(), s, "remove", `{"name": "/d", "recursive": true}`)); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(root, "d")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(root, "kept", "f")); err != nil {
		t.Errorf("what a link leads to: %v", err)
	}
	if _, err := result[any](t, StoreCall(next(), s, "remove", `{"name": "/d", "recursive": true}`)); err == nil || !strings.HasPrefix(err.Error(), "ENOTFOUND") {
		t.Errorf("what is not there: %v", err)
	}
}

// TestCalls: a number is that of one call, a cancelled call has ended, and a panic is an error.
func TestCalls(t *testing.T) {
	s, root := openFolder(t)
	number := next()
	if err := StoreCall(number, s, "stat", `{"name": "/"}`); err != nil {
		t.Fatal(err)
	}
	if err := StoreCall(number, s, "stat", `{"name": "/"}`); err == nil || !strings.HasPrefix(err.Error(), "EOPTION") {
		t.Errorf("a number that is taken: %v", err)
	}
	for range 2 {
		if err := CallCancel(number); err != nil {
			t.Error(err)
		}
	}
	if _, err := CallWait(number, 0); err == nil {
		t.Error("a cancelled call has a result")
	}
	if err := os.WriteFile(filepath.Join(root, "f"), []byte("f"), 0o600); err != nil {
		t.Fatal(err)
	}
	number = next()
	if err := StoreCall(number, s, "open", `{"name": "/f"}`); err != nil {
		t.Fatal(err)
	}
	c := calls.get(number)
	<-c.done
	if err := CallCancel(number); err != nil {
		t.Error(err)
	}
	held, err := stores.get(s)
	if err != nil || len(held.files.open) != 0 {
		t.Errorf("%v: a file is open that nobody took", err)
	}
	callNumber = next()
	if err := calls.begin(callNumber, "Test", func(ctx context.Context) (any, error) { panic("on purpose") }); err != nil {
		t.Fatal(err)
	}
	if _, err := result[any](t, nil); err == nil || !strings.HasPrefix(err.Error(), "EINTERNAL: pybind.Test: panic: on purpose") {
		t.Errorf("a panic: %v", err)
	}
}

// TestStoreCloseEndsCalls: nothing waits for what is under way for ever.
func TestStoreCloseEndsCalls(t *testing.T) {
	s, _ := openFolder(t)
	held, err := stores.get(s)
	if err != nil {
		t.Fatal(err)
	}
	blocked := make(chan struct{})
	number := next()
	err = calls.begin(number, "Test", func(context.Context) (any, error) {
		held.busy.RLock()
		defer held.busy.RUnlock()
		close(blocked)
		<-held.life.Done()
		return nil, held.life.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	<-blocked
	if err := StoreClose(s); err != nil {
		t.Error(err)
	}
	if _, err := result[any](t, nil); err == nil {
		t.Error("the call has a result")
	}
	if _, err := result[any](t, StoreCall(next(), s, "stat", `{"name": "/"}`)); err == nil || !strings.HasPrefix(err.Error(), "ECLOSED") {
		t.Errorf("after Close: %v", err)
	}
}

// TestStoreCloseWhileCancelling: what calls have opened is given back once, by whoever comes first.
func TestStoreCloseWhileCancelling(t *testing.T) {
	for range 20 { // either may come first
		s, root := openFolder(t)
		if err := os.WriteFile(filepath.Join(root, "f"), []byte("f"), 0o600); err != nil {
			t.Fatal(err)
		}
		var numbers []int64
		for range 50 {
			number := next()
			numbers = append(numbers, number)
			if err := StoreCall(number, s, "open", `{"name": "/f"}`); err != nil {
				t.Fatal(err)
			}
			<-calls.get(number).done
		}
		var cancelling sync.WaitGroup
		cancelling.Go(func() {
			for _, number := range numbers {
				if err := CallCancel(number); err != nil {
					t.Error(err)
				}
			}
		})
		if err := StoreClose(s); err != nil {
			t.Error(err)
		}
		cancelling.Wait()
	}
}
