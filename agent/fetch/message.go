package fetch

import (
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/stepahead-io/stepahead/agent/fetch/fetchpb"
)

// Limits of a request. Both sides check them.
const (
	maxWants  = 1 << 16 // entries of one request
	maxFields = 64
	maxName   = 255 // bytes of a job, run, field or node name
)

// encodeRequest checks a request and returns its message.
func encodeRequest(req *Request, maxEntry int64) (*fetchpb.FetchRequest, error) {
	m := &fetchpb.FetchRequest{
		Version: ProtocolVersion, Job: req.Job, Run: req.Run, Generation: req.Generation,
		Step: req.Step, Progress: req.Progress, Dataset: req.Dataset[:],
		DeadlineUs: req.Deadline.Microseconds(), MaxEntry: maxEntry,
	}
	place := make(map[string]uint32, len(req.PlanDigests))
	for _, name := range slices.Sorted(maps.Keys(req.PlanDigests)) {
		digest := req.PlanDigests[name]
		place[name] = uint32(len(m.Fields))
		m.Fields = append(m.Fields, &fetchpb.Field{Name: name, PlanDigest: digest[:]})
	}
	m.Wants = make([]*fetchpb.Want, len(req.Wants))
	for i, w := range req.Wants {
		field, ok := place[w.Field]
		if !ok {
			return nil, fmt.Errorf("fetch: want %d: field %q has no plan digest in the request", i, w.Field)
		}
		m.Wants[i] = &fetchpb.Want{Sample: w.Sample, Epoch: w.Epoch, Field: field}
	}
	return m, checkRequest(m)
}

// decodeRequest checks a message and returns its request.
func decodeRequest(m *fetchpb.FetchRequest) (*Request, error) {
	if err := checkRequest(m); err != nil {
		return nil, err
	}
	req := &Request{
		Job: m.Job, Run: m.Run, Generation: m.Generation, Step: m.Step, Progress: m.Progress,
		Dataset: [32]byte(m.Dataset), PlanDigests: make(map[string][32]byte, len(m.Fields)),
		Wants: make([]Want, len(m.Wants)), Deadline: micros(m.DeadlineUs), MaxEntry: m.MaxEntry,
	}
	for _, f := range m.Fields {
		req.PlanDigests[f.Name] = [32]byte(f.PlanDigest)
	}
	for i, w := range m.Wants {
		req.Wants[i] = Want{Sample: w.Sample, Epoch: w.Epoch, Field: m.Fields[w.Field].Name}
	}
	return req, nil
}

// checkRequest holds every rule of a request. What it passes is decoded without a further check.
func checkRequest(m *fetchpb.FetchRequest) error {
	switch {
	case !named(m.Job) || !named(m.Run):
		return fmt.Errorf("fetch: job %.40q, run %.40q: must have 1 to %d bytes", m.Job, m.Run, maxName)
	case m.Step < 0 || m.Progress < 0:
		return fmt.Errorf("fetch: step %d, progress %d: must not be negative", m.Step, m.Progress)
	case len(m.Dataset) != 32:
		return fmt.Errorf("fetch: dataset identity has %d bytes, not 32", len(m.Dataset))
	case len(m.Wants) == 0 || len(m.Wants) > maxWants:
		return fmt.Errorf("fetch: %d wants: must be 1 to %d", len(m.Wants), maxWants)
	case m.DeadlineUs < 0 || m.DeadlineUs > time.Hour.Microseconds():
		return fmt.Errorf("fetch: deadline of %d us: must be 0 to 1 h", m.DeadlineUs)
	case m.MaxEntry <= 0:
		return fmt.Errorf("fetch: largest entry of %d bytes: must be positive", m.MaxEntry)
	}
	return checkFields(m)
}

func checkFields(m *fetchpb.FetchRequest) error {
	if len(m.Fields) > maxFields {
		return fmt.Errorf("fetch: %d fields: at most %d", len(m.Fields), maxFields)
	}
	seen := make(map[string]bool, len(m.Fields))
	for i, f := range m.Fields {
		if !named(f.GetName()) || seen[f.GetName()] || len(f.GetPlanDigest()) != 32 {
			return fmt.Errorf("fetch: field %d, %.40q: must have a name of its own of 1 to %d bytes and a digest of 32", i, f.GetName(), maxName)
		}
		seen[f.Name] = true
	}
	for i, w := range m.Wants {
		if w == nil || uint64(w.Field) >= uint64(len(m.Fields)) {
			return fmt.Errorf("fetch: want %d: field %d of %d", i, w.GetField(), len(m.Fields))
		}
	}
	return nil
}

func named(s string) bool { return s != "" && len(s) <= maxName && utf8.ValidString(s) }
