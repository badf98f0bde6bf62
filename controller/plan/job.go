package plan

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/relay"
)

// job is what is known of a job: its runs, and how its checkpoints were evaluated.
type job struct {
	marker
	name  string
	runs  []*run
	spike *checkpoint // whose copies are emergencies; the newest
	// spiked is the moment and id of its hint.
	spiked  stamp
	said    []*checkpoint // those that its runs have said something of
	history map[string]*history
}

// run is one start of a job. Runs are ordered by the moment at which the first start announcement of each was taken.
type run struct {
	id    string
	birth time.Duration
	born  bool // a start was announced
	ended bool
	start *start
	until time.Duration // when it is forgotten
}

// stamp orders what agents took: by moment, then by name.
type stamp struct {
	at time.Duration
	id string
}

func (s stamp) compare(o stamp) int {
	return cmp.Or(cmp.Compare(s.at, o.at), cmp.Compare(s.id, o.id))
}

func (p *Planner) job(name string) *job {
	j := p.jobs[name]
	if j == nil {
		j = &job{name: name, history: make(map[string]*history)}
		p.jobs[name] = j
	}
	return j
}

func (j *job) run(id string) *run {
	for _, r := range j.runs {
		if r.id == id {
			return r
		}
	}
	r := &run{id: id}
	j.runs = append(j.runs, r)
	return r
}

// current is the newest run that announced a start; nil if none did.
func (j *job) current() *run {
	var newest *run
	for _, r := range j.runs {
		if r.born && (newest == nil || r.newer(newest)) {
			newest = r
		}
	}
	return newest
}

func (r *run) newer(o *run) bool { return stamp{r.birth, r.id}.compare(stamp{o.birth, o.id}) > 0 }

// replaced tells whether a run had been replaced by a newer one at a moment: what it said from then on does not count. A run that announced no start
// has no place in their order.
func (j *job) replaced(id string, at time.Duration) bool {
	i := slices.IndexFunc(j.runs, func(r *run) bool { return r.id == id && r.born })
	if i < 0 {
		return false
	}
	return slices.ContainsFunc(j.runs, func(r *run) bool { return r.born && r.birth < at && r.newer(j.runs[i]) })
}

// ranks is the size of the job; 1 if it is not known.
func (j *job) ranks() float64 {
	if r := j.current(); r != nil && r.start != nil {
		return float64(max(r.start.ranks, 1))
	}
	return 1
}

func (ev Hint) apply(p *Planner) {
	r := ev.Record
	at := p.now - max(ev.Age, 0)
	s := stamp{at, r.ID}
	until := at + time.Duration(r.TTLMS)*time.Millisecond
	refuse := func(reason Reason, detail string) {
		path := ""
		if r.Checkpoint != nil {
			path = r.Checkpoint.Path
		}
		p.do(Refuse{Path: path, Job: r.Job, Reason: reason, Detail: detail})
	}
	state := hints.CheckpointState(0)
	if r.Checkpoint != nil {
		state, _ = hints.ParseCheckpointState(r.Checkpoint.State)
	}
	switch {
	case !valid(r) || r.Checkpoint != nil && state == 0:
		refuse(ReasonInvalid, "it breaks a rule that agents hold hints to (docs/protocol.md, section 5)")
	case at+hints.MaxTTL <= p.now:
		refuse(ReasonExpired, "the hint was taken more than 24 h ago")
	case r.Start != nil:
		p.started(r, s, until)
	case state == hints.EvaluationLoaded:
		p.loaded(r.Checkpoint, at)
	case state.Outcome(): // it asks for nothing
	default:
		p.heard(r, state, s, until)
	}
}

// valid tells whether a record is one that an agent may have written: what it says of time and certainty has bounds.
func valid(r relay.Record) bool {
	most := hints.MaxTTL.Milliseconds()
	in := func(ms int64) bool { return ms >= 0 && ms <= most }
	named := r.ID != "" && r.Job != "" && r.Run != "" && (r.Start == nil) != (r.Checkpoint == nil)
	sure := r.Confidence > 0 && r.Confidence <= 1 && r.TTLMS > 0 && in(r.TTLMS)
	switch {
	case !named || !sure:
		return false
	case r.Start != nil: // how far it is, is told by FanOut
		return r.Start.Phase == "" && r.Start.Ranks > 0 && in(r.Start.ExpectedInMS)
	}
	c := r.Checkpoint
	return c.Path != "" && in(c.ExpectedInMS) && c.Urgency >= 0 && c.Urgency <= 1
}

