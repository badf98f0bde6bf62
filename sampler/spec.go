package sampler

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// SpecVersion is the version of Spec that this package reads and writes.
const SpecVersion = 1

// The values of Spec.Shuffle and Spec.Last.
const (
	ShuffleFull = "full" // every epoch is a permutation of the whole source
	ShuffleNone = "none" // ids in rising order, the same in every epoch
	LastDrop    = "drop" // an epoch's last, incomplete batch is left out
	LastPad     = "pad"  // it is filled up from the epoch's start
)

// Limits of a Spec. They bound what a reader of a foreign Spec can be made to allocate, and keep
// every product and sum of the sampler below 2^63.
const (
	maxSpecBytes   = 1 << 16
	maxNameBytes   = 255
	maxGlobalBatch = 1 << 22
	maxSamples     = 1 << 62
)

// Errors of a Spec. ErrVersion also says that a State is of another version.
var (
	ErrVersion     = errors.New("version is not known")
	ErrUnsupported = errors.New("value is not supported")
)

// A Source is what samples are drawn from.
type Source struct {
	// Name keys the source's permutation. A single dataset has the empty name.
	Name string `json:"name"`
	// Samples is the number of samples, ids 0 to Samples-1; 1 to 2^62.
	Samples uint64 `json:"samples"`
}

// A Spec is all that the order of samples depends on.
type Spec struct {
	// Version is SpecVersion.
	Version int `json:"spec"`
	// Seed chooses the permutations.
	Seed uint64 `json:"seed"`
	// GlobalBatch is the number of samples that all ranks together take in a step; 1 to 2^22.
	GlobalBatch int64 `json:"global_batch"`
	// Shuffle is ShuffleFull (default) or ShuffleNone.
	Shuffle string `json:"shuffle"`
	// Last is LastDrop (default) or LastPad.
	Last string `json:"last"`
	// Sources has exactly one element.
	Sources []Source `json:"sources"`
}

// ParseSpec reads the JSON form of a Spec. Keys that are unknown or occur twice are errors; only
// "shuffle" and "last" may be left out.
func ParseSpec(data []byte) (Spec, error) {
	s, err := parseSpec(data)
	if err != nil {
		return Spec{}, fmt.Errorf("sampler.ParseSpec: %w", err)
	}
	return s, nil
}

func parseSpec(data []byte) (Spec, error) {
	if len(data) > maxSpecBytes {
		return Spec{}, fmt.Errorf("%d bytes: a spec has at most %d", len(data), maxSpecBytes)
	}
	var s Spec
	var sources []json.RawMessage
	err := parseObject(data, []member{
		{"spec", &s.Version, required},
		{"seed", &s.Seed, required},
		{"global_batch", &s.GlobalBatch, required},
		{"shuffle", &s.Shuffle, optional},
		{"last", &s.Last, optional},
		{"sources", &sources, required},
	})
	if err != nil {
		return Spec{}, err
	}
	for i, raw := range sources {
		var src Source
		err := parseObject(raw, []member{{"name", &src.Name, required}, {"samples", &src.Samples, required}})
		if err != nil {
			return Spec{}, fmt.Errorf("sources[%d]: %w", i, err)
		}
		s.Sources = append(s.Sources, src)
	}
	s = s.withDefaults()
	return s, s.Validate()
}

func (s Spec) withDefaults() Spec {
	if s.Shuffle == "" {
		s.Shuffle = ShuffleFull
	}
	if s.Last == "" {
		s.Last = LastDrop
	}
	return s
}

// Validate returns everything that is wrong with the Spec, or nil.
func (s Spec) Validate() error {
	s = s.withDefaults()
	if s.Version != SpecVersion {
		// Whatever else is wrong may be right in that version.
		return fmt.Errorf("spec: version %d: %w: this program knows version %d: use the program that wrote it", s.Version, ErrVersion, SpecVersion)
	}
	return errors.Join(
		checkValue("shuffle", s.Shuffle, []string{ShuffleFull, ShuffleNone}, "block"),
		checkValue("last", s.Last, []string{LastDrop, LastPad}),
		s.checkBatch(),
		s.checkSources(),
	)
}

// checkValue also knows the values that later versions will have, to say more than "unknown".
func checkValue(field, value string, known []string, planned ...string) error {
	for _, k := range known {
		if value == k {
			return nil
		}
	}
	why := "value is not known"
	for _, p := range planned {
		if value == p {
			why = "not implemented yet"
		}
	}
	return fmt.Errorf("%s: %q: %w: %s: the values are %s", field, value, ErrUnsupported, why, strings.Join(known, ", "))
}

func (s Spec) checkBatch() error {
	if s.GlobalBatch < 1 || s.GlobalBatch > maxGlobalBatch {
		return fmt.Errorf("global_batch: %d: must be 1 to %d", s.GlobalBatch, maxGlobalBatch)
	}
	return nil
}

func (s Spec) checkSources() error {
	if len(s.Sources) != 1 {
		return fmt.Errorf("sources: %d given: %w: mixtures are not implemented yet: give exactly one source", len(s.Sources), ErrUnsupported)
	}
	src := s.Sources[0]
	return errors.Join(checkName(src.Name), checkSamples(src.Samples, s.GlobalBatch))
}

// checkName keeps names to what has one canonical spelling in JSON.
func checkName(name string) error {
	if len(name) > maxNameBytes {
		return fmt.Errorf("sources[0].name: %d bytes: must be at most %d", len(name), maxNameBytes)
	}
	if !utf8.ValidString(name) {
		return fmt.Errorf("sources[0].name: %q: must be UTF-8", name)
	}
	for _, r := range name {
		if !unicode.IsPrint(r) {
			return fmt.Errorf("sources[0].name: %q: character %U is not printable: choose another name", name, r)
		}
	}
	return nil
}

func checkSamples(samples uint64, batch int64) error {
	if samples < 1 || samples > maxSamples {
		return fmt.Errorf("sources[0].samples: %d: must be 1 to 2^62", samples)
	}
	if batch > 0 && samples < uint64(batch) {
		return fmt.Errorf("global_batch: %d, sources[0].samples: %d: fewer samples than one global batch: lower the batch", batch, samples)
	}
	return nil
}

// Canonical returns the one JSON form that the digest is taken of: defaults filled in, keys sorted,
// no spaces.
func (s Spec) Canonical() []byte {
	s = s.withDefaults()
	return marshal(struct {
		GlobalBatch int64    `json:"global_batch"`
		Last        string   `json:"last"`
		Seed        uint64   `json:"seed"`
		Shuffle     string   `json:"shuffle"`
		Sources     []Source `json:"sources"`
		Version     int      `json:"spec"`
	}{s.GlobalBatch, s.Last, s.Seed, s.Shuffle, s.Sources, s.Version})
}

// Digest returns the SHA-256 of the canonical form.
func (s Spec) Digest() [32]byte { return sha256.Sum256(s.Canonical()) }
