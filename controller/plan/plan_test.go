package plan

import (
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/relay"
)

// ample budgets stand in nobody's way.
func ample() Budgets {
	link := Link{Rate: 1e9, EmergencyRate: 2e9, Transfers: 100, Held: 1 << 50, EmergencyHeld: 1 << 50, ByteHoursPerDay: 1e18}
	return Budgets{
		WAN:      WAN{On: true, Links: map[string]Link{"east": link, "west": link}},
		Replicas: Replicas{On: true, Held: 1 << 50, ByteHoursPerDay: 1e18, Makes: 100},
		Storage:  Storage{On: true, Egress: 1e12, Cores: 1000, Memory: 1 << 50},
	}
}

func drawBudgets(t *rapid.T) Budgets {
	link := func(name string) Link {
		l := Link{
			Rate: rapid.Int64Range(0, 4).Draw(t, name+".rate") * 50e6, Transfers: rapid.IntRange(1, 3).Draw(t, name+".transfers"),
			Held: rapid.Int64Range(0, 8).Draw(t, name+".held") << 30, ByteHoursPerDay: 1e15,
		}
		l.EmergencyRate, l.EmergencyHeld = 2*l.Rate, l.Held+2<<30
		return l
	}
	on := func(name string) bool { return rapid.IntRange(0, 9).Draw(t, name) > 0 }
	return Budgets{
		WAN: WAN{On: on("wan"), Links: map[string]Link{"east": link("east"), "west": link("west")}},
		Replicas: Replicas{
			On: on("replicas"), Held: rapid.Int64Range(0, 10).Draw(t, "replicas.held") << 27, ByteHoursPerDay: 1e15, Makes: rapid.IntRange(1, 3).Draw(t, "makes"),
		},
		Storage:  Storage{On: on("storage"), Egress: rapid.Int64Range(0, 8).Draw(t, "egress") * 100e6, Cores: 2, Memory: 2 << 30},
		JobShare: rapid.SampledFrom([]float64{0, 0.3, 1}).Draw(t, "share"),
	}
}

// settled is a planner that knows the world and its rules.
func settled(t *rapid.T, b Budgets) *world {
	w := newWorld(t, New(Options{Home: "home"}))
	w.send(ClusterChanged{Cluster{Nodes: 40, Tagged: 20, Load: 0.1, Free: 1 << 50, NodeRate: 100e6, ReadersPerSource: 8, MaxReplication: 512}})
	w.send(PricesChanged{Prices{AcceleratorHour: 2, WANGiB: 0.001}})
	w.send(PolicyChanged{rules{}})
	for _, name := range []string{"east", "west"} {
		w.send(SiteChanged{Site{Name: name, Up: true, Writable: true, Free: 1 << 50, RemoteRate: 50e6, LocalRate: 2e9}})
	}
	w.send(BudgetsChanged{b})
	return w
}

func drawStart(t *rapid.T, n int) relay.Record {
	job := rapid.SampledFrom([]string{"j1", "j2", "j3"}).Draw(t, "job")
	s := &relay.Start{Ranks: 64, RanksPerHost: 8, ExpectedInMS: rapid.SampledFrom([]int64{0, 100, 600}).Draw(t, "in") * 1000}
	for i := range rapid.IntRange(1, 3).Draw(t, "files") {
		s.Files = append(s.Files, relay.HotFile{Path: fmt.Sprintf("/hot/%d", rapid.IntRange(0, 4).Draw(t, "file")+5*i), Readers: uint32(rapid.SampledFrom([]int{4, 24, 64}).Draw(t, "readers"))})
	}
	return relay.Record{
		Version: 1, ID: fmt.Sprintf("h%04d", n), Job: job, Run: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "run"), Confidence: 1,
		TTLMS: rapid.Int64Range(1, 3600).Draw(t, "ttl") * 1000, Start: s,
	}
}

var everyState = []hints.CheckpointState{
	hints.Saving, hints.Committed, hints.Committed, hints.EvaluationScheduled, hints.EvaluationScheduled, hints.EvaluationCancelled, hints.EvaluationOpened,
	hints.EvaluationDone, hints.Deleted, hints.LossSpike,
}

