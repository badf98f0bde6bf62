// Package safetensors knows the bytes of safetensors files: a file's header, read as strictly as the format's rules say, and
// the index of a set of files. It reads headers only; tensors are ranges of the file for others to read.
package safetensors

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/stepahead-io/stepahead/store"
)

const (
	// MaxHeader is the most bytes that a header may have, the limit of the format.
	MaxHeader = 100_000_000
	// prefix is the length of the number before the header.
	prefix = 8
	// firstRead is what is read before the header's length is known: most headers fit, and a smaller read costs a store as much.
	firstRead = 64 << 10
)

// Header is what a file's header says. It is not changed after it was made.
type Header struct {
	// Tensors in the order of their bytes: each begins where the one before ends.
	Tensors []Tensor
	// Metadata is the header's __metadata__; nil if there is none.
	Metadata map[string]string
	// DataOff is where the bytes of tensors begin in the file.
	DataOff int64

	byName map[string]int32
}

// Tensor is one tensor of a file: little-endian, in C order, without gaps.
type Tensor struct {
	Name  string
	Dtype Dtype
	// Shape in elements of Dtype; empty for a scalar. Writers may pack elements of less than a byte: torch counts two F4 as one
	// element along the last dimension, the header counts each.
	Shape []int64
	// Off and Len are the tensor's bytes in the file. Off need not be aligned to the size of an element.
	Off, Len int64
}

// Lookup returns the tensor of a name.
func (h *Header) Lookup(name string) (Tensor, bool) {
	i, ok := h.byName[name]
	if !ok {
		return Tensor{}, false
	}
	return h.Tensors[i], true
}

// Read reads and checks the header of an open file, with one read of at most 64 KiB and, where the header is longer, one more.
// What is wrong with the file is an *Error; errors of the store stay as they are.
func Read(ctx context.Context, f store.File) (*Header, error) {
	first := firstRanges(f)
	if err := f.ReadRanges(ctx, first.Ranges); err != nil {
		return nil, err
	}
	rest, err := restRanges(first)
	if err != nil {
		return nil, err
	}
	if err := f.ReadRanges(ctx, rest.Ranges); err != nil {
		return nil, err
	}
	return headerOf(first, rest)
}

// ReadMany is Read for many files of a store, in two calls of it at most. The header and the error of a file have its place.
// The last error is that ctx ended.
func ReadMany(ctx context.Context, s store.Store, files []store.File) ([]*Header, []error, error) {
	headers, errs := make([]*Header, len(files)), make([]error, len(files))
	first, rest := make([]store.FileRanges, len(files)), make([]store.FileRanges, len(files))
	for i, f := range files {
		first[i] = firstRanges(f)
	}
	if err := store.ReadMany(ctx, s, first); err != nil {
		return nil, nil, err
	}
	for i := range first {
		rest[i] = store.FileRanges{File: files[i]}
		if errs[i] = first[i].Err; errs[i] == nil {
			rest[i], errs[i] = restRanges(first[i])
		}
	}
	if err := store.ReadMany(ctx, s, rest); err != nil {
		return nil, nil, err
	}
	for i := range files {
		if errs[i] == nil {
			errs[i] = rest[i].Err
		}
		if errs[i] == nil {
			headers[i], errs[i] = headerOf(first[i], rest[i])
		}
	}
	return headers, errs, nil
}

// firstRanges asks for the first bytes of a file.
func firstRanges(f store.File) store.FileRanges {
	return store.FileRanges{File: f, Ranges: []store.Range{{Buf: make([]byte, min(f.Size(), firstRead))}}}
}

// restRanges asks for what the first bytes do not have of the header, after its length was checked: maybe nothing.
func restRanges(first store.FileRanges) (store.FileRanges, error) {
	rest := store.FileRanges{File: first.File}
	have := first.Ranges[0].Buf
	n, err := headerLen(have, first.File.Size())
	if more := prefix + n - int64(len(have)); err == nil && more > 0 {
		rest.Ranges = []store.Range{{Off: int64(len(have)), Buf: make([]byte, more)}}
	}
	return rest, err
}

