package pickle

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// argument says what follows an opcode.
type argument uint8

const (
	none argument = iota
	u8
	u16
	i32
	u32
	f64
	u64
	text1  // a length of one byte, and so many bytes
	text4  // a length of four bytes
	text8  // a length of eight bytes
	lines2 // two lines
	refused
)

// opcode is one instruction of a pickle.
type opcode struct {
	name string
	arg  argument
}

// opcodes are all that pickle knows. Those that its protocols 2 to 5 do not write, or that only make sense between processes,
// are refused.
var opcodes = [256]opcode{
	'(': {"MARK", none}, '.': {"STOP", none}, '0': {"POP", refused}, '1': {"POP_MARK", refused}, '2': {"DUP", refused},
	'F': {"FLOAT", refused}, 'I': {"INT", refused}, 'J': {"BININT", i32}, 'K': {"BININT1", u8}, 'L': {"LONG", refused},
	'M': {"BININT2", u16}, 'N': {"NONE", none}, 'P': {"PERSID", refused}, 'Q': {"BINPERSID", none}, 'R': {"REDUCE", none},
	'S': {"STRING", refused}, 'T': {"BINSTRING", refused}, 'U': {"SHORT_BINSTRING", refused}, 'V': {"UNICODE", refused},
	'X': {"BINUNICODE", text4}, 'a': {"APPEND", none}, 'b': {"BUILD", none}, 'c': {"GLOBAL", lines2}, 'd': {"DICT", refused},
	'}': {"EMPTY_DICT", none}, 'e': {"APPENDS", none}, 'g': {"GET", refused}, 'h': {"BINGET", u8}, 'i': {"INST", refused},
	'j': {"LONG_BINGET", u32}, 'l': {"LIST", refused}, ']': {"EMPTY_LIST", none}, 'o': {"OBJ", refused}, 'p': {"PUT", refused},
	'q': {"BINPUT", u8}, 'r': {"LONG_BINPUT", u32}, 's': {"SETITEM", none}, 't': {"TUPLE", none}, ')': {"EMPTY_TUPLE", none},
	'u': {"SETITEMS", none}, 'G': {"BINFLOAT", f64},
	0x80: {"PROTO", u8}, 0x81: {"NEWOBJ", none}, 0x82: {"EXT1", refused}, 0x83: {"EXT2", refused}, 0x84: {"EXT4", refused},
	0x85: {"TUPLE1", none}, 0x86: {"TUPLE2", none}, 0x87: {"TUPLE3", none}, 0x88: {"NEWTRUE", none}, 0x89: {"NEWFALSE", none},
	0x8a: {"LONG1", text1}, 0x8b: {"LONG4", refused},
	'B': {"BINBYTES", text4}, 'C': {"SHORT_BINBYTES", text1},
	0x8c: {"SHORT_BINUNICODE", text1}, 0x8d: {"BINUNICODE8", text8}, 0x8e: {"BINBYTES8", text8}, 0x8f: {"EMPTY_SET", none},
	0x90: {"ADDITEMS", none}, 0x91: {"FROZENSET", none}, 0x92: {"NEWOBJ_EX", refused}, 0x93: {"STACK_GLOBAL", none},
	0x94: {"MEMOIZE", none}, 0x95: {"FRAME", u64}, 0x96: {"BYTEARRAY8", refused}, 0x97: {"NEXT_BUFFER", refused},
	0x98: {"READONLY_BUFFER", refused},
}

// widths are the lengths of arguments of a fixed length.
var widths = [...]int{none: 0, u8: 1, u16: 2, i32: 4, u32: 4, f64: 8, u64: 8, text1: 1, text4: 4, text8: 8}

// walker goes through a pickle opcode by opcode.
type walker struct {
	data []byte
	pos  int // behind the last opcode and its argument
	at   int // the last opcode
	code byte
	num  uint64 // its number, or the length of raw
	raw  []byte // its bytes, a part of data
}

func (w *walker) fail(kind error, format string, args ...any) error {
	return &Error{Off: w.at, Problem: fmt.Sprintf(format, args...), kind: kind}
}

// because is a failure with its cause.
func (w *walker) because(cause error, format string, args ...any) error {
	return &Error{Off: w.at, Problem: fmt.Sprintf(format, args...), kind: ErrFormat, cause: cause}
}

// next reads one opcode and its argument, which lies in data.
func (w *walker) next() error {
	w.at = w.pos
	if w.pos >= len(w.data) {
		return w.because(io.ErrUnexpectedEOF, "the pickle ends without STOP")
	}
	w.code = w.data[w.pos]
	w.pos++
	op := &opcodes[w.code]
	if op.name == "" {
		return w.fail(ErrFormat, "%#02x is no opcode", w.code)
	}
	switch op.arg {
	case none:
		return nil
	case refused:
		return w.fail(ErrForbidden, "opcode %s is refused", op.name)
	case lines2:
		return w.lines()
	}
	return w.number(op)
}

func (w *walker) number(op *opcode) error {
	rest := w.data[w.pos:]
	n := widths[op.arg]
	if len(rest) < n {
		return w.cut(op)
	}
	switch n {
	case 1:
		w.num = uint64(rest[0])
	case 2:
		w.num = uint64(binary.LittleEndian.Uint16(rest))
	case 4:
		w.num = uint64(binary.LittleEndian.Uint32(rest))
	case 8:
		w.num = binary.LittleEndian.Uint64(rest)
	}
	w.pos += n
	rest = rest[n:]
	if op.arg < text1 {
		if op.arg == f64 {
			w.num = binary.BigEndian.Uint64(w.data[w.pos-n:])
		}
		return nil
	}
	if w.num > uint64(len(rest)) {
		return w.cut(op)
	}
	w.raw = rest[:w.num]
	w.pos += int(w.num)
	return nil
}

func (w *walker) cut(op *opcode) error {
	return w.because(io.ErrUnexpectedEOF, "what belongs to %s lies behind the end", op.name)
}

// lines reads the module and the name of GLOBAL into raw, with the line break between them.
func (w *walker) lines() error {
	rest := w.data[w.pos:]
	first := bytes.IndexByte(rest, '\n')
	second := -1
	if first >= 0 {
		second = bytes.IndexByte(rest[first+1:], '\n')
	}
	if second < 0 {
		return w.cut(&opcodes[w.code])
	}
	w.raw = rest[:first+1+second]
	w.pos += first + 1 + second + 1
	return nil
}
