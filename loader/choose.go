package loader

import (
	"errors"
	"fmt"
	"slices"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/transform"
)

// anchor is the media field whose first byte decides which nodes hold the samples of a source: the first
// of its manifest.
type anchor struct {
	field   string
	leftOut bool // it is not delivered
}

// choose works out which fields are delivered and by which plans.
func (l *Loader) choose() error {
	if err := l.checkFields(); err != nil { // with fields that are not there nothing can be said of plans
		return err
	}
	if err := l.nameThePlan(); err != nil {
		return err
	}
	first := l.data.members[0].manifest
	var errs []error
	for name := range l.o.Plans {
		if f, ok := first.Field(name); !ok || f.Kind != binfmt.Media {
			errs = append(errs, misfit("transform: %q is no media field: the dataset has %v", name, fieldNames(first)))
		}
	}
	for _, f := range l.delivered() {
		if err := l.planless(f); err != nil {
			errs = append(errs, err)
			continue
		}
		field := field{name: f.Name, kind: f.Kind, media: -1}
		if f.Kind.InBin() {
			plan := l.o.Plans[f.Name]
			if plan != nil {
				l.plans++
			}
			field.media = len(l.media)
			l.media = append(l.media, newMediaField(f.Name, plan, l.o.Layout))
		}
		l.fields = append(l.fields, field)
	}
	for _, d := range l.data.members {
		l.anchors = append(l.anchors, l.anchorOf(d.manifest))
	}
	return errors.Join(errs...)
}

// planless says that a field of parts has no plan. One that is named is then delivered as it is stored; bytes that nobody
// asked for would be a surprise.
func (l *Loader) planless(f binfmt.Field) error {
	if !f.Kind.InBin() || l.o.Plans[f.Name] != nil || slices.Contains(l.o.Fields, f.Name) {
		return nil
	}
	if f.Kind == binfmt.Tokens {
		return misfit("field %q holds sequences of tokens: make batches of them with tokens=, or leave it out with fields=; one that fields= names comes as it is stored", f.Name)
	}
	return misfit("media field %q has no plan: give it one with transform=, or leave it out with fields=; one that fields= names comes as it is stored", f.Name)
}

func misfit(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, ErrOptions)...)
}

// delivered are the fields that Options.Fields ask for, in the order of the first manifest.
func (l *Loader) delivered() []binfmt.Field {
	var fields []binfmt.Field
	for _, f := range l.data.members[0].manifest.Fields {
		if len(l.o.Fields) == 0 || slices.Contains(l.o.Fields, f.Name) {
			fields = append(fields, f)
		}
	}
	return fields
}

// checkFields says which fields are asked for and cannot be delivered. Those of several datasets must be in every one,
// and mean the same there.
func (l *Loader) checkFields() error {
	var errs []error
	first := l.data.members[0].manifest
	for _, name := range l.o.Fields {
		if _, ok := first.Field(name); !ok {
			errs = append(errs, misfit("fields: %q: the dataset%s has %v", name, l.nameOfMember(0), fieldNames(first)))
		}
	}
	for i, d := range l.data.members[1:] {
		errs = append(errs, l.checkMember(i+1, d.manifest))
	}
	return errors.Join(errs...)
}

func (l *Loader) checkMember(i int, m *binfmt.Manifest) error {
	var errs []error
	first := l.data.members[0].manifest
	for _, want := range l.delivered() {
		has, ok := m.Field(want.Name)
		if ok && has.Kind != want.Kind && (has.Kind == binfmt.Media || want.Kind == binfmt.Media) {
			errs = append(errs, misfit("field %q is %s in the dataset%s, and %s in the dataset%s: index or pack the one in which it is no media again, with --media %s, or leave the field out with fields=",
				want.Name, want.Kind, l.nameOfMember(0), has.Kind, l.nameOfMember(i), want.Name))
		} else if !ok || has != want {
			errs = append(errs, misfit("field %q is %s in the dataset%s, and the dataset%s has %v: name the fields to deliver with fields=",
				want.Name, want.Kind, l.nameOfMember(0), l.nameOfMember(i), fieldNames(m)))
		}
		if want.Name == binfmt.LabelField && !slices.Equal(first.Classes, m.Classes) {
			errs = append(errs, misfit("field %q: the classes of the datasets%s and%s differ, so that one number would stand for two of them: pack them with equal classes, or leave the field out with fields=",
				want.Name, l.nameOfMember(0), l.nameOfMember(i)))
		}
	}
	for _, f := range m.Fields {
		if _, ok := first.Field(f.Name); !ok && len(l.o.Fields) == 0 {
			errs = append(errs, misfit("field %q of the dataset%s is not in the dataset%s: name the fields to deliver with fields=",
				f.Name, l.nameOfMember(i), l.nameOfMember(0)))
		}
	}
	return errors.Join(errs...)
}

// nameOfMember is " NAME" for messages, "" where a dataset is alone.
func (l *Loader) nameOfMember(i int) string {
	if name := l.data.Members()[i].Name; name != "" {
		return fmt.Sprintf(" %q", name)
	}
	return ""
}

// nameThePlan finds the one media field that a plan without a name is for.
func (l *Loader) nameThePlan() error {
	plan := l.o.Plans[""]
	if plan == nil {
		return nil
	}
	var media []string
	for _, f := range l.delivered() {
		if f.Kind == binfmt.Media {
			media = append(media, f.Name)
		}
	}
	if len(media) != 1 || len(l.o.Plans) != 1 {
		return misfit("transform: one plan for the media fields %v: give a plan for each, {field: plan}; one that fields= names and that has none comes as it is stored", media)
	}
	l.o.Plans = map[string]*transform.Plan{media[0]: plan}
	return nil
}

func (l *Loader) anchorOf(m *binfmt.Manifest) anchor {
	for _, f := range m.Fields {
		if f.Kind == binfmt.Media {
			left := !slices.ContainsFunc(l.media, func(d *mediaField) bool { return d.name == f.Name })
			return anchor{field: f.Name, leftOut: left}
		}
	}
	return anchor{}
}

func fieldNames(m *binfmt.Manifest) []string {
	var names []string
	for _, f := range m.Fields {
		names = append(names, fmt.Sprintf("%s (%s)", f.Name, f.Kind))
	}
	return names
}
