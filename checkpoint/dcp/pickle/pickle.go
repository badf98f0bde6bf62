// Package pickle knows Python's pickles of protocols 2 to 5 as data: it builds plain values and instances of classes that the
// caller lists, calls nothing, and refuses by name whatever else a pickle asks for.
package pickle

import (
	"errors"
	"fmt"
)

// Options say what a pickle may hold.
type Options struct {
	// Class returns what a global of the pickle stands for; nil refuses it. Without the function all are refused.
	Class func(module, name string) *Class
	// Persistent returns the value of a persistent id; nil refuses pickles that have any.
	Persistent func(id any) (any, error)
}

func (o Options) class(module, name string) *Class {
	if o.Class == nil {
		return nil
	}
	return o.Class(module, name)
}

// Class is what a global stands for. The value of the global itself is the *Class.
type Class struct {
	// Name is what messages call it.
	Name string
	// Make returns the instance that the class, called with args, gives; nil refuses to make one. It must not do anything
	// else: a pickle decides when it is called and with what. What it returns may be a State.
	Make func(args Tuple) (any, error)
}

// State is an instance that takes over what its __getstate__ gave: a *Dict of attributes, or a Tuple.
type State interface {
	SetState(state any) error
}

// The values of a pickle are nil, bool, int64, float64, string, []byte, Tuple, *List, *Dict, *Class and what Make and
// Persistent return. They may refer to each other in circles.
type (
	// Tuple is an immutable sequence.
	Tuple []any
	// List is a list or, with the elements in the order of the pickle, a set.
	List struct{ Items []any }
	// Dict has the pairs in the order of the pickle; a key may be there twice, and the last one counts.
	Dict struct{ Pairs []Pair }
	// Pair is a key and its value.
	Pair struct{ Key, Value any }
)

// CheckKey refuses what is not to be the key of a dict or an element of a set: containers, but for a tuple of values that are none. Whoever
// unpickles the same with Python hashes it, which of tuples in tuples can take for ever, and more stack than there is.
func CheckKey(key any) error {
	switch key := key.(type) {
	case *List, *Dict:
		return fmt.Errorf("%w: a key that is %s", ErrForbidden, describe(key))
	case Tuple:
		for _, k := range key {
			switch k.(type) {
			case *List, *Dict, Tuple:
				return fmt.Errorf("%w: a key that is a tuple with %s in it", ErrForbidden, describe(k))
			}
		}
	}
	return nil
}

var (
	// ErrFormat: the bytes are no pickle that this package reads.
	ErrFormat = errors.New("not a valid pickle")
	// ErrForbidden: the pickle asks for a global, a call or an opcode that is not allowed.
	ErrForbidden = errors.New("the pickle asks for something that is not allowed")
)

// Error says where in a pickle what is wrong. It matches ErrFormat or ErrForbidden.
type Error struct {
	// Off is the offset of the opcode.
	Off int
	// Problem says what is there.
	Problem string
	kind    error
	cause   error
}

func (e *Error) Error() string {
	text := fmt.Sprintf("pickle: byte %d: %s", e.Off, e.Problem)
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	return text
}

// Unwrap returns the sentinel and what Make, SetState or Persistent said.
func (e *Error) Unwrap() []error {
	if e.cause != nil {
		return []error{e.kind, e.cause}
	}
	return []error{e.kind}
}

const (
	// spare and perByte bound the memory that values of a pickle take: what torch and Megatron write needs up to ten bytes for
	// each byte of the pickle, and a hostile one may not take more than it could.
	spare   = 1 << 20
	perByte = 32
	// maxMarks bounds how deep unfinished containers are nested.
	maxMarks = 1000
)

// Load builds the value of a pickle, behind which nothing may follow. It reads data twice: the first time it checks every opcode
// and finds out which values are asked for again, so that the second time nothing else is kept. The values take at most about 32
// bytes for each byte of data and do not refer to data. What is wrong is an *Error, which names the global or opcode that was
// refused.
func Load(data []byte, o Options) (any, error) {
	v, n, err := LoadPrefix(data, o)
	if err == nil && n < len(data) {
		return nil, &Error{Off: n, Problem: fmt.Sprintf("%d bytes behind the pickle's end", len(data)-n), kind: ErrFormat}
	}
	return v, err
}

// LoadPrefix is Load for a pickle that something follows. It returns how many bytes the pickle has; a pickle that does not end
// within data matches io.ErrUnexpectedEOF too.
func LoadPrefix(data []byte, o Options) (any, int, error) {
	w := walker{data: data}
	kept, err := w.survey(o)
	if err != nil {
		return nil, 0, err
	}
	m := &machine{
		walker: walker{data: data[:w.pos]}, o: o, kept: kept, memo: map[int]any{}, texts: map[string]string{},
		left: spare + perByte*int64(w.pos),
	}
	v, err := m.run()
	return v, w.pos, err
}
