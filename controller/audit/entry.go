// Package audit keeps what the controller did, for whom and why: a file of JSON lines to which is only ever added.
package audit

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
)

// Entry is one line: who did what, to which placement, and why. What is "make" for an action that begins, "made" for one that was done,
// "make" with Err for one that failed, and so for the other actions; "revoke", "drain" and whatever else changes what the controller does; and "refuse". Until is
// when the placement's lease ends, zero where there is none; Reused is how many of the bytes of a
// copy lay at the site already, and were not sent.
type Entry struct {
	At        time.Time     `json:"at"`
	Who       string        `json:"who"`
	What      string        `json:"what"`
	Placement plan.ID       `json:"placement,omitempty"`
	Means     plan.Means    `json:"means,omitempty"`
	Path      string        `json:"path,omitempty"`
	Site      string        `json:"site,omitempty"`
	Job       string        `json:"job,omitempty"`
	Bytes     int64         `json:"bytes,omitempty"`
	Until     time.Time     `json:"until,omitzero"`
	Why       string        `json:"why,omitempty"`
	Err       string        `json:"error,omitempty"`
	Took      time.Duration `json:"took_ns,omitempty"`
	Reused    int64         `json:"reused,omitempty"`
}

// bounded has no text that is longer than a line may have.
func (e Entry) bounded() Entry {
	for _, text := range []*string{&e.Who, &e.What, &e.Path, &e.Site, &e.Job, &e.Why, &e.Err} {
		*text = cut(*text)
	}
	e.Means = plan.Means(cut(string(e.Means)))
	e.At, e.Until = e.At.UTC(), e.Until.UTC()
	return e
}

// Line is an entry in the file, with its number: from 1 on, growing, never used twice.
type Line struct {
	Number uint64 `json:"n"`
	Entry
}

// mostText bounds each text of a line, in bytes: paths have at most 4,096.
const mostText = 4096

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
