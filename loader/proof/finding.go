package proof

import (
	"fmt"
	"strings"
)

// A Kind says what is wrong with records.
type Kind string

// The kinds of findings.
const (
	Malformed Kind = "malformed" // a line is no record
	Conflict  Kind = "conflict"  // a place has two different records
	Gap       Kind = "gap"       // a place has no record
	Empty     Kind = "empty"     // there is no record at all
)

// A Place is a line of a file of records; lines count from 1.
type Place struct {
	File string
	Line int64
}

func (p Place) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// A Finding is an error of the records' content, as opposed to one of reading them.
type Finding struct {
	Kind Kind
	// What says what is wrong.
	What string
	// At are the lines it is about: both sides of a conflict or gap.
	At []Place
}

func (f *Finding) Error() string {
	at := make([]string, len(f.At))
	for i, p := range f.At {
		at[i] = p.String()
	}
	if len(at) == 0 {
		return fmt.Sprintf("%s: %s", f.Kind, f.What)
	}
	return fmt.Sprintf("%s: %s: %s", strings.Join(at, " and "), f.Kind, f.What)
}
