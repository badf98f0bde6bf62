package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/checkpoint"
	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/controller/audit"
	"github.com/stepahead-io/stepahead/controller/control"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/relay"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
)

// foretell says something of a checkpoint in a ledger, as an agent keeps it.
func (w *world) foretell(l *relay.Ledger, state hints.CheckpointState, path, identity string, ttl time.Duration) {
	w.t.Helper()
	r := relay.Record{
		ReceivedMS: time.Now().UnixMilli(), TTLMS: ttl.Milliseconds(), ID: hints.NewID(), Job: "7b", Run: "1", User: "ada", Confidence: 1, Identity: identity,
		Checkpoint: &relay.Checkpoint{State: state.String(), Path: path, Step: -1},
	}
	if state.OfEvaluation() {
		r.Checkpoint.Evaluation, r.Checkpoint.Site = "e", "east"
	}
	_, err := l.Append(w.t.Context(), r)
	must(w.t, err)
}

// checkpointAt writes a checkpoint into the home store, and returns its identity.
func (w *world) checkpointAt(home store.Store, path string) string {
	w.t.Helper()
	const bytes = 1 << 20
	head := fmt.Sprintf(`{"w":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}`, bytes, bytes)
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(head)))
	file = append(append(file, head...), make([]byte, bytes)...)
	must(w.t, store.ReplaceFile(w.t.Context(), home, path+"/model.safetensors", file))
	c, err := checkpoint.Open(w.t.Context(), home, path, checkpoint.Options{})
	must(w.t, err)
	return c.Identity()
}

// standing is the placement of a path; none before there is one.
func (w *world) standing(c *control.Client, path string) (plan.Standing, bool) {
	why, err := c.Why(w.t.Context(), 0, path)
	if err != nil || len(why.Standings) != 1 || why.Standings[0].ID == 0 {
		return plan.Standing{}, false
	}
	return why.Standings[0], true
}

// leftovers are all files that are there for a while.
func leftovers(t *testing.T, stores ...store.Store) (all []string) {
	t.Helper()
	for _, st := range stores {
		for _, folder := range []string{temporary.Folder, temporary.DataFolder, catalogue.Folder} {
			infos, err := st.List(t.Context(), folder)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			for _, i := range infos {
				if i.Name != catalogue.KeyFolder && i.Name != catalogue.DamageFolder && !strings.Contains(i.Name, "/clock-") && !strings.Contains(i.Name, "/probe-") { // there for a moment
					all = append(all, st.Address(i.Name))
				}
			}
		}
	}
	return all
}

func openDir(t *testing.T, root string) store.Store {
	t.Helper()
	st, _, err := dir.Open(root, dir.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, st.Close()) })
	return st
}

// TestDryRun: it needs no journal and no lease, runs beside the active one, says what it would do, and does nothing.
func TestDryRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	home, east := openDir(t, w.home), openDir(t, w.east)
	ledger, err := relay.Open(relay.Options{File: w.file("ledger")})
	must(t, err)
	defer ledger.Close()
	const one = "/runs/7b/step-1"
	w.foretell(ledger, hints.Committed, one, w.checkpointAt(home, one), time.Hour)
	w.foretell(ledger, hints.EvaluationScheduled, one, "", time.Hour)
	w.start(w.journaled("--agents", "none")...) // which hears nothing
	active := w.client(w.addr)
	w.until("one acts", func() bool { return w.state(active) == "active" })
	cmd, _ := w.start(w.args("--dry-run", "--ledger", w.file("ledger"), "--agents", "none", "--site-rate", "east=1MiB", "--audit", w.file("dry.audit"))...)
	dry := w.client(w.addr)
	w.until("the other rehearses", func() bool { return w.state(dry) == "dry-run" })
	var said []string
	w.until("it says what it would do", func() bool {
		said = nil
		must(t, dry.Audit(t.Context(), control.AuditQuery{Path: one}, func(l audit.Line) error {
			said = append(said, l.What)
			return nil
		}))
		return slices.Contains(said, "would publish")
	})
	if !slices.Contains(said, "would make") {
		t.Errorf("it says %q", said)
	}
	if left := leftovers(t, home, east); len(left) > 0 {
		t.Errorf("it made %q", left)
	}
	w.ends(cmd)
}

