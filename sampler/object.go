package sampler

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"
)

// A member is a key of a JSON object and where its value goes.
type member struct {
	key  string
	into any
	need need
}

type need bool

const (
	required need = true
	optional need = false
)

// parseObject reads one JSON object and nothing after it. It is stricter than encoding/json: keys
// match exactly, none is unknown or given twice, null is no value, and what is required is there.
func parseObject(data []byte, members []member) error {
	values, err := readObject(data, members)
	if err != nil {
		return err
	}
	for _, m := range members {
		raw, ok := values[m.key]
		if !ok {
			if m.need == required {
				return fmt.Errorf("%s: missing", m.key)
			}
			continue
		}
		if string(raw) == "null" {
			return fmt.Errorf("%s: null is not a value: leave the key out or give one", m.key)
		}
		if err := json.Unmarshal(raw, m.into); err != nil {
			return fmt.Errorf("%s: %w", m.key, plainly(err))
		}
		if text, ok := m.into.(*string); ok && isBroken(raw, *text) {
			return fmt.Errorf("%s: %s: half of a surrogate pair stands for no character", m.key, raw)
		}
	}
	return nil
}

// isBroken tells whether JSON text has an escape such as \ud800, for which encoding/json puts U+FFFD.
func isBroken(raw []byte, text string) bool {
	written := strings.Count(string(raw), "\uFFFD") + strings.Count(strings.ToLower(string(raw)), `\ufffd`)
	return strings.Count(text, "\uFFFD") > written
}

// plainly says what is wrong with JSON without the names of Go's types.
func plainly(err error) error {
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		return fmt.Errorf("%s: must be %s", wrong.Value, kindOf(wrong.Type))
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON ends too early")
	}
	return err
}

func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		return "a whole number from -2^63 to 2^63-1"
	case reflect.Uint64:
		return "a whole number from 0 to 2^64-1"
	case reflect.Float64:
		return "a number"
	case reflect.String:
		return "a text"
	case reflect.Slice:
		return "a list"
	}
	return "another value"
}

// readObject returns the values of a JSON object by key. Without members, every key is known.
func readObject(data []byte, members []member) (map[string]json.RawMessage, error) {
	if !utf8.Valid(data) { // encoding/json would put other characters in its place
		return nil, errors.New("not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	switch t, err := dec.Token(); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("empty: not a JSON object")
	case err != nil:
		return nil, fmt.Errorf("not a JSON object: %w", err)
	case t != json.Delim('{'):
		return nil, errors.New("not a JSON object")
	}
	values := make(map[string]json.RawMessage, len(members))
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("no JSON from byte %d on: %w", dec.InputOffset(), plainly(err))
		}
		key, _ := t.(string) // inside an object, a token before a value is its key
		if members != nil && !hasKey(members, key) {
			return nil, fmt.Errorf("unknown key %q", key)
		}
		if _, twice := values[key]; twice {
			return nil, fmt.Errorf("%s: given twice", key)
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, fmt.Errorf("%s: %w", key, plainly(err))
		}
		values[key] = raw
	}
	if _, err := dec.Token(); err != nil {
		return nil, plainly(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more data after the JSON object")
	}
	return values, nil
}

func hasKey(members []member, key string) bool {
	for _, m := range members {
		if m.key == key {
			return true
		}
	}
	return false
}

// marshal writes v, a struct of ours that cannot fail, without spaces and without HTML escapes.
func marshal(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("sampler: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
