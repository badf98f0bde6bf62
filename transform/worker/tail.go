package worker

import (
	"strings"
	"sync"
	"unicode"
)

// headBytes and tailBytes are how much of a worker's standard error is kept: a crash says first what it is, and a linker or a
// shell says it last.
const headBytes, tailBytes = 512, 1536

// tail is a Writer that keeps the first headBytes and the last tailBytes. It is safe for concurrent use.
type tail struct {
	mu         sync.Mutex
	head, text []byte
	left       bool // something between the two was left out
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(len(b), headBytes-len(t.head))
	t.head = append(t.head, b[:n]...)
	t.text = append(t.text, b[n:]...)
	if more := len(t.text) - tailBytes; more > 0 {
		t.text, t.left = append(t.text[:0], t.text[more:]...), true
	}
	return len(b), nil
}

// String returns the text on one line, printable.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	between := ""
	if t.left {
		between = " ... "
	}
	return printable(string(t.head) + between + string(t.text))
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
