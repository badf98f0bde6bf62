// Package temporary knows everything the controller made that has to go again: each has a mark, a small file that is written before anything is made and removed
// when nothing is left of it, and that says all that is needed to undo it; of a file that is
// raised the file itself says what it is set back to (Attribute). So whoever can write in a store can clean it, without a journal and without
// the controller: the sweeper that agents elect, the next controller, and `stepahead ctl sweep --all`.
package temporary

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/store"
)

// Folder is the place of marks in a store, and DataFolder that of data which exists only for a while: siblings of hot files, copies of checkpoints.
const (
	Folder     = "/.stepahead/temporary"
	DataFolder = "/.stepahead/data"
)

// Version is that of marks.
const Version = 1

// Mark says what a placement made in the store in which the mark lies, and how it was before.
type Mark struct {
	Version int `json:"v"`
	// Controller is the name of the journal that gave the number, Placement the number.
	Controller string  `json:"controller"`
	Placement  plan.ID `json:"placement"`
	// Means is what made it, Path and Identity what of: of siblings and raised files a name in this store, of copies the URL of the original.
	Means    plan.Means `json:"means"`
	Path     string     `json:"path"`
	Identity string     `json:"identity"`
	// Place is a file or folder in this store that is deleted with all that is in it; "" for none, else PlaceOf.
	Place string `json:"place,omitempty"`
	// Row is the name of a row of the catalogue in this store; "" for none. It lies in catalogue.Folder. It is withdrawn if it is this placement's.
	Row string `json:"row,omitempty"`
	// Was is how the file at Path was before it was raised, and Raised what it is made; nil where it is not changed. The mark only leads to the file: what that
	// is set back to its attribute says, and a mark that says something else is refused.
	Was    *State `json:"was,omitempty"`
	Raised *State `json:"raised,omitempty"`
	// File is what leads to the raised file when it was renamed (store.Tracker.Track); "" where nothing does.
	File string `json:"file,omitempty"`
	// TTL is how long what was made may last after the mark was written, by the clock of the store.
	TTL time.Duration `json:"ttl_ns"`
	Job string        `json:"job,omitempty"`
	Why string        `json:"why,omitempty"`
}

// State is what is changed of a file that is raised.
type State struct {
	Replicas int `json:"replicas"`
	// Policy is nil where the storage policy is not changed.
	Policy *store.StoragePolicy `json:"policy,omitempty"`
}

// Name is the name of the mark's file.
func (m Mark) Name() string { return NameOf(m.Controller, m.Placement) }

// NameOf is the name of a placement's mark.
func NameOf(controller string, id plan.ID) string {
	return path.Join(Folder, key(controller, id)+suffix)
}

// PlaceOf is where the data of a placement lie.
func PlaceOf(controller string, id plan.ID) string { return path.Join(DataFolder, key(controller, id)) }

const suffix = ".json"

func key(controller string, id plan.ID) string {
	return controller + "-" + strconv.FormatUint(uint64(id), 10)
}

// Bounds of what a mark holds.
const (
	maxController = 64
	maxText       = 4096
	maxFile       = 128
	maxReplicas   = 1 << 15
	maxTTL        = 366 * 24 * time.Hour
)

// CheckController returns what is wrong with the name of a controller; it is part of names of files.
func CheckController(name string) error {
	ok := name != "" && len(name) <= maxController && name[0] != '.'
	for _, c := range name {
		ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._-", c))
	}
	if !ok {
		return fmt.Errorf("controller: %.80q: use 1 to %d letters, digits, '.', '_' and '-', not starting with '.'", name, maxController)
	}
	return nil
}

// Validate returns all that is wrong with a mark. One that is valid never leads out of the places named above, but for the file at Path.
func (m Mark) Validate() error {
	var errs []error
	when := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	when(m.Version != Version, "v: %d, this program knows %d", m.Version, Version)
	if err := CheckController(m.Controller); err != nil {
		errs = append(errs, err)
	}
	when(m.Placement == 0, "placement: 0 is no number of one")
	when(m.Means == "" || len(m.Means) > 64, "means: %.80q", m.Means)
	for _, t := range []struct{ field, text string }{
		{"means", string(m.Means)}, {"path", m.Path}, {"identity", m.Identity}, {"job", m.Job}, {"why", m.Why},
	} {
		when(len(t.text) > maxText, "%s: %d bytes, at most %d", t.field, len(t.text), maxText)
		when(!utf8.ValidString(t.text), "%s: %.80q is not UTF-8", t.field, t.text)
	}
	when(m.Path == "", "path: none")
	when(m.Place != "" && m.Place != PlaceOf(m.Controller, m.Placement), "place: %.120q is not that of the placement, %s", m.Place, PlaceOf(m.Controller, m.Placement))
	when(m.Row != "" && !directly(catalogue.Folder, m.Row), "row: %.120q does not lie directly in %s", m.Row, catalogue.Folder)
	when(m.TTL < 0 || m.TTL > maxTTL, "ttl_ns: %v is not in [0, %v]", m.TTL, maxTTL)
	when((m.Was == nil) != (m.Raised == nil), "was, raised: one without the other")
	when(len(m.File) > maxFile || !utf8.ValidString(m.File), "file: %.80q", m.File)
	when(m.File != "" && m.Was == nil, "file: %.80q, of what is not raised", m.File)
	if m.Was != nil && m.Raised != nil {
		errs = append(errs, m.validateStates()...)
	}
	return errors.Join(errs...)
}

func (m Mark) validateStates() (errs []error) {
	if err := store.CheckName(m.Path); err != nil {
		errs = append(errs, fmt.Errorf("path: %w", err))
	}
	if (m.Was.Policy == nil) != (m.Raised.Policy == nil) {
		errs = append(errs, errors.New("was.policy, raised.policy: one without the other"))
	}
	for _, s := range []*State{m.Was, m.Raised} {
		if s.Replicas < 1 || s.Replicas > maxReplicas {
			errs = append(errs, fmt.Errorf("replicas: %d is not in [1, %d]", s.Replicas, maxReplicas))
		}
		if p := s.Policy; p != nil && (p.Name == "" || len(p.Name) > 128 || !utf8.ValidString(p.Name)) {
			errs = append(errs, fmt.Errorf("policy: %.80q", p.Name))
		}
	}
	return errs
}

// directly tells whether a name is one of a file in a folder, not deeper.
func directly(folder, name string) bool {
	return store.CheckName(name) == nil && path.Dir(name) == folder && utf8.ValidString(name)
}
