package hints

import (
	"fmt"
	"sort"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/hints/hintspb"
)

// encode returns the message of a hint.
func encode(h Hint) *hintspb.Hint {
	m := &hintspb.Hint{
		Version: h.version(), Id: h.ID, Job: h.Job, Run: h.Run,
		TtlMs: h.TTL.Milliseconds(), Confidence: h.Confidence, Identity: h.Identity[:],
	}
	switch {
	case h.Schedule != nil:
		m.Kind = &hintspb.Hint_Schedule{Schedule: encodeSchedule(h.Schedule)}
	case h.Progress != nil:
		m.Kind = &hintspb.Hint_Progress{Progress: &hintspb.Progress{Step: h.Progress.Step}}
	case h.Close != nil:
		m.Kind = &hintspb.Hint_Close{Close: &hintspb.Close{}}
	case h.Start != nil:
		m.Kind = &hintspb.Hint_Start{Start: encodeStart(h.Start)}
	case h.Checkpoint != nil:
		m.Kind = &hintspb.Hint_Checkpoint{Checkpoint: encodeCheckpoint(h.Checkpoint)}
	case h.Window != nil:
		m.Kind = &hintspb.Hint_Window{Window: encodeWindow(h.Window)}
	}
	return m
}

// version is the lowest version of the messages that can say the hint. An agent that does not know it refuses
// the hint, rather than miss half of what it says.
func (h Hint) version() uint32 {
	if h.Checkpoint != nil && h.Checkpoint.State.Outcome() || h.Start != nil && h.Start.Phase != Announced {
		return 4
	}
	if h.Checkpoint != nil {
		return 3
	}
	if s := h.Schedule; h.Window != nil || s != nil && (len(s.Members) > 0 || s.Window != nil) {
		return 2
	}
	return 1
}

func encodeSchedule(s *Schedule) *hintspb.Schedule {
	m := &hintspb.Schedule{
		DatasetUrl: s.DatasetURL, ManifestDigest: s.Dataset[:], SourceName: s.Source, Seed: s.Seed,
		FirstStep: s.FirstStep, StepTimeUs: s.StepTime.Microseconds(), Generation: s.Generation, Operators: s.Operators,
	}
	if s.Window != nil {
		m.Form = &hintspb.Schedule_Window{Window: encodeWindow(s.Window)}
	} else {
		m.Form = &hintspb.Schedule_SamplerSpec{SamplerSpec: s.Spec}
	}
	for _, d := range s.Members {
		m.Members = append(m.Members, &hintspb.Member{Name: d.Name, DatasetUrl: d.DatasetURL, ManifestDigest: d.Dataset[:]})
	}
	for _, f := range s.Fields {
		m.Fields = append(m.Fields, &hintspb.FieldPlan{Field: f.Field, Plan: f.Plan, PlanDigest: f.Digest[:]})
	}
	for _, a := range s.Agents {
		m.Agents = append(m.Agents, &hintspb.Agent{Node: a.Node, Addr: a.Addr})
	}
	return m
}

func encodeWindow(w *Window) *hintspb.Window {
	m := &hintspb.Window{Epoch: w.Epoch, FirstStep: w.FirstStep}
	for _, samples := range w.Steps {
		step := &hintspb.WindowStep{}
		for _, s := range samples {
			step.Samples = append(step.Samples, &hintspb.WindowSample{Source: s.Source, Epoch: s.Epoch, Sample: s.Sample})
		}
		m.Steps = append(m.Steps, step)
	}
	return m
}

// Fit leaves out the files that a message has no room for: of a start the last ones, of a checkpoint, where a part of the list would say
// something else, all.
func (h *Hint) Fit() {
	fits := func() bool { return proto.Size(encode(*h)) <= MaxMessage }
	switch {
	case fits():
	case h.Checkpoint != nil:
		c := *h.Checkpoint
		c.Files = nil
		h.Checkpoint = &c
	case h.Start != nil:
		s, all := *h.Start, h.Start.Files
		h.Start = &s
		n := sort.Search(len(all), func(n int) bool {
			s.Files = all[:n+1]
			return !fits()
		})
		s.Files = all[:n]
	}
}

func encodeStart(s *Start) *hintspb.Start {
	m := &hintspb.Start{Ranks: s.Ranks, RanksPerHost: s.RanksPerHost, ExpectedInMs: s.ExpectedIn.Milliseconds(), Phase: hintspb.Start_Phase(s.Phase)}
	if t := s.Took; t != (Took{}) {
		m.Took = &hintspb.Took{MedianMs: t.Median.Milliseconds(), LastMs: t.Last.Milliseconds(), Bytes: t.Bytes}
	}
	for _, f := range s.Files {
		m.Files = append(m.Files, &hintspb.HotFile{Path: f.Path, Readers: f.Readers})
	}
	return m
}

func encodeCheckpoint(c *Checkpoint) *hintspb.Checkpoint {
	m := &hintspb.Checkpoint{State: hintspb.Checkpoint_State(c.State), Path: c.Path, Layout: c.Layout, SaveId: c.SaveID, Urgency: c.Urgency,
		Evaluation: c.Evaluation, Site: c.Site, ExpectedInMs: c.ExpectedIn.Milliseconds(), Sequence: c.Sequence,
		AgoMs: c.Ago.Milliseconds(), Decision: string(c.Decision)}
	if c.Step >= 0 {
		m.Step = &c.Step
	}
	if r := c.Result; r != nil {
		m.Result = &hintspb.EvaluationResult{Metric: r.Metric, Value: r.Value, Regression: r.Regression}
	}
	for _, f := range c.Files {
		m.Files = append(m.Files, &hintspb.CheckpointFile{Name: f.Name, Size: f.Size, Crc32C: f.CRC})
	}
	return m
}

