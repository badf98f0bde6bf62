package sampler

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
			return fmt.Errorf("%s: %w", m.key, err)
		}
	}
	return nil
}

// readObject returns the values of a JSON object by key. Without members, every key is known.
func readObject(data []byte, members []member) (map[string]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.Join(errors.New("not a JSON object"), err)
	}
	values := make(map[string]json.RawMessage, len(members))
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("no JSON from byte %d on: %w", dec.InputOffset(), err)
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
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		values[key] = raw
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
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
