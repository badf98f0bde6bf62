package token

import (
	"fmt"
	"unicode/utf8"
)

// reader takes Hadoop's Writable forms from the start of data. After an error everything is zero.
type reader struct {
	data []byte
	at   int
	err  error
}

func (r *reader) failf(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("at byte %d: "+format, append([]any{r.at}, args...)...)
	}
}

// take returns the next n bytes, which lie in data.
func (r *reader) take(n int64) []byte {
	if r.err == nil && (n < 0 || n > int64(len(r.data)-r.at)) {
		r.failf("%d bytes are announced, %d are there", n, len(r.data)-r.at)
	}
	if r.err != nil {
		return nil
	}
	b := r.data[r.at : r.at+int(n)]
	r.at += int(n)
	return b
}

func (r *reader) byte() byte {
	if b := r.take(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

// vlong is WritableUtils.readVLong: small numbers are one byte; else it says how many bytes follow, and the sign.
func (r *reader) vlong() int64 {
	first := int8(r.byte())
	if first >= -112 {
		return int64(first)
	}
	n, negative := -112-int64(first), false
	if first < -120 {
		n, negative = -120-int64(first), true
	}
	var v int64
	for _, b := range r.take(n) {
		v = v<<8 | int64(b)
	}
	if negative {
		return ^v
	}
	return v
}

// vbytes is a length and as many bytes.
func (r *reader) vbytes() []byte { return r.take(r.vlong()) }

// text is Hadoop's Text.
func (r *reader) text() string {
	b := r.vbytes()
	if !utf8.Valid(b) {
		r.failf("a text is not UTF-8")
		return ""
	}
	return string(b)
}