// decode returns the hint of a message, validated.
func decode(m *hintspb.Hint) (Hint, error) {
	h := Hint{ID: m.Id, Job: m.Job, Run: m.Run, TTL: span(m.TtlMs, time.Millisecond), Confidence: m.Confidence}
	var err error
	if h.Identity, err = digest("identity", m.Identity); err != nil {
		return Hint{}, err
	}
	switch kind := m.Kind.(type) {
	case *hintspb.Hint_Schedule:
		if h.Schedule, err = decodeSchedule(kind.Schedule); err != nil {
			return Hint{}, err
		}
	case *hintspb.Hint_Progress:
		h.Progress = &Progress{Step: kind.Progress.GetStep()}
	case *hintspb.Hint_Close:
		h.Close = &Close{}
	case *hintspb.Hint_Start:
		h.Start = decodeStart(kind.Start)
	case *hintspb.Hint_Checkpoint:
		h.Checkpoint = decodeCheckpoint(kind.Checkpoint)
	case *hintspb.Hint_Window:
		h.Window = decodeWindow(kind.Window)
	}
	return h, h.Validate()
}

func decodeSchedule(m *hintspb.Schedule) (*Schedule, error) {
	s := &Schedule{
		DatasetURL: m.GetDatasetUrl(), Spec: m.GetSamplerSpec(), Source: m.GetSourceName(), Seed: m.GetSeed(),
		FirstStep: m.GetFirstStep(), StepTime: span(m.GetStepTimeUs(), time.Microsecond),
		Generation: m.GetGeneration(), Operators: m.GetOperators(),
	}
	var err error
	if s.Dataset, err = digest("schedule.manifest_digest", m.GetManifestDigest()); err != nil {
		return nil, err
	}
	if w := m.GetWindow(); w != nil {
		s.Window = decodeWindow(w)
	}
	for i, d := range m.GetMembers() {
		id, err := digest(fmt.Sprintf("schedule.members[%d].manifest_digest", i), d.GetManifestDigest())
		if err != nil {
			return nil, err
		}
		s.Members = append(s.Members, Member{Name: d.GetName(), DatasetURL: d.GetDatasetUrl(), Dataset: id})
	}
	for i, f := range m.GetFields() {
		d, err := digest(fmt.Sprintf("schedule.fields[%d].plan_digest", i), f.GetPlanDigest())
		if err != nil {
			return nil, err
		}
		s.Fields = append(s.Fields, FieldPlan{Field: f.GetField(), Plan: f.GetPlan(), Digest: d})
	}
	for _, a := range m.GetAgents() {
		s.Agents = append(s.Agents, Agent{Node: a.GetNode(), Addr: a.GetAddr()})
	}
	return s, nil
}

func decodeWindow(m *hintspb.Window) *Window {
	w := &Window{Epoch: m.GetEpoch(), FirstStep: m.GetFirstStep()}
	for _, step := range m.GetSteps() {
		samples := make([]WindowSample, 0, len(step.GetSamples()))
		for _, s := range step.GetSamples() {
			samples = append(samples, WindowSample{Source: s.GetSource(), Epoch: s.GetEpoch(), Sample: s.GetSample()})
		}
		w.Steps = append(w.Steps, samples)
	}
	return w
}

func decodeStart(m *hintspb.Start) *Start {
	s := &Start{Ranks: m.GetRanks(), RanksPerHost: m.GetRanksPerHost(), ExpectedIn: span(m.GetExpectedInMs(), time.Millisecond), Phase: StartPhase(m.GetPhase())}
	if t := m.GetTook(); t != nil {
		s.Took = Took{Median: span(t.MedianMs, time.Millisecond), Last: span(t.LastMs, time.Millisecond), Bytes: t.Bytes}
	}
	for _, f := range m.GetFiles() {
		s.Files = append(s.Files, HotFile{Path: f.GetPath(), Readers: f.GetReaders()})
	}
	return s
}

func decodeCheckpoint(m *hintspb.Checkpoint) *Checkpoint {
	c := &Checkpoint{State: CheckpointState(m.GetState()), Path: m.GetPath(), Layout: m.GetLayout(), SaveID: m.GetSaveId(), Urgency: m.GetUrgency(),
		Step: -1, Evaluation: m.GetEvaluation(), Site: m.GetSite(), ExpectedIn: span(m.GetExpectedInMs(), time.Millisecond), Sequence: m.GetSequence(),
		Ago: span(m.GetAgoMs(), time.Millisecond), Decision: Decision(m.GetDecision())}
	if r := m.GetResult(); r != nil {
		c.Result = &Result{Metric: r.GetMetric(), Value: r.Value, Regression: r.GetRegression()}
	}
	if m != nil && m.Step != nil {
		c.Step = max(m.GetStep(), -2) // a negative one is refused
	}
	for _, f := range m.GetFiles() {
		c.Files = append(c.Files, CheckpointFile{Name: f.GetName(), Size: f.GetSize(), CRC: f.GetCrc32C()})
	}
	return c
}

func digest(field string, b []byte) ([32]byte, error) {
	if len(b) != 32 {
		return [32]byte{}, fmt.Errorf("hints: %w: %s: %d bytes, must be 32", ErrInvalid, field, len(b))
	}
	return [32]byte(b), nil
}

// span converts without overflow: what is out of range becomes the nearest duration, which the rules
// then refuse.
func span(n int64, unit time.Duration) time.Duration {
	limit := int64(1<<63-1) / int64(unit)
	return time.Duration(max(-limit, min(n, limit))) * unit
}
