package pickle

import (
	"bytes"
	"encoding/binary"
	"math"
	"unicode/utf8"
)

// machine is a pickle that is being built.
type machine struct {
	walker
	o     Options
	kept  bits
	memo  map[int]any // of those kept
	puts  int
	stack []any
	marks []int             // where in stack they are
	texts map[string]string // short texts, each once
	left  int64             // bytes that values may still take
}

// maxText is the longest text that is looked up in texts.
const maxText = 256

// run builds the value.
func (m *machine) run() (any, error) {
	for {
		if err := m.next(); err != nil {
			return nil, err
		}
		if m.code == '.' {
			if len(m.stack) != 1 || len(m.marks) != 0 {
				return nil, m.fail(ErrFormat, "STOP with %d values and %d marks", len(m.stack), len(m.marks))
			}
			return m.stack[0], nil
		}
		if err := m.step(); err != nil {
			return nil, err
		}
	}
}

// step does what one opcode says.
func (m *machine) step() error {
	switch m.code {
	case 0x80, 0x95: // PROTO, FRAME: the survey checked them
		return nil
	case '(':
		if len(m.marks) >= maxMarks {
			return m.fail(ErrFormat, "containers nested more than %d deep", maxMarks)
		}
		m.marks = append(m.marks, len(m.stack))
		return nil
	case 'q', 'r', 0x94: // BINPUT, LONG_BINPUT, MEMOIZE
		return m.put()
	case 'h', 'j': // BINGET, LONG_BINGET
		return m.push(0, m.memo[int(m.num)]) // the survey saw that it was written before
	case 'a', 'e', 's', 'u', 0x90, 'b': // APPEND, APPENDS, SETITEM, SETITEMS, ADDITEMS, BUILD
		return m.change()
	case 'c', 0x93, 'R', 0x81, 'Q': // GLOBAL, STACK_GLOBAL, REDUCE, NEWOBJ, BINPERSID
		return m.instance()
	case 't', 0x85, 0x86, 0x87, 0x91: // TUPLE, TUPLE1, TUPLE2, TUPLE3, FROZENSET
		return m.sequence()
	}
	return m.plain()
}

// plain pushes the values that stand for themselves.
func (m *machine) plain() error {
	switch m.code {
	case 'N':
		return m.push(0, nil)
	case 0x88, 0x89: // NEWTRUE, NEWFALSE
		return m.push(0, m.code == 0x88)
	case 'K', 'M', 'J': // BININT1, BININT2, BININT
		v := int64(m.num)
		if m.code == 'J' {
			v = int64(int32(m.num))
		}
		return m.push(8, v)
	case 0x8a: // LONG1
		return m.long()
	case 'G': // BINFLOAT
		return m.push(8, math.Float64frombits(m.num))
	case 'X', 0x8c, 0x8d: // BINUNICODE, SHORT_BINUNICODE, BINUNICODE8
		return m.text()
	case 'B', 'C', 0x8e: // BINBYTES, SHORT_BINBYTES, BINBYTES8
		return m.push(24+len(m.raw), bytes.Clone(m.raw))
	case ')':
		return m.push(0, Tuple(nil))
	case ']', 0x8f: // EMPTY_LIST, EMPTY_SET
		return m.push(24, &List{})
	case '}':
		return m.push(24, &Dict{})
	}
	return m.fail(ErrForbidden, "opcode %s is refused", opcodes[m.code].name)
}

// push takes bytes from what is left and puts v on the stack, which takes some too when it grows.
func (m *machine) push(bytes int, v any) error {
	if len(m.stack) == cap(m.stack) {
		bytes += 16 * len(m.stack)
	}
	if err := m.pay(bytes); err != nil {
		return err
	}
	m.stack = append(m.stack, v)
	return nil
}

func (m *machine) pay(bytes int) error {
	if m.left -= int64(bytes); m.left < 0 {
		return m.fail(ErrFormat, "values take more memory than anything that is written by torch: at most %d bytes for each of the pickle", perByte)
	}
	return nil
}

// floor is the part of the stack that the innermost container has not marked off.
func (m *machine) floor() int {
	if len(m.marks) == 0 {
		return 0
	}
	return m.marks[len(m.marks)-1]
}

// pop takes n values off the stack. They are valid until the next push.
func (m *machine) pop(n int) ([]any, error) {
	if len(m.stack)-m.floor() < n {
		return nil, m.fail(ErrFormat, "%s needs %d values, and the stack has fewer", opcodes[m.code].name, n)
	}
	at := len(m.stack) - n
	taken := m.stack[at:]
	m.stack = m.stack[:at]
	return taken, nil
}

// popMark takes all values down to the last mark. They are valid until the next push.
func (m *machine) popMark() ([]any, error) {
	if len(m.marks) == 0 {
		return nil, m.fail(ErrFormat, "%s without a mark", opcodes[m.code].name)
	}
	at := m.floor()
	m.marks = m.marks[:len(m.marks)-1]
	taken := m.stack[at:]
	m.stack = m.stack[:at]
	return taken, nil
}

func (m *machine) put() error {
	n := m.puts
	if m.code != 0x94 { // not MEMOIZE
		n = int(m.num)
	}
	m.puts = max(m.puts, n+1)
	if len(m.stack) == m.floor() {
		return m.fail(ErrFormat, "%s of an empty stack", opcodes[m.code].name)
	}
	if !m.kept.has(n) {
		return nil
	}
	m.memo[n] = m.stack[len(m.stack)-1]
	return m.pay(48)
}

// long pushes an integer of up to 8 bytes, more than which no size or offset has.
func (m *machine) long() error {
	if len(m.raw) > 8 {
		return m.fail(ErrFormat, "an integer of %d bytes: at most 8 are read", len(m.raw))
	}
	var wide [8]byte
	if n := copy(wide[:], m.raw); n > 0 && m.raw[n-1]&0x80 != 0 {
		for i := n; i < 8; i++ {
			wide[i] = 0xff
		}
	}
	return m.push(8, int64(binary.LittleEndian.Uint64(wide[:])))
}

func (m *machine) text() error {
	if len(m.raw) > maxText {
		if !utf8.Valid(m.raw) {
			return m.fail(ErrFormat, "a text that is not UTF-8")
		}
		return m.push(16+len(m.raw), string(m.raw))
	}
	known, ok := m.texts[string(m.raw)]
	if !ok {
		if !utf8.Valid(m.raw) {
			return m.fail(ErrFormat, "a text that is not UTF-8")
		}
		known = string(m.raw)
		m.texts[known] = known
		if err := m.pay(len(known) + 48); err != nil {
			return err
		}
	}
	return m.push(16, known)
}

// sequence makes a tuple or a frozen set of values on the stack.
func (m *machine) sequence() error {
	var items []any
	var err error
	if n := int(m.code) - 0x84; n >= 1 && n <= 3 { // TUPLE1 to TUPLE3
		items, err = m.pop(n)
	} else {
		items, err = m.popMark()
	}
	if err != nil {
		return err
	}
	if err := m.pay(24 + 16*len(items)); err != nil {
		return err
	}
	own := append([]any(nil), items...)
	if m.code == 0x91 { // FROZENSET
		if err := m.hash(own); err != nil {
			return err
		}
		return m.push(0, &List{Items: own})
	}
	return m.push(0, Tuple(own))
}
