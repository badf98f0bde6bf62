package foreign

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stepahead-io/stepahead/binfmt"
)

// Rename gives a field of the dataset: its name, and the container's fields of which a sample has one.
type Rename struct {
	Field string   `json:"field"`
	From  []string `json:"from"`
}

// fieldStats says what samples have of one field of a container.
type fieldStats struct {
	Samples int64
	Scalars map[binfmt.Kind]int64
}

// stats says what samples have of all fields: enough to decide on the dataset's.
type stats struct {
	Rows   int64
	Fields map[string]*fieldStats
	// One and Many count, for each renaming, the samples that have one, or several, of its fields.
	One, Many []int64
}

func newStats(renames int) *stats {
	return &stats{Fields: make(map[string]*fieldStats), One: make([]int64, renames), Many: make([]int64, renames)}
}

// count adds a sample.
func (s *stats) count(r Row, renames []Rename) {
	s.Rows++
	for _, p := range r.Parts {
		s.has(p.Field, r.Scalars)
	}
	for name := range r.Scalars {
		if !slices.ContainsFunc(r.Parts, func(p Part) bool { return p.Field == name }) {
			s.has(name, r.Scalars)
		}
	}
	for i, n := range renames {
		switch found := n.in(r); {
		case len(found) == 1:
			s.One[i]++
		case len(found) > 1:
			s.Many[i]++
		}
	}
}

func (s *stats) has(field string, scalars map[string]binfmt.Value) {
	f := s.Fields[field]
	if f == nil {
		f = &fieldStats{}
		s.Fields[field] = f
	}
	f.Samples++
	if v, ok := scalars[field]; ok {
		if f.Scalars == nil {
			f.Scalars = make(map[binfmt.Kind]int64)
		}
		f.Scalars[v.Kind]++
	}
}

// in returns those of the renaming's fields that a sample has.
func (n Rename) in(r Row) []string {
	var found []string
	for _, from := range n.From {
		_, scalar := r.Scalars[from]
		if scalar || slices.ContainsFunc(r.Parts, func(p Part) bool { return p.Field == from }) {
			found = append(found, from)
		}
	}
	return found
}

// add adds the samples of another shard.
func (s *stats) add(o *stats) {
	s.Rows += o.Rows
	for name, f := range o.Fields {
		sum := s.Fields[name]
		if sum == nil {
			sum = &fieldStats{}
			s.Fields[name] = sum
		}
		sum.Samples += f.Samples
		for k, n := range f.Scalars {
			if sum.Scalars == nil {
				sum.Scalars = make(map[binfmt.Kind]int64)
			}
			sum.Scalars[k] += n
		}
	}
	for i := range s.One {
		s.One[i] += o.One[i]
		s.Many[i] += o.Many[i]
	}
}

// chosen is one field of the dataset and the container's fields that it is taken from.
type chosen struct {
	binfmt.Field
	Rename
}

// choose decides on the dataset's fields: those that the user asked for, or else all, with renamings where every
// sample has exactly one of their fields. media names fields that are to be media fields in any case.
func choose(s *stats, renames []Rename, asked bool, media []string) ([]chosen, error) {
	var fields []chosen
	taken := make(map[string]bool)
	for i, n := range renames {
		if !asked && (s.One[i] < s.Rows || s.Many[i] > 0) {
			continue
		}
		if asked && s.One[i]+s.Many[i] == 0 {
			return nil, fmt.Errorf("no sample has the field %s: the fields are %s: %w", strings.Join(n.From, " or "), s.names(), ErrContainer)
		}
		for _, from := range n.From {
			taken[from] = true
		}
		fields = append(fields, chosen{Rename: n})
	}
	if !asked {
		for _, name := range slices.Sorted(maps.Keys(s.Fields)) {
			if !taken[name] {
				fields = append(fields, chosen{Rename: Rename{name, []string{name}}})
			}
		}
	}
	for i := range fields {
		fields[i].Field = binfmt.Field{Name: fields[i].Rename.Field, Kind: s.kind(fields[i].From, slices.Contains(media, fields[i].Rename.Field))}
	}
	for _, name := range media {
		if !slices.ContainsFunc(fields, func(c chosen) bool { return c.Name == name }) {
			return nil, fmt.Errorf("there is no field %q to be a media field: the fields are %s: %w", name, s.names(), ErrContainer)
		}
	}
	slices.SortStableFunc(fields, func(a, b chosen) int { return rank(a.Kind) - rank(b.Kind) })
	return fields, nil
}

func rank(k binfmt.Kind) int {
	if k.InBin() {
		return 0
	}
	return 1
}

// kind is a scalar's if all samples that have the fields have them as scalars of one kind.
func (s *stats) kind(from []string, media bool) binfmt.Kind {
	kind := binfmt.Media
	for i, name := range from {
		f := s.Fields[name]
		if f == nil {
			continue
		}
		if len(f.Scalars) != 1 || media {
			return binfmt.Media
		}
		for k, n := range f.Scalars {
			if n != f.Samples || i > 0 && kind != k && kind != binfmt.Media {
				return binfmt.Media
			}
			kind = k
		}
	}
	return kind
}

// names lists the container's fields and how many samples have them.
func (s *stats) names() string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.Fields)) {
		names = append(names, fmt.Sprintf("%s (%d of %d samples)", name, s.Fields[name].Samples, s.Rows))
	}
	return strings.Join(names, ", ")
}

// incomplete says that a sample lacks a field, or has it twice.
type incomplete struct{ key, why string }

func (e *incomplete) Error() string { return fmt.Sprintf("sample %q: %s", e.key, e.why) }

// project makes the row of the index out of a sample.
func project(r Row, fields []chosen) (binfmt.Row, error) {
	out := binfmt.Row{Key: r.Key}
	places, err := pick(r, fields, &out.Scalars)
	for _, i := range places {
		out.Parts = append(out.Parts, r.Parts[i].Part)
	}
	return out, err
}

// pick says which of a sample's parts the fields in bins are, and appends the values of the others.
func pick(r Row, fields []chosen, scalars *[]binfmt.Value) (places []int, err error) {
	for _, c := range fields {
		found := c.in(r)
		if len(found) != 1 {
			why := "has no field " + strings.Join(c.From, " or ")
			if len(found) > 1 {
				why = fmt.Sprintf("has the fields %s, of which one is to be the field %s", strings.Join(found, ", "), c.Name)
			}
			return nil, &incomplete{r.Key, why}
		}
		if !c.Kind.InBin() {
			*scalars = append(*scalars, r.Scalars[found[0]])
			continue
		}
		i := slices.IndexFunc(r.Parts, func(p Part) bool { return p.Field == found[0] })
		if i < 0 {
			return nil, fmt.Errorf("sample %q: the field %s has a value and no bytes: %w", r.Key, found[0], ErrContainer)
		}
		places = append(places, i)
	}
	return places, nil
}
