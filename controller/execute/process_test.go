package execute

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/checkpoint"
	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/audit"
	"github.com/stepahead-io/stepahead/controller/copies"
	"github.com/stepahead-io/stepahead/controller/journal"
	"github.com/stepahead-io/stepahead/controller/lease"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/sources"
	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/relay"
	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
	"github.com/stepahead-io/stepahead/store/hdfs"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
)

// childEnv names the folder of a controller that runs as a process of its own, homeEnv the home of the files if it is not in that folder, leaseEnv how long what
// is asked for may last, and restEnv says that nothing is.
const (
	childEnv = "EXECUTE_CHILD"
	homeEnv  = "EXECUTE_HOME"
	leaseEnv = "EXECUTE_LEASE"
	restEnv  = "EXECUTE_REST"
	// secondEnv names the journal of a controller that competes for the lease in the home store.
	secondEnv = "EXECUTE_JOURNAL"
)

// openHome opens the home of a child, and what it holds its lease in. In a series on a cluster that is a folder: HDFS takes a minute to know that a holder is dead.
func openHome(root string, east store.Store) (home, claims store.Store, err error) {
	if url := os.Getenv(homeEnv); url != "" {
		cfg, err := conf.Load(os.Getenv)
		if err != nil {
			return nil, nil, err
		}
		st, _, err := hdfs.Open(url, hdfs.Options{Conf: cfg, User: os.Getenv("HADOOP_USER_NAME")})
		if os.Getenv(secondEnv) != "" {
			return st, st, err
		}
		return st, east, err
	}
	st, _, err := dir.Open(filepath.Join(root, "home"), dir.Options{})
	return st, st, err
}

// leases is how long what a child is asked for may last, in milliseconds.
func leases() int64 {
	d, err := time.ParseDuration(os.Getenv(leaseEnv))
	if err != nil {
		d = 1500 * time.Millisecond
	}
	return d.Milliseconds()
}

// realClock is that of a child.
type realClock struct{ began time.Time }

func (c realClock) Now() time.Duration                   { return time.Since(c.began) }
func (realClock) Wall() time.Time                        { return time.Now() }
func (realClock) After(d time.Duration) <-chan time.Time { return time.After(d) }
func hotFile(m plan.Means, n int) string                 { return fmt.Sprintf("/hot/%s/%d", m, n) }
func checkpointPath(n int) string                        { return fmt.Sprintf("/ck/%d", n) }

// statLooker knows real files.
type statLooker struct{ st store.Store }

func (l statLooker) Inspect(ctx context.Context, path string) plan.Checkpoint {
	c, err := checkpoint.Open(ctx, l.st, path, checkpoint.Options{})
	if err != nil {
		return plan.Checkpoint{Path: path, Problem: err.Error()}
	}
	return plan.Checkpoint{Path: path, Identity: c.Identity(), Complete: len(c.Problems) == 0, Bytes: c.Bytes()}
}

// tensors is the content of a checkpoint of one file.
func tensors(n int) []byte {
	const size = 300_000
	head := fmt.Sprintf(`{"a":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}`, size, size)
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(head)))
	return append(append(b, head...), bytes.Repeat([]byte{byte(n)}, size)...)
}

func (l statLooker) Look(ctx context.Context, paths []string) (files []plan.File) {
	for _, name := range paths {
		info, err := l.st.Stat(ctx, name)
		f := plan.File{Path: name, Size: info.Size, Blocks: 1, Replicas: info.Replicas}
		if err == nil {
			f.Identity = string(info.Identity)
		}
		files = append(files, f)
	}
	return files
}

