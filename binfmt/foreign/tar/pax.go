package tar

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// records are what an extended header says of the member after it. Only what matters to us is kept.
type records struct {
	path    string
	hasPath bool
	size    int64
	hasSize bool
	sparse  bool
}

// parsePax reads the records "<length> <key>=<value>\n", whose length counts all of the record.
func parsePax(b []byte) (r records, err error) {
	for len(b) > 0 {
		key, value, rest, err := paxRecord(b)
		if err != nil {
			return r, err
		}
		if err := r.set(key, value); err != nil {
			return r, err
		}
		b = rest
	}
	return r, nil
}

func paxRecord(b []byte) (key, value string, rest []byte, err error) {
	bad := func(what string) error { return fmt.Errorf("a record that starts with %.32q %s", b, what) }
	digits, after, ok := bytes.Cut(b[:min(len(b), 21)], []byte(" "))
	if !ok {
		return "", "", nil, bad("has no length")
	}
	n, err := strconv.ParseUint(string(digits), 10, 31)
	if err != nil || len(after) == 0 && int(n) > len(b) || int(n) <= len(digits)+1 || int(n) > len(b) {
		return "", "", nil, bad(fmt.Sprintf("has %q as its length, %d bytes are left", digits, len(b)))
	}
	body := string(b[len(digits)+1 : n])
	line, ok := strings.CutSuffix(body, "\n")
	if !ok {
		return "", "", nil, bad("does not end in a newline")
	}
	key, value, ok = strings.Cut(line, "=")
	if !ok || key == "" {
		return "", "", nil, bad("has no key")
	}
	return key, value, b[n:], nil
}

func (r *records) set(key, value string) error {
	switch {
	case key == "path":
		if i := strings.IndexByte(value, 0); i >= 0 {
			return fmt.Errorf("the path %.100q has a zero byte", value)
		}
		r.path, r.hasPath = strings.TrimRight(value, "/"), value != "" // an empty value deletes the key
	case key == "size":
		if value == "" {
			r.hasSize = false
			return nil
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 {
			return fmt.Errorf("the size %.32q is no number of bytes", value)
		}
		r.size, r.hasSize = n, true
	case strings.HasPrefix(key, "GNU.sparse."):
		r.sparse = true
	}
	return nil
}

// over returns r with what is missing in it from inner, a record nearer to the member.
func (r records) over(inner records) records {
	if !r.hasPath {
		r.path, r.hasPath = inner.path, inner.hasPath
	}
	if !r.hasSize {
		r.size, r.hasSize = inner.size, inner.hasSize
	}
	r.sparse = r.sparse || inner.sparse
	return r
}
