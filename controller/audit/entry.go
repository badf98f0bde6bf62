// Package audit keeps what the controller did, for whom and why: a file of JSON lines to which is only ever added.
package audit

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
)

// Entry is one line: who did what, to which placement, and why. What is "make", "publish" and the other actions, "revoke", "drain" and whatever else changes
// what the controller does; Err is empty for what was done.
type Entry struct {
	At        time.Time
	Who, What string
	Placement plan.ID
	Path      string
	Site      string
	Job       string
	Bytes     int64
	// Until is when the placement's lease ends; zero where there is none.
	Until    time.Time
	Why, Err string
}

// Line is an entry in the file, with its number: from 1 on, growing, never used twice.
type Line struct {
	Number uint64
	Entry
}

// wire is the JSON form of a line.
type wire struct {
	Number    uint64    `json:"n"`
	At        time.Time `json:"at"`
	Who       string    `json:"who"`
	What      string    `json:"what"`
	Placement plan.ID   `json:"placement,omitempty"`
	Path      string    `json:"path,omitempty"`
	Site      string    `json:"site,omitempty"`
	Job       string    `json:"job,omitempty"`
	Bytes     int64     `json:"bytes,omitempty"`
	Until     time.Time `json:"until,omitzero"`
	Why       string    `json:"why,omitempty"`
	Err       string    `json:"err,omitempty"`
}

// mostText bounds each text of a line, in bytes: paths have at most 4,096.
const mostText = 4096

// MarshalJSON implements json.Marshaler.
func (l Line) MarshalJSON() ([]byte, error) {
	e := l.Entry
	return marshal(wire{
		Number: l.Number, At: e.At.UTC(), Who: cut(e.Who), What: cut(e.What), Placement: e.Placement, Path: cut(e.Path), Site: cut(e.Site), Job: cut(e.Job),
		Bytes: e.Bytes, Until: e.Until.UTC(), Why: cut(e.Why), Err: cut(e.Err),
	})
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *Line) UnmarshalJSON(data []byte) error {
	var w wire
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	l.Number = w.Number
	l.Entry = Entry{w.At, w.Who, w.What, w.Placement, w.Path, w.Site, w.Job, w.Bytes, w.Until, w.Why, w.Err}
	return nil
}

// marshal leaves <, > and & as they are, for those who read the file.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

func cut(text string) string {
	if len(text) <= mostText {
		return text
	}
	return text[:mostText-3] + "..."
}