func drawCheckpoint(t *rapid.T, n int, w *world) relay.Record {
	state := rapid.SampledFrom(everyState).Draw(t, "state")
	c := &relay.Checkpoint{
		State: state.String(), Path: fmt.Sprintf("/ck/%d", rapid.IntRange(0, 3).Draw(t, "path")), Step: -1, Urgency: rapid.SampledFrom([]float64{0, 1}).Draw(t, "urgency"),
	}
	r := relay.Record{
		Version: 1, ID: fmt.Sprintf("h%04d", n), Job: rapid.SampledFrom([]string{"j1", "j2"}).Draw(t, "job"), Run: "a", Confidence: 1,
		TTLMS: rapid.Int64Range(1, 3600).Draw(t, "ttl") * 1000, Checkpoint: c,
	}
	if rapid.Bool().Draw(t, "ordered") {
		c.Sequence = uint64(n + 1)
	}
	if state.OfEvaluation() {
		c.Evaluation, c.Site = rapid.SampledFrom([]string{"e1", "e2"}).Draw(t, "evaluation"), rapid.SampledFrom([]string{"east", "west", "home"}).Draw(t, "site")
		c.ExpectedInMS = rapid.Int64Range(0, 600).Draw(t, "in") * 1000
	}
	if state == hints.Committed {
		r.Identity = rapid.SampledFrom([]string{"v1", "v2"}).Draw(t, "identity")
		w.legal[c.Path+"@"+r.Identity] = true
	}
	return r
}

// TestRules drives a planner through anything at all, with actions that take their time and fail, and budgets that change. Whatever happens, budgets are
// kept, actions come in an order that can be done, only committed versions are copied, and when all leases have ended nothing is left.
func TestRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := settled(t, drawBudgets(t))
		versions := map[string]string{}
		w.copies = func(path string) Checkpoint {
			c := Checkpoint{Path: path, Identity: versions[path], Complete: true, Bytes: 1 << 30}
			if c.Identity == "" {
				c.Identity = "v1"
			}
			if c.Identity == "v2" {
				c.Bytes = 2 << 30
			}
			return c
		}
		w.draw = func() (time.Duration, bool) {
			return time.Duration(rapid.IntRange(0, 90).Draw(t, "takes")) * time.Second, rapid.IntRange(0, 5).Draw(t, "fails") == 0
		}
		for n := range rapid.IntRange(1, 25).Draw(t, "events") {
			w.until(w.now + time.Duration(rapid.IntRange(0, 300).Draw(t, "pause"))*time.Second)
			age := time.Duration(rapid.SampledFrom([]int{0, 0, -5, 30, 90000}).Draw(t, "age")) * time.Second
			switch rapid.IntRange(0, 11).Draw(t, "kind") {
			case 0, 1, 2:
				w.send(Hint{drawStart(t, n), age})
			case 3, 4, 5, 6:
				w.send(Hint{drawCheckpoint(t, n, w), age})
			case 7:
				w.send(BudgetsChanged{drawBudgets(t)})
			case 8:
				w.send(ClusterChanged{Cluster{
					Nodes: rapid.IntRange(0, 40).Draw(t, "nodes"), Tagged: 20, Load: rapid.SampledFrom([]float64{0, 0.7, 1}).Draw(t, "load"), Free: 1 << 50,
					NodeRate: 100e6, ReadersPerSource: 8, MaxReplication: 512,
				}})
				w.send(SiteChanged{Site{Name: "east", Up: rapid.Bool().Draw(t, "up"), Writable: true, Free: 1 << 50, RemoteRate: 50e6, LocalRate: 2e9}})
			case 9:
				w.anything(t)
			case 10:
				w.send(PolicyChanged{rules{
					spread: []Means{rapid.SampledFrom([]Means{Even, Sibling, StorageType, Raise}).Draw(t, "means")},
					lease:  rapid.SampledFrom([]time.Duration{0, 0, 90 * time.Second, 10 * time.Minute}).Draw(t, "lease"),
					access: rapid.SampledFrom([]Access{AsOriginal, AsOriginal, OwnerOnly}).Draw(t, "of whom"),
				}})
			case 11:
				versions["/ck/"+fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "path"))] = rapid.SampledFrom([]string{"v1", "v2"}).Draw(t, "version")
			}
		}
		w.draw = func() (time.Duration, bool) { return time.Second, false }
		w.until(w.now + 27*time.Hour)
		w.empty()
	})
}

