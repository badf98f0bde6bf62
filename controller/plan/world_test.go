package plan

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"
)

// world does what a planner asks, and holds it to its rules by an account of its own.
type world struct {
	t       *rapid.T
	p       *Planner
	now     time.Duration
	budgets Budgets
	things  map[ID]*thing
	answers []answer
	n       int
	log     []string
	// draw returns how long an action takes and whether it fails.
	draw func() (time.Duration, bool)
	// facts of files and checkpoints that are asked for.
	files  func(path string) File
	copies func(path string) Checkpoint
	legal  map[string]bool // path and identity of what was committed or looked at
	used   map[string]float64
}

// thing is a placement as the world sees it.
type thing struct {
	a                             Make
	since                         time.Duration
	rate                          int64
	making, made                  bool
	published, withdrawn, removed bool
	removing                      bool
}

type answer struct {
	at time.Duration
	n  int
	ev Event
}

func newWorld(t *rapid.T, p *Planner) *world {
	return &world{
		t: t, p: p, things: make(map[ID]*thing), legal: make(map[string]bool), used: make(map[string]float64),
		draw: func() (time.Duration, bool) { return time.Second, false },
		files: func(path string) File {
			return File{Path: path, Identity: "v1", Size: 64 << 20, Blocks: 1, Replicas: 3}
		},
		copies: func(path string) Checkpoint {
			return Checkpoint{Path: path, Identity: "v1", Complete: true, Bytes: 1 << 30}
		},
	}
}

// send gives the planner an event, and does what follows.
func (w *world) send(ev Event) {
	if b, ok := ev.(BudgetsChanged); ok {
		w.budgets = b.Budgets
	}
	for n := 0; ; n++ {
		if n > 1000 {
			w.fail("the planner does not come to rest: %d subjects, %d alarms", len(w.p.touched), w.p.alarms.list.len)
		}
		for _, a := range slices.Clone(w.p.Step(ev, w.now)) {
			w.log = append(w.log, fmt.Sprintf("%v %s", w.now, a))
			w.do(a)
		}
		if at, ok := w.p.Wake(); !ok || at > w.now {
			w.same()
			return
		}
		ev = Tick{}
	}
}

// until lets time pass, event by event.
func (w *world) until(end time.Duration) {
	for n := 0; ; n++ {
		if n > 100000 {
			w.fail("time stands still at %v", w.now)
		}
		next, ok := w.p.Wake()
		if !ok || next > end {
			next = end
		}
		var ev Event = Tick{}
		if i := w.nextAnswer(); i >= 0 && w.answers[i].at <= next {
			next, ev = w.answers[i].at, w.answers[i].ev
			w.answers = append(w.answers[:i], w.answers[i+1:]...)
			w.taken(ev)
		}
		w.pass(max(next, w.now))
		w.send(ev)
		if w.now >= end && w.nextAnswer() < 0 {
			return
		}
		if i := w.nextAnswer(); w.now >= end && (i < 0 || w.answers[i].at > end) {
			return
		}
	}
}

// pass counts the byte-seconds that were held.
func (w *world) pass(to time.Duration) {
	for _, th := range w.things {
		if !th.removed {
			w.used[th.a.Site] += float64(th.a.Bytes) * (to - w.now).Seconds()
		}
	}
	w.now = to
}

func (w *world) nextAnswer() int {
	best := -1
	for i, a := range w.answers {
		if best < 0 || a.at < w.answers[best].at || a.at == w.answers[best].at && a.n < w.answers[best].n {
			best = i
		}
	}
	return best
}

func (w *world) answer(after time.Duration, ev Event) {
	w.n++
	w.answers = append(w.answers, answer{w.now + after, w.n, ev})
}

// taken is what has come of an action at the moment at which the planner hears of it.
func (w *world) taken(ev Event) {
	d, ok := ev.(Done)
	if !ok {
		if f, failed := ev.(Failed); failed && f.Action == "make" {
			w.things[f.ID].making, w.things[f.ID].rate = false, 0
		}
		return
	}
	th := w.things[d.ID]
	switch d.Action {
	case "make":
		th.making, th.made, th.rate = false, true, 0
		th.a = th.a.Less(d.Short)
	case "withdraw":
		th.withdrawn = true
		if th.a.Means == Even {
			th.removed = true
		}
	case "remove":
		th.removed, th.rate = true, 0
	}
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	for _, line := range w.log[max(len(w.log)-40, 0):] {
		w.t.Log(line)
	}
	w.t.Fatalf(format, args...)
}

