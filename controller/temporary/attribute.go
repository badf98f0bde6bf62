package temporary

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/store"
)

// Attribute is the attribute of a file whose replication or storage policy is changed for a while (store.Attributer). Its value is AttributeOf the mark: what the
// file is set back to. Only who may write a file can give it one, so that it says what a mark, which others may write, cannot be believed in.
const Attribute = "stepahead.raised"

// maxOriginal bounds the value of the attribute, in bytes; stores take no longer ones.
const maxOriginal = 1 << 10

// original is the value of the attribute, as JSON that is written in one way only.
type original struct {
	Version int `json:"v"`
	// Mark is the name of the mark that leads to the file.
	Mark string `json:"mark"`
	// Identity is the version that was raised, Was how it was, Raised what it is made.
	Identity string `json:"identity"`
	Was      *State `json:"was"`
	Raised   *State `json:"raised"`
	// TTL is that of the mark when the file was raised.
	TTL time.Duration `json:"ttl_ns"`
}

// AttributeOf returns the value of the attribute of the file that a mark is of. Errors match ErrMark: the mark is none of a raised file, or more than an attribute holds.
func AttributeOf(m Mark) ([]byte, error) {
	err := m.Validate()
	if err == nil && m.Was == nil {
		err = errors.New("was, raised: none")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMark, err)
	}
	value, err := json.Marshal(original{m.Version, m.Name(), m.Identity, m.Was, m.Raised, m.TTL})
	if err == nil && len(value) > maxOriginal {
		err = fmt.Errorf("%w: the attribute %s would have %d bytes, at most %d", ErrMark, Attribute, len(value), maxOriginal)
	}
	return value, err
}

// Raised returns what the attribute of a file says, as the mark of the file, whether that is there or not; ok is false where the file has no such attribute. So Undo
// of it lowers a file that has lost its mark. What somebody else wrote into the attribute matches ErrMark, what a newer program wrote ErrVersion, and a
// missing file fs.ErrNotExist.
func Raised(ctx context.Context, st store.Store, name string) (m Mark, ok bool, err error) {
	attributes, can := st.(store.Attributer)
	if !can {
		return Mark{}, false, fmt.Errorf("%s: this store keeps no attributes: %w", st.Address(name), errors.ErrUnsupported)
	}
	value, ok, err := attributes.Attribute(ctx, name, Attribute)
	if err != nil || !ok {
		return Mark{}, false, err
	}
	if m, err = parseAttribute(name, value); err != nil {
		return Mark{}, false, fmt.Errorf("%s: its attribute %s was left alone: %w", st.Address(name), Attribute, err)
	}
	return m, true, nil
}

// Places are the stores in which the path of a mark may be the file that was raised. Where the mark knows that file it is one in which the path is that very file,
// whatever it is called by now and while it is worked on; before it comes the store itself, if another file, or none, has the path by now.
func Places(ctx context.Context, st store.Store, m Mark) ([]store.Store, error) {
	t, ok := st.(store.Tracker)
	if !ok || m.File == "" {
		return []store.Store{st}, nil
	}
	now, err := t.Track(ctx, m.Path)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return []store.Store{st}, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.EISDIR) && !errors.Is(err, syscall.ELOOP):
		return nil, err
	}
	tracked, bad := t.Tracked(m.Path, m.File)
	switch {
	case bad != nil: // it is no handle of this store
		return []store.Store{st}, nil
	case err == nil && now == m.File:
		return []store.Store{tracked}, nil
	}
	return []store.Store{st, tracked}, nil
}

// parseAttribute reads the value of the attribute of a file.
func parseAttribute(name string, value []byte) (Mark, error) {
	fail := func(err error) (Mark, error) { return Mark{}, fmt.Errorf("%w: %w", ErrMark, err) }
	if len(value) > maxOriginal {
		return fail(fmt.Errorf("%d bytes, at most %d", len(value), maxOriginal))
	}
	var v struct {
		Version int `json:"v"`
	}
	if err := json.Unmarshal(value, &v); err != nil {
		return fail(err)
	}
	if v.Version > Version {
		return Mark{}, fmt.Errorf("%w: version %d, this program reads %d", ErrVersion, v.Version, Version)
	}
	var o original
	if err := json.Unmarshal(value, &o); err != nil {
		return fail(err)
	}
	m, err := o.mark(name)
	if err != nil {
		return fail(err)
	}
	again, err := AttributeOf(m)
	if err != nil {
		return Mark{}, err
	}
	if !bytes.Equal(again, value) { // also of a mark that lies elsewhere, an unknown key, or one that is there twice
		return fail(errors.New("it is not written as this program writes it"))
	}
	return m, nil
}

// mark is the mark that the value of the attribute of a file would have.
func (o original) mark(name string) (Mark, error) {
	controller, digits, _ := cutLast(strings.TrimSuffix(path.Base(o.Mark), suffix), "-")
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return Mark{}, fmt.Errorf("mark: %.200q is no name of one", o.Mark)
	}
	return Mark{
		Version: o.Version, Controller: controller, Placement: plan.ID(n), Means: "orphan", Path: name, Identity: o.Identity,
		Was: o.Was, Raised: o.Raised, TTL: o.TTL, Why: "a raised file without a mark",
	}, nil
}

// Agrees returns an error, which matches ErrMark, if a mark does not say the same as the file that it leads to (see Raised): somebody else wrote one of both.
// How long it may last counts for nothing: the mark's time begins anew with each extension.
func (m Mark) Agrees(file Mark) error {
	var errs []error
	for _, f := range []struct {
		field      string
		mark, file any
	}{{"identity", m.Identity, file.Identity}, {"was", m.Was, file.Was}, {"raised", m.Raised, file.Raised}} {
		if !reflect.DeepEqual(f.mark, f.file) {
			errs = append(errs, fmt.Errorf("%s: the mark says %.200s, the file %.200s", f.field, text(f.mark), text(f.file)))
		}
	}
	if errs == nil {
		return nil
	}
	return fmt.Errorf("%w: it is not what the attribute %s of %s says, and nothing was changed: %w", ErrMark, Attribute, file.Path, errors.Join(errs...))
}

func text(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// Before is how a file was before it was raised, if it is so now: what is as the placement made it was as the placement found it, and all else somebody else gave it.
func (m Mark) Before(now State) State {
	if now.Replicas == m.Raised.Replicas {
		now.Replicas = m.Was.Replicas
	}
	if now.Policy != nil && m.Raised.Policy != nil && *now.Policy == *m.Raised.Policy {
		now.Policy = m.Was.Policy
	}
	return now
}