// anything is an operator's or the world's whim.
func (w *world) anything(t *rapid.T) {
	var ids []ID
	for id, th := range w.things {
		if th.published && !th.withdrawn {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	switch rapid.IntRange(0, 4).Draw(t, "whim") {
	case 0:
		w.send(Revoke{Path: "/ck/1"})
	case 1:
		w.send(Revoke{})
	case 2:
		w.send(Drain{rapid.Bool().Draw(t, "drain")})
	case 3:
		w.send(FanOut{Job: "j1", Run: "a", Ended: rapid.Bool().Draw(t, "ended")})
	case 4:
		w.send(JobEnded{"j2", "b"})
	}
	if len(ids) > 0 && rapid.Bool().Draw(t, "damage") {
		w.send(Damaged{ID: rapid.SampledFrom(ids).Draw(t, "damaged")})
	}
}

// TestOrderOfHints gives the same hints in their order and in any other, some of them several times, with the same budgets: in the end the same is there, as far
// as it is due and its lease goes on. (What was made early, for somebody who has gone since, is kept for others who come later.)
func TestOrderOfHints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const heard, end = 200 * time.Second, 300 * time.Second
		type said struct {
			at     time.Duration
			record relay.Record
		}
		var all []said
		opened := map[string]bool{}
		w := settled(t, ample())
		for n := range rapid.IntRange(1, 14).Draw(t, "hints") {
			at := time.Duration(10*n+rapid.IntRange(0, 9).Draw(t, "at")) * time.Second
			r := drawCheckpoint(t, n, w)
			if rapid.Bool().Draw(t, "start") {
				r = drawStart(t, n)
				r.Start.ExpectedInMS = 0
			} else {
				r.Checkpoint.ExpectedInMS = 0
				if c := r.Checkpoint; c.State == hints.EvaluationOpened.String() {
					if opened[c.Site] { // from the second one on more are predicted, by what had been heard until then
						c.State = hints.EvaluationScheduled.String()
					}
					opened[c.Site] = true
				}
			}
			r.TTLMS += end.Milliseconds()
			all = append(all, said{at, r})
		}
		in := settled(t, ample())
		in.legal = w.legal
		for _, s := range all {
			in.until(s.at)
			in.send(Hint{Record: s.record})
		}
		in.until(end)
		out := settled(t, ample())
		out.legal = w.legal
		out.until(heard)
		mixed := slices.Concat(all, all[:rapid.IntRange(0, len(all)).Draw(t, "again")])
		for _, s := range rapid.Permutation(mixed).Draw(t, "order") {
			out.until(out.now + time.Second)
			out.send(Hint{Record: s.record, Age: out.now - s.at})
		}
		out.until(end)
		if want, got := in.there(), out.there(); !reflect.DeepEqual(want, got) {
			t.Log(in.log[max(0, len(in.log)-30):])
			t.Log(out.log[max(0, len(out.log)-30):])
			t.Fatalf("in order %v, out of order %v", want, got)
		}
	})
}

// there lists what readers find and who they are, by whatever means: what is heard later may have no time for the best.
func (w *world) there() []string {
	list := []string{}
	for _, th := range w.things {
		if th.published && !th.withdrawn || th.made && !th.a.Means.row() && !th.removing {
			list = append(list, fmt.Sprintf("%s@%s %s", th.a.Path, th.a.Identity, th.a.Site))
		}
	}
	for _, f := range w.p.files {
		d, _ := f.demand(w.p)
		list = append(list, fmt.Sprintf("%s has %d readers until %v", f.path, d.readers, w.now+d.lease))
	}
	slices.Sort(list)
	return list
}

// TestByteHours holds what copies and replicas take over time to the allowance.
func TestByteHours(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := ample()
		const perDay = 4 << 30 * 3 // 4 GiB for three hours
		link := b.WAN.Links["east"]
		link.ByteHoursPerDay, link.Transfers = perDay, 3
		b.WAN.Links = map[string]Link{"east": link}
		w := settled(t, b)
		for n := range rapid.IntRange(1, 40).Draw(t, "copies") {
			w.until(w.now + time.Duration(rapid.IntRange(0, 1800).Draw(t, "pause"))*time.Second)
			path := fmt.Sprintf("/ck/%d", n)
			w.legal[path+"@v1"] = true
			w.send(Hint{Record: relay.Record{ID: fmt.Sprint("c", n), Job: "j", Run: "a", TTLMS: 3600e3, Identity: "v1", Confidence: 1, Checkpoint: &relay.Checkpoint{State: "committed", Path: path}}})
			w.send(Hint{Record: relay.Record{
				ID: fmt.Sprint("e", n), Job: "j", Run: "a", TTLMS: rapid.Int64Range(60, 7200).Draw(t, "ttl") * 1000, Confidence: 1,
				Checkpoint: &relay.Checkpoint{State: "evaluation-scheduled", Path: path, Evaluation: "e", Site: "east"},
			}})
			// What is there is given back within seconds after grace; nothing else may exceed.
			if used, may := w.used["east"], 3600*perDay*(1+w.now.Hours()/24)+float64(40*2<<30); used > may {
				w.fail("%.3g byte-seconds after %v, of %.3g", used, w.now, may)
			}
		}
		w.until(w.now + 50*time.Hour)
		w.empty()
	})
}

