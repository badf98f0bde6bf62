package tar

import (
	"fmt"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/foreign"
)

// grouper makes samples of members.
type grouper struct {
	foreign.NameRule
	policy foreign.Policy
	to     foreign.Sink
	key    string // raw, of the sample that is being made
	row    foreign.Row
	seen   map[string]struct{} // raw keys of finished samples; strict only
	last   string              // the last finished key, for messages
}

func newGrouper(policy foreign.Policy, to foreign.Sink) *grouper {
	return &grouper{NameRule: foreign.NewNameRule(), policy: policy, to: to, seen: make(map[string]struct{})}
}

// begin makes sure that the row is that of the member's sample, and that the field is new in it.
func (g *grouper) begin(m member, key, ext string) error {
	if key != g.key || len(g.row.Parts) == 0 {
		if err := g.flush(); err != nil {
			return err
		}
		if _, ok := g.seen[key]; ok {
			return fmt.Errorf("offset %d: member %q belongs to the sample %q, whose other members lie further ahead, with other samples between: a reader gives it as two samples, each without the fields of the other: write the shard again with the members of a sample side by side, or take what the reader gives with --policy as-peer: %w",
				m.header, m.name, key, foreign.ErrContainer)
		}
		g.key = key
	}
	name := foreign.FieldName(ext)
	for _, p := range g.row.Parts {
		if p.Field == name {
			return fmt.Errorf("offset %d: member %q is the second one of the sample %q with the field %q (case does not count): WebDataset refuses it too: %w",
				m.header, m.name, key, name, foreign.ErrContainer)
		}
	}
	return nil
}

// flush gives the finished sample away.
func (g *grouper) flush() error {
	if len(g.row.Parts) == 0 {
		return nil
	}
	g.row.Key = foreign.KeyText(g.key)
	if err := binfmt.CheckKey(g.row.Key); err != nil {
		return fmt.Errorf("sample %.100q: %w: %w", g.key, err, foreign.ErrContainer)
	}
	if g.policy == foreign.Strict {
		g.seen[g.key] = struct{}{}
	}
	g.last = g.key
	err := g.to.Row(g.row)
	g.row.Clear()
	return err
}

// add takes a part of the sample that begin has begun.
func (g *grouper) add(p foreign.Part, v binfmt.Value, hasValue bool) {
	g.row.Parts = append(g.row.Parts, p)
	if hasValue {
		g.row.Set(p.Field, v)
	}
}