// respond answers an action later.
func (w *world) respond(id ID, action string) {
	after, fails := w.draw()
	if fails {
		w.answer(after, Failed{ID: id, Action: action, Reason: ReasonFailed, Detail: "drawn"})
		return
	}
	d := Done{ID: id, Action: action, Took: after}
	if th := w.things[id]; action == "make" && th.a.Extra > 0 {
		d.Short = int(id) % th.a.Extra
	}
	w.answer(after, d)
}

// same checks that what the planner takes its placements for is what was made.
func (w *world) same() {
	for id, x := range w.p.placements {
		if th := w.things[id]; !x.state.undoing() && (x.want.identity != th.a.Identity || x.want.means() != th.a.Means) {
			w.fail("%d is taken for %s of version %s: %+v", id, x.want.means(), x.want.identity, th)
		}
		if th := w.things[id]; !x.state.undoing() && x.held != nil && (x.held.bytes != th.a.Bytes || int(x.want.extra) != th.a.Extra) {
			w.fail("%d is taken for %d bytes and %d extra sources: %+v", id, x.held.bytes, x.want.extra, th)
		}
		if x.want.means() == Copy && !x.state.undoing() && x.state != waiting {
			w.bounded(w.things[id])
		}
	}
}

// bounded checks that a copy is what policy allows by now.
func (w *world) bounded(th *thing) {
	v := w.p.policy.Copy(Request{Path: th.a.Path, Site: th.a.Site})
	if v.Access != th.a.Access {
		w.fail("may be read by %q, policy says %q: %+v", th.a.Access, v.Access, th)
	}
	if v.Lease > 0 && th.since+v.Lease <= w.now {
		w.fail("it is there since %v, at most for %v: %+v", th.since, v.Lease, th)
	}
}

// do performs an action and checks that it may come now.
func (w *world) do(a Action) {
	switch a := a.(type) {
	case Look:
		var list []File
		for _, path := range a.Paths {
			f := w.files(path)
			w.legal[path+"@"+f.Identity] = true
			list = append(list, f)
		}
		w.answer(0, Looked{list})
	case Inspect:
		w.answer(0, Inspected{w.copies(a.Path)})
	case Make:
		w.make(a)
	case Publish:
		w.publish(a)
	case Pace:
		th := w.things[a.ID]
		if th == nil || th.removing {
			w.fail("pace of %d, which is not being made", a.ID)
		}
		resumed := a.Rate > 0 && !th.making && !th.made
		th.rate = a.Rate
		if resumed {
			th.making = true
			w.respond(a.ID, "make")
		}
	case Withdraw:
		th := w.things[a.ID]
		if th == nil || !th.published || th.withdrawn || th.removing {
			w.fail("withdraw of %d: %+v", a.ID, th)
		}
		w.respond(a.ID, "withdraw")
	case Remove:
		th := w.things[a.ID]
		if th == nil || th.removed || th.published && !th.withdrawn {
			w.fail("remove of %d: %+v", a.ID, th)
		}
		th.removing, th.rate = true, 0 // the making ends first
		w.drop(a.ID, "make")
		w.respond(a.ID, "remove")
	case Extend:
		if th := w.things[a.ID]; th == nil || th.removing {
			w.fail("extend of %d", a.ID)
		}
	}
	w.check(a)
}

// drop forgets the answer of a making that is undone.
func (w *world) drop(id ID, action string) {
	w.answers = slices.DeleteFunc(w.answers, func(a answer) bool {
		switch ev := a.ev.(type) {
		case Done:
			return ev.ID == id && ev.Action == action
		case Failed:
			return ev.ID == id && ev.Action == action
		}
		return false
	})
}

func (w *world) make(a Make) {
	if w.things[a.ID] != nil {
		w.fail("%d is made twice", a.ID)
	}
	if !w.legal[a.Path+"@"+a.Identity] {
		w.fail("%s is made in the version %s, which nobody committed", a.Path, a.Identity)
	}
	for id, th := range w.things {
		if !th.removed && th.a.Path == a.Path && th.a.Site == a.Site {
			w.fail("%d and %d are at one place", id, a.ID)
		}
		if id == a.Of && (th.removing || th.a.Site != a.Site) {
			w.fail("%d shares the content of %d: %+v", a.ID, id, th)
		}
	}
	if a.Lease <= 0 {
		w.fail("%d has no lease: %v", a.ID, a.Lease)
	}
	w.things[a.ID] = &thing{a: a, since: w.now, rate: a.Rate, making: true}
	w.room(a)
	w.respond(a.ID, "make")
}