func headerOf(first, rest store.FileRanges) (*Header, error) {
	head := first.Ranges[0].Buf
	for _, r := range rest.Ranges {
		head = append(head, r.Buf...)
	}
	return Parse(head, first.File.Size())
}

// Parse checks the first bytes of a file of size bytes: the length and the whole header. More bytes may follow in head. The
// Header does not refer to head. A file that breaks a rule is an *Error. Memory is at most about 8 bytes for each of the
// header's.
func Parse(head []byte, size int64) (*Header, error) {
	n, err := headerLen(head, size)
	if err != nil {
		return nil, err
	}
	if int64(len(head)) < prefix+n {
		return nil, fmt.Errorf("safetensors.Parse: %d bytes given of a header that ends at %d", len(head), prefix+n)
	}
	p := &parser{scanner: scanner{src: string(head[prefix : prefix+n])}, h: &Header{DataOff: prefix + n}}
	if err := p.header(); err != nil {
		return nil, err
	}
	if err := p.h.place(size); err != nil {
		return nil, err
	}
	return p.h, nil
}

// headerLen checks the number before the header, before anything is made of it.
func headerLen(head []byte, size int64) (int64, error) {
	if size < prefix || len(head) < prefix {
		return 0, &Error{Rule: RuleLength, Problem: fmt.Sprintf("the file has %d bytes, and 8 say how long the header is", size)}
	}
	n := binary.LittleEndian.Uint64(head)
	if n > MaxHeader {
		return 0, &Error{Rule: RuleLength, Problem: fmt.Sprintf("the header is said to have %d bytes, the format allows %d", n, MaxHeader)}
	}
	if int64(n) > size-prefix {
		return 0, &Error{Rule: RuleJSON, Problem: fmt.Sprintf("the header is said to end at byte %d of a file of %d", prefix+n, size)}
	}
	return int64(n), nil
}

// ErrFormat is matched by every *Error.
var ErrFormat = errors.New("not a valid safetensors file")

// Rule is a rule of the format that a file breaks. The numbers are append-only.
type Rule int

// The rules.
const (
	// RuleLength: the file begins with the header's length, at most MaxHeader.
	RuleLength Rule = iota + 1
	// RuleJSON: the header lies in the file, is valid UTF-8 and one JSON object.
	RuleJSON
	// RuleMetadata: __metadata__ is an object of strings.
	RuleMetadata
	// RuleTensor: a tensor has a dtype, a shape and data_offsets, each once and none null.
	RuleTensor
	// RuleContiguous: the first tensor begins at 0, every other where the one before ends, none ends before it begins.
	RuleContiguous
	// RuleBytes: the elements of the shape are whole bytes, and as many as the offsets say.
	RuleBytes
	// RuleEnd: the last tensor ends with the file.
	RuleEnd
	// RuleUnique: no name is there twice.
	RuleUnique
)

var ruleNames = [...]string{"", "length", "json", "metadata", "tensor", "contiguous", "bytes", "end", "unique"}

// String is the rule's name, as findings show it.
func (r Rule) String() string {
	if r < 1 || int(r) >= len(ruleNames) {
		return "invalid"
	}
	return ruleNames[r]
}

// Error says where a file breaks which rule. It matches ErrFormat.
type Error struct {
	Rule Rule
	// Off is the byte of the file where the fault was seen.
	Off int64
	// Tensor is the name of the tensor that is wrong; "" where it is none.
	Tensor string
	// Problem says what is there and what should be.
	Problem string
}

func (e *Error) Error() string {
	at := fmt.Sprintf("byte %d", e.Off)
	if e.Tensor != "" {
		at += fmt.Sprintf(", tensor %q", clip(e.Tensor))
	}
	return fmt.Sprintf("safetensors: rule %q: %s: %s", e.Rule.String(), at, e.Problem)
}

// Unwrap makes the error match ErrFormat.
func (e *Error) Unwrap() error { return ErrFormat }

// clip shortens a text from a file for a message.
func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}
