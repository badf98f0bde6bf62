package sampler

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// StateVersion is the newest version of State that this package reads and writes. Version 2 says Members and
// Given, version 1 all the rest: a State is written in the lowest that can say it.
const StateVersion = 2

const plainState = 1

// maxStateBytes bounds a marshalled State: states travel with every checkpoint. That of an ordinary
// Spec takes less than 1 KB; the Specs of large mixtures may use up the rest.
const maxStateBytes = 16 << 10

// The values of Policy.OnBad.
const (
	OnBadSubstitute = "substitute" // a sample with bad content is replaced (Sampler.Substitute)
	OnBadRaise      = "raise"      // it stops the run
)

// A Policy is what a run does about samples with bad content.
type Policy struct {
	// OnBad is OnBadSubstitute (default) or OnBadRaise.
	OnBad string `json:"on_bad"`
}

// A State is where a run stands: the next step to deliver and what it is a step of. It says nothing
// about ranks, so it is equal on all of them and can be loaded with another world size.
type State struct {
	// Version is at most StateVersion. Marshal writes the lowest that can say the State.
	Version int
	// SpecDigest is the digest of the Spec, in hex.
	SpecDigest string
	// Spec is the canonical Spec, so that a mismatch can name what differs. It is left out when the
	// state would exceed 16 KB with it.
	Spec json.RawMessage
	// Dataset is the identity of the dataset, in hex.
	Dataset string
	// Epoch is the epoch of Step.
	Epoch int64
	// Step is the next step, counted through all epochs from 0. After the last step of an epoch it
	// is the first step of the next.
	Step int64
	// Policy is what the run does about bad samples.
	Policy Policy
	// Members are the first 16 hex digits of the identity of each dataset, in the order of the sources, where
	// Dataset is of several: so that a mismatch can name the one that differs. They are left out when the state would
	// exceed 16 KB with them.
	Members []string
	// Given is set where the samples of steps come from the caller and not from the Spec.
	Given *Given
}

// Given is how far the samples of steps were given.
type Given struct {
	// Number is the one under which the last of them was given.
	Number uint64 `json:"number"`
	// Digest is a SHA-256, in hex, over all samples up to the state's step, in the order of delivery.
	Digest string `json:"digest"`
}

// State returns the state of a run over dataset whose next step is step.
func (s *Sampler) State(dataset [32]byte, step int64, p Policy) State {
	if p.OnBad == "" {
		p.OnBad = OnBadSubstitute
	}
	digest := s.spec.Digest()
	st := State{
		Version:    plainState,
		SpecDigest: hex.EncodeToString(digest[:]),
		Spec:       s.spec.Canonical(),
		Dataset:    hex.EncodeToString(dataset[:]),
		Epoch:      s.Epoch(step),
		Step:       step,
		Policy:     p,
	}
	if len(st.Marshal()) > maxStateBytes {
		st.Spec = nil
	}
	return st
}

// WithMembers returns the state with the identities of the datasets in it, or with none where there is no room for all.
func (st State) WithMembers(identities [][32]byte) State {
	st.Members = nil
	for _, id := range identities {
		st.Members = append(st.Members, MemberID(id))
	}
	if len(st.Marshal()) > maxStateBytes-reserved {
		st.Members = nil
	}
	st.Version = st.version()
	return st
}

// WithGiven returns the state of a run whose steps are given.
func (st State) WithGiven(number uint64, digest [32]byte) State {
	st.Given = &Given{Number: number, Digest: hex.EncodeToString(digest[:])}
	st.Version = st.version()
	return st
}

// MemberID is what a State holds of a dataset's identity.
func MemberID(identity [32]byte) string { return hex.EncodeToString(identity[:memberBytes]) }

// memberBytes are those of an identity that tell datasets apart; reserved is what Given may take of a state.
const (
	memberBytes = 8
	reserved    = 256
)

// version is the lowest that can say the state.
func (st *State) version() int {
	if len(st.Members) > 0 || st.Given != nil {
		return StateVersion
	}
	return plainState
}

// Marshal returns the canonical JSON form: equal states give equal bytes. A state made by
// Sampler.State takes less than 1 KB for an ordinary Spec, and at most 16 KB.
func (st State) Marshal() []byte {
	return marshal(struct {
		Dataset    string          `json:"dataset"`
		Epoch      int64           `json:"epoch"`
		Given      *Given          `json:"given,omitempty"`
		Members    []string        `json:"members,omitempty"`
		Policy     Policy          `json:"policy"`
		Spec       json.RawMessage `json:"spec,omitempty"`
		SpecDigest string          `json:"spec_digest"`
		Version    int             `json:"state"`
		Step       int64           `json:"step"`
	}{st.Dataset, st.Epoch, st.Given, st.Members, st.Policy, st.Spec, st.SpecDigest, st.Version, st.Step})
}

// ParseState reads the JSON form of a State. It is as strict as ParseSpec, and refuses a state whose
// parts contradict each other.
func ParseState(data []byte) (State, error) {
	st, err := parseState(data)
	if err != nil {
		return State{}, fmt.Errorf("sampler.ParseState: not a state that State.Marshal wrote: %w", err)
	}
	return st, nil
}

