package hints

import (
	"crypto/sha256"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/hints/hintspb"
)

// schedule is a valid hint.
func schedule() Hint {
	plan := []byte(`{"ops":[{"op":"DecodeImage"}],"plan":1}`)
	dataset := sha256.Sum256([]byte("dataset"))
	return Hint{
		ID: NewID(), Job: "job", Run: "run-1", TTL: time.Minute, Confidence: 1, Identity: dataset,
		Schedule: &Schedule{
			DatasetURL: "dir:///data/photos", Dataset: dataset, Spec: []byte(`{"spec":1}`),
			Fields: []FieldPlan{{Field: "image", Plan: plan, Digest: sha256.Sum256(plan)}},
			Seed:   7, FirstStep: 3, StepTime: 250 * time.Millisecond, Generation: 2,
			Agents:    []Agent{{"dn1", "127.0.0.1:4001"}, {"dn2", "[::1]:4002"}},
			Operators: map[string]string{"jpeg/islow-fancy@1": strings.Repeat("ab", 32)},
		},
	}
}

func of(h Hint) Hint {
	h.ID, h.Job, h.Run, h.TTL, h.Confidence = NewID(), "job", "run-1", time.Minute, 0.5
	return h
}

// samples has one valid hint of each kind and form.
func samples() map[string]Hint {
	window := schedule()
	window.Schedule.Spec = nil
	window.Schedule.Window = &Window{Epoch: 2, FirstStep: 3, Steps: [][]WindowSample{{{Epoch: 1, Sample: 9}, {Source: 1, Sample: 8}}, {}}}
	members := schedule()
	members.Schedule.DatasetURL = ""
	members.Schedule.Members = []Member{
		{"photos", "dir:///data/photos", sha256.Sum256([]byte("a"))}, {"", "hdfs://ns/data/faces", sha256.Sum256([]byte("b"))},
	}
	return map[string]Hint{
		"schedule": schedule(),
		"window":   window,
		"members":  members,
		"more":     of(Hint{Window: &Window{Epoch: 1, FirstStep: 5, Steps: [][]WindowSample{{{Sample: 7}}}}}),
		"progress": of(Hint{Progress: &Progress{Step: 12}}),
		"close":    of(Hint{Close: &Close{}}),
		"start":    of(Hint{Start: &Start{Ranks: 2048, RanksPerHost: 8, ExpectedIn: time.Minute, Files: []HotFile{{"/ckpt/.metadata", 2048}}}}),
		"opened":   of(Hint{Start: &Start{Phase: Opened, Ranks: 2048, RanksPerHost: 8}}),
		"read": of(Hint{Start: &Start{Phase: Read, Ranks: 2048, RanksPerHost: 8, Files: []HotFile{{"/ckpt", 1}},
			Took: Took{Median: 2 * time.Second, Last: 9 * time.Second, Bytes: 1 << 40}}}),
		"checkpoint": of(Hint{Identity: [32]byte{9}, Checkpoint: &Checkpoint{
			State: Committed, Path: "/ckpt/step-100", Layout: "dcp", SaveID: "s1", Urgency: 0.5,
			Files: []CheckpointFile{{Name: "__0_0.distcp", Size: 1 << 40, CRC: 77}}, Step: -1, Sequence: 1 << 63}}),
		"evaluation": of(Hint{Checkpoint: &Checkpoint{
			State: EvaluationScheduled, Path: "/ckpt/step-0", Evaluation: "mmlu", Site: "dc2", ExpectedIn: time.Hour, Urgency: 1}}),
		"result": of(Hint{Checkpoint: &Checkpoint{
			State: EvaluationResult, Path: "/ckpt/step-0", Evaluation: "mmlu", Ago: time.Minute, Result: &Result{Metric: "acc", Value: new(0.0), Regression: true}}}),
		"result without a number": of(Hint{Checkpoint: &Checkpoint{State: EvaluationResult, Path: "/ckpt/step-0", Result: &Result{}}}),
		"decision":                of(Hint{Checkpoint: &Checkpoint{State: EvaluationDecided, Path: "/ckpt/step-0", Decision: Rollback}}),
	}
}

