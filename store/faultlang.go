package store

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	maxFaultText = 64 << 10
	maxFaultWait = int64(24 * time.Hour / time.Millisecond)
)

// ParseFaults reads faults, one a line or separated by semicolons; a line that starts with # is a comment.
//
//	fail(op=read, path=*.bin, nth=3)                    the third read of a .bin fails
//	fail(op=write, path=/out/*, err=full)               the disk is full
//	delay(op=open, ms=250, nth=2, count=5)              the second to sixth open take 250 ms longer
//	corrupt(op=read, path=*.bin, offset=4096, node=dn1) dn1's replica has a wrong byte at offset 4096
//	short(op=read, nth=1)                               the first read breaks off in the middle
//
// A value that holds spaces, quotes, commas, brackets, '#', '=' or ';' is written as a quoted Go string. An
// error names the line and what is wrong with it.
func ParseFaults(text string) ([]Fault, error) {
	if len(text) > maxFaultText {
		return nil, fmt.Errorf("store.ParseFaults: %d bytes are more than %d", len(text), maxFaultText)
	}
	var faults []Fault
	for i, line := range strings.Split(text, "\n") {
		p := faultParser{rest: line}
		for p.skipSpace(); p.rest != "" && p.rest[0] != '#'; p.skipSpace() {
			f, err := p.fault()
			if err == nil {
				err = f.Validate()
			}
			if err != nil {
				return nil, fmt.Errorf("store.ParseFaults: line %d: %w", i+1, err)
			}
			faults = append(faults, f)
			p.skipSpace()
			if p.rest != "" && p.rest[0] != '#' && !p.take(";") {
				return nil, fmt.Errorf("store.ParseFaults: line %d: at %.20q: expected ';' or the end of the line", i+1, p.rest)
			}
		}
	}
	return faults, nil
}

// faultParser reads one line.
type faultParser struct{ rest string }

func (p *faultParser) skipSpace() { p.rest = strings.TrimLeft(p.rest, " \t\r") }

func (p *faultParser) take(token string) bool {
	p.skipSpace()
	rest, ok := strings.CutPrefix(p.rest, token)
	p.rest = rest
	return ok
}

// word reads a quoted string, or what comes before the next special character.
func (p *faultParser) word() (string, error) {
	p.skipSpace()
	if strings.HasPrefix(p.rest, `"`) {
		quoted, err := strconv.QuotedPrefix(p.rest)
		if err != nil {
			return "", fmt.Errorf("at %.20q: a quoted string does not end", p.rest)
		}
		p.rest = p.rest[len(quoted):]
		return strconv.Unquote(quoted)
	}
	end := strings.IndexFunc(p.rest, special)
	if end < 0 {
		end = len(p.rest)
	}
	word := p.rest[:end]
	p.rest = p.rest[end:]
	return word, nil
}

func special(r rune) bool {
	return strings.ContainsRune(" \t\r\n\"'`,()#=;\\", r) || r < ' ' || r == 0xfffd
}

func (p *faultParser) fault() (Fault, error) {
	kind, err := p.word()
	if err != nil {
		return Fault{}, err
	}
	f := Fault{Kind: kind}
	if !p.take("(") {
		return f, fmt.Errorf("%q: expected '(' after it: write for example fail(op=read)", kind)
	}
	given := map[string]bool{}
	for !p.take(")") {
		if len(given) > 0 && !p.take(",") {
			return f, fmt.Errorf("at %.20q: expected ',' or ')'", p.rest)
		}
		key, err := p.word()
		if err != nil {
			return f, err
		}
		if given[key] || !p.take("=") {
			return f, fmt.Errorf("key %q: given twice, or not followed by '='", key)
		}
		given[key] = true
		value, err := p.word()
		if err == nil {
			err = f.set(key, value)
		}
		if err != nil {
			return f, err
		}
	}
	return f, nil
}

func (f *Fault) set(key, value string) error {
	var err error
	var n int64
	switch key {
	case "op":
		f.Op = value
	case "path":
		f.Path = value
	case "node":
		f.Node = value
	case "err":
		f.Err = value
	case "nth":
		f.Nth, err = strconv.Atoi(value)
	case "count":
		f.Count, err = strconv.Atoi(value)
	case "ms":
		if n, err = strconv.ParseInt(value, 10, 64); n > maxFaultWait {
			return fmt.Errorf("ms=%s: more than a day", value)
		}
		f.Delay = time.Duration(n) * time.Millisecond
	case "offset":
		f.Offset, err = strconv.ParseInt(value, 10, 64)
	default:
		return fmt.Errorf("key %q: known are op, path, node, nth, count, err, ms and offset", key)
	}
	if err != nil {
		return fmt.Errorf("%s=%s: not a whole number", key, value)
	}
	if value == "" {
		return fmt.Errorf("key %q: no value", key)
	}
	return nil
}

// Validate returns all that is wrong with f.
func (f Fault) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !slices.Contains([]string{"fail", "delay", "corrupt", "short"}, f.Kind) {
		bad("kind %q: known are fail, delay, corrupt and short", f.Kind)
	}
	if f.Op != "" && !slices.Contains(operationNames[:], f.Op) {
		bad("op=%s: known are %s", f.Op, strings.Join(operationNames[:], ", "))
	}
	if f.Kind == "corrupt" && f.Op != "" && f.Op != "read" {
		bad("corrupt(op=%s): only reads can be corrupted", f.Op)
	}
	if f.Kind == "short" && f.Op != "" && f.Op != "read" && f.Op != "write" {
		bad("short(op=%s): only reads and writes can be short", f.Op)
	}
	if _, err := path.Match(f.Path, ""); err != nil {
		bad("path=%s: not a pattern: %v", f.Path, err)
	}
	if f.Nth < 0 || f.Count < 0 || f.Offset < 0 || f.Delay < 0 {
		bad("nth, count, offset and ms must not be negative")
	}
	if f.Count > 0 && f.Nth == 0 {
		bad("count=%d: needs nth", f.Count)
	}
	if _, known := faultErrors[f.Err]; f.Err != "" && (!known || f.Kind != "fail") {
		bad("err=%s: for fail only, one of unavailable, permanent, permission, not-found, corrupt, identity, full, quota, unsupported", f.Err)
	}
	if (f.Kind == "delay") != (f.Delay > 0) || f.Delay%time.Millisecond != 0 {
		bad("ms: delay needs it, at least 1, and no other kind takes it")
	}
	if f.Offset > 0 && f.Kind != "corrupt" {
		bad("offset=%d: for corrupt only", f.Offset)
	}
	return errors.Join(errs...)
}

// String writes f so that ParseFaults reads the same Fault.
func (f Fault) String() string {
	var parts []string
	add := func(key, value string) { parts = append(parts, key+"="+value) }
	for _, p := range [][2]string{{"op", f.Op}, {"path", f.Path}, {"node", f.Node}, {"err", f.Err}} {
		if p[1] != "" {
			add(p[0], quoteFault(p[1]))
		}
	}
	if f.Delay != 0 {
		add("ms", strconv.FormatInt(f.Delay.Milliseconds(), 10))
	}
	if f.Kind == "corrupt" {
		add("offset", strconv.FormatInt(f.Offset, 10))
	}
	if f.Nth != 0 {
		add("nth", strconv.Itoa(f.Nth))
	}
	if f.Count != 0 {
		add("count", strconv.Itoa(f.Count))
	}
	return f.Kind + "(" + strings.Join(parts, ", ") + ")"
}

func quoteFault(s string) string {
	if strings.ContainsFunc(s, special) {
		return strconv.Quote(s)
	}
	return s
}