// child is a controller with the real makers and a journal on disk. It prints what it does, and, at rest, that nothing is left.
func child(root string) error {
	east, _, err := dir.Open(filepath.Join(root, "east"), dir.Options{})
	if err != nil {
		return err
	}
	st, claims, err := openHome(root, east)
	if err != nil {
		return err
	}
	held, err := lease.Acquire(context.Background(), claims, lease.Options{})
	if err != nil {
		return err
	}
	file := filepath.Join(root, cmp.Or(os.Getenv(secondEnv), "journal"))
	j, err := journal.Open(journal.Options{File: file})
	if err != nil {
		return err
	}
	name, err := Name(j, file)
	if err != nil {
		return err
	}
	clock := realClock{time.Now()}
	key, err := catalogue.NewKey("test", make([]byte, 32))
	if err != nil {
		return err
	}
	stores := folders{"": st, "east": east}
	makers, err := sources.New(sources.Options{Stores: stores, Controller: name, Key: key, Clock: clock, Poll: 10 * time.Millisecond, Patience: 2 * time.Second})
	if err != nil {
		return err
	}
	makers[plan.Copy], err = copies.New(copies.Options{Controller: name, Stores: stores, Key: key, Patience: time.Second})
	if err != nil {
		return err
	}
	cluster := plan.Cluster{Nodes: 40, Tagged: 20, Free: 1 << 50, NodeRate: 1000, ReadersPerSource: 8, MaxReplication: 512}
	world := Stores{Stores: stores, Sites: func() []string { return []string{"east"} }}
	link := budgets()
	link.WAN.Links["east"] = plan.Link{Rate: 4e6, EmergencyRate: 4e6, Transfers: 4, Held: 1 << 50, EmergencyHeld: 1 << 50, ByteHoursPerDay: 1e18}
	e, err := New(Options{
		Plan: plan.Options{Home: "home", Grace: 50 * time.Millisecond, RetryAfter: 20 * time.Millisecond}, Journal: j, Name: name, Makers: makers,
		Looker: statLooker{st}, Lease: held, World: world, Clock: clock, Reconcile: 100 * time.Millisecond,
		Settings: append(settings(), plan.ClusterChanged{Cluster: cluster}, plan.BudgetsChanged{Budgets: link}),
		Audit: func(e audit.Entry) {
			if e.Err == "" && e.What != removeVerb && e.What != withdrawVerb { // these are tried until HDFS knows that the writer is dead
				fmt.Println(e.What, e.Placement, e.Path, e.Why)
			}
		},
	})
	if err != nil {
		return err
	}
	go rush(e, st)
	if os.Getenv(restEnv) != "" {
		go rest(e, world)
	}
	return e.Run(context.Background())
}

// rush announces starts again and again, has them end early, and overwrites files meanwhile.
func rush(e *Engine, st store.Store) {
	for n := 0; os.Getenv(restEnv) == ""; n++ {
		job := func(n int) string { return fmt.Sprintf("job%d", n) }
		for _, m := range everyMeans {
			h := starts(job(n), hotFile(m, n%3), func(r *relay.Record) {
				r.ID = fmt.Sprint(os.Getpid(), "-", m, "-", n)
				r.Job += string(m)
				r.TTLMS, r.Start.ExpectedInMS = leases(), 0
			})
			_ = e.Tell(context.Background(), "rush", h)
			_ = e.Tell(context.Background(), "rush", plan.JobEnded{Job: job(n-2) + string(m), Run: "a"})
		}
		evaluate(e, st, n)
		<-time.After(time.Duration(leases()/15) * time.Millisecond)
		if n%3 == 1 {
			_ = store.ReplaceFile(context.Background(), st, checkpointPath(n%2)+"/model.safetensors", tensors(n))
		}
		if n%2 == 1 {
			_ = store.ReplaceFile(context.Background(), st, hotFile(plan.Sibling, n%3), []byte(strings.Repeat(fmt.Sprintf("%08d", n), 512)))
		}
	}
}

