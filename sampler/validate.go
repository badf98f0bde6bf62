package sampler

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of a Spec. They bound what a reader of a foreign Spec can be made to allocate, and keep
// every product and sum of the sampler below 2^63.
const (
	maxNameBytes   = 255
	maxGlobalBatch = 1 << 22
	maxSamples     = 1 << 62
	maxSources     = 1 << 14
	maxChanges     = 1 << 12
	maxTable       = 1 << 22 // sources times the times that their weights change
	maxCount       = 1 << 53 // steps and tokens: what JSON readers hold exactly
	minWeight      = 1e-18
	maxWeight      = 1e18
	minTemperature = 0.01
	maxTemperature = 1e6
)

// Validate returns everything that is wrong with the Spec, or nil.
func (s Spec) Validate() error {
	s = s.withDefaults()
	_, err := s.check()
	return err
}

// check is Validate for a Spec with its defaults. It returns the stream, if the Spec is one.
func (s *Spec) check() (*stream, error) {
	if err := checkVersion(s.Version); err != nil {
		return nil, err // whatever else is wrong may be right in that version
	}
	err := errors.Join(
		checkValue("shuffle", s.Shuffle, []string{ShuffleFull, ShuffleNone, ShuffleBlock}),
		checkValue("last", s.Last, []string{LastDrop, LastPad, LastCarry}),
		checkBatch("global_batch", s.GlobalBatch),
		s.checkSources(),
		s.checkOptions(),
		s.checkChanges(),
	)
	if err != nil {
		return nil, err
	}
	if s.Version == plainVersion && s.needs2() {
		return nil, fmt.Errorf("spec: version %d: %w: mixtures, block shuffle, weights, limits, changes, tokens and groups by length need version %d: write \"spec\": %[3]d", s.Version, ErrUnsupported, SpecVersion)
	}
	if !s.isStream() {
		return nil, nil
	}
	return newStream(s)
}

func checkVersion(v int) error {
	if v < plainVersion || v > SpecVersion {
		return fmt.Errorf("spec: version %d: %w: this program knows versions %d to %d: use the program that wrote it", v, ErrVersion, plainVersion, SpecVersion)
	}
	return nil
}

func checkValue(field, value string, known []string) error {
	if slices.Contains(known, value) {
		return nil
	}
	return fmt.Errorf("%s: %q: %w: the values are %s", field, value, ErrUnsupported, strings.Join(known, ", "))
}

func checkBatch(field string, batch int64) error {
	if batch < 1 || batch > maxGlobalBatch {
		return fmt.Errorf("%s: %d: must be 1 to %d", field, batch, maxGlobalBatch)
	}
	return nil
}

func checkWeight(field string, w float64) error {
	if checkNumber(field, w, minWeight, maxWeight) != nil {
		return fmt.Errorf("%s: %v: must be 0, or %v to %v", field, w, minWeight, maxWeight)
	}
	return nil
}

func checkNumber(field string, v, low, high float64) error {
	if v == 0 || v >= low && v <= high {
		return nil
	}
	return fmt.Errorf("%s: %v: must be %v to %v", field, v, low, high)
}

func checkCount(field string, v int64) error {
	if v < 0 || v > maxCount {
		return fmt.Errorf("%s: %d: must be 1 to 2^53", field, v)
	}
	return nil
}

func (s *Spec) checkSources() error {
	if n := len(s.Sources); n < 1 || n > maxSources {
		return fmt.Errorf("sources: %d given: must be 1 to %d", n, maxSources)
	}
	var errs []error
	weighted := s.isWeighted()
	seen := make(map[string]int, len(s.Sources))
	for i, src := range s.Sources {
		at := fmt.Sprintf("sources[%d]", i)
		errs = append(errs, checkName(at+".name", src.Name), s.checkSamples(at, src.Samples),
			checkWeight(at+".weight", src.Weight), checkNumber(at+".upsample", src.Upsample, minWeight, maxWeight))
		if weighted && src.Upsample != 0 {
			errs = append(errs, fmt.Errorf("%s.upsample: %v: it stands for a weight of samples x upsample, and there are weights: give one or the other", at, src.Upsample))
		}
		if j, twice := seen[src.Name]; twice {
			errs = append(errs, fmt.Errorf("%s.name: %q: sources[%d] has the same name: the names key the shuffles and must differ", at, src.Name, j))
		}
		seen[src.Name] = i
		if src.Name == "" && len(s.Sources) > 1 {
			errs = append(errs, fmt.Errorf("%s.name: empty: the sources of a mixture need names", at))
		}
	}
	return errors.Join(errs...)
}

