package plan

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/relay"
)

var rewrite = flag.Bool("rewrite", false, "write the traces in testdata anew, to be read in review")

// TestTraces runs the planner through the scripts in testdata. A script is a sequence of blocks: lines of commands, a line of dashes, and what the
// planner decided; see trace.command for the commands.
func TestTraces(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := replay(t, string(text))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(text) {
				t.Errorf("the trace changed; run with -rewrite and read the difference:\n%s", firstDifference(string(text), got))
			}
		})
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return fmt.Sprintf("line %d\nwant: %s\ngot:  %s", i+1, w[i], g[i])
		}
	}
	return fmt.Sprintf("want %d lines, got %d", len(w), len(g))
}

// replay runs a script and returns it with its output made anew.
func replay(t *testing.T, script string) string {
	t.Helper()
	tr := &trace{p: New(Options{Home: "home"})}
	tr.step(ClusterChanged{Cluster{Nodes: 40, Load: 0.1, Free: 1 << 40, NodeRate: 100e6, ReadersPerSource: 8, MaxReplication: 512}}, 0)
	tr.step(PricesChanged{Prices{AcceleratorHour: 2, WANGiB: 0.02, RemoteTiBHour: 0.05, ReplicaTiBHour: 0.1, StorageGiB: 0.001, Entry: 0.0001}}, 0)
	tr.step(PolicyChanged{rules{}}, 0)
	tr.step(SiteChanged{Site{Name: "east", Up: true, Writable: true, Free: 1 << 50, RemoteRate: 50e6, LocalRate: 2e9}}, 0)
	tr.step(BudgetsChanged{Budgets{
		WAN: WAN{On: true, Links: map[string]Link{"east": {
			Rate: 100e6, EmergencyRate: 400e6, Transfers: 1, Held: 10 << 40, EmergencyHeld: 12 << 40, ByteHoursPerDay: 1e15,
		}}},
		Replicas: Replicas{On: true, Held: 1 << 40, ByteHoursPerDay: 1e15, Makes: 2},
		Storage:  Storage{On: true, Egress: 10e9, Cores: 16, Memory: 64 << 30},
	}}, 0)
	tr.output = nil
	var out []string
	skipping := false
	for _, line := range strings.Split(strings.TrimRight(script, "\n"), "\n") {
		switch {
		case line == "----":
			out = append(append(out, line), tr.take()...)
			skipping = true
		case line == "":
			skipping = false
			out = append(out, line)
		case skipping:
		case strings.HasPrefix(line, "#"):
			out = append(out, line)
		default:
			out = append(out, line)
			if err := tr.command(line); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
		}
	}
	return strings.Join(out, "\n") + "\n"
}

// rules are a policy for tests: what lies under /secret goes nowhere, copies of what lies under /private are their owners', and hot files may be spread by some means.
type rules struct {
	spread []Means
	lease  time.Duration
	access Access
}

func (r rules) Copy(q Request) Verdict {
	if strings.HasPrefix(q.Path, "/secret") || q.Labels["region"] == "here" {
		return Verdict{Rule: "secret stays at home"}
	}
	if strings.HasPrefix(q.Path, "/private") {
		r.access = OwnerOnly
	}
	return Verdict{Allowed: true, Rule: "all", Lease: r.lease, Access: r.access}
}

func (r rules) Spread(q Request) Verdict {
	if strings.HasPrefix(q.Path, "/secret") {
		return Verdict{Rule: "secret stays as it is"}
	}
	if r.spread == nil {
		return Verdict{Allowed: true, Rule: "all", Means: []Means{Even, Sibling}}
	}
	return Verdict{Allowed: true, Rule: "named", Means: r.spread}
}

// trace is a planner under a script.
type trace struct {
	p      *Planner
	output []string
	budget Budgets
	n      int // hints so far
}

func (tr *trace) take() []string {
	out := tr.output
	tr.output = nil
	return out
}

func (tr *trace) step(ev Event, now time.Duration) {
	if b, ok := ev.(BudgetsChanged); ok {
		tr.budget = b.Budgets
	}
	for {
		for _, a := range tr.p.Step(ev, now) {
			tr.output = append(tr.output, fmt.Sprintf("%-6v %s", now, a))
		}
		if at, ok := tr.p.Wake(); !ok || at > now {
			return
		}
		ev = Tick{}
	}
}

// arguments are the key=value words of a command.
type arguments map[string]string

func (a arguments) number(name string, otherwise int64) int64 {
	if a[name] == "" {
		return otherwise
	}
	return sizeOf(a[name])
}

func (a arguments) share(name string, otherwise float64) float64 {
	if a[name] == "" {
		return otherwise
	}
	f, err := strconv.ParseFloat(a[name], 64)
	if err != nil {
		panic(err)
	}
	return f
}