// evaluate announces evaluations of a checkpoint as it is now, one after the other, and that an earlier one has ended.
func evaluate(e *Engine, st store.Store, n int) {
	tell := func(n int, state hints.CheckpointState, identity string) {
		_ = e.Tell(context.Background(), "rush", said(checkpointPath(n%2), state, func(r *relay.Record) {
			r.ID = fmt.Sprint(os.Getpid(), "-", state, "-", n)
			r.TTLMS, r.Identity, r.Checkpoint.Sequence = leases(), identity, uint64(n+1)
			if state.OfEvaluation() {
				r.Checkpoint.Evaluation = fmt.Sprint("e", n)
			}
		}))
	}
	c := statLooker{st}.Inspect(context.Background(), checkpointPath(n%2))
	tell(n, hints.Committed, c.Identity)
	tell(n, hints.EvaluationScheduled, "")
	if n >= 6 {
		tell(n-6, hints.EvaluationDone, "")
	}
}

// rest says when nothing is left.
func rest(e *Engine, w Stores) {
	for {
		placements := -1
		if err := e.Ask(context.Background(), func(p *plan.Planner, _ time.Duration) { placements = p.Usage().Placements }); err != nil {
			return
		}
		if s := w.Survey(context.Background()); placements == 0 && len(s.Leavings) == 0 && s.Listed[""] {
			fmt.Println("empty")
			return
		}
		<-time.After(20 * time.Millisecond)
	}
}

// tally counts what children did, by what and path.
type tally map[string]int

func (c tally) add(line string) {
	if w := strings.Fields(line); len(w) > 2 && strings.HasPrefix(w[2], "/") {
		c[w[0]+" "+filepath.Dir(w[2])]++
	}
}

// everything checks that what children should have done was done.
func (c tally) everything(t *testing.T) {
	t.Helper()
	for _, what := range []string{"published /ck", "removed /ck", "published /hot/even", "published /hot/sibling", "made /hot/storage-type", "made /hot/raise", "removed /hot/raise"} {
		if c[what] == 0 {
			t.Errorf("nothing was %s: %v", what, c)
		}
	}
}

