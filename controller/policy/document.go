package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

const (
	// maxFile bounds a file, in bytes, and maxDepth how deep it nests.
	maxFile  = 1 << 20
	maxDepth = 16
	// maxMistakes are reported of one file.
	maxMistakes = 50
)

// Mistake is one thing that is wrong in a file.
type Mistake struct {
	// File is the file's name and Line the line in it, from 1; 0 where the whole file is meant.
	File string
	Line int
	// Key is the way to the value, such as wan.links.east.rate, and Rule the name of the rule it belongs to; both may be "".
	Key, Rule string
	// Detail says what is wrong and what to write.
	Detail string
}

func (m *Mistake) Error() string {
	s := m.File
	if m.Line > 0 {
		s += ":" + strconv.Itoa(m.Line)
	}
	if m.Rule != "" {
		s += fmt.Sprintf(": rule %q", m.Rule)
	}
	if m.Key != "" {
		s += ": " + m.Key
	}
	return s + ": " + m.Detail
}

// Setting is one value of a file as it is written there, for comparing two versions of it.
type Setting struct{ Key, Value string }

// document is a file that is being read: what was found in it, and what is wrong with it.
type document struct {
	name     string
	settings []Setting
	mistakes []*Mistake
}

// value is one place in a document.
type value struct {
	doc   *document
	node  ast.Node
	key   string
	rule  string
	depth int
}

// open parses a file of YAML: one document, which is a mapping.
func open(name string, data []byte) (*document, value, error) {
	d := &document{name: name}
	if len(data) > maxFile {
		return d, value{}, &Mistake{File: name, Detail: fmt.Sprintf("it has %d bytes: at most %d are read", len(data), maxFile)}
	}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return d, value{}, &Mistake{File: name, Detail: "it is not YAML: " + err.Error()}
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return d, value{}, &Mistake{File: name, Detail: fmt.Sprintf("it has %d documents, or an empty one: write one", len(file.Docs))}
	}
	return d, value{doc: d, node: file.Docs[0].Body}, nil
}

// err is what is wrong with the document, in the order of its lines; nil if nothing is.
func (d *document) err() error {
	slices.SortStableFunc(d.mistakes, func(a, b *Mistake) int { return cmp.Compare(a.Line, b.Line) })
	var all []error
	for _, m := range d.mistakes[:min(len(d.mistakes), maxMistakes)] {
		all = append(all, m)
	}
	if more := len(d.mistakes) - maxMistakes; more > 0 {
		all = append(all, &Mistake{File: d.name, Detail: fmt.Sprintf("%d more mistakes", more)})
	}
	return errors.Join(all...)
}

func (v value) line() int {
	if v.node == nil || v.node.GetToken() == nil || v.node.GetToken().Position == nil {
		return 0
	}
	return v.node.GetToken().Position.Line
}

// wrong notes a mistake.
func (v value) wrong(format string, args ...any) {
	v.doc.mistakes = append(v.doc.mistakes, &Mistake{File: v.doc.name, Line: v.line(), Key: v.key, Rule: v.rule, Detail: fmt.Sprintf(format, args...)})
}

// note keeps a setting as it is written.
func (v value) note(text string) {
	v.doc.settings = append(v.doc.settings, Setting{v.key, text})
}

// at is a value below.
func (v value) at(node ast.Node, key string) value {
	return value{doc: v.doc, node: node, key: key, rule: v.rule, depth: v.depth + 1}
}

// field is one pair of a mapping.
type field struct {
	name  string
	value value
}

// fields are the pairs of a mapping, in their order. What is none, or nests too deep, is a mistake.
func (v value) fields() []field {
	m, ok := v.node.(*ast.MappingNode)
	if !ok {
		v.wrong("want keys with values, one a line, not %s", v.kind())
		return nil
	}
	if v.depth > maxDepth {
		v.wrong("it nests too deep")
		return nil
	}
	var all []field
	for _, pair := range m.Values {
		name, ok := text(pair.Key)
		if !ok {
			v.at(pair.Key, v.key).wrong("the key %s is not a name", pair.Key.String())
			continue
		}
		key := name
		if v.key != "" {
			key = v.key + "." + name
		}
		all = append(all, field{name, v.at(pair.Value, key)})
	}
	return all
}

// mapping reads a mapping whose keys are known: each has a function, and a name that ends in "!" must be there.
func (v value) mapping(known map[string]func(value)) {
	seen := make(map[string]bool)
	for _, f := range v.fields() {
		read := known[f.name]
		if read == nil {
			read = known[f.name+"!"]
		}
		if read == nil {
			f.value.wrong("unknown key: the keys here are %s", strings.Join(names(known), ", "))
			continue
		}
		seen[f.name] = true
		read(f.value)
	}
	if _, ok := v.node.(*ast.MappingNode); !ok {
		return
	}
	for _, name := range slices.Sorted(keys(known)) {
		if must, ok := strings.CutSuffix(name, "!"); ok && !seen[must] {
			v.wrong("%s is missing", must)
		}
	}
}

func names(known map[string]func(value)) []string {
	var all []string
	for _, name := range slices.Sorted(keys(known)) {
		all = append(all, strings.TrimSuffix(name, "!"))
	}
	return all
}

func keys[V any](m map[string]V) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// list are the items of a list.
func (v value) list() []value {
	s, ok := v.node.(*ast.SequenceNode)
	if !ok {
		v.wrong("want a list, not %s", v.kind())
		return nil
	}
	all := make([]value, 0, len(s.Values))
	for i, node := range s.Values {
		all = append(all, v.at(node, fmt.Sprintf("%s[%d]", v.key, i)))
	}
	return all
}

// isList tells whether it is a list.
func (v value) isList() bool {
	_, ok := v.node.(*ast.SequenceNode)
	return ok
}

// isMapping tells whether it has keys.
func (v value) isMapping() bool {
	_, ok := v.node.(*ast.MappingNode)
	return ok
}

// word is a scalar as it is written, without quotes; "" and a mistake if it is none.
func (v value) word() string {
	s, ok := text(v.node)
	switch {
	case !ok:
		v.wrong("want one value, not %s", v.kind())
	case s == "":
		v.wrong("it is empty")
	}
	return s
}

// scalar is a word that is kept as a setting.
func (v value) scalar() string {
	s := v.word()
	v.note(s)
	return s
}

// words are the scalars of a list, at least one and none twice; one scalar counts as a list of one.
func (v value) words() []string {
	items := []value{v}
	if v.isList() {
		items = v.list()
	}
	var all []string
	for _, item := range items {
		s := item.word()
		if slices.Contains(all, s) && s != "" {
			item.wrong("%q is there twice", s)
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		v.wrong("the list is empty: leave the key out, or name something")
	}
	v.note(listed(all))
	return all
}

// listed are words as a setting: a word with a comma is not taken for two.
func listed(words []string) string {
	all := slices.Clone(words)
	for i, word := range all {
		if strings.ContainsAny(word, `,"`) {
			all[i] = strconv.Quote(word)
		}
	}
	return strings.Join(all, ", ")
}

// text is what a scalar says; false if the node is none. Aliases, anchors, tags and merges are none.
func text(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// kind names what stands there, for people.
func (v value) kind() string {
	switch v.node.(type) {
	case nil, *ast.NullNode:
		return "nothing"
	case *ast.MappingNode:
		return "keys with values"
	case *ast.SequenceNode:
		return "a list"
	case *ast.AliasNode, *ast.AnchorNode, *ast.TagNode:
		return "an alias, anchor or tag of YAML: write it out"
	case *ast.LiteralNode:
		return "a text of several lines"
	}
	return "one value"
}
