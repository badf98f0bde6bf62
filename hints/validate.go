package hints

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// ErrInvalid is a hint that breaks a rule of the protocol. The text names the field and the rule.
var ErrInvalid = errors.New("hint is not valid")

// Validate returns every rule that the hint breaks, as one error that matches [ErrInvalid].
func (h Hint) Validate() error {
	var p problems
	p.name("id", h.ID)
	p.name("job", h.Job)
	p.name("run", h.Run)
	p.when(h.TTL < time.Millisecond || h.TTL > MaxTTL, "ttl: %s is not in [1ms, %s]", h.TTL, MaxTTL)
	p.when(!(h.Confidence > 0 && h.Confidence <= 1), "confidence: %v is not in (0, 1]", h.Confidence)
	kinds := 0
	if h.Schedule != nil {
		kinds++
		h.Schedule.validate(&p)
		p.when(h.Schedule.Dataset != h.Identity, "identity: is not the schedule's dataset")
	}
	if h.Progress != nil {
		kinds++
		p.when(h.Progress.Step < 0, "progress.step: %d is negative", h.Progress.Step)
	}
	if h.Close != nil {
		kinds++
	}
	if h.Start != nil {
		kinds++
		h.Start.validate(&p)
	}
	if h.Checkpoint != nil {
		kinds++
		h.Checkpoint.validate(&p)
	}
	if h.Window != nil {
		kinds++
		h.Window.validate(&p, "window")
	}
	p.when(kinds != 1, "kind: %d are set, must be one", kinds)
	if err := p.joined(); err != nil {
		return fmt.Errorf("hints.Validate: %w: %w", ErrInvalid, err)
	}
	return nil
}

func (s *Schedule) validate(p *problems) {
	s.validateMembers(p)
	p.when((len(s.Spec) > 0) == (s.Window != nil), "schedule: must have either a spec or a window")
	p.when(len(s.Spec) > maxPlan, "schedule.spec: %d bytes, at most %d", len(s.Spec), maxPlan)
	p.when(len(s.Spec) > 0 && len(s.Spec) <= maxPlan && !json.Valid(s.Spec), "schedule.spec: not JSON")
	p.when(len(s.Source) > maxName || !utf8.ValidString(s.Source), "schedule.source: at most %d bytes of UTF-8", maxName)
	p.when(s.FirstStep < 0, "schedule.first_step: %d is negative", s.FirstStep)
	p.when(s.StepTime < 0 || s.StepTime > maxStepTime, "schedule.step_time: %s is not in [0, %s]", s.StepTime, maxStepTime)
	s.validateFields(p)
	s.validateAgents(p)
	s.validateOperators(p)
	if s.Window != nil {
		s.Window.validate(p, "schedule.window")
	}
}

func (s *Schedule) validateMembers(p *problems) {
	if len(s.Members) == 0 {
		p.text("schedule.dataset_url", s.DatasetURL, 1, maxURL)
		return
	}
	p.when(s.DatasetURL != "" || s.Source != "", "schedule: has members, so dataset_url and source_name must be empty")
	if len(s.Members) > maxMembers {
		p.add("schedule.members: %d, at most %d", len(s.Members), maxMembers)
		return
	}
	seen := make(map[string]bool, len(s.Members))
	for i, m := range s.Members {
		at := "schedule.members[" + strconv.Itoa(i) + "]"
		p.text(at+".name", m.Name, 0, maxName)
		p.text(at+".dataset_url", m.DatasetURL, 1, maxURL)
		p.when(seen[m.Name], "%s.name: %.40q occurs twice", at, m.Name)
		seen[m.Name] = true
	}
}

func (s *Schedule) validateFields(p *problems) {
	if len(s.Fields) == 0 || len(s.Fields) > maxFields {
		p.add("schedule.fields: %d, must be 1 to %d", len(s.Fields), maxFields)
		return
	}
	seen := make(map[string]bool, len(s.Fields))
	for i, f := range s.Fields {
		at := "schedule.fields[" + strconv.Itoa(i) + "]"
		p.name(at+".field", f.Field)
		p.when(seen[f.Field], "%s.field: %.40q occurs twice", at, f.Field)
		seen[f.Field] = true
		if len(f.Plan) == 0 || len(f.Plan) > maxPlan {
			p.add("%s.plan: %d bytes, must be 1 to %d", at, len(f.Plan), maxPlan)
			continue
		}
		p.when(sha256.Sum256(f.Plan) != f.Digest, "%s.plan_digest: is not the plan's SHA-256", at)
	}
}

