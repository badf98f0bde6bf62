package pybind

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/checkpoint"
	"github.com/stepahead-io/stepahead/loader"
	"github.com/stepahead-io/stepahead/sampler"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/address"
	"github.com/stepahead-io/stepahead/transform"
)

func TestCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{errClosed, "ECLOSED"},
		{loader.ErrClosed, "ECLOSED"},
		{&loader.BadSampleError{}, "EBADSAMPLE"},
		{&loader.PanicError{}, "EINTERNAL"},
		{&loader.ShapeError{}, "EOPTION"},
		{&optionError{errors.New("x")}, "EOPTION"},
		{&workerError{fs.ErrNotExist}, "EWORKER"},
		{&transform.Error{Kind: transform.KindPlan}, "EPLAN"},
		{&transform.Error{Kind: transform.KindDeadline}, "EWORKER"},
		{&fs.PathError{Err: fs.ErrPermission}, "EPERMISSION"},
		{&fs.PathError{Err: syscall.EIO}, "ESTORE"},
		{fs.ErrNotExist, "ENOTFOUND"},
		{fs.ErrExist, "EEXIST"},
		{syscall.ENOTEMPTY, "EEXIST"},
		{syscall.EINVAL, "ESTORE"},
		{syscall.ENOTDIR, "ENOTDIR"},
		{syscall.EISDIR, "EISDIR"},
		{&closedError{"the store"}, "ECLOSED"},
		{checkpoint.ErrNone, "ECHECKPOINT"},
		{checkpoint.ErrIncomplete, "ECHECKPOINT"},
		{&storeError{errors.New("x")}, "ESTORE"},
		{&storeError{address.ErrNode}, "EOPTION"},
		{&store.DigestError{}, "EDATASET"},
		{&stateError{sampler.ErrVersion}, "EDATASET"},
		{store.ErrUnavailable, "ESTORE"},
		{store.ErrIdentity, "EIDENTITY"},
		{binfmt.ErrManifest, "EDATASET"},
		{binfmt.ErrMismatch, "EDATASET"},
		{sampler.ErrUnsupported, "EOPTION"},
		{errors.New("what nobody foresaw"), "EINTERNAL"},
	} {
		got := encode(fmt.Errorf("outer: %w", c.err)).Error()
		if !strings.HasPrefix(got, c.want+": outer: ") {
			t.Errorf("%T: %q, want the code %s", c.err, got, c.want)
		}
	}
	if got := encode(fmt.Errorf("a\x00b: %w", fs.ErrExist)).Error(); got != `EEXIST: a\x00b: file already exists` {
		t.Errorf("%q: C takes a zero for the end of a text", got)
	}
	if encode(nil) != nil {
		t.Error("no error became one")
	}
}

func TestMismatchCarriesItsDiff(t *testing.T) {
	got := encode(&sampler.MismatchError{Diff: []string{"seed: 1, state 2", "shuffle: full, state none"}}).Error()
	if lines := strings.Split(got, "\n"); len(lines) != 3 || lines[1] != "seed: 1, state 2" || !strings.HasPrefix(got, "EIDENTITY: ") {
		t.Errorf("%q: want the message and one line a difference", got)
	}
}

func TestIdentityErrorCarriesBoth(t *testing.T) {
	for _, changed := range []error{
		&store.IdentityError{Name: "/d/b.bin", Pinned: "v1", Now: "v2"}, &binfmt.ChangedError{Name: "/d/b.bin", Pinned: "v1", Now: "v2"},
		fmt.Errorf("%w; opened again: %w", &binfmt.ChangedError{Name: "/d/b.bin", Pinned: "v1", Now: "v2"}, &store.DigestError{}),
	} {
		got := encode(fmt.Errorf("step 1:\n%w", changed)).Error()
		if lines := strings.Split(got, "\n"); len(lines) != 3 || lines[1] != "opened as v1" || lines[2] != "now v2" || !strings.HasPrefix(got, "EIDENTITY: step 1: identity changed: /d/b.bin") {
			t.Errorf("%q: want the message and a line for each version", got)
		}
	}
}