// run runs a child until it has said so many lines, or "empty", and kills it.
func (c tally) run(t *testing.T, root string, lines int, env ...string) {
	t.Helper()
	cmd, said := startChild(t, root, env...)
	ended := false
	for n := 0; n < lines && !ended; n++ {
		if !said.Scan() {
			_ = cmd.Wait()
			t.Fatalf("the controller ended by itself after %d lines: %s", n, cmd.Stderr)
		}
		c.add(said.Text())
		ended = said.Text() == "empty"
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for said.Scan() {
	}
	_ = cmd.Wait() // it was killed
}

// startChild starts a child, and returns what it says.
func startChild(t *testing.T, root string, env ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(append(os.Environ(), childEnv+"="+root), env...)
	cmd.Stderr = &bytes.Buffer{}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

// TestKilledProcess kills a controller with the real makers on folders, again and again, each time at another moment of its work, and starts it again with its journal. No
// sibling or copy that readers find ever has another content than its original, and in the end nothing is left and all files are as they were.
func TestKilledProcess(t *testing.T) {
	killed(t, 8)
}

func TestKilledProcessManyTimes(t *testing.T) {
	testdata.Soak(t)
	killed(t, 200).everything(t)
}

func killed(t *testing.T, rounds int) tally {
	did := make(tally)
	root := t.TempDir()
	var topology dir.Topology
	for i := range 12 {
		n := dir.Node{Name: fmt.Sprint("dn", i), Types: []string{"DISK"}}
		if i < 8 {
			n.Types = []string{"ARCHIVE", "DISK"}
		}
		topology.Nodes = append(topology.Nodes, n)
	}
	home := filepath.Join(root, "home")
	if err := errors.Join(dir.Init(home, topology), dir.Init(filepath.Join(root, "east"), topology)); err != nil {
		t.Fatal(err)
	}
	st := openFolder(t, home)
	for _, m := range everyMeans {
		for n := range 3 {
			write(t, st, hotFile(m, n), strings.Repeat("original", 512))
		}
	}
	east := openFolder(t, filepath.Join(root, "east"))
	for n := range 2 {
		write(t, st, checkpointPath(n)+"/model.safetensors", string(tensors(n)))
	}
	for round := range rounds {
		did.run(t, root, 5+round*7%60)
		siblingsAreRight(t, st)
		copiesAreRight(t, st, east)
	}
	did.run(t, root, 1<<30, restEnv+"=1")
	swept(t, st)
	swept(t, east)
	for _, m := range everyMeans {
		for n := range 3 {
			asBefore(t, st, hotFile(m, n))
		}
	}
	j, err := journal.Open(journal.Options{File: filepath.Join(root, "journal")})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if all, over, err := fold(j); err != nil || len(all) > 0 || len(over) < rounds/2 { // some are killed before anything is over
		t.Errorf("the journal says that there is %v, and that %d are over: %v", all, len(over), err)
	}
	return did
}

// swept checks that nothing is left in a store. What asks a store for its time leaves an empty file when it is killed, which sweeps remove later; there must be nothing
// else for them.
func swept(t *testing.T, st store.Store) {
	t.Helper()
	if r, err := temporary.Sweep(t.Context(), st, temporary.SweepOptions{All: true}); err != nil || len(r.Marks) > 0 {
		t.Errorf("there is something to sweep: %+v, %v", r, err)
	}
	for _, folder := range []string{temporary.Folder, temporary.DataFolder, catalogue.Folder} {
		if list, err := st.List(t.Context(), folder); len(list) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, %v", folder, list, err)
		}
	}
}

// copiesAreRight compares the copies that readers find with their originals.
func copiesAreRight(t *testing.T, st, east store.Store) {
	t.Helper()
	rows, err := rowsOf(t.Context(), east)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		path := checkpointPath(n)
		row, ok := rows[catalogue.Folder+"/"+catalogue.NameOf(st.Address(path))]
		if !ok || row.Identity != (statLooker{st}).Inspect(t.Context(), path).Identity {
			continue // readers take the original
		}
		for _, f := range row.Copy.Files {
			original, copied := content(t, st, path+"/"+f.Name), content(t, east, row.Copy.Place+"/"+f.Name)
			if copied != nil && !bytes.Equal(original, copied) {
				t.Errorf("the copy of %s/%s has another content", path, f.Name)
			}
		}
	}
}

// asBefore checks that a file has what it had.
func asBefore(t *testing.T, st interface {
	store.Store
	store.Attributer
	store.StoragePolicer
}, name string) {
	t.Helper()
	info, err := st.Stat(t.Context(), name)
	if err != nil || info.Replicas != 3 {
		t.Errorf("%s has %d replicas: %v", name, info.Replicas, err)
	}
	if v, ok, err := st.Attribute(t.Context(), name, temporary.Attribute); err != nil || ok {
		t.Errorf("%s has the attribute %s: %v", name, v, err)
	}
	if p, err := st.StoragePolicy(t.Context(), name); err != nil || p.Own {
		t.Errorf("%s has the policy %v: %v", name, p, err)
	}
}

// siblingsAreRight compares the siblings that readers find with their originals.
func siblingsAreRight(t *testing.T, st store.Store) {
	t.Helper()
	rows, err := rowsOf(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range everyMeans {
		for n := range 3 {
			name := hotFile(m, n)
			row, ok := rows[catalogue.Folder+"/"+catalogue.NameOf(st.Address(name))]
			info, err := st.Stat(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if !ok || row.Identity != string(info.Identity) {
				continue // readers take the original
			}
			for _, s := range row.Sources.Siblings {
				original, sibling := content(t, st, name), content(t, st, s.Name)
				if sibling != nil && !bytes.Equal(original, sibling) {
					t.Errorf("%s has another content than %s", s.Name, name)
				}
			}
		}
	}
}

// content is what a file has; nil if it is not there.
func content(t *testing.T, st store.Store, name string) []byte {
	t.Helper()
	b, err := store.Files{Store: st}.ReadFile(t.Context(), name, 1<<20)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return b
}

var _ controller.Stores = folders{}