// TestMessageRoundTrip: nothing is lost on the wire, and every rule passes what is right.
func TestMessageRoundTrip(t *testing.T) {
	for name, want := range samples() {
		data, err := proto.Marshal(encode(want))
		if err != nil {
			t.Fatal(err)
		}
		var m hintspb.Hint
		if err := proto.Unmarshal(data, &m); err != nil {
			t.Fatal(err)
		}
		got, err := decode(&m)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if name == "window" {
			got.Schedule.Window.Steps[1] = [][]WindowSample{{}}[0]
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}

// TestLowestVersion: what an agent of version 1 understands is sent as version 1, what it would misunderstand is not.
func TestLowestVersion(t *testing.T) {
	for name, h := range samples() {
		want := uint32(1)
		switch name {
		case "window", "members", "more":
			want = 2
		case "checkpoint", "evaluation":
			want = 3
		case "result", "result without a number", "decision", "opened", "read":
			want = 4
		}
		if got := encode(h).Version; got != want {
			t.Errorf("%s has version %d, want %d", name, got, want)
		}
	}
}

// TestDatasets: both forms of a schedule give one list.
func TestDatasets(t *testing.T) {
	all := samples()
	s := all["schedule"].Schedule
	if got := s.Datasets(); len(got) != 1 || got[0] != (Member{"", s.DatasetURL, s.Dataset}) {
		t.Errorf("of one dataset: %+v", got)
	}
	s = all["members"].Schedule
	if got := s.Datasets(); !reflect.DeepEqual(got, s.Members) {
		t.Errorf("of members: %+v", got)
	}
}

// TestBrokenRules: every rule refuses, and names the field.
func TestBrokenRules(t *testing.T) {
	type change func(h *Hint)
	long := strings.Repeat("x", maxURL+1)
	for name, c := range map[string]struct {
		base  string
		f     change
		field string
	}{
		"no id":                {"progress", func(h *Hint) { h.ID = "" }, "id"},
		"long job":             {"progress", func(h *Hint) { h.Job = long }, "job"},
		"newline in run":       {"progress", func(h *Hint) { h.Run = "a\nb" }, "run"},
		"not UTF-8":            {"progress", func(h *Hint) { h.Run = "\xff" }, "run"},
		"no ttl":               {"progress", func(h *Hint) { h.TTL = 0 }, "ttl"},
		"negative ttl":         {"progress", func(h *Hint) { h.TTL = -time.Hour }, "ttl"},
		"endless ttl":          {"progress", func(h *Hint) { h.TTL = math.MaxInt64 }, "ttl"},
		"no confidence":        {"progress", func(h *Hint) { h.Confidence = 0 }, "confidence"},
		"too sure":             {"progress", func(h *Hint) { h.Confidence = 1.5 }, "confidence"},
		"confidence NaN":       {"progress", func(h *Hint) { h.Confidence = math.NaN() }, "confidence"},
		"no kind":              {"progress", func(h *Hint) { h.Progress = nil }, "kind"},
		"two kinds":            {"progress", func(h *Hint) { h.Close = &Close{} }, "kind"},
		"negative step":        {"progress", func(h *Hint) { h.Progress.Step = -1 }, "progress.step"},
		"other identity":       {"schedule", func(h *Hint) { h.Identity[0]++ }, "identity"},
		"no url":               {"schedule", func(h *Hint) { h.Schedule.DatasetURL = "" }, "schedule.dataset_url"},
		"long url":             {"schedule", func(h *Hint) { h.Schedule.DatasetURL = long }, "schedule.dataset_url"},
		"no form":              {"schedule", func(h *Hint) { h.Schedule.Spec = nil }, "spec or a window"},
		"two forms":            {"schedule", func(h *Hint) { h.Schedule.Window = &Window{Steps: [][]WindowSample{{}}} }, "spec or a window"},
		"spec is not JSON":     {"schedule", func(h *Hint) { h.Schedule.Spec = []byte("{") }, "schedule.spec"},
		"huge spec":            {"schedule", func(h *Hint) { h.Schedule.Spec = make([]byte, maxPlan+1) }, "schedule.spec"},
		"long source":          {"schedule", func(h *Hint) { h.Schedule.Source = long }, "schedule.source"},
		"negative first":       {"schedule", func(h *Hint) { h.Schedule.FirstStep = -1 }, "schedule.first_step"},
		"negative time":        {"schedule", func(h *Hint) { h.Schedule.StepTime = -1 }, "schedule.step_time"},
		"slow step":            {"schedule", func(h *Hint) { h.Schedule.StepTime = 2 * time.Hour }, "schedule.step_time"},
		"no fields":            {"schedule", func(h *Hint) { h.Schedule.Fields = nil }, "schedule.fields"},
		"many fields":          {"schedule", func(h *Hint) { h.Schedule.Fields = make([]FieldPlan, maxFields+1) }, "schedule.fields"},
		"field twice":          {"schedule", func(h *Hint) { h.Schedule.Fields = append(h.Schedule.Fields, h.Schedule.Fields[0]) }, "schedule.fields[1].field"},
		"no plan":              {"schedule", func(h *Hint) { h.Schedule.Fields[0].Plan = nil }, "schedule.fields[0].plan"},
		"other plan":           {"schedule", func(h *Hint) { h.Schedule.Fields[0].Digest[0]++ }, "schedule.fields[0].plan_digest"},
		"no agents":            {"schedule", func(h *Hint) { h.Schedule.Agents = nil }, "schedule.agents"},
		"many agents":          {"schedule", func(h *Hint) { h.Schedule.Agents = make([]Agent, maxAgents+1) }, "schedule.agents"},
		"agent twice":          {"schedule", func(h *Hint) { h.Schedule.Agents[1].Node = "dn1" }, "schedule.agents[1].node"},
		"no address":           {"schedule", func(h *Hint) { h.Schedule.Agents[1].Addr = "" }, "schedule.agents[1].addr"},
		"no port":              {"schedule", func(h *Hint) { h.Schedule.Agents[1].Addr = "host" }, "schedule.agents[1].addr"},
		"noise in an address":  {"schedule", func(h *Hint) { h.Schedule.Agents[1].Addr = "ho\x1bst:1" }, "schedule.agents[1].addr"},
		"no UTF-8 in it":       {"schedule", func(h *Hint) { h.Schedule.Agents[1].Addr = "ho\xffst:1" }, "schedule.agents[1].addr"},
		"port zero":            {"schedule", func(h *Hint) { h.Schedule.Agents[1].Addr = "host:0" }, "schedule.agents[1].addr"},
		"many operators":       {"schedule", func(h *Hint) { h.Schedule.Operators = manyOperators() }, "schedule.operators"},
		"operator's digest":    {"schedule", func(h *Hint) { h.Schedule.Operators["x"] = "zz" }, "schedule.operators"},
		"members and url":      {"members", func(h *Hint) { h.Schedule.DatasetURL = "dir:///data" }, "dataset_url"},
		"members, a source":    {"members", func(h *Hint) { h.Schedule.Source = "a" }, "source_name"},
		"members by a name":    {"members", func(h *Hint) { h.Schedule.Members[0].Name = "" }, "schedule.members[1].name"},
		"member unnamed":       {"members", func(h *Hint) { h.Schedule.Members[0].Name = long }, "schedule.members[0].name"},
		"member nowhere":       {"members", func(h *Hint) { h.Schedule.Members[1].DatasetURL = "" }, "schedule.members[1].dataset_url"},
		"many members":         {"members", func(h *Hint) { h.Schedule.Members = make([]Member, maxMembers+1) }, "schedule.members"},
		"more, but nothing":    {"more", func(h *Hint) { h.Window.Steps = nil }, "window.steps"},
		"more, far away":       {"more", func(h *Hint) { h.Window.FirstStep = math.MaxInt64 }, "window.first_step"},
		"empty window":         {"window", func(h *Hint) { h.Schedule.Window.Steps = nil }, "schedule.window.steps"},
		"long window":          {"window", func(h *Hint) { h.Schedule.Window.Steps = make([][]WindowSample, maxSteps+1) }, "schedule.window.steps"},
		"wide window":          {"window", func(h *Hint) { h.Schedule.Window.Steps[0] = make([]WindowSample, maxSamples+1) }, "schedule.window"},
		"window begins":        {"window", func(h *Hint) { h.Schedule.Window.FirstStep = -1 }, "schedule.window.first_step"},
		"no ranks":             {"start", func(h *Hint) { h.Start.Ranks = 0 }, "start"},
		"ranks a host":         {"start", func(h *Hint) { h.Start.RanksPerHost = 4096 }, "start"},
		"starts never":         {"start", func(h *Hint) { h.Start.ExpectedIn = -1 }, "start.expected_in"},
		"hot file":             {"start", func(h *Hint) { h.Start.Files[0].Path = "" }, "start.files[0].path"},
		"many hot files":       {"start", func(h *Hint) { h.Start.Files = make([]HotFile, MaxFiles+1) }, "start.files"},
		"no phase":             {"opened", func(h *Hint) { h.Start.Phase = 3 }, "start.phase"},
		"opened later":         {"opened", func(h *Hint) { h.Start.ExpectedIn = 1 }, "start.expected_in"},
		"opened took":          {"opened", func(h *Hint) { h.Start.Took.Bytes = 1 }, "start.took"},
		"last before median":   {"read", func(h *Hint) { h.Start.Took.Last = 1 }, "start.took"},
		"took days":            {"read", func(h *Hint) { h.Start.Took.Last = 25 * time.Hour }, "start.took"},
		"read less":            {"read", func(h *Hint) { h.Start.Took.Bytes = -1 }, "start.took.bytes"},
		"no state":             {"checkpoint", func(h *Hint) { h.Checkpoint.State = 0 }, "checkpoint.state"},
		"new state":            {"checkpoint", func(h *Hint) { h.Checkpoint.State = 12 }, "checkpoint.state"},
		"a step":               {"checkpoint", func(h *Hint) { h.Checkpoint.Step = -2 }, "checkpoint.step"},
		"evaluation of a save": {"checkpoint", func(h *Hint) { h.Checkpoint.Site = "dc2" }, "evaluation, site and expected_in"},
		"evaluation":           {"evaluation", func(h *Hint) { h.Checkpoint.Evaluation = long }, "checkpoint.evaluation"},
		"site":                 {"evaluation", func(h *Hint) { h.Checkpoint.Site = "\n" }, "checkpoint.site"},
		"evaluated never":      {"evaluation", func(h *Hint) { h.Checkpoint.ExpectedIn = 25 * time.Hour }, "checkpoint.expected_in"},
		"file outside":         {"checkpoint", func(h *Hint) { h.Checkpoint.Files[0].Name = "../x" }, "files[0].name"},
		"absolute file":        {"checkpoint", func(h *Hint) { h.Checkpoint.Files[0].Name = "/x" }, "files[0].name"},
		"no reader":            {"start", func(h *Hint) { h.Start.Files[0].Readers = 0 }, "files[0].readers"},
		"too many readers":     {"start", func(h *Hint) { h.Start.Files[0].Readers = 2049 }, "files[0].readers"},
		"long ago":             {"checkpoint", func(h *Hint) { h.Checkpoint.Ago = 25 * time.Hour }, "checkpoint.ago"},
		"before it was said":   {"checkpoint", func(h *Hint) { h.Checkpoint.Ago = -1 }, "checkpoint.ago"},
		"no result":            {"result", func(h *Hint) { h.Checkpoint.Result = nil }, "checkpoint.result"},
		"result of a save":     {"checkpoint", func(h *Hint) { h.Checkpoint.Result = &Result{} }, "checkpoint.result"},
		"metric":               {"result", func(h *Hint) { h.Checkpoint.Result.Metric = long }, "checkpoint.result.metric"},
		"value":                {"result", func(h *Hint) { h.Checkpoint.Result.Value = new(math.Inf(1)) }, "checkpoint.result.value"},
		"no decision":          {"decision", func(h *Hint) { h.Checkpoint.Decision = "" }, "checkpoint.decision"},
		"another decision":     {"decision", func(h *Hint) { h.Checkpoint.Decision = "wait" }, "checkpoint.decision"},
		"decision of a save":   {"checkpoint", func(h *Hint) { h.Checkpoint.Decision = Stop }, "checkpoint.decision"},
		"no path":              {"checkpoint", func(h *Hint) { h.Checkpoint.Path = "" }, "checkpoint.path"},
		"layout":               {"checkpoint", func(h *Hint) { h.Checkpoint.Layout = long }, "checkpoint.layout"},
		"save id":              {"checkpoint", func(h *Hint) { h.Checkpoint.SaveID = "\x00" }, "checkpoint.save_id"},
		"urgency":              {"checkpoint", func(h *Hint) { h.Checkpoint.Urgency = math.NaN() }, "checkpoint.urgency"},
		"file's name":          {"checkpoint", func(h *Hint) { h.Checkpoint.Files[0].Name = "" }, "checkpoint.files[0].name"},
		"file's size":          {"checkpoint", func(h *Hint) { h.Checkpoint.Files[0].Size = -1 }, "checkpoint.files[0].size"},
		"many files":           {"checkpoint", func(h *Hint) { h.Checkpoint.Files = make([]CheckpointFile, MaxFiles+1) }, "checkpoint.files"},
	} {
		h := samples()[c.base]
		c.f(&h)
		err := h.Validate()
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.field) {
			t.Errorf("%s: got %v, want an error that names %s", name, err, c.field)
		} else if strings.Contains(err.Error(), "\n") || len(err.Error()) > 4096 {
			t.Errorf("%s: the error is not one readable line: %d bytes", name, len(err.Error()))
		}
	}
}

// TestAllProblemsAtOnce: one answer is enough to correct a hint.
func TestAllProblemsAtOnce(t *testing.T) {
	err := (Hint{ID: "x", Progress: &Progress{Step: -1}}).Validate()
	for _, field := range []string{"job", "run", "ttl", "confidence", "progress.step"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}

// TestSpanDoesNotWrap: a number from the wire never turns into a plausible duration.
func TestSpanDoesNotWrap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64().Draw(t, "n")
		got := span(n, time.Millisecond)
		if (n < 0) != (got < 0) || n > 1<<53 && got < 1<<53 {
			t.Fatalf("%d ms became %s", n, got)
		}
	})
}

// FuzzHint: no message makes the decoder panic, and what it accepts survives the way back.
func FuzzHint(f *testing.F) {
	for _, h := range samples() {
		data, err := proto.Marshal(encode(h))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var m hintspb.Hint
		if proto.Unmarshal(data, &m) != nil {
			return
		}
		h, err := decode(&m)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("%v does not match ErrInvalid", err)
			}
			return
		}
		again, err := decode(encode(h))
		if err != nil || !proto.Equal(encode(again), encode(h)) {
			t.Fatalf("accepted %+v, then %+v: %v", h, again, err)
		}
	})
}

func manyOperators() map[string]string {
	m := map[string]string{}
	for len(m) <= maxOperators {
		m[NewID()] = strings.Repeat("ab", 32)
	}
	return m
}
