package litdata

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
)

// indexName is the name of a dataset's list of chunks.
const indexName = "index.json"

// Limits: of an index.json in bytes, of the items of one chunk, whose offsets are held in memory, of the leaves of an item, and of
// how deep an item may be nested.
const (
	maxIndex  = 256 << 20
	maxItems  = 1 << 26
	maxLeaves = 1024
	maxDepth  = 64
)

// index is an index.json.
type index struct {
	Chunks []chunk `json:"chunks"`
	Config config  `json:"config"`
}

// chunk is what index.json says of one chunk.
type chunk struct {
	Name  string `json:"filename"`
	Items int64  `json:"chunk_size"`
	Dim   *int64 `json:"dim"` // of items that are one array each, the length of all; else null
}

// config says how items are serialised.
type config struct {
	Compression *string         `json:"compression"`
	Level       *string         `json:"compression_level"` // what is compressed at once; of old datasets null: a chunk
	Encryption  json.RawMessage `json:"encryption"`
	Format      []string        `json:"data_format"` // the serialiser of each leaf
	Spec        *string         `json:"data_spec"`   // of the tree whose leaves they are
	Loader      string          `json:"item_loader"`
}

// parseIndex reads an index.json; ok is false if it is not LitData's: other programs use the name too.
func parseIndex(data []byte) (x index, ok bool, err error) {
	var keys map[string]json.RawMessage
	if json.Unmarshal(data, &keys) != nil || keys["chunks"] == nil || keys["config"] == nil {
		return x, false, nil
	}
	return x, true, json.Unmarshal(data, &x)
}

// errTokens: LitData itself reads items that are one array each only as one stream of tokens.
var errTokens = errors.New("tokens for LitData's TokensLoader, whose blocks are no items: write Megatron's .bin and .idx of them, which `stepahead index` reads where they lie")

func (e chunk) check() error {
	if n := e.Name; n == "" || path.IsAbs(n) || path.Clean(n) != n || n == "." || n == ".." || strings.HasPrefix(n, "../") || strings.ContainsRune(n, 0) {
		return fmt.Errorf("filename is %q, which is no file below the dataset's folder", n)
	}
	if e.Items < 1 || e.Items > maxItems {
		return fmt.Errorf("%s: chunk_size is %d, want 1 to %d items", e.Name, e.Items, maxItems)
	}
	if e.Dim != nil {
		return fmt.Errorf("%s: %w", e.Name, errTokens)
	}
	return nil
}

// unit is what is compressed at once.
type unit string

const (
	nothing unit = ""
	chunks  unit = "chunk"
	batches unit = "batch"
	samples unit = "sample"
)

// compressed says what is compressed.
func (c config) compressed() (unit, error) {
	switch name, _, _ := strings.Cut(orNone(c.Compression), ":"); name {
	case "":
		return nothing, nil
	case "zstd":
	default:
		return "", fmt.Errorf("the chunks are compressed with %q, which this program does not know: write the dataset again without compression", name)
	}
	switch u := unit(orNone(c.Level)); u {
	case nothing:
		return chunks, nil
	case chunks, batches, samples:
		return u, nil
	default:
		return "", fmt.Errorf("compression_level is %q, want chunk, batch or sample", u)
	}
}

// check returns the leaves of an item.
func (c config) check(wanted func(string) bool) (leaves []leaf, err error) {
	if len(c.Encryption) > 0 && string(c.Encryption) != "null" {
		return nil, errors.New("the chunks are encrypted: write the dataset again without encryption")
	}
	if c.Loader == "TokensLoader" {
		return nil, errTokens
	}
	names, err := c.names()
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool)
	for i, format := range c.Format {
		l := leafOf(names[i], format)
		if seen[l.field] {
			return nil, fmt.Errorf("two leaves of an item would be the field %q", l.field)
		}
		seen[l.field] = true
		if l.unused = !wanted(l.field); !l.known && !l.unused {
			return nil, fmt.Errorf("the leaf %q is serialised as %q, which only the program that wrote it can read: name the other fields with --field: %s", l.field, format, strings.Join(c.carried(names), ", "))
		}
		leaves = append(leaves, l)
	}
	return leaves, nil
}

// carried lists the fields that can be taken.
func (c config) carried(names []string) []string {
	var all []string
	for i, format := range c.Format {
		if l := leafOf(names[i], format); l.known {
			all = append(all, l.field)
		}
	}
	return all
}

func orNone(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// node is a node of the tree that torch writes: a dictionary, whose context are its keys, a list or tuple, or a leaf, whose type is null.
type node struct {
	Type     *string `json:"type"`
	Context  *string `json:"context"`
	Children []node  `json:"children_spec"`
}

// names returns a name for each leaf: its keys in dictionaries and its places in lists, with dots between; "item" of an item that is a leaf.
func (c config) names() ([]string, error) {
	if len(c.Format) == 0 || len(c.Format) > maxLeaves {
		return nil, fmt.Errorf("data_format has %d leaves, want 1 to %d", len(c.Format), maxLeaves)
	}
	var names []string
	if c.Spec != nil {
		var spec []json.RawMessage
		var version int
		var root node
		if err := json.Unmarshal([]byte(*c.Spec), &spec); err != nil || len(spec) != 2 {
			return nil, fmt.Errorf("data_spec is %.100q, want a version and a tree", *c.Spec)
		}
		if err := errors.Join(json.Unmarshal(spec[0], &version), json.Unmarshal(spec[1], &root)); err != nil || version != 1 {
			return nil, fmt.Errorf("data_spec of version %d, this program reads 1 (%v)", version, err)
		}
		var err error
		if names, err = root.leaves("", 0); err != nil {
			return nil, err
		}
	} else if len(c.Format) == 1 {
		names = []string{""}
	}
	if len(names) != len(c.Format) {
		return nil, fmt.Errorf("data_spec has %d leaves, data_format %d", len(names), len(c.Format))
	}
	if names[0] == "" {
		names[0] = "item"
	}
	return names, nil
}

func (n node) leaves(name string, depth int) ([]string, error) {
	if n.Type == nil {
		return []string{name}, nil
	}
	if depth == maxDepth {
		return nil, fmt.Errorf("data_spec: an item of more than %d levels", maxDepth)
	}
	keys, err := n.keys()
	if err != nil {
		return nil, fmt.Errorf("data_spec: %q: %w", name, err)
	}
	var all []string
	for i, child := range n.Children {
		inner := keys[i]
		if name != "" {
			inner = name + "." + inner
		}
		some, err := child.leaves(inner, depth+1)
		if err != nil {
			return nil, err
		}
		if all = append(all, some...); len(all) > maxLeaves {
			return nil, fmt.Errorf("data_spec: an item of more than %d leaves", maxLeaves)
		}
	}
	return all, nil
}

// keys names the children of a node.
func (n node) keys() ([]string, error) {
	keys := make([]string, len(n.Children))
	switch *n.Type {
	case "builtins.dict", "collections.OrderedDict":
		var named []any
		if n.Context == nil || json.Unmarshal([]byte(*n.Context), &named) != nil || len(named) != len(keys) {
			return nil, fmt.Errorf("a dictionary of %d values, whose keys are %.100q", len(keys), orNone(n.Context))
		}
		for i, k := range named {
			keys[i] = fmt.Sprint(k)
		}
	case "builtins.list", "builtins.tuple":
		for i := range keys {
			keys[i] = fmt.Sprint(i)
		}
	default:
		return nil, fmt.Errorf("a %s, want dictionaries, lists and tuples", *n.Type)
	}
	return keys, nil
}