func (a arguments) time(name string, otherwise time.Duration) time.Duration {
	if a[name] == "" {
		return otherwise
	}
	d, err := time.ParseDuration(a[name])
	if err != nil {
		panic(err)
	}
	return d
}

func (a arguments) text(name, otherwise string) string {
	if a[name] == "" {
		return otherwise
	}
	return a[name]
}

// sizeOf reads sizes such as 100, 4KiB and 2MiB, and rates such as 100MB.
func sizeOf(s string) int64 {
	units := []struct {
		suffix string
		unit   int64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"MB", 1e6}}
	unit := int64(1)
	for _, u := range units {
		if strings.HasSuffix(s, u.suffix) {
			unit, s = u.unit, strings.TrimSuffix(s, u.suffix)
			break
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return n * unit
}

func split(words []string) (arguments, []string) {
	args, rest := arguments{}, []string(nil)
	for _, w := range words {
		if k, v, ok := strings.Cut(w, "="); ok {
			args[k] = v
		} else {
			rest = append(rest, w)
		}
	}
	return args, rest
}

// command runs one line: a time, a verb, and its words.
//
//	0s cluster nodes=40 tagged=0 load=0.1 free=1TiB rate=100MB c=8      0s site NAME up=1 writable=1 free=1TiB
//	0s budgets rate=100MB emergency=400MB transfers=1 held=1TiB emergencyheld=1TiB days=BYTES replicas=1TiB makes=2 on=wan,replicas,storage
//	   egress=10GB memory=64GiB share=1
//	0s policy means=even,sibling lease=1h access=owner                     0s prices accelerator=2
//	0s start JOB run=1 ranks=64 host=8 in=10m ttl=1h sure=1 id=ID age=0s PATH[:READERS] ...
//	0s saving|committed|evaluation-...|deleted|loss-spike JOB PATH run=1 step=-1 identity=v1 eval=e1 site=east in=10m ttl=1h seq=1 urgency=0 id=ID age=0s
//	0s looked PATH size=64MiB blocks=1 replicas=3 identity=v1 ec=0 open=0    0s inspected PATH identity=v1 bytes=1GiB label=REGION
//	0s done ID ACTION took=1s reused=0 short=0    0s failed ID ACTION REASON         0s damaged ID
//	0s fanout JOB run=1 path=P ended=0    0s ended JOB run=1
//	0s took JOB run=1 last=3s bytes=64MiB PATH ...
//	0s revoke id=ID path=P job=J root=R   0s drain on=1                      0s tick
//	0s held ID MEANS PATH site=east bytes=1GiB made=1 published=1 undoing=0 left=1h job=j content=1GiB sources=0 extra=0 short=0
//	0s revoked PATH site=east left=1h
//	why PATH                              plan                               usage
//	tally                                 find ID
func (tr *trace) command(line string) error {
	words := strings.Fields(line)
	switch words[0] {
	case "why":
		list, known := tr.p.Why(words[1])
		tr.output = append(tr.output, "why    "+words[1]+": "+known)
		tr.standings(list)
		return nil
	case "plan":
		list, _ := tr.p.Ranking(100, nil)
		tr.standings(list)
		list, _ = tr.p.Refused(100, nil)
		tr.standings(list)
		return nil
	case "usage":
		u := tr.p.Usage()
		tr.output = append(tr.output, fmt.Sprintf("usage  held=%v rate=%v expected=%v egress=%d memory=%d placements=%d", u.Held, u.Rate, u.Expected, u.Egress, u.Memory, u.Placements))
		return nil
	}
	switch words[0] {
	case "tally":
		tr.tally()
		return nil
	case "find":
		id, _ := strconv.ParseUint(words[1], 10, 64)
		if s, ok := tr.p.Find(ID(id)); ok {
			tr.standings([]Standing{s})
		} else {
			tr.output = append(tr.output, "       "+words[1]+" is none")
		}
		return nil
	}
	now, err := time.ParseDuration(words[0])
	if err != nil {
		return err
	}
	ev, err := tr.event(words[1], words[2:])
	if err != nil {
		return err
	}
	tr.step(ev, now)
	return nil
}

// tally prints what came of what was made, and what there is.
func (tr *trace) tally() {
	const gib = 1 << 30
	y := tr.p.Tally()
	tr.output = append(tr.output, fmt.Sprintf("tally  in time %d (ready for %v), late %d, missed %d, unused %d; GiB-hours: idle %.3f, copies %.3f, sources %.3f; saved %.1f s",
		y.InTime, y.Lead, y.Late, y.Missed, y.Unused, y.IdleByteHours/gib, y.CopyByteHours/gib, y.SourceByteHours/gib, y.SavedSeconds))
	if y.ReusedBytes > 0 {
		tr.output = append(tr.output, fmt.Sprintf("       not sent %d bytes", y.ReusedBytes))
	}
	begun, waiting := tr.p.Counts()
	slices.SortFunc(begun, func(a, b Count) int {
		return cmp.Or(cmp.Compare(a.Means, b.Means), cmp.Compare(a.State, b.State))
	})
	tr.output = append(tr.output, fmt.Sprintf("       there %v, waiting %d, margins %v", begun, waiting, tr.p.Margins()))
	if y.MeasuredStarts > 0 {
		tr.output = append(tr.output, fmt.Sprintf("       measured %d starts, %d not helped; saved %.1f s", y.MeasuredStarts, y.Unhelped, y.MeasuredSeconds))
	}
	if announced, reading := tr.p.Starts(); announced+reading > 0 {
		tr.output = append(tr.output, fmt.Sprintf("       starts: %d announced, %d reading", announced, reading))
	}
}

func (tr *trace) standings(list []Standing) {
	for _, s := range list {
		line := fmt.Sprintf("       %d %s %s", s.ID, s.State, s.Path)
		if s.Site != "" {
			line += " to=" + s.Site
		}
		if s.Means != "" {
			line += fmt.Sprintf(" %s rank=%.3g job=%s", s.Means, s.Rank, s.Job)
		}
		if s.Reason == ReasonFewer {
			line += fmt.Sprintf(" sources=%d extra=%d bytes=%d", s.Sources, s.Extra, s.Bytes)
		}
		if s.Reason != "" {
			line += " " + sentence(s.Reason, s.Detail)
		}
		tr.output = append(tr.output, line)
	}
}

func (tr *trace) event(verb string, words []string) (Event, error) {
	args, rest := split(words)
	first := ""
	if len(rest) > 0 {
		first = rest[0]
	}
	id, _ := strconv.ParseUint(first, 10, 64)
	switch verb {
	case "tick":
		return Tick{}, nil
	case "cluster":
		return ClusterChanged{Cluster{
			Nodes: int(args.number("nodes", 40)), Tagged: int(args.number("tagged", 0)), Load: args.share("load", 0.1), Free: args.number("free", 1<<40),
			NodeRate: args.number("rate", 100e6), ReadersPerSource: args.share("c", 8), MaxReplication: 512,
		}}, nil
	case "site":
		return SiteChanged{Site{
			Name: first, Up: args["up"] != "0", Writable: args["writable"] != "0", Free: args.number("free", 1<<50), RemoteRate: 50e6, LocalRate: 2e9,
		}}, nil
	case "budgets":
		return BudgetsChanged{tr.budgets(args)}, nil
	case "prices":
		prices := tr.p.prices
		prices.AcceleratorHour = args.share("accelerator", prices.AcceleratorHour)
		return PricesChanged{prices}, nil
	case "policy":
		r := rules{lease: args.time("lease", 0), access: Access(args["access"])}
		if args["means"] != "" {
			for _, m := range strings.Split(args["means"], ",") {
				r.spread = append(r.spread, Means(m))
			}
		}
		return PolicyChanged{r}, nil
	case "start":
		return tr.start(args, rest), nil
	case "looked":
		return Looked{[]File{{
			Path: first, Identity: strings.TrimSuffix(args.text("identity", "v1"), "none"), Size: args.number("size", 64<<20), Blocks: int(args.number("blocks", 1)),
			Replicas: int(args.number("replicas", 3)), ErasureCoded: args["ec"] == "1", Open: args["open"] == "1", OwnPolicy: args["own"] == "1",
		}}}, nil
	case "inspected":
		return Inspected{Checkpoint{
			Path: first, Identity: args.text("identity", "v1"), Complete: args["problem"] == "", Problem: args["problem"], Bytes: args.number("bytes", 1<<30),
			Labels: map[string]string{"region": args["label"]},
		}}, nil
	case "done":
		return Done{ID: ID(id), Action: rest[1], Reused: args.number("reused", 0), Took: args.time("took", 0), Short: int(args.number("short", 0))}, nil
	case "failed":
		return Failed{ID: ID(id), Action: rest[1], Reason: Reason(rest[2]), Detail: args["detail"]}, nil
	case "damaged":
		return Damaged{ID: ID(id), Detail: "wrong bytes"}, nil
	case "fanout":
		return FanOut{Job: first, Run: args.text("run", "1"), Path: args["path"], Ended: args["ended"] == "1"}, nil
	case "took":
		return Took{Job: first, Run: args.text("run", "1"), Paths: rest[1:], Last: args.time("last", 0), Bytes: args.number("bytes", 64<<20)}, nil
	case "ended":
		return JobEnded{Job: first, Run: args.text("run", "1")}, nil
	case "revoke":
		r := Revoke{ID: ID(args.number("id", 0)), Path: args["path"], Job: args["job"], Why: "by hand"}
		if args["root"] != "" {
			r.Roots = []string{args["root"]}
		}
		return r, nil
	case "revoked":
		return Revoked{Path: first, Site: args["site"], Left: args.time("left", time.Hour)}, nil
	case "drain":
		return Drain{On: args["on"] != "0"}, nil
	case "held":
		return Recovered{[]Held{tr.held(ID(id), args, rest)}}, nil
	}
	if state, ok := hints.ParseCheckpointState(verb); ok {
		return tr.checkpoint(state, args, rest), nil
	}
	return nil, fmt.Errorf("unknown verb %q", verb)
}

func (tr *trace) budgets(args arguments) Budgets {
	b := tr.budget
	l := b.WAN.Links["east"]
	l.Rate, l.EmergencyRate = args.number("rate", l.Rate), args.number("emergency", l.EmergencyRate)
	l.Transfers = int(args.number("transfers", int64(l.Transfers)))
	l.Held, l.EmergencyHeld = args.number("held", l.Held), args.number("emergencyheld", l.EmergencyHeld)
	l.ByteHoursPerDay = float64(args.number("days", int64(l.ByteHoursPerDay)))
	b.WAN.Links = map[string]Link{"east": l}
	b.Replicas.Held = args.number("replicas", b.Replicas.Held)
	b.Replicas.Makes = int(args.number("makes", int64(b.Replicas.Makes)))
	b.Storage.Egress, b.Storage.Memory = args.number("egress", b.Storage.Egress), args.number("memory", b.Storage.Memory)
	b.JobShare = args.share("share", b.JobShare)
	if on, given := args["on"]; given {
		b.WAN.On, b.Replicas.On, b.Storage.On = strings.Contains(on, "wan"), strings.Contains(on, "replicas"), strings.Contains(on, "storage")
	}
	return b
}

func (tr *trace) record(args arguments, job string) relay.Record {
	tr.n++
	return relay.Record{
		Version: 1, Number: uint64(tr.n), TTLMS: args.time("ttl", time.Hour).Milliseconds(), ID: args.text("id", fmt.Sprintf("h%03d", tr.n)),
		Job: job, Run: args.text("run", "1"), User: "u", Confidence: args.share("sure", 1),
	}
}

func (tr *trace) start(args arguments, rest []string) Hint {
	r := tr.record(args, rest[0])
	ranks := uint32(args.number("ranks", 64))
	r.Start = &relay.Start{Ranks: ranks, RanksPerHost: uint32(args.number("host", 8)), ExpectedInMS: args.time("in", 10*time.Minute).Milliseconds()}
	for _, w := range rest[1:] {
		path, readers, given := strings.Cut(w, ":")
		n := ranks
		if given {
			n = uint32(sizeOf(readers))
		}
		r.Start.Files = append(r.Start.Files, relay.HotFile{Path: path, Readers: n})
	}
	return Hint{Record: r, Age: args.time("age", 0)}
}

func (tr *trace) checkpoint(state hints.CheckpointState, args arguments, rest []string) Hint {
	r := tr.record(args, rest[0])
	c := &relay.Checkpoint{
		State: state.String(), Path: rest[1], Step: args.number("step", -1), Urgency: args.share("urgency", 0), Sequence: uint64(args.number("seq", 0)),
	}
	if state == hints.Committed {
		r.Identity = args.text("identity", "v1")
	}
	if state.OfEvaluation() {
		r.Identity = args["identity"]
		c.Evaluation, c.Site = args.text("eval", "e1"), args.text("site", "east")
		c.ExpectedInMS = args.time("in", 10*time.Minute).Milliseconds()
	}
	r.Checkpoint = c
	return Hint{Record: r, Age: args.time("age", 0)}
}

func (tr *trace) held(id ID, args arguments, rest []string) Held {
	means := Means(rest[1])
	m := Make{
		ID: id, Means: means, Path: rest[2], Identity: args.text("identity", "v1"), Bytes: args.number("bytes", 1<<30), Content: args.number("content", args.number("bytes", 1<<30)),
		Job: args.text("job", "j"), Of: ID(args.number("of", 0)), Sources: int(args.number("sources", 0)), Extra: int(args.number("extra", 0)), Access: Access(args["access"]),
	}
	if means == Copy {
		m.Site = args.text("site", "east")
	}
	return Held{
		Make: m, Made: args["made"] != "0", Published: args["published"] != "0", Undoing: args["undoing"] == "1", Short: int(args.number("short", 0)),
		Left: args.time("left", time.Hour),
	}
}
