package transform

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// MaxPlanBytes is the size of the largest plan that is read. A plan of a dozen operators has about 1 KB; the
// rest is head-room.
const MaxPlanBytes = 64 << 10

// The other limits of plan JSON, against input made to exhaust memory or the stack.
const (
	maxPlanDepth = 7 // plan, ops, operator, its operators, operator, parameter, its numbers, one spare
	maxOps       = 64
	maxSize      = 65535 // pixels a side, the largest a JPEG can have
)

func planError(op, format string, args ...any) error {
	return &Error{Kind: KindPlan, Op: op, Detail: fmt.Sprintf(format, args...)}
}

const parseOp = "plan"

// parseTree reads one JSON value into map[string]any, []any, json.Number, string, bool and nil. Unlike
// json.Unmarshal it refuses doubled keys and deep nesting.
func parseTree(data []byte) (any, error) {
	if len(data) > MaxPlanBytes {
		return nil, planError(parseOp, "%d bytes are more than the limit of %d", len(data), MaxPlanBytes)
	}
	var syntax json.RawMessage
	if err := json.Unmarshal(data, &syntax); err != nil {
		return nil, planError(parseOp, "not JSON: %v", err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return parseValue(dec, 0)
}

func parseValue(dec *json.Decoder, depth int) (any, error) {
	if depth > maxPlanDepth {
		return nil, planError(parseOp, "nested deeper than %d at byte %d", maxPlanDepth, dec.InputOffset())
	}
	tok, err := dec.Token()
	if err != nil {
		return nil, planError(parseOp, "not JSON: %v", err)
	}
	switch tok {
	case json.Delim('{'):
		return parseObject(dec, depth)
	case json.Delim('['):
		return parseArray(dec, depth)
	}
	return tok, nil
}

func parseObject(dec *json.Decoder, depth int) (any, error) {
	obj := map[string]any{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, planError(parseOp, "not JSON: %v", err)
		}
		key, _ := tok.(string)
		if _, double := obj[key]; double {
			return nil, planError(parseOp, "key %q occurs twice in one object, at byte %d", key, dec.InputOffset())
		}
		if obj[key], err = parseValue(dec, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := dec.Token()
	return obj, err
}

func parseArray(dec *json.Decoder, depth int) (any, error) {
	list := []any{}
	for dec.More() {
		v, err := parseValue(dec, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := dec.Token()
	return list, err
}
