package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/draft"
	"github.com/stepahead-io/stepahead/binfmt/foreign"
	"github.com/stepahead-io/stepahead/binfmt/foreign/energon"
	"github.com/stepahead-io/stepahead/binfmt/foreign/folder"
	"github.com/stepahead-io/stepahead/binfmt/foreign/litdata"
	"github.com/stepahead-io/stepahead/binfmt/foreign/mds"
	"github.com/stepahead-io/stepahead/binfmt/foreign/megatron"
	"github.com/stepahead-io/stepahead/binfmt/foreign/parquet"
	"github.com/stepahead-io/stepahead/binfmt/foreign/tar"
	"github.com/stepahead-io/stepahead/binfmt/foreign/tfrecord"
	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/store"
)

// containerFlags say how containers are read. They are those of index and of pack.
type containerFlags struct {
	format, policy string
	split          string
	fields         []string
	classes        string
	group          bool
	options        foreign.Options
	json           bool
	made           []made // by containers
}

// made is a container and what it was made from.
type made struct {
	container
	foreign.Container
}

// add adds the flags to a command that knows some containers. of says of which sources they are.
func (f *containerFlags) add(flags *pflag.FlagSet, known []container, of string) {
	flags.StringVar(&f.format, "format", "", "what the source is: "+strings.Join(names(known), ", ")+" (default: found out)")
	flags.StringVar(&f.policy, "policy", string(foreign.Strict), "odd input"+of+": strict makes it an error, as-peer takes what the usual reader takes")
	flags.StringVar(&f.split, "split", "", "part of a dataset prepared by Energon, or all (default: train)")
	flags.StringSliceVar(&f.options.Media, "media", nil, "fields"+of+" that stay media fields although their values are small")
	flags.StringVar(&f.classes, "classes", "", "file with the names of the classes, one a line, for the field label"+of)
	flags.BoolVar(&f.options.SkipIncomplete, "skip-incomplete", false, "leave out samples"+of+" that lack a field")
	flags.BoolVar(&f.options.Force, "force", false, "replace another dataset at the destination")
	flags.BoolVar(&f.json, "json", false, "print the result as one JSON object")
}

// container is a kind of container that a command knows.
type container struct {
	name string // "" has no name to be chosen by
	make func(f *containerFlags, p foreign.Policy) foreign.Container
	// useless are the flags that say nothing of it.
	useless []string
}

// indexed are asked in this order whether a source is theirs. Megatron's come first, because a pair may be named by what its
// two names begin with, which is no file; folders of files come last, because any folder may be one.
func indexed() []container {
	return []container{
		{binfmt.Megatron, func(*containerFlags, foreign.Policy) foreign.Container { return megatron.New() },
			append(useless(), "field", "media", "classes", "skip-incomplete")},
		{"energon", newEnergon, useless("split", "policy")}, {binfmt.Tar, newTar, useless("policy")}, {binfmt.MDS, newMDS, useless()}, {binfmt.TFRecord, newTFRecord, useless()},
		{"", func(*containerFlags, foreign.Policy) foreign.Container { return foreign.Refusals() }, nil},
		{binfmt.Folder, func(f *containerFlags, p foreign.Policy) foreign.Container {
			return folder.New(folder.Options{Policy: p, Group: f.group})
		}, useless("group", "policy")},
	}
}

// useless are the flags of some containers only, but for those of the container's own.
func useless(but ...string) []string {
	return slices.DeleteFunc([]string{"split", "group", "policy"}, func(flag string) bool { return slices.Contains(but, flag) })
}

// accept refuses flags that were given and say nothing of a container that containers made.
func (f *containerFlags) accept(given func(flag string) bool, kind foreign.Container) error {
	for _, m := range f.made {
		if m.Container != kind {
			continue
		}
		for _, flag := range m.useless {
			if given(flag) {
				return exit.Usage(fmt.Errorf("--%s says nothing of %s, which the source is: leave it out, or say with --format what the source is", flag, m.name))
			}
		}
	}
	return nil
}

// packed are the containers whose samples are packed, as they are asked. Megatron's need none of it.
func packed() []container {
	return []container{
		{"energon", newEnergon, useless("split", "policy")}, {binfmt.Tar, newTar, useless("policy")}, {binfmt.MDS, newMDS, useless()}, {binfmt.TFRecord, newTFRecord, useless()},
		{"litdata", func(f *containerFlags, _ foreign.Policy) foreign.Container {
			return litdata.New(litdata.Options{Wanted: f.wanted()})
		}, useless()},
		{"parquet", func(f *containerFlags, _ foreign.Policy) foreign.Container {
			return parquet.New(parquet.Options{Wanted: f.wanted()})
		}, useless()},
	}
}

