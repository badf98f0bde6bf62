package agent

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/agent/fetch"
	"github.com/stepahead-io/stepahead/binfmt"
)

var rewrite = flag.Bool("rewrite", false, "write the traces in testdata anew, to be read in review")

// TestTraces runs the planner through the scripts in testdata. A script is a sequence of blocks: lines
// of commands, a line of dashes, and what the planner decided; see trace.command for the commands.
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
	tr := &trace{p: newPlanner(limits{
		memory: 1 << 30, window: 4, workers: 2, queue: 100, jobs: 8, high: 0.8, low: 0.7, dwell: 10 * time.Second,
	})}
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

// trace is a planner under a script.
type trace struct {
	p      *planner
	output []string
}

func (tr *trace) take() []string {
	out := tr.output
	tr.output = nil
	return out
}

// arguments are the key=value words of a command.
type arguments map[string]string

func (a arguments) number(name string, otherwise int64) int64 {
	if a[name] == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(a[name], 10, 64)
	if err != nil {
		panic(err)
	}
	return n
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

// sizeOf reads sizes such as 100, 4KiB and 2MiB.
func sizeOf(s string) int64 {
	unit := int64(1)
	for suffix, u := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if strings.HasSuffix(s, suffix) {
			unit, s = u, strings.TrimSuffix(s, suffix)
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return n * unit
}

// command runs one line: a time, a verb, and its words.
//
//	limits memory=10MiB window=4 workers=2 queue=100 egress=1MiB jobs=2
//	1s load cpu=0.25 delay=0 memory=0 io=0      1s load unknown
//	1s schedule JOB run=1 gen=1 first=0 step=1s sure=1 ttl=10m, of a window: number=0 until=STEP
//	1s window JOB run=1 number=0 first=STEP until=STEP
//	1s resolved JOB/STEP gen=1 number=0 SAMPLE[:OUT] ... in=1KiB refused=REASON
//	1s fetch JOB/STEP ticket=1 progress=STEP reader=r0 wait=1s SAMPLE ...
//	1s left TICKET                              1s released SAMPLE
//	1s done SAMPLE wall=1ms cpu=1ms             1s fail SAMPLE WHY
//	1s progress JOB/STEP                        1s close JOB
//	1s saving JOB path=P ttl=10m                1s saved JOB path=P
//	1s tick                                     show
func (tr *trace) command(line string) error {
	words := strings.Fields(line)
	if words[0] == "limits" {
		return tr.limits(words[1:])
	}
	if words[0] == "show" {
		p := tr.p
		tr.output = append(tr.output, fmt.Sprintf("show    held=%d waiting=%d queued=%d running=%d cores=%d", p.held, len(p.waiting), len(p.queued), len(p.runs), p.gate.granted))
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
	for _, a := range tr.p.plan(ev, now) {
		tr.output = append(tr.output, fmt.Sprintf("%-6s %s", words[0], a))
	}
	return nil
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

func (tr *trace) limits(words []string) error {
	args, _ := split(words)
	l := tr.p.limits
	if args["memory"] != "" {
		l.memory = sizeOf(args["memory"])
	}
	if args["egress"] != "" {
		l.egress = sizeOf(args["egress"])
	}
	l.window = args.number("window", l.window)
	l.workers = int(args.number("workers", int64(l.workers)))
	l.queue = int(args.number("queue", int64(l.queue)))
	l.jobs = int(args.number("jobs", int64(l.jobs)))
	tr.p = newPlanner(l)
	return nil
}

func (tr *trace) event(verb string, words []string) (event, error) {
	args, rest := split(words)
	job, step := "", int64(0)
	if len(rest) > 0 {
		name, n, _ := strings.Cut(rest[0], "/")
		job = name
		step, _ = strconv.ParseInt(n, 10, 64)
	}
	run := args.text("run", "1")
	switch verb {
	case "tick":
		return tickEvent{}, nil
	case "load":
		return loadEvent{known: len(rest) == 0, load: LoadSample{
			CPU: args.share("cpu", 0), Delay: args.share("delay", 0), Memory: args.share("memory", 0), IO: args.share("io", 0),
		}}, nil
	case "schedule":
		return scheduleEvent{
			job: job, run: run, generation: uint64(args.number("gen", 1)), first: args.number("first", 0),
			stepTime: args.time("step", 0), confidence: args.share("sure", 1), ttl: args.time("ttl", 10*time.Minute),
			known: stretchIn(args),
		}, nil
	case "window":
		return windowEvent{job: job, run: run, stretch: stretchIn(args)}, nil
	case "resolved":
		return resolvedEvent{
			job: job, run: run, generation: uint64(args.number("gen", 1)), number: uint64(args.number("number", 0)),
			step: step, items: traceItems(args, rest[1:]),
		}, nil
	case "fetch":
		ev := fetchEvent{
			ticket: uint64(args.number("ticket", 1)), job: job, run: run, reader: args.text("reader", "r0"),
			step: step, progress: args.number("progress", step), deadline: args.time("wait", time.Second),
		}
		for _, s := range rest[1:] {
			ev.keys = append(ev.keys, traceKey(s))
		}
		return ev, nil
	case "progress":
		return progressEvent{job: job, run: run, step: step}, nil
	case "saving":
		return savingEvent{job: job, run: run, path: args.text("path", "p"), ttl: args.time("ttl", 10*time.Minute)}, nil
	case "saved":
		return savedEvent{job: job, run: run, path: args.text("path", "p")}, nil
	case "close":
		return closeEvent{job: job, run: run}, nil
	case "left":
		n, err := strconv.ParseUint(rest[0], 10, 64)
		return leftEvent{ticket: n}, err
	}
	return tr.outcome(verb, args, rest)
}

// stretchIn is of a window if there is an end.
func stretchIn(args arguments) stretch {
	if args["until"] == "" {
		return stretch{end: endless}
	}
	return stretch{number: uint64(args.number("number", 0)), first: args.number("first", 0), end: args.number("until", 0)}
}

func (tr *trace) outcome(verb string, args arguments, rest []string) (event, error) {
	id, err := tr.find(rest[0])
	if err != nil {
		return nil, err
	}
	switch verb {
	case "released":
		return releasedEvent{id: id}, nil
	case "done":
		return doneEvent{id: id, cost: cost{wall: args.time("wall", time.Millisecond), cpu: args.time("cpu", time.Second)}}, nil
	case "fail":
		for why, name := range failureNames {
			if name == rest[1] {
				return failedEvent{id: id, why: failure(why)}, nil
			}
		}
	}
	return nil, fmt.Errorf("unknown verb %q", verb)
}

// find returns the newest entry of a sample that holds bytes or is wanted.
func (tr *trace) find(sample string) (uint64, error) {
	var id uint64
	for _, e := range tr.p.byID {
		if fmt.Sprint(e.key.sample) == sample && e.id > id {
			id = e.id
		}
	}
	if id == 0 {
		return 0, fmt.Errorf("no entry of sample %s", sample)
	}
	return id, nil
}

func traceKey(sample string) key {
	n, err := strconv.ParseUint(sample, 10, 64)
	if err != nil {
		panic(err)
	}
	return key{sample: n, field: "image"}
}

func traceItems(args arguments, words []string) []item {
	var items []item
	for _, w := range words {
		sample, out, sized := strings.Cut(w, ":")
		it := item{
			key: traceKey(sample), extent: extent{Extent: binfmt.Extent{Off: int64(traceKey(sample).sample) * 100, Len: 1}},
			media: "image/jpeg", operators: args.text("ops", "jpeg@1"),
			in: sizeOf(args.text("in", "1KiB")), out: 9 << 10, refused: fetch.Reason(args["refused"]),
		}
		if sized {
			it.out = sizeOf(out)
		}
		items = append(items, it)
	}
	return items
}
