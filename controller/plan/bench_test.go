package plan

import (
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/hints/relay"
)

// million is a planner with a million hot files of a thousand jobs that start in an hour, every one of them worth more sources.
func million() (*Planner, time.Duration) {
	p := New(Options{Home: "home"})
	pump(p, ClusterChanged{Cluster{Nodes: 4000, Free: 1 << 60, NodeRate: 1e8, ReadersPerSource: 16, MaxReplication: 512}}, 0)
	pump(p, PricesChanged{Prices{AcceleratorHour: 2, StorageGiB: 0.001, ReplicaTiBHour: 0.1}}, 0)
	pump(p, PolicyChanged{rules{}}, 0)
	budgets := ample()
	budgets.Replicas.Held = 1 << 40
	pump(p, BudgetsChanged{budgets}, 0)
	for j := range 1000 {
		pump(p, startOf(j), 0)
	}
	return p, 59 * time.Minute
}

func startOf(j int) Hint {
	s := &relay.Start{Ranks: 2048, RanksPerHost: 8, ExpectedInMS: 3600e3}
	for f := range 1000 {
		s.Files = append(s.Files, relay.HotFile{Path: fmt.Sprintf("/jobs/%04d/checkpoints/iter_0001000/__%d_0.distcp", j, f), Readers: uint32(64 + f)})
	}
	return Hint{Record: relay.Record{ID: fmt.Sprint(j), Job: fmt.Sprintf("job-%04d", j), Run: "a", TTLMS: 7200e3, Confidence: 1, Start: s}}
}

// pump gives a planner an event, answers what it asks about files, and returns how long each step took.
func pump(p *Planner, ev Event, now time.Duration) (steps []time.Duration) {
	for {
		began := time.Now()
		actions := p.Step(ev, now)
		steps = append(steps, time.Since(began))
		ev = Tick{}
		for _, a := range actions {
			if look, ok := a.(Look); ok {
				var files []File
				for _, path := range look.Paths {
					files = append(files, File{Path: path, Identity: "1073:" + path[len(path)-12:], Size: 64 << 20, Blocks: 1, Replicas: 3})
				}
				ev = Looked{files}
			}
		}
		if at, ok := p.Wake(); ev == (Tick{}) && (!ok || at > now) {
			return steps
		}
	}
}

func heapMiB() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// cpu is the time that the process has used, which a busy machine does not change.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkEvent is one event among a million files: another job's start with a thousand files and what is known of them, the end of its fan-out, and
// the load. Steps among which the garbage collector runs take longest.
func BenchmarkEvent(b *testing.B) {
	before := heapMiB()
	p, now := million()
	used := heapMiB() - before
	var steps []time.Duration
	began := cpu()
	j := 1000
	for b.Loop() {
		now += time.Second
		steps = append(steps, pump(p, startOf(j), now)...)
		steps = append(steps, pump(p, FanOut{Job: fmt.Sprintf("job-%04d", j), Run: "a", Ended: true}, now)...)
		steps = append(steps, pump(p, ClusterChanged{Cluster{Nodes: 4000, Load: float64(j%2) / 2, Free: 1 << 60, NodeRate: 1e8, ReadersPerSource: 16, MaxReplication: 512}}, now)...)
		j++
	}
	b.ReportMetric(float64((cpu()-began).Milliseconds())/float64(j-1000), "cpu-ms/op")
	b.ReportMetric(used, "MiB")
	slices.Sort(steps)
	b.ReportMetric(float64(steps[len(steps)/2].Microseconds())/1000, "ms/median-step")
	b.ReportMetric(float64(steps[len(steps)*99/100].Microseconds())/1000, "ms/p99-step")
	b.ReportMetric(float64(steps[len(steps)-1].Microseconds())/1000, "ms/longest-step")
	runtime.KeepAlive(p)
}

// BenchmarkAllDue is the moment at which all of the million are to be made at once, of which the budgets let a hundred begin.
func BenchmarkAllDue(b *testing.B) {
	before, used, waiting := heapMiB(), 0.0, 0
	for b.Loop() {
		p, _ := million()
		pump(p, Tick{}, time.Hour)
		used = heapMiB() - before
		_, waiting = p.Ranking(1, nil)
	}
	b.ReportMetric(used, "MiB")
	b.ReportMetric(float64(waiting), "placements")
}

// BenchmarkFullPlan decides on everything again, as after a change of the price list.
func BenchmarkFullPlan(b *testing.B) {
	p, now := million()
	n, began := 0, cpu()
	for b.Loop() {
		n++
		pump(p, PricesChanged{Prices{AcceleratorHour: 2 + float64(n%2), StorageGiB: 0.001, ReplicaTiBHour: 0.1}}, now)
	}
	b.ReportMetric(float64((cpu()-began).Milliseconds())/float64(n), "cpu-ms/op")
	b.ReportMetric(float64(len(p.files)), "files")
}

// BenchmarkRanking is what `ctl plan` asks for while a million wait: nothing else is decided meanwhile.
func BenchmarkRanking(b *testing.B) {
	p, _ := million()
	pump(p, Tick{}, time.Hour)
	n, began := 0, cpu()
	for b.Loop() {
		n++
		p.Ranking(100, nil)
		p.Refused(100, nil)
	}
	b.ReportMetric(float64((cpu()-began).Milliseconds())/float64(n), "cpu-ms/op")
}
