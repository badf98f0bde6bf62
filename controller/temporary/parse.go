package temporary

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

var (
	// ErrMark: what lies there is no mark.
	ErrMark = errors.New("not a mark")
	// ErrVersion: a newer program wrote the mark.
	ErrVersion = errors.New("a newer program wrote it")
)

// maxMark bounds a mark's file, in bytes: its texts can be written with six bytes for each of theirs.
const maxMark = 256 << 10

// Encode returns the file of a mark. One that Validate refuses is an error.
func (m Mark) Encode() ([]byte, error) {
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMark, err)
	}
	data, err := json.Marshal(m)
	return append(data, '\n'), err
}

// Parse reads the file of a mark: one JSON object with no unknown key. Errors match ErrMark, or ErrVersion.
func Parse(data []byte) (Mark, error) {
	fail := func(err error) (Mark, error) { return Mark{}, fmt.Errorf("%w: %w", ErrMark, err) }
	if len(data) > maxMark {
		return fail(fmt.Errorf("%d bytes, at most %d", len(data), maxMark))
	}
	var v struct {
		Version int `json:"v"`
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return fail(err)
	}
	if v.Version > Version {
		return Mark{}, fmt.Errorf("%w: a mark of version %d, this program reads %d", ErrVersion, v.Version, Version)
	}
	var m Mark
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return fail(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fail(fmt.Errorf("bytes after the object, at %d", d.InputOffset()))
	}
	if err := m.Validate(); err != nil {
		return fail(err)
	}
	return m, nil
}