// checkName keeps names to what has one canonical spelling in JSON.
func checkName(field, name string) error {
	if len(name) > maxNameBytes {
		return fmt.Errorf("%s: %d bytes: must be at most %d", field, len(name), maxNameBytes)
	}
	if !utf8.ValidString(name) {
		return fmt.Errorf("%s: %q: must be UTF-8", field, name)
	}
	for _, r := range name {
		if !unicode.IsPrint(r) {
			return fmt.Errorf("%s: %q: character %U is not printable: choose another name", field, name, r)
		}
	}
	return nil
}

func (s *Spec) checkSamples(source string, samples uint64) error {
	if samples == 0 {
		return fmt.Errorf("%s.samples: 0: nothing could be drawn from it: leave out a source that is empty, or of which a filter has left nothing", source)
	}
	if samples > maxSamples {
		return fmt.Errorf("%s.samples: %d: must be 1 to 2^62", source, samples)
	}
	if !s.isStream() && s.GlobalBatch > 0 && samples < uint64(s.GlobalBatch) {
		return fmt.Errorf("global_batch: %d, %s.samples: %d: fewer samples than one global batch: lower the batch", s.GlobalBatch, source, samples)
	}
	return nil
}

func (s *Spec) checkOptions() error {
	errs := []error{
		s.Tokens.validate(),
		s.GroupByLength.validate(s),
		checkNumber("temperature", s.Temperature, minTemperature, maxTemperature),
		checkCount("epoch_steps", s.EpochSteps),
		checkCount("sample_tokens", s.SampleTokens),
	}
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(s.mustCarry() && s.Last != LastCarry, "last: %q: several sources, changes or max_epochs run on over the ends of epochs: leave last out", s.Last)
	refuse(s.EpochSteps != 0 && !s.isStream(), "epoch_steps: %d: the epochs of a single source are its passes: leave it out, or set last to %q", s.EpochSteps, LastCarry)
	block := s.Shuffle == ShuffleBlock
	refuse((s.Chunk != 0 || s.Window != 0) && !block, "chunk: %d, window: %d: only shuffle %q uses them", s.Chunk, s.Window, ShuffleBlock)
	refuse(s.Chunk > maxSamples || s.Window > maxSamples, "chunk: %d, window: %d: must be 1 to 2^62", s.Chunk, s.Window)
	byTokens := slices.ContainsFunc(s.Changes, func(c Change) bool { return c.Tokens != 0 })
	refuse(s.SampleTokens != 0 && !byTokens, "sample_tokens: %d: only changes at a number of tokens use it: leave it out", s.SampleTokens)
	refuse(s.SampleTokens == 0 && byTokens, "sample_tokens: missing: changes at a number of tokens need it")
	alone := len(s.Sources) == 1
	refuse(alone && (s.Temperature != 0 || s.isWeighted() || s.Sources[0].Upsample != 0), "sources: one source has no share to weigh: leave weight, upsample and temperature out")
	return errors.Join(errs...)
}

func (s *Spec) checkChanges() error {
	if n := len(s.Changes); n > maxChanges {
		return fmt.Errorf("changes: %d given: at most %d", n, maxChanges)
	}
	names := make(map[string]bool, len(s.Sources))
	for _, src := range s.Sources {
		names[src.Name] = true
	}
	var errs []error
	for i, c := range s.Changes {
		at := fmt.Sprintf("changes[%d]", i)
		errs = append(errs, checkCount(at+".step", c.Step), checkCount(at+".tokens", c.Tokens))
		if (c.Step == 0) == (c.Tokens == 0) {
			errs = append(errs, fmt.Errorf("%s: give either step or tokens, at least 1", at))
		}
		if c.GlobalBatch == 0 && len(c.Weights) == 0 {
			errs = append(errs, fmt.Errorf("%s: changes nothing: give global_batch or weights", at))
		}
		if c.GlobalBatch != 0 {
			errs = append(errs, checkBatch(at+".global_batch", c.GlobalBatch))
		}
		for _, name := range slices.Sorted(maps.Keys(c.Weights)) {
			w := c.Weights[name]
			field := fmt.Sprintf("%s.weights[%q]", at, name)
			errs = append(errs, checkWeight(field, w))
			if !names[name] {
				errs = append(errs, fmt.Errorf("%s: no source has this name", field))
			}
		}
	}
	return errors.Join(errs...)
}
