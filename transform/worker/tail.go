package worker

import (
	"strings"
	"sync"
	"unicode"
)

// tailBytes is how much of a worker's standard error is kept: a stack trace's head would be nicer, but its
// end is what a linker, a shell or a short message leaves.
const tailBytes = 2 << 10

// tail is a Writer that keeps the last tailBytes. It is safe for concurrent use.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b[max(0, len(b)-tailBytes):]...)
	t.text = t.text[max(0, len(t.text)-tailBytes):]
	return len(b), nil
}

// String returns the text on one line, printable.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return printable(string(t.text))
}

// printable returns what a worker said on one line and without control characters: it may have been made to say
// anything, and it ends up in terminals and logs.
func printable(s string) string {
	line := strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ")
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, line)
}