func (s *Schedule) validateAgents(p *problems) {
	if len(s.Agents) == 0 || len(s.Agents) > maxAgents {
		p.add("schedule.agents: %d, must be 1 to %d", len(s.Agents), maxAgents)
		return
	}
	seen := make(map[string]bool, len(s.Agents))
	for i, a := range s.Agents {
		at := "schedule.agents[" + strconv.Itoa(i) + "]"
		p.name(at+".node", a.Node)
		p.addr(at+".addr", a.Addr)
		p.when(seen[a.Node], "%s.node: %.40q occurs twice", at, a.Node)
		seen[a.Node] = true
	}
}

func (s *Schedule) validateOperators(p *problems) {
	if len(s.Operators) > maxOperators {
		p.add("schedule.operators: %d, at most %d", len(s.Operators), maxOperators)
		return
	}
	for id, digest := range s.Operators {
		p.name("schedule.operators", id)
		raw, err := hex.DecodeString(digest)
		p.when(err != nil || len(raw) != sha256.Size, "schedule.operators[%.40q]: not 64 hex digits", id)
	}
}

func (w *Window) validate(p *problems, at string) {
	p.when(w.FirstStep < 0 || w.FirstStep > maxStep, "%s.first_step: %d is not in [0, 2^62]", at, w.FirstStep)
	p.when(len(w.Steps) == 0 || len(w.Steps) > maxSteps, "%s.steps: %d, must be 1 to %d", at, len(w.Steps), maxSteps)
	samples := 0
	for _, s := range w.Steps {
		samples += len(s)
	}
	p.when(samples > maxSamples, "%s: %d samples, at most %d", at, samples, maxSamples)
}

func (s *Start) validate(p *problems) {
	p.when(s.Ranks == 0 || s.RanksPerHost == 0 || s.RanksPerHost > s.Ranks, "start: %d ranks, %d a host: must be positive, and not more a host than in all", s.Ranks, s.RanksPerHost)
	p.when(s.ExpectedIn < 0 || s.ExpectedIn > MaxTTL, "start.expected_in: %s is not in [0, %s]", s.ExpectedIn, MaxTTL)
	s.validatePhase(p)
	if len(s.Files) > MaxFiles {
		p.add("start.files: %d, at most %d", len(s.Files), MaxFiles)
		return
	}
	for i, f := range s.Files {
		p.text("start.files["+strconv.Itoa(i)+"].path", f.Path, 1, maxURL)
		p.when(f.Readers == 0 || f.Readers > s.Ranks, "start.files[%d].readers: %d is not in [1, %d], the number of ranks", i, f.Readers, s.Ranks)
	}
}

func (s *Start) validatePhase(p *problems) {
	t := s.Took
	p.when(s.Phase < Announced || s.Phase > Read, "start.phase: %d is not a phase", s.Phase)
	p.when(s.Phase != Announced && s.ExpectedIn != 0, "start.expected_in: is of an announcement, not of the phase %s", s.Phase)
	p.when(s.Phase != Read && t != (Took{}), "start.took: is of the phase read, not of %s", s.Phase)
	p.when(t.Median < 0 || t.Last < t.Median || t.Last > MaxTTL, "start.took: median %s, last %s: must be in order, in [0, %s]", t.Median, t.Last, MaxTTL)
	p.when(t.Bytes < 0, "start.took.bytes: %d is negative", t.Bytes)
}

func (c *Checkpoint) validate(p *problems) {
	p.when(c.State < Saving || c.State > lastState, "checkpoint.state: %d is not a state", c.State)
	p.text("checkpoint.path", c.Path, 1, maxURL)
	p.text("checkpoint.layout", c.Layout, 0, maxName)
	p.text("checkpoint.save_id", c.SaveID, 0, maxName)
	p.when(!(c.Urgency >= 0 && c.Urgency <= 1), "checkpoint.urgency: %v is not in [0, 1]", c.Urgency)
	c.validateEvaluation(p)
	if len(c.Files) > MaxFiles {
		p.add("checkpoint.files: %d, at most %d", len(c.Files), MaxFiles)
		return
	}
	for i, f := range c.Files {
		p.text("checkpoint.files["+strconv.Itoa(i)+"].name", f.Name, 1, maxURL)
		p.when(!fs.ValidPath(f.Name), "checkpoint.files[%d].name: %.60q is not a path inside the checkpoint", i, f.Name)
		p.when(f.Size < 0, "checkpoint.files[%d].size: %d is negative", i, f.Size)
	}
}

