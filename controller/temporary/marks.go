package temporary

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/store"
)

// most bounds a mark's file in bytes.
const most = 1 << 20

// controllerName is what a controller may be called: part of the names of files.
var controllerName = regexp.MustCompile(`^[a-z0-9][a-z0-9_.]{0,63}$`)

// NameOf is what the mark of a placement is called in a store; its data has the same name in DataFolder.
func NameOf(controller string, placement plan.ID) string {
	return fmt.Sprintf("%s-%d", controller, placement)
}

// DataOf is where the data of a placement lies.
func DataOf(controller string, placement plan.ID) string {
	return path.Join(DataFolder, NameOf(controller, placement))
}

// fileOf is the file of a mark.
func fileOf(controller string, placement plan.ID) string {
	return path.Join(Folder, NameOf(controller, placement)+".json")
}

// Validate says what is wrong with a mark, as an error that matches fs.ErrInvalid. What it allows is safe to undo: Place lies in DataFolder.
func (m Mark) Validate() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("the mark of placement %d of %q: %s: %w", m.Placement, m.Controller, fmt.Sprintf(format, args...), fs.ErrInvalid)
	}
	data := DataOf(m.Controller, m.Placement)
	switch {
	case m.Version != Version:
		return fail("it has version %d, this program knows %d", m.Version, Version)
	case !controllerName.MatchString(m.Controller):
		return fail("the controller's name is not of the form %s", controllerName)
	case m.Place != "" && m.Place != data && (!strings.HasPrefix(m.Place, data+".") || path.Dir(m.Place) != DataFolder || store.CheckName(m.Place) != nil):
		return fail("%q is no place of it: it would be %s, or that with a suffix", m.Place, data)
	case strings.Contains(m.Row, "/"):
		return fail("%q is not the name of a row", m.Row)
	}
	return nil
}

// Write writes a mark, or the same with another TTL in its place.
func Write(ctx context.Context, st store.Store, m Mark) error {
	m.Version = Version
	if err := m.Validate(); err != nil {
		return err
	}
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return store.ReplaceFile(ctx, st, fileOf(m.Controller, m.Placement), data)
}

// Remove removes a mark, of which nothing may be left. One that is not there is no error.
func Remove(ctx context.Context, st store.Store, controller string, placement plan.ID) error {
	return gone(st.Remove(ctx, fileOf(controller, placement)))
}

// Listed is a mark in a store.
type Listed struct {
	Mark
	// File is its name, and Written when it was written, by the store's clock.
	File    string
	Written time.Time
	// Err is why it could not be read; the Mark is then empty.
	Err error
}

// List reads all marks of a store. Those that cannot be read are among them.
func List(ctx context.Context, st store.Store) ([]Listed, error) {
	infos, err := st.List(ctx, Folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []Listed
	for _, info := range infos {
		if info.Dir || path.Ext(info.Name) != ".json" {
			continue
		}
		l := Listed{File: info.Name, Written: info.ModTime}
		data, err := store.Files{Store: st}.ReadFile(ctx, info.Name, most)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(data, &l.Mark)
		}
		if err == nil {
			err = l.Validate()
		}
		if err == nil && fileOf(l.Controller, l.Placement) != info.Name {
			err = fmt.Errorf("it is the mark %s: %w", fileOf(l.Controller, l.Placement), fs.ErrInvalid)
		}
		if err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			l.Mark, l.Err = Mark{}, fmt.Errorf("%s: %w", st.Address(info.Name), err)
		}
		all = append(all, l)
	}
	return all, nil
}

// gone takes what is not there for removed.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
