package execute

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/controller/journal"
	"github.com/stepahead-io/stepahead/controller/plan"
)

// TestPast has records of one placement, and what follows from them.
func TestPast(t *testing.T) {
	at := time.Unix(1000, 0).UTC()
	bodies := map[string]json.RawMessage{
		makeVerb:     body(plan.Make{ID: 1, Means: plan.Copy, Path: "/ck", Identity: "v1", Site: "east", Lease: time.Hour}, at.Add(time.Hour)),
		"make-raise": body(plan.Make{ID: 1, Means: plan.Raise, Path: "/ck", Identity: "v1", Lease: time.Hour}, at.Add(time.Hour)),
		publishVerb:  body(plan.Publish{ID: 1, Means: plan.Copy, Path: "/ck", Identity: "v1", Lease: 50 * time.Minute}, at.Add(50*time.Minute)),
		"publish-e":  body(plan.Publish{ID: 1, Means: plan.Even, Path: "/hot", Identity: "v1", Lease: time.Hour}, at.Add(time.Hour)),
		extendVerb:   body(plan.Extend{ID: 1, Lease: 2 * time.Hour}, at.Add(2*time.Hour)),
		withdrawVerb: body(plan.Withdraw{ID: 1}, at), removeVerb: body(plan.Remove{ID: 1}, at),
	}
	for story, want := range map[string]string{
		"make":                                "1h0m0s",
		"make extend":                         "2h0m0s",
		"make make.":                          "1h0m0s made",
		"make make. publish":                  "50m0s made published",
		"make make. publish publish. extend":  "2h0m0s made published",
		"make make. publish withdraw":         "50m0s made published undoing",
		"make make. publish withdraw.":        "50m0s made",
		"make make. publish withdraw remove":  "50m0s published undoing",
		"make make. publish withdraw publish": "50m0s made published",
		"make remove":                         "1h0m0s undoing",
		"make remove.":                        "over",
		"make make-failed make make.":         "1h0m0s made",
		"make-raise make.":                    "1h0m0s made",
		"publish-e":                           "1h0m0s made published",
		"publish-e publish. withdraw":         "1h0m0s made published undoing",
		"publish-e withdraw withdraw.":        "over",
		"remove":                              "over",
		"remove remove.":                      "over",
	} {
		m := &memory{}
		for _, word := range strings.Fields(story) {
			r := journal.Record{Placement: 1, Kind: journal.Intent, Body: bodies[word], Action: strings.SplitN(word, "-", 2)[0]}
			switch {
			case strings.HasSuffix(word, "."):
				r.Kind, r.Action, r.Body = journal.Done, strings.TrimSuffix(word, "."), json.RawMessage(`{"digest":"d","short":2}`)
			case strings.HasSuffix(word, "-failed"):
				r.Kind, r.Body = journal.Failed, json.RawMessage(`{}`)
			}
			_, _ = m.Append(r)
		}
		all, over, err := fold(m)
		if err != nil {
			t.Errorf("%s: %v", story, err)
			continue
		}
		got := "over"
		if p := all[1]; p != nil {
			h := p.held(p.left(at))
			got = h.Left.String()
			for i, is := range []bool{h.Made, h.Published, h.Undoing} {
				if is {
					got += []string{" made", " published", " undoing"}[i]
				}
			}
			if h.Make.Identity != "v1" || h.Make.ID != 1 || h.Made && h.Make.Means != plan.Even && h.Short != 2 {
				t.Errorf("%s: %+v", story, h)
			}
		}
		if got != want || (want == "over") != over[1] {
			t.Errorf("%s: %q, want %q", story, got, want)
		}
	}
}

// TestTheFirstFactCounts: what a later one says is what was made in part.
func TestTheFirstFactCounts(t *testing.T) {
	p := past{}
	for _, fact := range []string{"3", "7"} {
		if err := p.add(journal.Record{Placement: 1, Kind: journal.Fact, Action: makeVerb, Body: json.RawMessage(fact)}); err != nil {
			t.Fatal(err)
		}
	}
	if string(p.fact) != "3" {
		t.Errorf("the fact is %s", p.fact)
	}
}

// TestRemovedBeforeItBegan: what was to be done is answered for, once.
func TestRemovedBeforeItBegan(t *testing.T) {
	one := &line{id: 1, means: plan.Copy, rate: newRate()}
	one.take(plan.Make{ID: 1, Means: plan.Copy, Rate: 5, Lease: time.Hour}, 0)
	dropped := one.take(plan.Remove{ID: 1}, 0)
	if len(dropped) != 1 || dropped[0].verb != makeVerb || len(one.queue) != 1 || one.queue[0].verb != removeVerb {
		t.Errorf("dropped %v, left %v", dropped, one.queue)
	}
}