func newEnergon(f *containerFlags, p foreign.Policy) foreign.Container {
	return energon.New(energon.Options{Policy: p, Split: f.split})
}

func newTar(_ *containerFlags, p foreign.Policy) foreign.Container { return tar.New(p) }

func newMDS(*containerFlags, foreign.Policy) foreign.Container { return mds.New() }

func newTFRecord(*containerFlags, foreign.Policy) foreign.Container { return tfrecord.New() }

func names(known []container) []string {
	var all []string
	for _, c := range known {
		if c.name != "" {
			all = append(all, c.name)
		}
	}
	return all
}

// containers reads the flags, of which mistakes are usage, and returns those of the known containers that are to be asked.
func (f *containerFlags) containers(known []container) (found []foreign.Container, err error) {
	f.options.Policy = foreign.Policy(f.policy)
	if f.options.Policy != foreign.Strict && f.options.Policy != foreign.AsPeer {
		return nil, exit.Usage(fmt.Errorf("--policy %s: want %s or %s", f.policy, foreign.Strict, foreign.AsPeer))
	}
	if f.options.Fields, err = f.renames(); err != nil {
		return nil, exit.Usage(err)
	}
	if f.options.Classes, err = readClasses(f.classes); err != nil {
		return nil, err
	}
	for _, c := range known {
		if f.format == "" || f.format == c.name {
			kind := c.make(f, f.options.Policy)
			found, f.made = append(found, kind), append(f.made, made{c, kind})
		}
	}
	if len(found) == 0 {
		return nil, exit.Usage(fmt.Errorf("--format %s: want one of %s", f.format, strings.Join(names(known), ", ")))
	}
	return found, nil
}

// wanted says which fields of a container are used, when renames were read.
func (f *containerFlags) wanted() func(string) bool {
	if len(f.options.Fields) == 0 {
		return nil
	}
	return func(field string) bool {
		return slices.ContainsFunc(f.options.Fields, func(r foreign.Rename) bool { return slices.Contains(r.From, field) })
	}
}

// renames reads --field.
func (f *containerFlags) renames() ([]foreign.Rename, error) {
	var all []foreign.Rename
	for _, text := range f.fields {
		name, from, ok := strings.Cut(text, "=")
		r := foreign.Rename{Field: name, From: []string{name}}
		if ok {
			r.From = strings.Split(from, ",")
		}
		if err := binfmt.CheckFieldName(r.Field); err != nil {
			return nil, fmt.Errorf("--field %s: %w", text, err)
		}
		if slices.Contains(r.From, "") || slices.ContainsFunc(all, func(o foreign.Rename) bool { return o.Field == r.Field }) {
			return nil, fmt.Errorf("--field %s: want name or name=theirs,theirs, and every name once", text)
		}
		for i, theirs := range r.From { // as containers call them: seg.png is seg_png, and case counts where it does in the container
			r.From[i] = foreign.FieldName(theirs)
			if lower := foreign.FieldName(strings.ToLower(theirs)); lower != r.From[i] {
				r.From = append(r.From, lower)
			}
		}
		all = append(all, r)
	}
	return all, nil
}

func readClasses(name string) ([]string, error) {
	if name == "" {
		return nil, nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("--classes: %w", err)
	}
	return strings.Split(strings.TrimRight(string(data), "\n"), "\n"), nil
}

// closeAll frees what containers hold. They were only read from.
func closeAll(kinds []foreign.Container) {
	for _, c := range kinds {
		if held, ok := c.(io.Closer); ok {
			_ = held.Close()
		}
	}
}

func codeOfContainer(err error) error {
	switch {
	case errors.Is(err, foreign.ErrContainer), store.ClassOf(err) == store.IdentityChanged:
		return exit.Finding(err)
	case errors.Is(err, draft.ErrExists), errors.Is(err, foreign.ErrPattern):
		return exit.Usage(err)
	}
	return err
}

// notes says what was left out of containers, and what was odd.
func notes(r *foreign.Report) string {
	var text strings.Builder
	if r.Empty > 0 {
		fmt.Fprintf(&text, "left out: %s without a sample\n", counted(r.Empty, "shard"))
	}
	if r.Incomplete > 0 {
		fmt.Fprintf(&text, "left out for want of a field: %s\n", counted(r.Incomplete, "sample"))
	}
	for _, w := range r.Warnings {
		fmt.Fprintln(&text, "warning:", w)
	}
	return text.String()
}