// TestEvaluation: what a job foretells leads to a copy that readers elsewhere find; ctl shows it and takes it back; a controller that is killed leaves nothing
// beyond the lease, neither does one that takes over.
func TestEvaluation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	home, east := openDir(t, w.home), openDir(t, w.east)
	ledger, err := relay.Open(relay.Options{File: w.file("ledger")})
	must(t, err)
	defer ledger.Close()
	args := w.journaled("--ledger", w.file("ledger"), "--agents", "none", "--site-rate", "east=1MiB", "--grace", "10ms")
	first, _ := w.start(args...)
	c := w.client(w.addr)
	w.until("it acts", func() bool { return w.state(c) == "active" })

	const one, two = "/runs/7b/step-1", "/runs/7b/step-2"
	w.foretell(ledger, hints.Committed, one, w.checkpointAt(home, one), time.Hour)
	w.foretell(ledger, hints.EvaluationScheduled, one, "", time.Hour)
	live := func(path string) func() bool {
		return func() bool { s, ok := w.standing(c, path); return ok && s.State == "live" }
	}
	w.until("the copy is there", live(one))
	keys, _, err := catalogue.TrustedKeys(t.Context(), east)
	must(t, err)
	rows, err := catalogue.List(t.Context(), east, keys)
	must(t, err)
	if len(rows) != 1 || rows[0].Err != nil || rows[0].Row.Path != home.Address(one) || rows[0].Row.Copy == nil {
		t.Fatalf("readers find %+v", rows)
	}
	want, err := store.ReadFile(t.Context(), home, one+"/model.safetensors", 1<<24)
	must(t, err)
	got, err := store.ReadFile(t.Context(), east, rows[0].Row.Copy.Place+"/model.safetensors", 1<<24)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the copy has %d bytes, %v", len(got), err)
	}
	s, _ := w.standing(c, one)
	if _, err := c.Revoke(t.Context(), control.Revocation{ID: s.ID, Why: "enough"}); err != nil {
		t.Fatal(err)
	}
	w.until("the copy is gone", func() bool { _, there := w.standing(c, one); return !there && len(leftovers(t, home, east)) == 0 })
	lines := map[string]bool{}
	must(t, c.Audit(t.Context(), control.AuditQuery{Path: one}, func(l audit.Line) error {
		lines[l.What] = true
		return nil
	}))
	for _, what := range []string{"made", "published", "withdrawn", "removed"} {
		if !lines[what] {
			t.Errorf("the audit log does not say %q: %v", what, lines)
		}
	}

	const lease = 30 * time.Second // in which a busy machine makes the copy
	w.foretell(ledger, hints.Committed, two, w.checkpointAt(home, two), time.Hour)
	w.foretell(ledger, hints.EvaluationScheduled, two, "", lease)
	w.until("the second copy is there", live(two))
	must(t, first.Process.Kill())
	_ = first.Wait()
	if len(leftovers(t, home, east)) == 0 {
		t.Error("nothing is left right after the kill: there was nothing to find")
	}
	second, _ := w.start(args...)
	c = w.client(w.addr)
	w.until("the second goes on with it", live(two))
	w.until("what was revoked before stays so", func() bool {
		why, err := c.Why(t.Context(), 0, one)
		return err == nil && len(why.Standings) == 1 && why.Standings[0].Reason == plan.ReasonRevoked && why.Standings[0].ID == 0
	})
	w.until("the lease has ended", func() bool { return len(leftovers(t, home, east)) == 0 })
	w.ends(second)
}

// TestRevocations: what was revoked is remembered for a day, whatever a crash left behind the last line.
func TestRevocations(t *testing.T) {
	r := &revocations{file: filepath.Join(t.TempDir(), "revoked")}
	load := func(now time.Time) string {
		list, err := r.load(now)
		must(t, err)
		var text []string
		for _, l := range list {
			text = append(text, l.Path+"@"+l.Site)
		}
		return strings.Join(text, " ")
	}
	now := time.Now()
	if got := load(now); got != "" {
		t.Errorf("at first: %q", got)
	}
	must(t, r.add([]plan.Standing{{Path: "/a", Site: "east"}, {Path: "/b"}}))
	must(t, r.add(nil))
	f, err := os.OpenFile(r.file, os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteString(`{"at":"20`)
	must(t, errors.Join(err, f.Close()))
	must(t, r.add([]plan.Standing{{Path: "/behind"}}))
	if got := load(now); got != "/a@east /b@ /behind@" {
		t.Errorf("after a crash: %q", got)
	}
	must(t, r.add([]plan.Standing{{Path: "/c", Site: "west"}}))
	must(t, r.add([]plan.Standing{{Path: "/a", Site: "east"}})) // again
	if got := load(now.Add(hints.MaxTTL - time.Minute)); got != "/b@ /behind@ /c@west /a@east" {
		t.Errorf("nearly a day later: %q", got)
	}
	if got := load(now.Add(hints.MaxTTL + time.Minute)); got != "" {
		t.Errorf("a day later: %q", got)
	}
	if text, err := os.ReadFile(r.file); err != nil || len(text) > 0 {
		t.Errorf("the file has %q, %v", text, err)
	}
	if left := (revocation{At: now.Add(1000 * time.Hour)}).left(now); left != hints.MaxTTL {
		t.Errorf("of a clock that was set back: %v", left)
	}
}
