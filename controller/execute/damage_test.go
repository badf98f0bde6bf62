package execute

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/copies"
	"github.com/stepahead-io/stepahead/controller/intake"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/relay"
	"github.com/stepahead-io/stepahead/store"
)

// always is a lease that nobody else wants.
type always struct{}

func (always) Held(context.Context) error { return nil }

// corrupt changes a byte of a file behind the store's back.
func corrupt(t *testing.T, file string) {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-1]++
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Close(), os.Chtimes(file, info.ModTime(), info.ModTime())); err != nil {
		t.Fatal(err)
	}
}

// TestCorruptCopyIsWithdrawn: one byte of a copy changes after it was published. A reader has the original's bytes all the same and leaves word, the controller withdraws the copy and
// deletes it, and makes it anew for those who come later.
func TestCorruptCopyIsWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stores, roots := newBubble(), folders{}, map[string]string{}
		for _, name := range []string{"", "east"} {
			roots[name] = t.TempDir()
			stores[name] = openFolder(t, roots[name])
		}
		home, east := stores[""], stores["east"]
		name := checkpointPath(0) + "/model.safetensors"
		write(t, home, name, string(tensors(7)))
		key, err := catalogue.NewKey("test", make([]byte, 32))
		if err != nil {
			t.Fatal(err)
		}
		maker, err := copies.New(copies.Options{Controller: "one", Stores: stores, Key: key, Clock: c})
		if err != nil {
			t.Fatal(err)
		}
		e, err := New(Options{
			Plan: plan.Options{Home: "home"}, Journal: &memory{}, Name: "one", Makers: map[plan.Means]controller.Maker{plan.Copy: maker}, Looker: statLooker{home},
			Lease: always{}, World: Stores{Stores: stores, Sites: func() []string { return []string{"east"} }}, Clock: c, Settings: settings(),
		})
		if err != nil {
			t.Fatal(err)
		}
		facts, err := intake.NewFacts(intake.FactsOptions{
			Engine: e, Clock: c, Stores: stores, Looker: intake.NewLooker(intake.LookerOptions{Stores: stores}), Controller: "one", Keys: key.Keys(),
			Sites: []intake.Site{{Name: "east", RemoteRate: 50e6}},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		go func() { ended <- e.Run(ctx) }()
		go func() { ended <- facts.Run(ctx) }()
		<-facts.Ready()
		for _, state := range []hints.CheckpointState{hints.Committed, hints.EvaluationScheduled} {
			err := e.Tell(ctx, "test", said(checkpointPath(0), state, func(r *relay.Record) {
				r.Identity = statLooker{home}.Inspect(ctx, checkpointPath(0)).Identity
			}))
			if err != nil {
				t.Fatal(err)
			}
		}
		read := func(want catalogue.Stats) {
			t.Helper()
			s := catalogue.Wrap(home, catalogue.Options{Site: east, Keys: key.Keys(), Now: c.Now})
			b, err := store.Files{Store: s}.ReadFile(ctx, name, 1<<20)
			if err != nil || !bytes.Equal(b, tensors(7)) {
				t.Fatalf("other bytes than the original's: %v", err)
			}
			got := s.Stats()
			if (got.CopyBytes > 0) != (want.CopyBytes > 0) || got.Fallbacks[catalogue.ReasonCorrupt] != want.Fallbacks[catalogue.ReasonCorrupt] {
				t.Fatalf("%+v, want %+v", got, want)
			}
		}
		time.Sleep(10 * time.Second)
		row, err := catalogue.Resolve(ctx, east, home.Address(checkpointPath(0)), catalogue.ResolverOptions{Keys: key.Keys()})
		if err != nil || row.Placement != 1 {
			t.Fatalf("%+v, %v", row, err)
		}
		read(catalogue.Stats{CopyBytes: 1})
		corrupt(t, filepath.Join(roots["east"], row.Copy.Place, path.Base(name)))
		read(catalogue.Stats{CopyBytes: 1, Fallbacks: map[string]int64{catalogue.ReasonCorrupt: 1}})
		time.Sleep(40 * time.Second) // a turn of the facts
		row, err = catalogue.Resolve(ctx, east, home.Address(checkpointPath(0)), catalogue.ResolverOptions{Keys: key.Keys()})
		if err == nil {
			t.Errorf("readers still find it: %+v", row)
		}
		read(catalogue.Stats{})
		time.Sleep(2 * time.Minute)
		if _, err := east.Stat(ctx, temporary.PlaceOf("one", 1)); err == nil {
			t.Error("it is still there")
		}
		read(catalogue.Stats{CopyBytes: 1})
		cancel()
		for range 2 {
			<-ended
		}
	})
}
