package worker

import (
	"strings"
	"testing"
)

// A crash names itself first, and a linker last; what lies between is left out, and said to be.
func TestLastWordsHaveTheirBeginningAndEnd(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"cannot open libjpeg", "cannot open libjpeg"},
		{"fatal error: out of memory" + strings.Repeat("\ngoroutine", 1000) + "\nlast", "last"},
	} {
		for _, piece := range []int{1, 7, 100_000} {
			var w tail
			for b := []byte(c.text); len(b) > 0; {
				n, _ := w.Write(b[:min(piece, len(b))])
				b = b[n:]
			}
			got := w.String()
			if !strings.HasPrefix(got, c.text[:min(26, len(c.text))]) || !strings.HasSuffix(got, c.want) || len(got) > headBytes+tailBytes+5 ||
				strings.Contains(got, " ... ") != (len(c.text) > headBytes+tailBytes) {
				t.Errorf("in pieces of %d: %q", piece, got)
			}
		}
	}
}
