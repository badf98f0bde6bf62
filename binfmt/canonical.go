package binfmt

import (
	"fmt"
	"strconv"
)

// Canonical returns the canonical JSON of the manifest: sorted keys, no spaces, text as UTF-8 with
// only the escapes that JSON demands, no newline at the end. It is also what dataset.json contains,
// so that the SHA-256 of that file is the dataset's identity.
func (m *Manifest) Canonical() []byte {
	b := make([]byte, 0, 256+200*len(m.Bins))
	b = append(b, `{"bins":[`...)
	for i, bin := range m.Bins {
		b = comma(b, i)
		b = append(b, `{"bytes":`...)
		b = strconv.AppendInt(b, bin.Bytes, 10)
		b = bin.Foreign.appendTo(b)
		b = append(b, `,"index_sha256":`...)
		b = appendJSONString(b, bin.IndexSHA256)
		b = append(b, `,"name":`...)
		b = appendJSONString(b, bin.Name)
		b = append(b, `,"samples":`...)
		b = strconv.AppendInt(b, bin.Samples, 10)
		b = append(b, `,"uuid":`...)
		b = appendJSONString(b, bin.UUID)
		b = append(b, '}')
	}
	b = append(b, `],"classes":[`...)
	for i, c := range m.Classes {
		b = appendJSONString(comma(b, i), c)
	}
	b = append(b, `],"fields":[`...)
	for i, f := range m.Fields {
		b = append(comma(b, i), '{')
		if f.Dtype != "" {
			b = append(b, `"dtype":`...)
			b = append(appendJSONString(b, f.Dtype), ',')
		}
		b = append(b, `"kind":`...)
		b = appendJSONString(b, string(f.Kind))
		b = append(b, `,"name":`...)
		b = appendJSONString(b, f.Name)
		b = append(b, '}')
	}
	b = append(b, `],"format":`...)
	b = strconv.AppendInt(b, int64(m.Format), 10)
	return append(b, '}')
}

// appendTo appends the key foreign, if there is one.
func (f *Foreign) appendTo(b []byte) []byte {
	if f == nil {
		return b
	}
	b = append(b, `,"foreign":{"container":`...)
	b = appendJSONString(b, f.Container)
	b = append(b, `,"identity":`...)
	b = appendJSONString(b, f.Identity)
	b = append(b, `,"path":`...)
	b = appendJSONString(b, f.Path)
	if f.Policy != "" {
		b = append(b, `,"policy":`...)
		b = appendJSONString(b, f.Policy)
	}
	return append(b, '}')
}

func comma(b []byte, i int) []byte {
	if i == 0 {
		return b
	}
	return append(b, ',')
}

// appendJSONString quotes s as Python's json.dumps(s, ensure_ascii=False) does. encoding/json
// escapes more (U+2028, U+2029), which another implementation would have to know.
func appendJSONString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c == '\b':
			b = append(b, `\b`...)
		case c == '\f':
			b = append(b, `\f`...)
		case c < 0x20:
			b = fmt.Appendf(b, `\u%04x`, c)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
