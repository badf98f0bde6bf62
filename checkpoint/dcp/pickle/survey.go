package pickle

import "bytes"

// bits is a set of small numbers.
type bits []uint64

func (b bits) has(i int) bool { return i/64 < len(b) && b[i/64]>>(i%64)&1 != 0 }

func (b *bits) set(i int) {
	for len(*b) <= i/64 {
		*b = append(*b, 0)
	}
	(*b)[i/64] |= 1 << (i % 64)
}

// survey checks all opcodes and their arguments, and returns which entries of the memo are asked for. A pickle gives its memo
// numbers in order, whichever opcode it uses, so a number that is far away is refused.
func (w *walker) survey(o Options) (bits, error) {
	var kept bits
	puts := 0
	for {
		if err := w.next(); err != nil {
			return nil, err
		}
		switch name := opcodes[w.code].name; name {
		case "STOP":
			return kept, nil
		case "PROTO":
			if w.at != 0 || w.num < 2 || w.num > 5 {
				return nil, w.fail(ErrFormat, "protocol %d, and protocols 2 to 5 are read, said once at the start", w.num)
			}
		case "FRAME":
			if w.num > uint64(len(w.data)-w.pos) {
				return nil, w.cut(&opcodes[w.code])
			}
		case "GLOBAL":
			module, class, _ := bytes.Cut(w.raw, []byte("\n"))
			if o.class(string(module), string(class)) == nil {
				return nil, w.refuseGlobal(string(module), string(class))
			}
		case "BINPERSID":
			if o.Persistent == nil {
				return nil, w.fail(ErrForbidden, "opcode %s is refused", name)
			}
		case "BINPUT", "LONG_BINPUT":
			if w.num > uint64(puts) {
				return nil, w.fail(ErrFormat, "memo %d is written, and %d would be next", w.num, puts)
			}
			puts = max(puts, int(w.num)+1)
		case "MEMOIZE":
			puts++
		case "BINGET", "LONG_BINGET":
			if w.num >= uint64(puts) {
				return nil, w.fail(ErrFormat, "memo %d is read, and %d were written", w.num, puts)
			}
			kept.set(int(w.num))
		}
	}
}

func (w *walker) refuseGlobal(module, name string) error {
	const most = 200
	if len(module) > most || len(name) > most {
		module, name = module[:min(len(module), most)], name[:min(len(name), most)]+"..."
	}
	return w.fail(ErrForbidden, "global %q of module %q is refused", name, module)
}
