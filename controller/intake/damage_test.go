package intake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/store"
)

// TestDamage: what readers report is looked at again. What is damaged is told; the report goes in either case, those of other controllers stay.
func TestDamage(t *testing.T) {
	const text = "nine tons"
	st, root := folder(t, map[string]string{"data/good": text, "data/bad": text, "data/old": text})
	identity := func(name string) store.Identity {
		info, err := st.Stat(t.Context(), name)
		must(t, err)
		return info.Identity
	}
	key, err := catalogue.NewKey("k", make([]byte, 32))
	must(t, err)
	sum := crc32.Checksum([]byte(text), castagnoli)
	row := func(placement uint64, path string, names ...string) {
		r := catalogue.Row{Version: catalogue.Version, Placement: placement, Controller: "ctl", Path: path, Identity: "v", TTL: time.Hour,
			Sources: &catalogue.Sources{Size: int64(len(text)), Readers: 2}}
		for _, name := range names {
			r.Sources.Siblings = append(r.Sources.Siblings, catalogue.Sibling{Name: name, Identity: identity(name), CRC32C: sum})
		}
		must(t, catalogue.Write(t.Context(), st, key, r))
	}
	row(1, "/a", "/data/good")
	row(2, "/b", "/data/good", "/data/bad")
	row(3, "/c", "/data/old")
	report := func(placement uint64, file, controller string) {
		must(t, catalogue.ReportDamage(t.Context(), st, catalogue.Damage{Placement: placement, Controller: controller, File: file, Detail: "x"}))
	}
	report(1, st.Address("/data/good"), "ctl")
	report(2, st.Address("/data/bad"), "ctl")
	report(3, "", "ctl")
	report(9, "", "ctl")     // has no row any more
	report(1, "", "another") // has none
	row(5, "/e", "/data/good")
	must(t, catalogue.Write(t.Context(), st, key, catalogue.Row{Version: catalogue.Version, Placement: 5, Controller: "another", Path: "/f", Identity: "v", TTL: time.Hour, Sources: &catalogue.Sources{Size: 1, Readers: 2}}))
	report(5, "", "another")
	corrupt(t, filepath.Join(root, "data/bad"))
	must(t, os.Remove(filepath.Join(root, "data/old")))
	for _, readOnly := range []bool{true, false, false} {
		f, k, _ := facts(t, st, nil, func(o *FactsOptions) { o.ReadOnly, o.Keys = readOnly, key.Keys() })
		must(t, f.damages(t.Context(), st))
		var got []string
		for _, ev := range k.take() {
			d := ev.(plan.Damaged)
			got = append(got, d.Detail)
			if want := map[string]plan.ID{"bad": 2, "old": 3}[filepath.Base(strings.Fields(d.Detail)[0])]; d.ID != want {
				t.Errorf("%+v", d)
			}
		}
		slices.Sort(got)
		left, err := catalogue.ReadDamages(t.Context(), st)
		must(t, err)
		if len(left) == 1 && left[0].Placement != 5 {
			t.Errorf("%+v is left", left)
		}
		want := []string{st.Address("/data/bad") + " has other bytes than were copied", st.Address("/data/old") + " is gone"}
		if len(left) == 1 && !readOnly && len(got) == 0 {
			return // the last round
		}
		if !slices.Equal(got, want) || len(left) != map[bool]int{true: 6, false: 1}[readOnly] {
			t.Fatalf("%q, %d reports are left", got, len(left))
		}
	}
	t.Error("what was told is told again")
}

// TestDamageFlood: whoever fills the folder with what is nothing, or with word of what is not there, does not keep a damage from being heard of.
func TestDamageFlood(t *testing.T) {
	st, root := folder(t, map[string]string{"data/x": "x"})
	key, err := catalogue.NewKey("k", make([]byte, 32))
	must(t, err)
	must(t, catalogue.Write(t.Context(), st, key, catalogue.Row{Version: catalogue.Version, Placement: 1, Controller: "ctl", Path: "/a", Identity: "v", TTL: time.Hour,
		Sources: &catalogue.Sources{Size: 1, Readers: 2, Siblings: []catalogue.Sibling{{Name: "/data/gone", Identity: "v"}}}}))
	must(t, catalogue.ReportDamage(t.Context(), st, catalogue.Damage{Placement: 1, Controller: "ctl"}))
	at := filepath.Join(root, catalogue.DamageFolder)
	for i := range catalogue.MaxDamages {
		must(t, os.WriteFile(filepath.Join(at, fmt.Sprintf("%064x.json", i)), []byte("{}"), 0o644)) // before all that is a sum
		must(t, catalogue.ReportDamage(t.Context(), st, catalogue.Damage{Placement: uint64(i), Controller: "nobody"}))
	}
	must(t, os.WriteFile(filepath.Join(at, "0.json"), make([]byte, 1<<20), 0o644))
	f, k, _ := facts(t, st, nil, func(o *FactsOptions) { o.Keys = key.Keys() })
	heard := 0
	for range 4 {
		must(t, f.damages(t.Context(), st))
		heard += len(k.take())
	}
	if infos, err := st.List(t.Context(), catalogue.DamageFolder); heard != 1 || err != nil || len(infos) != 0 {
		t.Errorf("%d damages are heard of, %d files are left: %v", heard, len(infos), err)
	}
}