// TestEmergency: the copy of a checkpoint whose loss jumped begins in the very step in which that is known, whatever else is sent.
func TestEmergency(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := ample()
		b.WAN.Links["east"] = Link{Rate: 100e6, EmergencyRate: 200e6, Transfers: rapid.IntRange(1, 4).Draw(t, "transfers"), Held: 1 << 50, EmergencyHeld: 1 << 50, ByteHoursPerDay: 1e18}
		w := settled(t, b)
		w.draw = func() (time.Duration, bool) { return time.Hour, false }
		hint := func(id, path, state string) relay.Record {
			w.legal[path+"@v1"] = true
			r := relay.Record{ID: id, Job: "j" + path, Run: "a", TTLMS: 7200e3, Identity: "v1", Confidence: 1, Checkpoint: &relay.Checkpoint{State: state, Path: path}}
			if state == "evaluation-scheduled" {
				r.Checkpoint.Site, r.Checkpoint.ExpectedInMS = "east", 0
			}
			return r
		}
		for n := range rapid.IntRange(0, 10).Draw(t, "ordinary") {
			path := fmt.Sprintf("/ck/%d", n)
			w.send(Hint{Record: hint("c", path, "committed")})
			w.send(Hint{Record: hint("e", path, "evaluation-scheduled")})
			w.until(w.now + time.Second)
		}
		w.send(Hint{Record: hint("c", "/ck/bad", "committed")})
		w.send(Hint{Record: hint("e", "/ck/bad", "evaluation-scheduled")})
		w.until(w.now)
		w.send(Hint{Record: hint("s", "/ck/bad", "loss-spike")})
		for _, th := range w.things {
			if th.a.Path == "/ck/bad" && th.rate == 200e6/int64(b.WAN.Links["east"].Transfers) {
				return
			}
		}
		w.fail("the emergency does not run: %+v", w.p.Usage())
	})
}

// TestSameEventsSameActions: nothing but events and times decides.
func TestSameEventsSameActions(t *testing.T) {
	run := func(seed int64) []string {
		var log []string
		r := rand.New(rand.NewSource(seed))
		p := New(Options{})
		now := time.Duration(0)
		step := func(ev Event) {
			for _, a := range p.Step(ev, now) {
				log = append(log, a.String())
			}
		}
		step(ClusterChanged{Cluster{Nodes: 40, Free: 1 << 50, NodeRate: 1e8, ReadersPerSource: 8, MaxReplication: 512}})
		step(PricesChanged{Prices{AcceleratorHour: 2}})
		step(PolicyChanged{rules{}})
		step(BudgetsChanged{ample()})
		for n := range 300 {
			now += time.Duration(r.Intn(5)) * time.Second
			path := fmt.Sprintf("/f%d", r.Intn(50))
			step(Hint{Record: relay.Record{
				ID: fmt.Sprint(n), Job: fmt.Sprint("j", r.Intn(9)), Run: fmt.Sprint(r.Intn(3)), TTLMS: 60000, Confidence: 1,
				Start: &relay.Start{Ranks: 64, RanksPerHost: 8, Files: []relay.HotFile{{Path: path, Readers: 64}}},
			}})
			step(Looked{[]File{{Path: path, Identity: "v", Size: 1 << 26, Blocks: 1, Replicas: 3}}})
			b := ample()
			b.Replicas.Held = int64(r.Intn(20)) << 27
			step(BudgetsChanged{b})
		}
		return log
	}
	first := run(1)
	for range 3 {
		if again := run(1); !slices.Equal(first, again) {
			t.Fatal("the same events gave other actions")
		}
	}
}
