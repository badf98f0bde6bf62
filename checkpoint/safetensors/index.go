package safetensors

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// IndexSuffix is how the name of a set's index ends: model.safetensors.index.json.
const IndexSuffix = ".safetensors.index.json"

// Index says which file of a set holds which tensor. It is not changed after it was made.
type Index struct {
	// Files are the names of the files in the folder of the index, sorted, each once.
	Files []string
	// TotalSize is what the index says that all tensors have, in bytes; -1 if it does not say.
	TotalSize int64

	file map[string]string
}

// File returns the file of a tensor.
func (x *Index) File(tensor string) (string, bool) {
	file, ok := x.file[tensor]
	return file, ok
}

// Len is the number of tensors.
func (x *Index) Len() int { return len(x.file) }

// ErrIndex is matched by every error about the content of an index.
var ErrIndex = errors.New("not a valid safetensors index")

// ParseIndex reads an index. A member or tensor that is there twice, a file that is no plain name in the folder of the index
// (a path would lead out of the checkpoint), and all that is not JSON is an error that matches ErrIndex.
func ParseIndex(data []byte) (*Index, error) {
	p := &indexParser{scanner: scanner{src: string(data)}, x: &Index{TotalSize: -1, file: map[string]string{}}}
	if err := p.index(); err != nil {
		var e *Error
		if errors.As(err, &e) {
			return nil, fmt.Errorf("byte %d: %s: %w", e.Off-prefix, e.Problem, ErrIndex)
		}
		return nil, fmt.Errorf("%w: %w", err, ErrIndex)
	}
	files := map[string]bool{}
	for _, file := range p.x.file {
		files[file] = true
	}
	p.x.Files = slices.Sorted(maps.Keys(files))
	return p.x, nil
}

type indexParser struct {
	scanner
	x *Index
}

func (p *indexParser) index() error {
	if i := invalidUTF8(p.src); i >= 0 {
		p.pos = i
		return p.fail(RuleJSON, "the index is not UTF-8")
	}
	sawMap, sawMeta := false, false
	err := p.object("the index", func(name string) error {
		switch {
		case name == "weight_map" && sawMap || name == "metadata" && sawMeta:
			return p.fail(RuleJSON, "%s is there twice", name)
		case name == "weight_map":
			sawMap = true
			return p.object(name, p.weight)
		case name == "metadata":
			sawMeta = true
			return p.metadata()
		}
		return p.skip(1)
	})
	if err != nil {
		return err
	}
	if p.peek(); p.pos < len(p.src) {
		return p.fail(RuleJSON, "%s behind the object of the index", p.found())
	}
	if !sawMap {
		return errors.New("weight_map is missing")
	}
	return nil
}

// object reads an object, of which member reads each value.
func (p *indexParser) object(what string, member func(name string) error) error {
	if p.peek() != '{' {
		return p.fail(RuleJSON, "%s where the object of %s must be", p.found(), what)
	}
	p.pos++
	return p.list('}', func() error {
		name, err := p.key()
		if err != nil {
			return err
		}
		return member(name)
	})
}

func (p *indexParser) weight(tensor string) error {
	if p.peek() != '"' {
		return p.fail(RuleJSON, "%s where the file of tensor %q must be", p.found(), clip(tensor))
	}
	file, err := p.str()
	if err != nil {
		return err
	}
	if _, double := p.x.file[tensor]; double {
		return p.fail(RuleJSON, "weight_map has tensor %q twice", clip(tensor))
	}
	if !plainName(file) {
		return p.fail(RuleJSON, "tensor %q lies in %q, which is no plain name of a file beside the index", clip(tensor), clip(file))
	}
	p.x.file[tensor] = file
	return nil
}

