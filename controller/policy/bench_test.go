package policy

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/hints/relay"
)

func BenchmarkSpread(b *testing.B) {
	r := exampleRules(b)
	q := plan.Request{Path: "/models/llm/step_100/__3_1.distcp", Job: "pretrain-7b", User: "ada"}
	for b.Loop() {
		if !r.Spread(q).Allowed {
			b.Fatal("denied")
		}
	}
}

// BenchmarkFullPlan decides on a million hot files of a thousand jobs again, as after a change of the rules, under those of the example.
func BenchmarkFullPlan(b *testing.B) {
	p, r := plan.New(plan.Options{Home: "home"}), exampleRules(b)
	pump(p, plan.ClusterChanged{Cluster: plan.Cluster{Nodes: 4000, Free: 1 << 60, NodeRate: 1e8, ReadersPerSource: 16, MaxReplication: 512}})
	pump(p, plan.PricesChanged{Prices: plan.Prices{AcceleratorHour: 2, StorageGiB: 0.001, ReplicaTiBHour: 0.1}})
	pump(p, plan.PolicyChanged{Policy: r})
	for j := range 1000 {
		s := &relay.Start{Ranks: 2048, RanksPerHost: 8, ExpectedInMS: 3600e3}
		for f := range 1000 {
			s.Files = append(s.Files, relay.HotFile{Path: fmt.Sprintf("/models/%04d/checkpoints/iter_0001000/__%d_0.distcp", j, f), Readers: uint32(64 + f)})
		}
		pump(p, plan.Hint{Record: relay.Record{ID: fmt.Sprint(j), Job: fmt.Sprintf("pretrain-%04d", j), Run: "a", User: "ada", TTLMS: 7200e3, Confidence: 1, Start: s}})
	}
	n, began := 0, cpu(b)
	for b.Loop() {
		n++
		pump(p, plan.PolicyChanged{Policy: r})
	}
	b.ReportMetric(float64((cpu(b)-began).Milliseconds())/float64(n), "cpu-ms/op")
	if list, _ := p.Why("/models/0000/checkpoints/iter_0001000/__0_0.distcp"); len(list) != 1 || list[0].Reason != plan.ReasonWait {
		b.Fatalf("it does not wait for its time: %+v", list)
	}
}

// pump gives a planner an event, and answers what it asks about files.
func pump(p *plan.Planner, ev plan.Event) {
	for more := true; more; {
		actions := p.Step(ev, 0)
		at, ok := p.Wake()
		more, ev = ok && at <= 0, plan.Tick{}
		for _, a := range actions {
			if look, ok := a.(plan.Look); ok {
				var files []plan.File
				for _, path := range look.Paths {
					files = append(files, plan.File{Path: path, Identity: "1073:" + path[len(path)-12:], Size: 64 << 20, Blocks: 1, Replicas: 3})
				}
				more, ev = true, plan.Looked{Files: files}
			}
		}
	}
}

// cpu is the time that the process has used, which a busy machine does not change.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
