package sampler

import (
	"encoding/json"
	"errors"
	"fmt"
)

// maxSpecBytes bounds what a reader of a foreign Spec can be made to allocate.
const maxSpecBytes = 1 << 20

// ParseSpec reads the JSON form of a Spec. Keys that are unknown or occur twice are errors; only
// "spec", "seed", "global_batch", "sources" and the name and samples of a source must be there. When
// one source has a weight, all must say theirs.
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
	var sources, changes []json.RawMessage
	var tokens, group json.RawMessage
	members := []member{
		{"spec", &s.Version, required},
		{"seed", &s.Seed, required},
		{"global_batch", &s.GlobalBatch, required},
		{"shuffle", &s.Shuffle, optional},
		{"last", &s.Last, optional},
		{"sources", &sources, required},
		{"chunk", &s.Chunk, optional},
		{"window", &s.Window, optional},
		{"temperature", &s.Temperature, optional},
		{"epoch_steps", &s.EpochSteps, optional},
		{"sample_tokens", &s.SampleTokens, optional},
		{"changes", &changes, optional},
		{"tokens", &tokens, optional},
		{"group_by_length", &group, optional},
	}
	if err := parseObject(data, members); err != nil {
		if newer := checkVersion(peekVersion(data)); newer != nil {
			return Spec{}, newer // its keys may be right in that version
		}
		return Spec{}, err
	}
	if err := s.parseSources(sources); err != nil {
		return Spec{}, err
	}
	if err := s.parseChanges(changes); err != nil {
		return Spec{}, err
	}
	if err := errors.Join(s.parseTokens(tokens), s.parseGroup(group)); err != nil {
		return Spec{}, err
	}
	s = s.withDefaults()
	return s, s.Validate()
}

// peekVersion reads the version of what may not be readable otherwise; SpecVersion if it has none.
func peekVersion(data []byte) int {
	head := struct {
		Version int `json:"spec"`
	}{SpecVersion}
	if err := json.Unmarshal(data, &head); err != nil {
		return SpecVersion
	}
	return head.Version
}

func (s *Spec) parseSources(list []json.RawMessage) error {
	weights := 0
	for i, raw := range list {
		var src Source
		var weight *float64
		err := parseObject(raw, []member{
			{"name", &src.Name, required},
			{"samples", &src.Samples, required},
			{"weight", &weight, optional},
			{"upsample", &src.Upsample, optional},
			{"max_epochs", &src.MaxEpochs, optional},
		})
		if err != nil {
			return fmt.Errorf("sources[%d]: %w", i, err)
		}
		if weight != nil {
			src.Weight = *weight
			weights++
		}
		s.Sources = append(s.Sources, src)
	}
	if weights != 0 && weights != len(list) {
		return fmt.Errorf("sources: %d of %d have a weight: give all of them one (0: takes no part until a change gives it a weight), or none", weights, len(list))
	}
	if weights != 0 && !s.isWeighted() {
		return fmt.Errorf("sources: all weights are 0: nothing would be drawn")
	}
	return nil
}

func (s *Spec) parseChanges(list []json.RawMessage) error {
	for i, raw := range list {
		var c Change
		var weights json.RawMessage
		err := parseObject(raw, []member{
			{"step", &c.Step, optional},
			{"tokens", &c.Tokens, optional},
			{"global_batch", &c.GlobalBatch, optional},
			{"weights", &weights, optional},
		})
		if err == nil && weights != nil {
			c.Weights, err = parseWeights(weights)
		}
		if err != nil {
			return fmt.Errorf("changes[%d]: %w", i, err)
		}
		s.Changes = append(s.Changes, c)
	}
	return nil
}

func parseWeights(data json.RawMessage) (map[string]float64, error) {
	values, err := readObject(data, nil)
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	weights := make(map[string]float64, len(values))
	for name, raw := range values {
		var w *float64
		if err := json.Unmarshal(raw, &w); err != nil || w == nil {
			return nil, fmt.Errorf("weights: %q: %s is not a number", name, raw)
		}
		weights[name] = *w
	}
	return weights, nil
}