// plainName tells whether a name stays in its folder, whatever opens it.
func plainName(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= 255 && !strings.ContainsAny(name, `/\`) && !strings.ContainsFunc(name, unicode.IsControl)
}

// metadata looks for total_size, which old writers wrote as 1.5e10 too; what else there is belongs to others.
func (p *indexParser) metadata() error {
	if p.peek() != '{' {
		return p.skip(1)
	}
	return p.object("metadata", func(name string) error {
		if c := p.peek(); name != "total_size" || c != '-' && (c < '0' || c > '9') {
			return p.skip(1)
		}
		if p.x.TotalSize >= 0 {
			return p.fail(RuleJSON, "total_size is there twice")
		}
		text, err := p.number()
		if err != nil {
			return err
		}
		n, ok := integer(text)
		if !ok {
			return p.fail(RuleJSON, "total_size is %s, which is no number of bytes", clip(text))
		}
		p.x.TotalSize = n
		return nil
	})
}

// integer is the value of a JSON number that is a whole one in [0, 2^63).
func integer(text string) (int64, bool) {
	if len(text) > 40 || strings.ContainsAny(text, "eE") && exponent(text) > 30 {
		return 0, false
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok || !r.IsInt() || r.Sign() < 0 || !r.Num().IsInt64() {
		return 0, false
	}
	return r.Num().Int64(), true
}

// exponent is the size of a number's exponent, or more than any that is allowed.
func exponent(text string) int64 {
	_, digits, _ := strings.Cut(strings.ToLower(text), "e")
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil {
		return 1 << 30
	}
	return max(n, -n)
}

// Problem is something in which an index and the files of its set disagree.
type Problem struct {
	// Kind is "file-missing", "tensor-missing", "tensor-unlisted", "tensor-twice" or "total-size".
	Kind string `json:"kind"`
	// File and Tensor say where; "" where it is not about one.
	File   string `json:"file,omitempty"`
	Tensor string `json:"tensor,omitempty"`
	Detail string `json:"detail"`
}

// String is one line.
func (p Problem) String() string {
	text := p.Kind + ": "
	if p.File != "" {
		text += printable(p.File) + ": "
	}
	if p.Tensor != "" {
		text += fmt.Sprintf("tensor %q: ", clip(p.Tensor))
	}
	return text + p.Detail
}

// printable is a file's name, quoted where it has characters that are none to print.
func printable(name string) string {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return strconv.Quote(name)
	}
	return name
}

// Check compares an index with the headers of its files, by name; a file that does not exist has none. Files that the index
// does not name are none of the set's. The order is that of files and names.
func (x *Index) Check(headers map[string]*Header) []Problem {
	var found []Problem
	total, whole := int64(0), true
	in := map[string]string{}
	for _, file := range x.Files {
		h := headers[file]
		if h == nil {
			found = append(found, Problem{Kind: "file-missing", File: file, Detail: "the index names the file, and there is none"})
			whole = false
			continue
		}
		for _, t := range h.Tensors {
			total += t.Len
			if first, twice := in[t.Name]; twice {
				found = append(found, Problem{"tensor-twice", file, t.Name, "it is in " + first + " too"})
			}
			in[t.Name] = file
			switch says, listed := x.file[t.Name]; {
			case !listed:
				found = append(found, Problem{"tensor-unlisted", file, t.Name, "the file holds it, and the index does not name it"})
			case says != file:
				found = append(found, Problem{"tensor-unlisted", file, t.Name, "the file holds it, and the index says that it is in " + says})
			}
		}
	}
	found = append(found, x.absent(headers)...)
	if whole && x.TotalSize >= 0 && x.TotalSize != total {
		found = append(found, Problem{Kind: "total-size", Detail: fmt.Sprintf("the index says that tensors have %d bytes, the files hold %d", x.TotalSize, total)})
	}
	return found
}

// absent finds tensors that are not in the files that the index gives.
func (x *Index) absent(headers map[string]*Header) []Problem {
	var found []Problem
	for tensor, file := range x.file {
		if h := headers[file]; h != nil {
			if _, ok := h.Lookup(tensor); !ok {
				found = append(found, Problem{"tensor-missing", file, tensor, "the index says that the file holds it, and it does not"})
			}
		}
	}
	slices.SortFunc(found, func(a, b Problem) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Tensor, b.Tensor)) })
	return found
}