// TestDamageForged: a row that nobody has signed who is trusted does not have a copy undone that is good, and a row that cannot be read now is no reason to forget what
// readers say of it.
func TestDamageForged(t *testing.T) {
	st, root := folder(t, map[string]string{"data/x": "x"})
	keys := map[string]catalogue.Key{}
	for i, who := range []string{"controller", "stranger"} {
		key, err := catalogue.NewKey(who, bytes.Repeat([]byte{byte(i)}, 32))
		must(t, err)
		keys[who] = key
	}
	write := func(who, path string, placement uint64) string {
		must(t, catalogue.Write(t.Context(), st, keys[who], catalogue.Row{Version: catalogue.Version, Placement: placement, Controller: "ctl", Path: path, Identity: "v", TTL: time.Hour,
			Sources: &catalogue.Sources{Size: 1, Readers: 2, Siblings: []catalogue.Sibling{{Name: "/data/gone", Identity: "v"}}}}))
		return filepath.Join(root, catalogue.Folder, catalogue.NameOf(path))
	}
	write("stranger", "/forged", 1)
	unread := write("controller", "/unread", 2)
	must(t, os.Rename(unread, unread+".away"))
	must(t, os.Symlink("loop.json", filepath.Join(filepath.Dir(unread), "loop.json")))
	must(t, os.Symlink("loop.json", unread))
	for placement := range uint64(2) {
		must(t, catalogue.ReportDamage(t.Context(), st, catalogue.Damage{Placement: placement + 1, Controller: "ctl"}))
	}
	f, k, _ := facts(t, st, nil, func(o *FactsOptions) { o.Keys = keys["controller"].Keys() })
	must(t, f.damages(t.Context(), st))
	if got := k.take(); len(got) != 0 {
		t.Errorf("undone for a forged row: %+v", got)
	}
	must(t, os.Remove(unread))
	must(t, os.Rename(unread+".away", unread))
	must(t, os.Remove(filepath.Join(filepath.Dir(unread), "loop.json")))
	must(t, f.damages(t.Context(), st))
	if got := k.take(); len(got) != 1 || got[0].(plan.Damaged).ID != 2 {
		t.Errorf("once its row can be read: %+v", got)
	}
}

// corrupt changes a byte of a file behind the store's back.
func corrupt(t *testing.T, name string) {
	t.Helper()
	info, err := os.Stat(name)
	must(t, err)
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt([]byte("N"), 0)
	must(t, errors.Join(err, f.Close(), os.Chtimes(name, info.ModTime(), info.ModTime())))
}

// hanging is a store that never says what damage there is.
type hanging struct{ store.Store }

func (h hanging) List(ctx context.Context, dir string) ([]store.Info, error) {
	if dir == catalogue.DamageFolder {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return h.Store.List(ctx, dir)
}

// TestDamageThatHangs: a store that hangs where damage is reported keeps nothing else from being known, nor the damage at another.
func TestDamageThatHangs(t *testing.T) {
	home, _ := folder(t, map[string]string{"data/x": "x"})
	east, _ := folder(t, nil)
	key, err := catalogue.NewKey("k", make([]byte, 32))
	must(t, err)
	must(t, catalogue.Write(t.Context(), home, key, catalogue.Row{Version: catalogue.Version, Placement: 1, Controller: "ctl", Path: "/a", Identity: "v", TTL: time.Hour,
		Sources: &catalogue.Sources{Size: 1, Readers: 2, Siblings: []catalogue.Sibling{{Name: "/data/gone", Identity: "v"}}}}))
	must(t, catalogue.ReportDamage(t.Context(), home, catalogue.Damage{Placement: 1, Controller: "ctl"}))
	f, k, _ := facts(t, home, map[string]store.Store{"east": hanging{east}}, func(o *FactsOptions) {
		o.Sites, o.Keys = []Site{{Name: "east"}}, key.Keys()
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	select {
	case <-f.Ready():
	case <-time.After(patience):
		t.Error("what a store that hangs is asked beside keeps all else from being known")
	}
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		left, err := catalogue.ReadDamages(t.Context(), home)
		must(t, err)
		if len(left) == 0 {
			break
		}
		if time.Since(began) > patience {
			t.Fatal("the damage at home is not looked at")
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	damaged := func(ev plan.Event) bool { d, ok := ev.(plan.Damaged); return ok && d.ID == 1 }
	if all := k.take(); !slices.ContainsFunc(all, damaged) {
		t.Errorf("told %+v", all)
	}
}