// parseGroup reads the member "group_by_length", if there is one.
func (s *Spec) parseGroup(data json.RawMessage) error {
	if data == nil {
		return nil
	}
	s.GroupByLength = &GroupByLength{}
	err := parseObject(data, []member{{"column", &s.GroupByLength.Column, required}, {"steps", &s.GroupByLength.Steps, optional}})
	if err != nil {
		return fmt.Errorf("group_by_length: %w", err)
	}
	return nil
}

// Canonical returns the one JSON form that the digest is taken of: in the lowest version that can say
// it, defaults filled in, keys sorted, no spaces, numbers as RFC 8785 writes them, and nothing that
// is not used. The Spec must be valid.
func (s Spec) Canonical() []byte {
	s = s.withDefaults()
	if !s.needs2() {
		return s.canonical1()
	}
	form := canonicalSpec{
		Chunk: s.Chunk, EpochSteps: s.EpochSteps, GlobalBatch: s.GlobalBatch, Last: s.Last, SampleTokens: s.SampleTokens,
		Seed: s.Seed, Shuffle: s.Shuffle, Version: s.Version, Temperature: s.Temperature, Tokens: s.Tokens, Window: s.Window,
		GroupByLength: s.GroupByLength,
	}
	for _, c := range s.Changes {
		form.Changes = append(form.Changes, canonicalChange{c.GlobalBatch, c.Step, c.Tokens, c.Weights})
	}
	weighted := s.isWeighted()
	for _, src := range s.Sources {
		c := canonicalSource{MaxEpochs: src.MaxEpochs, Name: src.Name, Samples: src.Samples, Upsample: src.Upsample}
		if weighted {
			c.Weight = &src.Weight
		}
		form.Sources = append(form.Sources, c)
	}
	return marshal(form)
}

func (s *Spec) canonical1() []byte {
	type source struct {
		Name    string `json:"name"`
		Samples uint64 `json:"samples"`
	}
	return marshal(struct {
		GlobalBatch int64    `json:"global_batch"`
		Last        string   `json:"last"`
		Seed        uint64   `json:"seed"`
		Shuffle     string   `json:"shuffle"`
		Sources     []source `json:"sources"`
		Version     int      `json:"spec"`
	}{s.GlobalBatch, s.Last, s.Seed, s.Shuffle, []source{{s.Sources[0].Name, s.Sources[0].Samples}}, s.Version})
}

// The canonical form of version 2: fields in the order of their keys.
type (
	canonicalSpec struct {
		Changes       []canonicalChange `json:"changes,omitempty"`
		Chunk         uint64            `json:"chunk,omitempty"`
		EpochSteps    int64             `json:"epoch_steps,omitempty"`
		GlobalBatch   int64             `json:"global_batch"`
		GroupByLength *GroupByLength    `json:"group_by_length,omitempty"`
		Last          string            `json:"last"`
		SampleTokens  int64             `json:"sample_tokens,omitempty"`
		Seed          uint64            `json:"seed"`
		Shuffle       string            `json:"shuffle"`
		Sources       []canonicalSource `json:"sources"`
		Version       int               `json:"spec"`
		Temperature   float64           `json:"temperature,omitempty"`
		Tokens        *TokenSpec        `json:"tokens,omitempty"`
		Window        uint64            `json:"window,omitempty"`
	}
	canonicalSource struct {
		MaxEpochs uint64   `json:"max_epochs,omitempty"`
		Name      string   `json:"name"`
		Samples   uint64   `json:"samples"`
		Upsample  float64  `json:"upsample,omitempty"`
		Weight    *float64 `json:"weight,omitempty"`
	}
	canonicalChange struct {
		GlobalBatch int64              `json:"global_batch,omitempty"`
		Step        int64              `json:"step,omitempty"`
		Tokens      int64              `json:"tokens,omitempty"`
		Weights     map[string]float64 `json:"weights,omitempty"`
	}
)