func TestBadSampleCarriesItsAttributes(t *testing.T) {
	bad := &loader.BadSampleError{Sample: 5, Key: "a\nb.jpg", Field: "image", Bin: "/d/bin-000.bin", Offset: 64, Length: 9, Kind: "decode", Reason: "one\ntwo"}
	got := encode(fmt.Errorf("step 1: %w: repair the dataset", bad)).Error()
	lines := strings.Split(got, "\n")
	var back loader.BadSampleError
	if len(lines) != 2 || !strings.HasPrefix(got, "EBADSAMPLE: step 1: sample 5") || !strings.HasSuffix(lines[0], "one two: repair the dataset") {
		t.Fatalf("%q: want a line of text and one of JSON", got)
	}
	if err := json.Unmarshal([]byte(lines[1]), &back); err != nil || back != *bad {
		t.Errorf("%q: %v, want %+v", lines[1], err, bad)
	}
}

func TestPanicBecomesAnError(t *testing.T) {
	handle := loaders.add(newSession(func(context.Context) (*loader.Loader, places, error) { return new(loader.Loader), nil, nil }))
	if open, err := Wait(handle, 10_000); !open || err != nil {
		t.Fatal(open, err)
	}
	_, err := ask("Stats", handle, func(*loader.Loader) (any, error) { panic("planted") })
	if err == nil || !strings.HasPrefix(err.Error(), "EINTERNAL: pybind.Stats: panic: planted") {
		t.Errorf("got %v", err)
	}
}

func TestPanicWhileOpeningBecomesAnError(t *testing.T) {
	handle := loaders.add(newSession(func(context.Context) (*loader.Loader, places, error) { panic("planted") }))
	if _, err := Wait(handle, 10_000); err == nil || !strings.HasPrefix(err.Error(), "EINTERNAL: pybind.Open: panic: planted") {
		t.Errorf("got %v", err)
	}
}

func TestCloseEndsAnOpening(t *testing.T) {
	handle := loaders.add(newSession(func(ctx context.Context) (*loader.Loader, places, error) {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	}))
	if open, err := Wait(handle, 1); open || err != nil {
		t.Fatal(open, err)
	}
	if err := Close(handle); err != nil {
		t.Fatal(err)
	}
	if _, err := Wait(handle, 1); err == nil {
		t.Error("a closed handle is still waited for")
	}
}

func TestUnknownHandles(t *testing.T) {
	if _, err := Next(1<<40, 1); err == nil || !strings.HasPrefix(err.Error(), "ECLOSED: ") {
		t.Errorf("Next: %v", err)
	}
	if err := Close(1 << 40); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	if err := Release(1<<40, 1); err != nil {
		t.Errorf("a late Release: %v", err)
	}
}

func TestOpenRefusesUnknownOptions(t *testing.T) {
	if _, err := Open(`{"url": "/x", "colour": 1}`); err == nil || !strings.HasPrefix(err.Error(), "EOPTION: ") || !strings.Contains(err.Error(), "colour") {
		t.Errorf("got %v", err)
	}
}

// A plan that is wrong is refused before anything is opened, with its field and the place in it.
func TestWrongPlansAreRefusedAtOnce(t *testing.T) {
	plan := `{"plan":1,"ops":[{"op":"DecodeImage"},{"op":"CenterCrop","size":0}]}`
	for options, words := range map[string][]string{
		`{"transform":` + plan + `}`:            {"EPLAN: ", "ops[1] CenterCrop", "size"},
		`{"transforms":{"image":` + plan + `}}`: {"EPLAN: ", `field "image"`, "ops[1] CenterCrop", "size"},
	} {
		handle, err := Open(options)
		if handle != 0 || err == nil {
			t.Fatalf("%s: handle %d, %v", options, handle, err)
		}
		for _, word := range words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: no %q in %q", options, word, err)
			}
		}
	}
}
