package pybind

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/checkpoint"
	"github.com/stepahead-io/stepahead/checkpoint/save"
	"github.com/stepahead-io/stepahead/loader"
	"github.com/stepahead-io/stepahead/sampler"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/address"
	"github.com/stepahead-io/stepahead/transform"
)

// optionError marks an error of the arguments of Open.
type optionError struct{ err error }

func (e *optionError) Error() string { return e.err.Error() }
func (e *optionError) Unwrap() error { return e.err }

// storeError marks an error of opening the store.
type storeError struct{ err error }

func (e *storeError) Error() string { return e.err.Error() }
func (e *storeError) Unwrap() error { return e.err }

// stateError marks a text that is no state.
type stateError struct{ err error }

func (e *stateError) Error() string { return e.err.Error() }
func (e *stateError) Unwrap() error { return e.err }

// workerError marks an error of finding the worker program.
type workerError struct{ err error }

func (e *workerError) Error() string { return e.err.Error() }
func (e *workerError) Unwrap() error { return e.err }

// codedError is an error whose text begins with its code.
type codedError struct{ text string }

func (e *codedError) Error() string { return e.text }

// encode puts the code that Python maps to a class before the text of err: the code of the first
// class in the list that err belongs to.
func encode(err error) error {
	if err == nil || as[*codedError](err) {
		return err
	}
	var mismatch *sampler.MismatchError
	if errors.As(err, &mismatch) {
		// Python cuts the text at the line breaks: the message, then what differs, one a line.
		return &codedError{fmt.Sprintf("EIDENTITY: %v\n%s", err, strings.Join(mismatch.Diff, "\n"))}
	}
	var changed *store.IdentityError
	if errors.As(err, &changed) {
		return identityChanged(err, string(changed.Pinned), string(changed.Now))
	}
	var index *binfmt.ChangedError
	if errors.As(err, &index) {
		return identityChanged(err, index.Pinned, index.Now)
	}
	code := codeOf(err)
	var bad *loader.BadSampleError
	if code == "EBADSAMPLE" && errors.As(err, &bad) {
		// The message on one line, then the sample's attributes as JSON, which has no line breaks either.
		facts, err2 := json.Marshal(bad)
		if err2 == nil {
			return &codedError{fmt.Sprintf("%s: %s\n%s", code, oneLine(err), facts)}
		}
	}
	return &codedError{fmt.Sprintf("%s: %s", code, whole(err.Error()))}
}

// whole is a text that does not end early where it becomes one of C.
func whole(text string) string { return strings.ReplaceAll(text, "\x00", `\x00`) }

// identityChanged is about a file that is not the version any more that was opened.
func identityChanged(err error, pinned, now string) error {
	return &codedError{fmt.Sprintf("EIDENTITY: %s\nopened as %s\nnow %s", oneLine(err), pinned, now)}
}

func oneLine(err error) string { return strings.ReplaceAll(whole(err.Error()), "\n", " ") }

func codeOf(err error) string {
	for _, c := range classes {
		if c.is(err) {
			return c.code
		}
	}
	return "EINTERNAL"
}

// classes are in order of precision: an unreadable dataset is a store's error before it is one of the
// dataset.
var classes = []struct {
	code string
	is   func(error) bool
}{
	{"ECLOSED", func(err error) bool {
		return errors.Is(err, errClosed) || errors.Is(err, loader.ErrClosed) || as[*closedError](err)
	}},
	{"EBADSAMPLE", as[*loader.BadSampleError]},
	{"EINTERNAL", as[*loader.PanicError]},
	{"EOPTION", func(err error) bool {
		return as[*optionError](err) || as[*loader.ShapeError](err) || errors.Is(err, loader.ErrOptions) || errors.Is(err, address.ErrNode)
	}},
	{"EPLAN", isPlan},
	{"EWORKER", func(err error) bool { return as[*workerError](err) || as[*transform.Error](err) }},
	{"EDATASET", func(err error) bool {
		// An index that is not the manifest's; what is given as a state and is none.
		return as[*store.DigestError](err) || as[*stateError](err)
	}},
	{"EIDENTITY", func(err error) bool { return store.ClassOf(err) == store.IdentityChanged }},
	{"ECHECKPOINT", isAny(checkpoint.ErrNone, checkpoint.ErrIncomplete, checkpoint.ErrFormat, checkpoint.ErrUnsupported, save.ErrInFlight)},
	{"ENOTFOUND", isAny(fs.ErrNotExist)},
	{"EEXIST", isAny(fs.ErrExist, syscall.ENOTEMPTY)},
	{"ENOTDIR", isAny(syscall.ENOTDIR)},
	{"EISDIR", isAny(syscall.EISDIR)},
	{"EPERMISSION", isAny(fs.ErrPermission)},
	{"ESTORE", func(err error) bool {
		return store.ClassOf(err) != store.ClassUnknown || as[*fs.PathError](err) || as[*storeError](err) || as[syscall.Errno](err)
	}},
	{"EDATASET", isAny(
		binfmt.ErrManifest, binfmt.ErrHeader, binfmt.ErrIndex, binfmt.ErrVersion, binfmt.ErrMismatch,
		binfmt.ErrShort, binfmt.ErrNoSample, binfmt.ErrNoField,
	)},
	{"EOPTION", isAny(sampler.ErrUnsupported, sampler.ErrVersion)},
}

func as[E error](err error) bool {
	var target E
	return errors.As(err, &target)
}

func isAny(targets ...error) func(error) bool {
	return func(err error) bool {
		for _, target := range targets {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
}

func isPlan(err error) bool {
	var e *transform.Error
	return errors.As(err, &e) && e.Kind == transform.KindPlan
}
