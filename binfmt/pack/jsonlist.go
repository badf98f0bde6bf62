package pack

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/stepahead-io/stepahead/binfmt"
)

func readJSONL(r io.Reader, t *table) error {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 0, 64<<10), maxRecord)
	var names []string // of the first line, sorted: the columns
	line := 0
	for in.Scan() {
		line++
		if len(bytes.TrimSpace(in.Bytes())) == 0 {
			continue
		}
		object, err := parseObject(in.Bytes())
		if err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
		if names == nil {
			for n := range object {
				names = append(names, n)
			}
			slices.Sort(names)
			if _, err := t.header(names); err != nil {
				return fmt.Errorf("line %d: %w", line, err)
			}
		}
		if err := t.jsonRow(line, names, object); err != nil {
			return err
		}
	}
	if errors.Is(in.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("line %d has more than %d bytes", line+1, maxRecord)
	}
	if in.Err() == nil && names == nil {
		return errors.New("the list is empty")
	}
	return in.Err()
}

func (t *table) jsonRow(line int, names []string, object map[string]binfmt.Value) error {
	if len(object) > len(names) {
		for n := range object {
			if !slices.Contains(names, n) {
				return fmt.Errorf("line %d: %q is not in the first line: every line has the same keys", line, n)
			}
		}
	}
	values := make([]binfmt.Value, 0, len(t.columns))
	for _, c := range t.columns {
		v, ok := object[c.name]
		if !ok {
			return fmt.Errorf("line %d: %q is missing: every line has the same keys", line, c.name)
		}
		values = append(values, v)
	}
	file, ok := object[t.pathColumn]
	if !ok || file.Kind != binfmt.UTF8 {
		return fmt.Errorf("line %d: %q is missing or not text", line, t.pathColumn)
	}
	return t.row(line, file.Str, values)
}

// parseObject reads one flat object. encoding/json takes the last of two equal keys and replaces
// bytes that are not UTF-8; here both are errors.
func parseObject(text []byte) (map[string]binfmt.Value, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("not UTF-8")
	}
	if !json.Valid(text) {
		var any json.RawMessage
		return nil, fmt.Errorf("not valid JSON: %w", json.Unmarshal(text, &any))
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, errors.New("not an object: a line is {\"path\": ..., ...}")
	}
	object := make(map[string]binfmt.Value)
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name := key.(string)
		if _, ok := object[name]; ok {
			return nil, fmt.Errorf("key %q occurs twice", name)
		}
		tok, err := dec.Token()
		if err != nil {
			return nil, err
		}
		if object[name], err = jsonValue(tok); err != nil {
			return nil, fmt.Errorf("%q: %w", name, err)
		}
	}
	return object, nil
}

func jsonValue(tok json.Token) (binfmt.Value, error) {
	switch v := tok.(type) {
	case string:
		return binfmt.Value{Kind: binfmt.UTF8, Str: v}, nil
	case bool:
		return binfmt.Value{Kind: binfmt.Bool, Bool: v}, nil
	case json.Number:
		if n, ok := parseNumber(v.String()); ok {
			return n, nil
		}
		return binfmt.Value{}, fmt.Errorf("the number %s does not fit into 64 bits", v)
	case nil:
		return binfmt.Value{}, errors.New("the value is missing (null): every sample has every value")
	}
	return binfmt.Value{}, errors.New("lists and objects are no scalars")
}