func (w *world) publish(a Publish) {
	th := w.things[a.ID]
	if th == nil && a.Means == Even {
		th = &thing{a: Make{ID: a.ID, Means: Even, Path: a.Path, Identity: a.Identity}, made: true}
		w.things[a.ID] = th
	}
	if th == nil || !th.made || th.removing {
		w.fail("publish of %d: %+v", a.ID, th)
	}
	th.published, th.withdrawn = true, false
	w.respond(a.ID, "publish")
}

// room checks that what begins has room: what was begun before a budget was lowered does not count against it, but nothing is added to it.
func (w *world) room(a Make) {
	b, all, ordinary := w.budgets, int64(0), int64(0)
	for _, th := range w.things {
		if !th.removed && th.a.Site == a.Site {
			all += th.a.Bytes
			if !th.a.Emergency {
				ordinary += th.a.Bytes
			}
		}
	}
	held, most := b.Replicas.Held, b.Replicas.Held
	on := b.Replicas.On && b.Storage.On
	if a.Site != "" {
		held, most = b.WAN.Links[a.Site].Held, max(b.WAN.Links[a.Site].Held, b.WAN.Links[a.Site].EmergencyHeld)
		on = b.WAN.On && b.Storage.On
	}
	if !on {
		w.fail("%d is made while its budget is switched off", a.ID)
	}
	if a.Bytes > 0 && (all > most || !a.Emergency && ordinary > held) {
		w.fail("%d of %d bytes are held, %d ordinary ones of %d", all, most, ordinary, held)
	}
}

// check compares what runs with the budgets.
func (w *world) check(after Action) {
	rate, emergencies, makes := map[string]int64{}, map[string]bool{}, map[string]int{}
	egress, memory := int64(0), int64(0)
	for _, th := range w.things {
		if th.rate == 0 || th.removed {
			continue
		}
		rate[th.a.Site] += th.rate
		makes[th.a.Site]++
		emergencies[th.a.Site] = emergencies[th.a.Site] || th.a.Emergency
		egress += th.rate
		memory += workMemory
	}
	if _, changes := after.(Pace); changes {
		return // several follow each other: the last counts, and what begins comes after them
	}
	if _, makes := after.(Make); !makes {
		return
	}
	for site, l := range w.budgets.WAN.Links {
		if rate[site] > max(l.Rate, l.EmergencyRate) || rate[site] > l.Rate && !w.urgent(site) {
			w.fail("%d bytes a second to %s, of %+v", rate[site], site, l)
		}
	}
	if makes[""] > max(w.budgets.Replicas.Makes, 1) {
		w.fail("%d makings at once, of %d", makes[""], w.budgets.Replicas.Makes)
	}
	if egress > w.budgets.Storage.Egress || memory > w.budgets.Storage.Memory {
		w.fail("storage: %d bytes a second, %d bytes of memory, of %+v", egress, memory, w.budgets.Storage)
	}
}

// urgent tells whether a copy runs as an emergency: it may have become one.
func (w *world) urgent(site string) bool {
	for _, th := range w.things {
		if x := w.p.placements[th.a.ID]; x != nil && th.a.Site == site && th.rate > 0 && x.want.emergency {
			return true
		}
	}
	return false
}

// empty checks that nothing is left, and that nothing is remembered for ever.
func (w *world) empty() {
	for id, th := range w.things {
		if !th.removed {
			w.fail("%d is left: %+v", id, th)
		}
	}
	p := w.p
	if len(p.placements)+len(p.files)+len(p.copies)+len(p.jobs)+p.local.queue.list.len+len(p.local.parked)+len(p.local.jobs) > 0 {
		w.fail("the planner remembers %d placements, %d files, %d checkpoints, %d jobs", len(p.placements), len(p.files), len(p.copies), len(p.jobs))
	}
	for _, l := range p.pools {
		if l.held != 0 || len(l.running) > 0 || l.queue.list.len > 0 || len(l.content) > 0 || len(l.jobs) > 0 {
			w.fail("pool %q: %d bytes, %d running, %d waiting", l.site, l.held, len(l.running), l.queue.list.len)
		}
	}
	if p.working.egress != 0 || p.working.memory != 0 {
		w.fail("storage is still used: %+v", p.working)
	}
}
