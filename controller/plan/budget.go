package plan

import (
	"time"
)

// Budgets are what may be spent. The zero value allows nothing: each number that is 0 is a budget of nothing.
type Budgets struct {
	WAN      WAN
	Replicas Replicas
	Storage  Storage
	// JobShare is the largest part of what a site or the cluster may hold at once, and of what is made at once, that one job may have, in (0, 1]; 0 counts
	// as 1. Shares names other parts for some jobs.
	JobShare float64
	Shares   map[string]float64
}

// WAN is the budget of copies at other sites.
type WAN struct {
	On    bool
	Links map[string]Link // by site
}

// Link is what copies to one site may take.
type Link struct {
	// Rate is the bytes a second of all ordinary copies together, now; EmergencyRate that of emergencies, in whose presence ordinary copies pause. Whoever
	// knows the time of day changes them.
	Rate, EmergencyRate int64
	// Transfers is how many copies are sent at once, each with an equal part of the rate. 0 counts as 1.
	Transfers int
	// Held bounds the bytes of copies at the site at once, EmergencyHeld those of all with emergencies.
	Held, EmergencyHeld int64
	// ByteHoursPerDay bounds what copies take over time: bytes times hours, refilled evenly over a day.
	ByteHoursPerDay float64
}

// Replicas is the budget of temporary sources of hot files.
type Replicas struct {
	On bool
	// Held bounds their bytes at once, ByteHoursPerDay what they take over time.
	Held            int64
	ByteHoursPerDay float64
	// Makes is how many are made at once. 0 counts as 1.
	Makes int
}

// Storage is the budget of what making takes of the storage nodes while it lasts.
type Storage struct {
	On     bool
	Egress int64   // bytes a second
	Cores  float64 // of CPU
	Memory int64   // bytes
}

// limit is what one pool may take.
type limit struct {
	on                   bool
	held, heldEmergency  int64
	rate, rateEmergency  int64
	slots                int
	byteSecondsPerSecond float64
}

func (b Budgets) limitOf(site string) limit {
	const secondsPerDay = 24 * 3600
	if site == "" {
		r := b.Replicas
		return limit{
			on: r.On, held: r.Held, heldEmergency: r.Held, slots: max(r.Makes, 1),
			byteSecondsPerSecond: float64(r.ByteHoursPerDay) * 3600 / secondsPerDay,
		}
	}
	l := b.WAN.Links[site]
	return limit{
		on: b.WAN.On, held: l.Held, heldEmergency: max(l.Held, l.EmergencyHeld), rate: l.Rate, rateEmergency: max(l.Rate, l.EmergencyRate),
		slots: max(l.Transfers, 1), byteSecondsPerSecond: float64(l.ByteHoursPerDay) * 3600 / secondsPerDay,
	}
}

// share is the part of a budget that a job may have.
func (b Budgets) share(job string) float64 {
	s, named := b.Shares[job]
	if !named {
		s = b.JobShare
	}
	if s <= 0 && !named || s > 1 {
		return 1
	}
	return max(s, 0)
}

// pool is what placements at one site take, or those of the cluster itself.
type pool struct {
	site    string // "" for the cluster itself
	slots   int    // how many slots there are at the site
	limit   limit
	held    int64
	jobs    map[string]int64 // bytes held, by job
	running []*placement     // being made and not paused
	queue   queue
	parked  map[string][]*placement // by job: what waits for the job's own use to fall
	days    allowance
	stirred bool // something may have room now
	sent    sent
	content map[string]*placement // published copies by the version that they are of
}

func newPool(site string) *pool {
	return &pool{site: site, jobs: make(map[string]int64), parked: make(map[string][]*placement), content: make(map[string]*placement)}
}

// offer lets a published copy be what others of the very same version, under another name, are made of.
func (l *pool) offer(x *placement) {
	if x.want.means() == Copy && x.held.of == nil {
		l.content[x.want.identity] = x
	}
}

func (l *pool) retract(x *placement) {
	if l.content[x.want.identity] == x {
		delete(l.content, x.want.identity)
	}
}

// allowance is an account of byte-seconds. It fills up at a rate, to a day's worth, and is overdrawn only by what stays longer than it was to.
type allowance struct {
	perSecond float64
	level     float64
	at        time.Duration
	begun     bool
}

// set changes the rate. A new account is full.
func (a *allowance) set(perSecond float64, now time.Duration) {
	a.fill(now)
	if !a.begun && perSecond > 0 {
		a.begun = true
		a.level += daily(perSecond)
	}
	a.perSecond = perSecond
	a.level = min(a.level, daily(perSecond))
}

func daily(perSecond float64) float64 { return float64(perSecond * 24 * 3600) }

func (a *allowance) fill(now time.Duration) {
	a.level = min(a.level+float64(a.perSecond*(now-a.at).Seconds()), daily(a.perSecond))
	a.at = now
}

// take takes n byte-seconds, or tells that there are not as many.
func (a *allowance) take(n float64, now time.Duration) bool {
	a.fill(now)
	if n > a.level {
		return false
	}
	a.level -= n
	return true
}

// give gives back what was not used, or, below 0, takes what was used beyond.
func (a *allowance) give(n float64, now time.Duration) {
	a.fill(now)
	a.level = min(a.level+n, daily(a.perSecond))
}

// work is what making takes of the storage nodes.
type work struct {
	egress int64
	cores  float64
	memory int64
}

func (w work) plus(o work, sign int64) work {
	return work{w.egress + sign*o.egress, w.cores + float64(sign)*o.cores, w.memory + sign*o.memory}
}

// exceeds names what w has more of than the budget; "" if nothing.
func (w work) exceeds(b Storage) string {
	const rounding = 1e-9 // cores are added and taken away again
	switch {
	case w.egress > b.Egress:
		return "storage egress"
	case w.cores > b.Cores+rounding:
		return "storage CPU"
	case w.memory > b.Memory:
		return "storage memory"
	}
	return ""
}