func (c *Checkpoint) validateEvaluation(p *problems) {
	p.when(c.Step < -1, "checkpoint.step: %d is negative", c.Step)
	p.text("checkpoint.evaluation", c.Evaluation, 0, maxName)
	p.text("checkpoint.site", c.Site, 0, maxName)
	p.when(c.ExpectedIn < 0 || c.ExpectedIn > MaxTTL, "checkpoint.expected_in: %s is not in [0, %s]", c.ExpectedIn, MaxTTL)
	p.when(!c.State.OfEvaluation() && (c.Evaluation != "" || c.Site != "" || c.ExpectedIn != 0), "checkpoint: evaluation, site and expected_in are of evaluations, not of %s", c.State)
	p.when(c.Ago < 0 || c.Ago > MaxTTL, "checkpoint.ago: %s is not in [0, %s]", c.Ago, MaxTTL)
	p.when((c.State == EvaluationResult) != (c.Result != nil), "checkpoint.result: is of evaluation-result, which has one, not of %s", c.State)
	if r := c.Result; r != nil {
		p.text("checkpoint.result.metric", r.Metric, 0, maxName)
		p.when(r.Value != nil && (math.IsNaN(*r.Value) || math.IsInf(*r.Value, 0)), "checkpoint.result.value: must be a finite number, or absent")
	}
	switch c.Decision {
	case Continue, Rollback, Stop:
		p.when(c.State != EvaluationDecided, "checkpoint.decision: is of evaluation-decided, not of %s", c.State)
	case "":
		p.when(c.State == EvaluationDecided, "checkpoint.decision: must be given")
	default:
		p.add("checkpoint.decision: %.20q is not %s, %s or %s", c.Decision, Continue, Rollback, Stop)
	}
}

// CheckName returns what is wrong with the name of a job, a run or a node: it has 1 to 255 bytes of UTF-8 without control characters.
func CheckName(name string) error {
	var p problems
	p.name("name", name)
	return p.joined()
}

// maxProblems keeps the error of a hint with thousands of bad rows readable.
const maxProblems = 16

// problems collects broken rules.
type problems struct {
	list []string
	more int
}

func (p *problems) add(format string, args ...any) {
	if len(p.list) == maxProblems {
		p.more++
		return
	}
	p.list = append(p.list, fmt.Sprintf(format, args...))
}

func (p *problems) when(broken bool, format string, args ...any) {
	if broken {
		p.add(format, args...)
	}
}

// name checks a name that ends up in logs and file names.
func (p *problems) name(field, s string) { p.text(field, s, 1, maxName) }

func (p *problems) text(field, s string, least, most int) {
	switch {
	case len(s) < least || len(s) > most:
		p.add("%s: %d bytes, must be %d to %d", field, len(s), least, most)
	case !utf8.ValidString(s):
		p.add("%s: not UTF-8", field)
	case strings.ContainsFunc(s, unicode.IsControl):
		p.add("%s: %.40q has a control character", field, s)
	}
}

func (p *problems) addr(field, s string) {
	host, port, err := net.SplitHostPort(s)
	number, bad := strconv.ParseUint(port, 10, 16)
	odd := !utf8.ValidString(host) || strings.ContainsFunc(host, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) })
	p.when(len(s) > maxAddr || err != nil || bad != nil || host == "" || odd || number == 0, "%s: %.60q is not host:port", field, s)
}

// joined returns the broken rules as one error of one line, nil if there are none.
func (p *problems) joined() error {
	if len(p.list) == 0 {
		return nil
	}
	all := strings.Join(p.list, "; ")
	if p.more > 0 {
		all += fmt.Sprintf("; and %d more", p.more)
	}
	return errors.New(all)
}