func parseState(data []byte) (State, error) {
	if len(data) > maxStateBytes {
		return State{}, fmt.Errorf("%d bytes: a state has at most %d", len(data), maxStateBytes)
	}
	var st State
	var policy, given json.RawMessage
	err := parseObject(data, []member{
		{"state", &st.Version, required},
		{"spec_digest", &st.SpecDigest, required},
		{"spec", &st.Spec, optional},
		{"dataset", &st.Dataset, required},
		{"epoch", &st.Epoch, required},
		{"step", &st.Step, required},
		{"policy", &policy, required},
		{"members", &st.Members, optional},
		{"given", &given, optional},
	})
	if err != nil {
		return State{}, err
	}
	if st.Version < plainState || st.Version > StateVersion {
		return State{}, fmt.Errorf("state: version %d: %w: this program knows versions %d to %d: use the program that wrote it", st.Version, ErrVersion, plainState, StateVersion)
	}
	if given != nil {
		st.Given = &Given{}
		if err := parseObject(given, []member{{"number", &st.Given.Number, required}, {"digest", &st.Given.Digest, required}}); err != nil {
			return State{}, fmt.Errorf("given: %w", err)
		}
	}
	if err := parseObject(policy, []member{{"on_bad", &st.Policy.OnBad, required}}); err != nil {
		return State{}, fmt.Errorf("policy: %w", err)
	}
	return st, st.validate()
}

func (st *State) validate() error {
	errs := []error{
		checkDigest("spec_digest", st.SpecDigest),
		checkDigest("dataset", st.Dataset),
		checkValue("policy.on_bad", st.Policy.OnBad, []string{OnBadSubstitute, OnBadRaise}),
	}
	if st.Epoch < 0 || st.Step < 0 {
		errs = append(errs, fmt.Errorf("epoch: %d, step: %d: must not be negative", st.Epoch, st.Step))
	}
	if st.Spec != nil {
		errs = append(errs, st.checkSpec())
	}
	for i, m := range st.Members {
		errs = append(errs, checkHex(fmt.Sprintf("members[%d]", i), m, memberBytes))
	}
	if st.Given != nil {
		errs = append(errs, checkDigest("given.digest", st.Given.Digest))
	}
	if st.Version != st.version() {
		errs = append(errs, fmt.Errorf("state: version %d, and what it says is of version %d: the state is damaged", st.Version, st.version()))
	}
	return errors.Join(errs...)
}

// checkSpec holds the Spec against its digest and makes it canonical.
func (st *State) checkSpec() error {
	spec, err := parseSpec(st.Spec)
	if err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	st.Spec = spec.Canonical()
	digest := spec.Digest()
	if got := hex.EncodeToString(digest[:]); got != st.SpecDigest {
		return fmt.Errorf("spec: its digest is %s, spec_digest says %s: the state is damaged", got, st.SpecDigest)
	}
	return nil
}

func checkDigest(field, s string) error { return checkHex(field, s, 32) }

func checkHex(field, s string, n int) error {
	if b, err := hex.DecodeString(s); err != nil || len(b) != n || hex.EncodeToString(b) != s {
		return fmt.Errorf("%s: %q: must be %d lower-case hex digits", field, s, 2*n)
	}
	return nil
}

// A MismatchError says that a State belongs to another order or dataset.
type MismatchError struct {
	// Diff names what differs, one entry each: "seed: 7 in the state, 8 here".
	Diff []string
}

func (e *MismatchError) Error() string {
	return "the state belongs to another run: " + strings.Join(e.Diff, "; ") + ": load the state that fits, or start without one"
}

// Check returns a *MismatchError when the state is not one of s over dataset. The Spec of s may go
// another way from the state's step on: it may have other changes from there on, and more sources at
// the end of the list whose first weight comes from there on (State.Sources tells how many there were).
func (st State) Check(s *Sampler, dataset [32]byte) error {
	var d differ
	if st.Version < plainState || st.Version > StateVersion {
		d.compare("version", st.Version, StateVersion)
	}
	d = append(d, st.diffSpec(&s.spec)...)
	d.compare("dataset", st.Dataset, hex.EncodeToString(dataset[:]))
	steps, _ := s.Steps()
	switch {
	case st.Step < 0:
		d.compare("step", st.Step, "0 or more")
	case len(d) > 0: // of another order, the epoch differs for that reason alone
	case st.Step > steps:
		d.compare("step", st.Step, fmt.Sprintf("at most %d", steps))
	default:
		d.compare(fmt.Sprintf("epoch of step %d", st.Step), st.Epoch, s.Epoch(st.Step))
	}
	if d == nil {
		return nil
	}
	return fmt.Errorf("sampler.Check: %w", &MismatchError{Diff: d})
}

// Sources returns how many sources the Spec of the state has, or 0 when the state has no Spec.
func (st State) Sources() int {
	spec, err := parseSpec(st.Spec)
	if err != nil {
		return 0
	}
	return len(spec.Sources)
}

// diffSpec names the fields of the Spec that differ, or the digests when the state has no Spec.
func (st State) diffSpec(here *Spec) []string {
	digest := here.Digest()
	if st.SpecDigest == hex.EncodeToString(digest[:]) {
		return nil
	}
	if there, err := parseSpec(st.Spec); err == nil {
		if here.continues(&there, st.Step) {
			return nil
		}
		return append(diffSpecs(there, *here), unsettled(&there, here, st.Step)...)
	}
	if past := here.past(st.Step); hex.EncodeToString(past[:]) == st.SpecDigest {
		return nil
	}
	return []string{fmt.Sprintf("spec digest: %s in the state, %x here", st.SpecDigest, digest)}
}
