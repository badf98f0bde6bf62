package temporary

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/controller/plan"
)

func TestParse(t *testing.T) {
	m := raisedMark()
	data, err := m.Encode()
	must(t, err)
	if back, err := Parse(data); err != nil || !reflect.DeepEqual(back, m) {
		t.Errorf("%+v, %v", back, err)
	}
	text := string(data)
	for _, bad := range []struct{ name, text string }{
		{"empty", ""}, {"cut", text[:len(text)/2]}, {"two", text + text}, {"array", "[]"}, {"null", "null"},
		{"unknown key", strings.Replace(text, `"v"`, `"x":1,"v"`, 1)},
		{"version 0", strings.Replace(text, `"v":1`, `"v":0`, 1)},
		{"no number", strings.Replace(text, `"placement":7`, `"placement":0`, 1)},
		{"a path that is none", strings.Replace(text, `"path":"/sets/hot"`, `"path":"sets/hot"`, 1)},
		{"a place elsewhere", strings.Replace(text, DataFolder+"/c1-7", "/sets", 1)},
		{"another's place", strings.Replace(text, DataFolder+"/c1-7", DataFolder+"/c1-8", 1)},
		{"replicas", strings.Replace(text, `"replicas":3`, `"replicas":-3`, 1)},
		{"was alone", strings.Replace(text, `"raised":`, `"raised":null,"was":`, 1)},
		{"controller", strings.Replace(text, `"controller":"c1"`, `"controller":"../c1"`, 1)},
		{"ttl", strings.Replace(text, `"ttl_ns":36`, `"ttl_ns":-36`, 1)},
		{"a long handle", strings.Replace(text, `"number 5"`, `"`+strings.Repeat("5", 129)+`"`, 1)},
		{"large", text + strings.Repeat(" ", maxMark)},
	} {
		if bad.text == text {
			t.Fatalf("%s: nothing was changed", bad.name)
		}
		if _, err := Parse([]byte(bad.text)); !errors.Is(err, ErrMark) {
			t.Errorf("%s: %v", bad.name, err)
		}
	}
	if _, err := Parse([]byte(`{"v":2,"anything":[]}`)); !errors.Is(err, ErrVersion) {
		t.Errorf("%v", err)
	}
	m.Was, m.Raised = nil, nil
	if _, err := m.Encode(); !errors.Is(err, ErrMark) {
		t.Errorf("the handle of a file that is not raised: %v", err)
	}
	m.Path, m.File = "/\xff", ""
	if _, err := m.Encode(); !errors.Is(err, ErrMark) {
		t.Errorf("a name that JSON cannot hold: %v", err)
	}
}

// TestLargest: the largest mark can be written and read.
func TestLargest(t *testing.T) {
	m := raisedMark()
	long := strings.Repeat("\x01", maxText)
	m.Path, m.Identity, m.Job, m.Why = "/"+long[1:], long, long, long
	data, err := m.Encode()
	must(t, err)
	if back, err := Parse(data); err != nil || !reflect.DeepEqual(back, m) {
		t.Errorf("%d bytes: %v", len(data), err)
	}
}

func FuzzParse(f *testing.F) {
	full, err := raisedMark().Encode()
	must(f, err)
	f.Add(full)
	small, err := Mark{Version: Version, Controller: "a", Placement: 1, Means: plan.Copy, Path: "hdfs://ns/run/step_1", Identity: "00"}.Encode()
	must(f, err)
	f.Add(small)
	f.Add([]byte(`{"v":1,"V":2,"placement":1e3}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse(data)
		if err != nil {
			if !errors.Is(err, ErrMark) && !errors.Is(err, ErrVersion) {
				t.Errorf("%v", err)
			}
			return
		}
		again, err := m.Encode()
		must(t, err)
		back, err := Parse(again)
		if err != nil || !reflect.DeepEqual(back, m) {
			t.Errorf("%s: %v", again, err)
		}
		if !json.Valid(data) {
			t.Errorf("no JSON")
		}
	})
}
