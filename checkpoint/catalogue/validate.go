package catalogue

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stepahead-io/stepahead/store"
)

// Limits of a row.
const (
	// MaxRow is how many bytes a row's file may have.
	MaxRow = 32 << 20
	// MaxFiles is how many files a copy may have.
	MaxFiles = 1 << 16
	// MaxSiblings is how many siblings a hot file may have.
	MaxSiblings = 256
	// MinTTL and MaxTTL bound Row.TTL.
	MinTTL = time.Second
	MaxTTL = 90 * 24 * time.Hour

	maxText    = 4096 // bytes of a path or an identity
	maxWord    = 256  // bytes of a controller's name, a label or its value
	maxLabels  = 256
	maxReaders = 1 << 24
)

// ErrRow is a file that is no row, or a row that breaks a rule. The text names the field and the rule.
var ErrRow = errors.New("not a row of the catalogue")

// Validate returns every rule that the row breaks, as one error that matches ErrRow.
func (r Row) Validate() error {
	var p problems
	p.when(r.Version != Version, "v: %d, this program knows %d", r.Version, Version)
	p.text("controller", r.Controller, maxWord)
	p.text("path", r.Path, maxText)
	p.text("identity", r.Identity, maxText)
	p.when(r.TTL < MinTTL || r.TTL > MaxTTL, "ttl_ns: %s is not in [%s, %s]", r.TTL, MinTTL, MaxTTL)
	p.when((r.Copy == nil) == (r.Sources == nil), "copy, sources: exactly one must be set")
	if r.Copy != nil {
		r.Copy.validate(&p)
	}
	if r.Sources != nil {
		r.Sources.validate(&p)
	}
	if err := errors.Join(p.errs...); err != nil {
		return fmt.Errorf("%w: %w", ErrRow, err)
	}
	return nil
}

func (c *Copy) validate(p *problems) {
	p.name("copy.place", c.Place)
	p.text("copy.digest", c.Digest, maxWord)
	p.when(len(c.Files) == 0 || len(c.Files) > MaxFiles, "copy.files: %d, must be 1 to %d", len(c.Files), MaxFiles)
	for i, f := range c.Files[:min(len(c.Files), MaxFiles)] {
		if err := f.check(); err != nil {
			p.add("copy.files[%d]: %w", i, err)
			return // one of as many as these says enough
		}
		if i > 0 && c.Files[i-1].Name >= f.Name {
			p.add("copy.files[%d].name: %.64q does not follow %.64q: names are sorted, and none occurs twice", i, f.Name, c.Files[i-1].Name)
			return
		}
	}
	p.when(len(c.Labels) > maxLabels, "copy.labels: %d, at most %d", len(c.Labels), maxLabels)
	for key, value := range c.Labels {
		p.text("copy.labels", key, maxWord)
		p.when(len(value) > maxWord || !utf8.ValidString(value), "copy.labels[%.64q]: at most %d bytes of UTF-8", key, maxWord)
	}
}

func (f CopyFile) check() error {
	if err := store.CheckName("/" + f.Name); err != nil || f.Name == "" {
		return fmt.Errorf("name: %.64q is not a clean relative path", f.Name)
	}
	if !utf8.ValidString(f.Name) {
		return fmt.Errorf("name: %.64q is not UTF-8", f.Name) // JSON would make another name of it
	}
	if f.Size < 0 {
		return fmt.Errorf("size: %d is negative", f.Size)
	}
	if err := checkText(string(f.Original), maxText); err != nil {
		return fmt.Errorf("original: %w", err)
	}
	if err := checkText(string(f.Here), maxText); err != nil {
		return fmt.Errorf("here: %w", err)
	}
	return nil
}

func (s *Sources) validate(p *problems) {
	p.when(s.Size < 0, "sources.size: %d is negative", s.Size)
	p.when(s.Readers < 1 || s.Readers > maxReaders, "sources.readers: %d, must be 1 to %d", s.Readers, maxReaders)
	p.when(len(s.Siblings) > MaxSiblings, "sources.siblings: %d, at most %d", len(s.Siblings), MaxSiblings)
	for i, b := range s.Siblings[:min(len(s.Siblings), MaxSiblings)] {
		p.name(fmt.Sprintf("sources.siblings[%d].name", i), b.Name)
		p.text(fmt.Sprintf("sources.siblings[%d].identity", i), string(b.Identity), maxText)
		p.when(b.CRC32C != s.Siblings[0].CRC32C, "sources.siblings[%d].crc32c: is not that of the first, whose content it has", i)
	}
}

// problems gathers what is wrong.
type problems struct{ errs []error }

func (p *problems) add(format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf(format, args...))
}

func (p *problems) when(bad bool, format string, args ...any) {
	if bad {
		p.add(format, args...)
	}
}

func (p *problems) text(field, s string, most int) {
	if err := checkText(s, most); err != nil {
		p.add("%s: %w", field, err)
	}
}

func (p *problems) name(field, s string) {
	if err := store.CheckName(s); err != nil || s == "/" || !utf8.ValidString(s) {
		p.add("%s: %.64q is not an absolute, clean name in UTF-8 below the root", field, s)
	}
}

func checkText(s string, most int) error {
	switch {
	case s == "":
		return errors.New("empty")
	case len(s) > most:
		return fmt.Errorf("%d bytes, at most %d", len(s), most)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("%.64q holds control characters or bytes that are not UTF-8", s)
	}
	return nil
}

// FileOf returns the entry of a file of a copy by its name in the store of the original; false where there is none. url is what the name is called
// outside of that store, as Row.Path is.
func (r Row) FileOf(url string) (CopyFile, bool) {
	if r.Copy == nil {
		return CopyFile{}, false
	}
	rel, below := strings.CutPrefix(url, strings.TrimSuffix(r.Path, "/")+"/")
	if url == r.Path { // a checkpoint that is one file
		rel, below = path.Base(url), true
	}
	if !below {
		return CopyFile{}, false
	}
	return r.Copy.file(rel)
}