// started takes a start announcement. Of two of one run the later counts; of two runs the one that was announced first later.
func (p *Planner) started(r relay.Record, s stamp, until time.Duration) {
	j := p.job(r.Job)
	run := j.run(r.Run)
	before := j.current()
	earlier := !run.born || s.at < run.birth
	if earlier {
		run.birth, run.born = s.at, true
	}
	run.until = max(run.until, s.at+hints.MaxTTL)
	if run.start == nil || s.compare(run.start.stamp) > 0 {
		old := run.start
		run.start = p.newStart(j, run, r, s, until)
		if old != nil {
			run.start.opened = old.opened
			old.detach(p)
		}
	}
	p.touch(run.start)
	p.touch(j)
	if now := j.current(); earlier || now != before { // whose words count may be others, also where the newest run is the same
		for _, other := range j.runs {
			if other.start != nil {
				p.touch(other.start)
			}
		}
		for _, c := range j.said {
			p.touch(c)
		}
	}
	if now := j.current(); now != run {
		p.do(Refuse{Job: j.name, Reason: ReasonOldRun, Detail: "run " + run.id + " was replaced by " + now.id})
	}
}

func (ev JobEnded) apply(p *Planner) {
	run := p.job(ev.Job).run(ev.Run)
	run.ended = true
	run.until = max(run.until, p.now+hints.MaxTTL)
	p.touch(p.job(ev.Job))
	if run.start != nil {
		p.touch(run.start)
	}
}

// history is what came of a job's evaluations at one site.
type history struct {
	steps  []int64         // of the checkpoints that were evaluated, the last ones
	delays []time.Duration // from commit to opening
	// hits and misses are predictions that came true, and those that did not.
	hits, misses int
	// margin is the lead time beyond the predicted duration; 0: not moved yet.
	margin time.Duration
	// remote and local are how long evaluations took to read: those that found no copy until they had read, and those that found one.
	remote, local sent
}

// rates are the bytes a second at which evaluations read what is not at a site, and what is: as they did lately, once both are known, since what an evaluation does beside
// reading is then in both; else as is believed of the site.
func (h *history) rates(site Site) (remote, local int64) {
	if h == nil || len(h.remote) < leastReadings || len(h.local) < leastReadings {
		return site.RemoteRate, site.LocalRate
	}
	return h.remote.rate(), h.local.rate()
}

// mostHistory bounds what is remembered of a job's evaluations.
const mostHistory = 16

// note remembers that a checkpoint was opened for evaluation.
func (h *history) note(step int64, delay time.Duration) {
	if step >= 0 && !slices.Contains(h.steps, step) {
		h.steps = lastOf(append(h.steps, step))
	}
	h.delays = lastOf(append(h.delays, max(delay, 0)))
}

func lastOf[T any](list []T) []T { return list[max(len(list)-mostHistory, 0):] }

// predict says how likely a checkpoint of a step is evaluated, and when after its commit: 0 if nothing is known. Steps that were evaluated have a common
// distance, and only checkpoints at such a distance are expected.
func (h *history) predict(step int64) (float64, time.Duration) {
	const least = 2
	if len(h.delays) < least {
		return 0, 0
	}
	if len(h.steps) >= least && step >= 0 {
		distance := int64(0)
		for _, s := range h.steps[1:] {
			distance = gcd(distance, abs(s-h.steps[0]))
		}
		if distance > 0 && abs(step-h.steps[0])%distance != 0 {
			return 0, 0
		}
	}
	n := float64(h.hits + len(h.delays))
	delays := slices.Sorted(slices.Values(h.delays))
	return n / (n + 1 + float64(h.misses)), delays[len(delays)/2]
}

func abs(n int64) int64 {
	if n < 0 {
		return -n
	}
	return n
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// learn moves the lead time: a copy that came late doubles it, one in time takes a sixteenth away.
func (h *history) learn(late bool, first time.Duration) {
	const most = time.Hour
	if h.margin == 0 {
		h.margin = first
	}
	if late {
		h.margin = min(2*h.margin, most)
		return
	}
	h.margin = max(h.margin-h.margin/16, time.Second)
}

// decide forgets what is over: runs that no hint can speak of any more, and a job of which nothing is known but its history.
func (j *job) decide(p *Planner) {
	next := never
	j.runs = slices.DeleteFunc(j.runs, func(r *run) bool {
		if r.until > p.now {
			next = min(next, r.until)
		}
		return r.until <= p.now && (r.start == nil || !r.start.attached)
	})
	if next < never {
		p.alarm(j, next)
	}
	if len(j.runs) == 0 && len(j.said) == 0 && p.jobs[j.name] == j {
		delete(p.jobs, j.name)
	}
}

const never = time.Duration(math.MaxInt64)
