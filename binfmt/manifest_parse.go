package binfmt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of a manifest, checked before anything is built from it.
// MaxManifest bounds a dataset.json, in bytes: 10,000 bins take about 3 MB.
const MaxManifest = 256 << 20

const (
	maxBins      = 1 << 20
	maxFields    = 1024
	maxNameBytes = 255
)

// ParseManifest reads a dataset.json. It is strict: unknown, repeated or misspelt keys, trailing
// data and values outside the rules are errors that name the file (name is only used for that) and
// the field. The result does not refer to data.
func ParseManifest(name string, data []byte) (*Manifest, error) {
	m, err := parseManifest(data)
	if err != nil {
		return nil, fmt.Errorf("binfmt.ParseManifest %s: %w", name, err)
	}
	return m, nil
}

func parseManifest(data []byte) (*Manifest, error) {
	if len(data) == 0 {
		return nil, fmt.Errorf("the file is empty: %w", ErrManifest)
	}
	if len(data) > MaxManifest {
		return nil, fmt.Errorf("%d bytes, more than the limit of %d: %w", len(data), MaxManifest, ErrManifest)
	}
	if !utf8.Valid(data) {
		return nil, fmt.Errorf("the file is not UTF-8: %w", ErrManifest)
	}
	// The version comes first: a newer manifest is reported as newer, not as full of unknown keys.
	var version struct {
		Format *int `json:"format"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return nil, fmt.Errorf("not valid JSON: %w: %w", err, ErrManifest)
	}
	switch {
	case version.Format == nil:
		return nil, fmt.Errorf("format is missing: %w", ErrManifest)
	case *version.Format > FormatForeign:
		return nil, fmt.Errorf("format is %d, this program reads up to %d: use a newer program: %w", *version.Format, FormatForeign, ErrVersion)
	case *version.Format < Format:
		return nil, fmt.Errorf("format is %d, want %d or %d: %w", *version.Format, Format, FormatForeign, ErrManifest)
	}
	if err := checkKeys(data); err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrManifest)
	}
	var m Manifest
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrManifest)
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	return &m, nil
}

// checkKeys refuses what encoding/json lets pass: keys that occur twice, keys in another case, and
// null in place of a value.
func checkKeys(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var stack []map[string]bool // nil for an array
	wantKey := false
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if d, ok := tok.(json.Delim); ok {
			switch d {
			case '{':
				stack = append(stack, map[string]bool{})
			case '[':
				stack = append(stack, nil)
			default:
				stack = stack[:len(stack)-1]
			}
			wantKey = len(stack) > 0 && stack[len(stack)-1] != nil
			continue
		}
		if tok == nil {
			return fmt.Errorf("null before byte %d", dec.InputOffset())
		}
		if !wantKey {
			wantKey = len(stack) > 0 && stack[len(stack)-1] != nil
			continue
		}
		key := tok.(string)
		if seen := stack[len(stack)-1]; seen[key] {
			return fmt.Errorf("key %q occurs twice, before byte %d", key, dec.InputOffset())
		} else if key != strings.ToLower(key) {
			return fmt.Errorf("unknown key %q, before byte %d", key, dec.InputOffset())
		} else {
			seen[key] = true
		}
		wantKey = false
	}
}

// Validate returns what is wrong with the manifest, all at once.
func (m *Manifest) Validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		if len(errs) < 20 {
			errs = append(errs, fmt.Errorf(format+": %w", append(args, ErrManifest)...))
		}
	}
	if need := m.formatNeeded(); m.Format != need {
		bad("format is %d, want %d: %d is that of datasets with foreign bins or fields of tokens, and of no others", m.Format, need, FormatForeign)
	}
	if err := CheckFields(m.Fields); err != nil {
		bad("%w", err)
	}
	m.validateClasses(bad)
	m.validateBins(bad)
	return errors.Join(errs...)
}

// CheckFields says what is wrong with the fields of a dataset, all at once: how many there are, and their
// names and kinds.
func CheckFields(fields []Field) error {
	if len(fields) == 0 || len(fields) > maxFields {
		return fmt.Errorf("fields has %d entries, want 1 to %d", len(fields), maxFields)
	}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	seen := make(map[string]bool)
	for i, f := range fields {
		if err := CheckFieldName(f.Name); err != nil {
			bad("fields[%d].name: %w", i, err)
		}
		if seen[f.Name] {
			bad("fields[%d].name: %q occurs twice", i, f.Name)
		}
		seen[f.Name] = true
		switch f.Kind {
		case Media, Tokens, Int64, Float64, Bool, UTF8:
		default:
			bad("fields[%d].kind: %q is none of media, tokens, int64, float64, bool, utf8", i, f.Kind)
		}
		if err := checkDtype(f); err != nil {
			bad("fields[%d].dtype: %w", i, err)
		}
	}
	return errors.Join(errs...)
}

// TokenSize returns the bytes of one number of a field of tokens, 0 for a dtype that none has.
func TokenSize(dtype string) int64 {
	switch dtype {
	case "uint8", "int8":
		return 1
	case "uint16", "int16":
		return 2
	case "int32", "float32":
		return 4
	case "int64", "float64":
		return 8
	}
	return 0
}

func checkDtype(f Field) error {
	switch {
	case f.Kind != Tokens && f.Dtype != "":
		return fmt.Errorf("%q: only fields of kind %s have one", f.Dtype, Tokens)
	case f.Kind == Tokens && TokenSize(f.Dtype) == 0:
		return fmt.Errorf("%q is none of uint8, int8, uint16, int16, int32, int64, float32, float64", f.Dtype)
	}
	return nil
}

// formatNeeded returns the lowest version that can say what the manifest says.
func (m *Manifest) formatNeeded() int {
	for _, f := range m.Fields {
		if f.Kind == Tokens {
			return FormatForeign
		}
	}
	for _, b := range m.Bins {
		if b.Foreign != nil {
			return FormatForeign
		}
	}
	return Format
}

// CheckFieldName says whether a field may have that name: 1 to 255 bytes of printable UTF-8 without
// a dot (which separates a media field from its columns in the index), and not "key".
func CheckFieldName(name string) error {
	switch {
	case name == "" || len(name) > maxNameBytes:
		return fmt.Errorf("a field's name has 1 to %d bytes, this one %d", maxNameBytes, len(name))
	case name == keyColumn:
		return fmt.Errorf("the name %q is taken by the sample's key", name)
	case strings.Contains(name, "."):
		return fmt.Errorf("a field's name may not contain a dot: %q", name)
	}
	return printable(name)
}

func printable(s string) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("%q is not UTF-8", s)
	}
	if i := strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
		return fmt.Errorf("%q has an unprintable character at byte %d", s, i)
	}
	return nil
}

func (m *Manifest) validateClasses(bad func(string, ...any)) {
	if len(m.Classes) == 0 {
		return
	}
	if f, ok := m.Field(LabelField); !ok || f.Kind != Int64 {
		bad("classes: there are %d, but no int64 field %q to use them", len(m.Classes), LabelField)
	}
	seen := make(map[string]bool, len(m.Classes))
	for i, c := range m.Classes {
		if seen[c] {
			bad("classes[%d]: %q occurs twice", i, c)
		}
		if c == "" || !utf8.ValidString(c) {
			bad("classes[%d]: %q is empty or not UTF-8", i, c)
		}
		seen[c] = true
	}
}

func (m *Manifest) validateBins(bad func(string, ...any)) {
	if len(m.Bins) == 0 || len(m.Bins) > maxBins {
		bad("bins has %d entries, want 1 to %d", len(m.Bins), maxBins)
	}
	seen := make(map[string]bool, len(m.Bins))
	var samples, size int64
	for i, b := range m.Bins {
		if err := checkBinName(b.Name); err != nil {
			bad("bins[%d].name: %w", i, err)
		}
		if seen[b.Name] {
			bad("bins[%d].name: %q occurs twice", i, b.Name)
		}
		seen[b.Name] = true
		if !isHex(b.UUID, 32) {
			bad("bins[%d].uuid: %q is not 32 lower-case hexadecimal digits", i, b.UUID)
		}
		if !isHex(b.IndexSHA256, 64) {
			bad("bins[%d].index_sha256: %q is not 64 lower-case hexadecimal digits", i, b.IndexSHA256)
		}
		if b.Samples < 1 || b.Samples > math.MaxInt64-samples {
			bad("bins[%d].samples: %d (%d before it)", i, b.Samples, samples)
			continue
		}
		if b.Bytes < b.HeadSize() || b.Bytes > math.MaxInt64-size {
			bad("bins[%d].bytes: %d, want at least the header's %d (%d before it)", i, b.Bytes, b.HeadSize(), size)
			continue
		}
		if b.Foreign != nil {
			b.Foreign.check(bad, i)
		}
		samples, size = samples+b.Samples, size+b.Bytes
	}
}

// checkBinName keeps names to what every store and shell takes as one plain file name: the files of
// a dataset lie in its folder and nowhere else.
func checkBinName(name string) error {
	if name == "" || len(name) > 200 || name[0] == '.' {
		return fmt.Errorf("%q: want 1 to 200 characters, the first no dot", name)
	}
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return fmt.Errorf("%q: only letters, digits and -_. are allowed", name)
		}
	}
	return nil
}

func isHex(s string, n int) bool {
	if len(s) != n {
		return false
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
