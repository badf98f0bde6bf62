package catalogue

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
	"github.com/stepahead-io/stepahead/store/storetest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantIs fails unless err matches target and has the text.
func wantIs(t testing.TB, err, target error, text string) {
	t.Helper()
	if !errors.Is(err, target) || !strings.Contains(err.Error(), text) {
		t.Fatalf("%v, want %v with %q", err, target, text)
	}
}

func openDir(t testing.TB, root string) *dir.Store {
	t.Helper()
	st, _, err := dir.Open(root, dir.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, st.Close()) })
	return st
}

// testKey is a key of a fixed seed.
func testKey(id string, fill byte) Key {
	return newKey(id, bytes.Repeat([]byte{fill}, ed25519.SeedSize))
}

func copyRow(url string, placement uint64, files ...CopyFile) Row {
	return Row{Version: Version, Placement: placement, Controller: "c1", Path: url, Identity: "id", TTL: time.Hour,
		Copy: &Copy{Place: "/.stepahead/data/c1-1", Digest: "d", Files: files}}
}

func aRow(url string) Row {
	return copyRow(url, 7, CopyFile{Name: "a/b", Size: 3, Original: "o1", Here: "h1", CRC32C: 1}, CopyFile{Name: "a<&>c", Original: "o2", Here: "h2"})
}

func TestValidate(t *testing.T) {
	must(t, aRow("/x").Validate())
	hot := Row{Version: 1, Controller: "c", Path: "/p", Identity: "i", TTL: time.Minute, Sources: &Sources{Size: 1, Readers: 2, Siblings: []Sibling{{Name: "/s", Identity: "q"}}}}
	must(t, hot.Validate())
	for want, change := range map[string]func(r *Row){
		"v: 2":                 func(r *Row) { r.Version = 2 },
		"controller: empty":    func(r *Row) { r.Controller = "" },
		"path: empty":          func(r *Row) { r.Path = "" },
		"path: ":               func(r *Row) { r.Path = "/a\nb" },
		"identity: 5000 bytes": func(r *Row) { r.Identity = strings.Repeat("i", 5000) },
		"ttl_ns: 1ns":          func(r *Row) { r.TTL = 1 },
		"exactly one":          func(r *Row) { r.Sources = hot.Sources },
		"must be set":          func(r *Row) { r.Copy = nil },
		"copy.place":           func(r *Row) { r.Copy.Place = "/" },
		"clean name":           func(r *Row) { r.Copy.Place = "/a/../b" },
		"copy.digest: empty":   func(r *Row) { r.Copy.Digest = "" },
		"copy.files: 0":        func(r *Row) { r.Copy.Files = nil },
		"copy.files: 65537":    func(r *Row) { r.Copy.Files = make([]CopyFile, MaxFiles+1) },
		"does not follow":      func(r *Row) { r.Copy.Files[1].Name = "a/b" },
		`name: "../x"`:         func(r *Row) { r.Copy.Files[0].Name = "../x" },
		`name: "/x"`:           func(r *Row) { r.Copy.Files[0].Name = "/x" },
		`name: ""`:             func(r *Row) { r.Copy.Files[0].Name = "" },
		"size: -1":             func(r *Row) { r.Copy.Files[0].Size = -1 },
		"original: empty":      func(r *Row) { r.Copy.Files[0].Original = "" },
		"here: empty":          func(r *Row) { r.Copy.Files[1].Here = "" },
		"copy.labels: empty":   func(r *Row) { r.Copy.Labels = map[string]string{"": "x"} },
		"sources.readers: 0":   func(r *Row) { r.Copy, r.Sources = nil, &Sources{} },
		"sources.siblings[1].crc32c": func(r *Row) {
			r.Copy, r.Sources = nil, &Sources{Readers: 1, Siblings: []Sibling{{"/a", "i", 1}, {"/b", "i", 2}}}
		},
		"sources.siblings[0].name": func(r *Row) { r.Copy, r.Sources = nil, &Sources{Readers: 1, Siblings: []Sibling{{"b", "i", 1}}} },
	} {
		r := aRow("/x")
		change(&r)
		wantIs(t, r.Validate(), ErrRow, want)
	}
}

func TestFileOf(t *testing.T) {
	r := aRow("hdfs://ns/run/step-1")
	for url, want := range map[string]bool{"hdfs://ns/run/step-1/a/b": true, "hdfs://ns/run/step-1/a": false, "hdfs://ns/run/step-10/a/b": false, "hdfs://ns/run/step-1": false, "x": false} {
		if f, ok := r.FileOf(url); ok != want || ok && f.Original != "o1" {
			t.Errorf("%s: %v", url, f)
		}
	}
	one := copyRow("/m/w.safetensors", 1, CopyFile{Name: "w.safetensors", Original: "o", Here: "h"})
	if _, ok := one.FileOf("/m/w.safetensors"); !ok {
		t.Error("a checkpoint that is one file has no file")
	}
}

// TestDecode: there is one spelling of a row, and nothing of it can be changed.
func TestDecode(t *testing.T) {
	k := testKey("k1", 1)
	data, err := encode(aRow("/x"), k)
	must(t, err)
	f, err := decode(data)
	must(t, err)
	must(t, f.verify(k.Keys()))
	wantIs(t, f.verify(testKey("k1", 2).Keys()), ErrSignature, "not what the key")
	wantIs(t, f.verify(Keys{}), ErrSignature, `names the key "k1"`)
	for i := range data {
		changed := bytes.Clone(data)
		changed[i] ^= 1
		if f, err := decode(changed); err == nil && f.verify(k.Keys()) == nil {
			t.Fatalf("byte %d is not signed: %q", i, changed)
		}
	}
	s := string(data)
	for _, bad := range []string{
		"", "{}", "null", s + s, s + " ", strings.TrimSpace(s), " " + s, strings.Replace(s, `"v":1`, `"v": 1`, 1), strings.Replace(s, `"v":1`, `"v":1,"v":1`, 1),
		strings.Replace(s, `"v":1`, `"V":1`, 1), strings.Replace(s, `"v":1`, `"w":1`, 1), strings.Replace(s, `"key":"k1"`, `"key":".."`, 1), strings.Replace(s, `"digest":"d"`, `"digest":"\ud800"`, 1),
		strings.Repeat(" ", MaxRow) + s,
	} {
		_, err := decode([]byte(bad))
		wantIs(t, err, ErrRow, "")
	}
	// The key is part of what is signed.
	other := testKey("k2", 1)
	f.Key = "k2"
	wantIs(t, f.verify(other.Keys()), ErrSignature, "")
	r := aRow("/x")
	r.TTL = 0
	if _, err := encode(r, k); !errors.Is(err, ErrRow) {
		t.Errorf("a row that breaks a rule was signed: %v", err)
	}
	if _, err := encode(aRow("/x"), Key{}); err == nil {
		t.Error("an empty key signed")
	}
}

// TestGolden: what is signed, and how, is a promise to programs of other versions: the expected text was made by testdata/golden.py.
func TestGolden(t *testing.T) {
	data, err := os.ReadFile("testdata/golden.row")
	must(t, err)
	f, err := decode(data)
	must(t, err)
	must(t, f.verify(testKey("k1", 1).Keys()))
	again, err := encode(f.Row, testKey("k1", 1))
	must(t, err)
	if !bytes.Equal(again, data) {
		t.Errorf("%s, want %s", again, data)
	}
}

func TestKeyFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "catalogue.key")
	must(t, GenerateKeyFile(file, "k1"))
	wantIs(t, GenerateKeyFile(file, "k1"), fs.ErrExist, "left alone")
	wantIs(t, GenerateKeyFile(file+"2", ".k"), fs.ErrInvalid, "key id")
	k, err := LoadKey(file)
	must(t, err)
	for _, shown := range []string{fmt.Sprintf("%v %+v %#v", k, k, k)} {
		seed, _ := os.ReadFile(file)
		if secret := strings.Split(strings.TrimSpace(string(seed)), ":")[2]; strings.Contains(shown, secret) {
			t.Errorf("the secret shows: %s", shown)
		}
	}
	if out, err := json.Marshal(k); err != nil || strings.Contains(string(out), "sign") {
		t.Errorf("%s, %v", out, err)
	}
	_, err = NewKey("k1", make([]byte, 31))
	wantIs(t, err, fs.ErrInvalid, "31 bytes")
	_, err = NewKey("", make([]byte, 32))
	wantIs(t, err, fs.ErrInvalid, "key id")
	must(t, os.Chmod(file, 0o640))
	_, err = LoadKey(file)
	wantIs(t, err, fs.ErrPermission, "chmod 600")
	for _, bad := range []string{"", "k1:abcd", "ed25519:k1:abcd", "ed25519:k 1:" + strings.Repeat("A", 43) + "=", "ed25519:k1:" + strings.Repeat("A", 42) + "B=", "ed25519:k1:" + strings.Repeat("A", 43) + "=\n\n", "hmac:k1:" + strings.Repeat("A", 43) + "="} {
		name := filepath.Join(t.TempDir(), "bad")
		must(t, os.WriteFile(name, []byte(bad), 0o600))
		_, err := LoadKey(name)
		wantIs(t, err, fs.ErrInvalid, name)
		if len(bad) > 20 && strings.Contains(err.Error(), bad[12:]) {
			t.Errorf("the error shows what is in the file: %v", err)
		}
	}
}

// owned is a store in which files belong to whom the map says, others to nobody's user "x".
type owned struct {
	store.Store
	of map[string]string
}

func (o owned) say(i *store.Info) {
	if who, ok := o.of[i.Name]; ok {
		i.Owner = who
	} else {
		i.Owner = "x"
	}
}

func (o owned) Stat(ctx context.Context, name string) (store.Info, error) {
	i, err := o.Store.Stat(ctx, name)
	o.say(&i)
	return i, err
}

func (o owned) List(ctx context.Context, name string) ([]store.Info, error) {
	infos, err := o.Store.List(ctx, name)
	for k := range infos {
		o.say(&infos[k])
	}
	return infos, err
}

// TestTrustedKeys: whoever can write somewhere in the catalogue cannot make others believe his key.
func TestTrustedKeys(t *testing.T) {
	st := openDir(t, t.TempDir())
	k := testKey("k1", 1)
	must(t, PublishKey(t.Context(), st, k))
	file := KeyFolder + "/k1.pub"
	for _, c := range []struct {
		name string
		of   map[string]string
		want bool
	}{
		{"the root's owner", map[string]string{"/": "root", file: "root"}, true},
		{"somebody", map[string]string{"/": "root", file: "eve"}, false},
		{"the folder was given away", map[string]string{"/": "root", "/.stepahead": "root", Folder: "root", KeyFolder: "ctl", file: "ctl"}, true},
		{"the catalogue was given away", map[string]string{"/": "root", "/.stepahead": "root", Folder: "ctl", KeyFolder: "ctl", file: "ctl"}, true},
		{"whoever made .stepahead gives nothing away", map[string]string{"/": "root", "/.stepahead": "eve", Folder: "eve", KeyFolder: "eve", file: "eve"}, false},
		{"below what was given away nobody else is trusted", map[string]string{"/": "root", "/.stepahead": "root", Folder: "ctl", KeyFolder: "eve", file: "eve"}, false},
		{"owners are not told", map[string]string{"/": "", "/.stepahead": "", Folder: "", KeyFolder: "", file: ""}, false},
	} {
		keys, ignored, err := TrustedKeys(t.Context(), owned{st, c.of})
		must(t, err)
		if (len(keys) == 1) != c.want || (len(ignored) == 0) != c.want {
			t.Errorf("%s: %v, ignored %v", c.name, keys, ignored)
		}
	}
	keys, _, err := TrustedKeys(t.Context(), st)
	if err != nil || !keys["k1"].Equal(k.public) {
		t.Errorf("%v, %v", keys, err)
	}
	must(t, store.ReplaceFile(t.Context(), st, KeyFolder+"/k2.pub", keyLine("k1", k.public)))
	storetest.Put(t, st, KeyFolder+"/k3.pub", []byte("nonsense"))
	keys, ignored, err := TrustedKeys(t.Context(), st)
	if err != nil || len(keys) != 1 || len(ignored) != 2 {
		t.Errorf("%v, %v, %v", keys, ignored, err)
	}
	if keys, _, err := TrustedKeys(t.Context(), openDir(t, t.TempDir())); err != nil || len(keys) != 0 {
		t.Errorf("no folder: %v, %v", keys, err)
	}
}

// clock is a monotonic clock that a test moves.
type clock struct{ now time.Duration }

func (c *clock) read() time.Duration { return c.now }

// written makes a row's file look as if it had been written so long before the newest file of the catalogue.
func written(t *testing.T, root string, st store.Store, url string, ago time.Duration) {
	t.Helper()
	newest, err := st.Stat(t.Context(), Folder)
	must(t, err)
	at := newest.ModTime.Add(-ago)
	must(t, os.Chtimes(filepath.Join(root, Folder, NameOf(url)), at, at))
}

func TestResolve(t *testing.T) {
	root := t.TempDir()
	st := openDir(t, root)
	k, now := testKey("k1", 1), &clock{}
	url := "/elsewhere/step-1"
	must(t, PublishKey(t.Context(), st, k))
	must(t, Write(t.Context(), st, k, aRow(url)))
	r := NewResolver(st, ResolverOptions{Now: now.read})
	row, err := r.Resolve(t.Context(), url)
	must(t, err)
	if row.Placement != 7 || len(row.Copy.Files) != 2 {
		t.Errorf("%+v", row)
	}
	_, err = r.Resolve(t.Context(), url+"0")
	wantIs(t, err, ErrNone, url+"0")

	// What was read is believed for a minute.
	must(t, Withdraw(t.Context(), st, NameOf(url), "c1", 7))
	_, err = r.Resolve(t.Context(), url)
	must(t, err)
	now.now += freshFor
	_, err = r.Resolve(t.Context(), url)
	wantIs(t, err, ErrNone, url)

	// But no longer than the row holds, by the reader's clock,
	row.TTL = 10 * time.Second
	must(t, Write(t.Context(), st, k, row))
	now.now += freshFor
	_, err = r.Resolve(t.Context(), url)
	must(t, err)
	now.now += 11 * time.Second
	_, err = r.Resolve(t.Context(), url)
	wantIs(t, err, ErrExpired, "clock of this process")
	// and not when it was not renewed by the store's clock.
	written(t, root, st, url, 12*time.Second)
	_, err = Resolve(t.Context(), st, url, ResolverOptions{})
	wantIs(t, err, ErrExpired, "clock of the store")
	written(t, root, st, url, 8*time.Second)
	r = NewResolver(st, ResolverOptions{Now: now.read})
	_, err = r.Resolve(t.Context(), url)
	must(t, err)
	now.now += 3 * time.Second
	_, err = r.Resolve(t.Context(), url)
	wantIs(t, err, ErrExpired, "clock of this process")
	// Nor any longer where the store's clock stands still, since nobody writes there any more.
	row.TTL = 3 * freshFor / 2
	must(t, Write(t.Context(), st, k, row))
	r = NewResolver(st, ResolverOptions{Now: now.read})
	for range 2 {
		_, err = r.Resolve(t.Context(), url)
		must(t, err)
		now.now += freshFor + time.Second
	}
	_, err = r.Resolve(t.Context(), url)
	wantIs(t, err, ErrExpired, "clock of this process")
	written(t, root, st, url, -time.Second) // it is renewed
	now.now += freshFor
	_, err = r.Resolve(t.Context(), url)
	must(t, err)

	// A row that seems to come from the future is as old as it can be told: new.
	written(t, root, st, url, -time.Hour)
	_, err = Resolve(t.Context(), st, url, ResolverOptions{})
	must(t, err)

	_, err = Resolve(t.Context(), st, url, ResolverOptions{Keys: testKey("k1", 9).Keys()})
	wantIs(t, err, ErrSignature, "k1")
	_, err = Resolve(t.Context(), st, url, ResolverOptions{Keys: Keys{}})
	wantIs(t, err, ErrSignature, "k1")
	must(t, st.Remove(t.Context(), KeyFolder+"/k1.pub"))
	_, err = Resolve(t.Context(), st, url, ResolverOptions{})
	wantIs(t, err, ErrSignature, "k1")
	_, err = Resolve(t.Context(), openDir(t, t.TempDir()), url, ResolverOptions{})
	wantIs(t, err, ErrNone, url)
}

// TestResolveMoved: a row that somebody copied under another path's name is none.
func TestResolveMoved(t *testing.T) {
	st := openDir(t, t.TempDir())
	k := testKey("k1", 1)
	must(t, PublishKey(t.Context(), st, k))
	must(t, Write(t.Context(), st, k, aRow("/a")))
	must(t, st.Rename(t.Context(), path.Join(Folder, NameOf("/a")), path.Join(Folder, NameOf("/b"))))
	_, err := Resolve(t.Context(), st, "/b", ResolverOptions{})
	wantIs(t, err, ErrRow, "it is the row of /a")
}

// switched lists what another store lists, and counts.
type switched struct {
	store.Store
	inner store.Store
	lists int
}

func (s *switched) List(ctx context.Context, name string) ([]store.Info, error) {
	s.lists++
	return s.inner.List(ctx, name)
}

// TestResolveTrouble: a store that does not answer costs one look in five minutes.
func TestResolveTrouble(t *testing.T) {
	st := openDir(t, t.TempDir())
	faulty := &switched{Store: st, inner: store.Faults(st, []store.Fault{{Kind: "fail", Op: "list"}})}
	now := &clock{}
	r := NewResolver(faulty, ResolverOptions{Now: now.read})
	for range 3 {
		if _, err := r.Resolve(t.Context(), "/a"); err == nil || errors.Is(err, ErrNone) {
			t.Errorf("%v", err)
		}
	}
	if faulty.lists != 1 {
		t.Errorf("it was asked %d times", faulty.lists)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	now.now += troubleFor
	_, err := r.Resolve(ctx, "/a")
	wantIs(t, err, context.Canceled, "")
	faulty.inner = st
	_, err = r.Resolve(t.Context(), "/a") // the call that was given up says nothing about the store
	wantIs(t, err, ErrNone, "")
}

func TestListAndWithdraw(t *testing.T) {
	root := t.TempDir()
	st := openDir(t, root)
	k := testKey("k1", 1)
	if l, err := List(t.Context(), st, nil); err != nil || len(l) != 0 {
		t.Errorf("no catalogue: %v, %v", l, err)
	}
	must(t, PublishKey(t.Context(), st, k))
	urls := []string{"/good", "/old", "/forged", "/torn"}
	for i, url := range urls {
		by := k
		if url == "/forged" {
			by = testKey("k1", 2)
		}
		r := aRow(url)
		r.Placement = uint64(i)
		must(t, Write(t.Context(), st, by, r))
	}
	must(t, os.WriteFile(filepath.Join(root, Folder, NameOf("/torn")), []byte("{"), 0o644))
	written(t, root, st, "/old", 2*time.Hour)
	must(t, ReportDamage(t.Context(), st, Damage{Placement: 1, Controller: "c1"}))
	l, err := List(t.Context(), st, nil)
	must(t, err)
	if len(l) != len(urls) {
		t.Fatalf("%v", l)
	}
	want := map[string]error{"/good": nil, "/old": ErrExpired, "/forged": ErrSignature, "": ErrRow}
	for _, e := range l {
		if !errors.Is(e.Err, want[e.Row.Path]) {
			t.Errorf("%s: %v", e.Row.Path, e.Err)
		}
		if e.Row.Path == "/old" && (e.Left > -time.Hour+time.Minute || e.Left < -time.Hour-time.Minute) {
			t.Errorf("left: %v", e.Left)
		}
	}
	must(t, Withdraw(t.Context(), st, NameOf("/good"), "c1", 99)) // that of another placement
	must(t, Withdraw(t.Context(), st, NameOf("/good"), "c2", 0))
	must(t, Withdraw(t.Context(), st, NameOf("/torn"), "c1", 99))
	must(t, Withdraw(t.Context(), st, NameOf("/none"), "c1", 99))
	must(t, Withdraw(t.Context(), st, NameOf("/old"), "c1", 1))
	if l, err = List(t.Context(), st, k.Keys()); err != nil || len(l) != 2 {
		t.Errorf("%v, %v", l, err)
	}
}

func TestDamages(t *testing.T) {
	st := openDir(t, t.TempDir())
	if found, err := ReadDamages(t.Context(), st); err != nil || found != nil {
		t.Errorf("%v, %v", found, err)
	}
	first := Damage{Placement: 3, Controller: "c1", File: "/f", Detail: strings.Repeat("\u00e9", maxDetail)}
	for range 3 {
		must(t, ReportDamage(t.Context(), st, first))
		must(t, ReportDamage(t.Context(), st, Damage{Placement: 3, Controller: "c1", File: "/g"}))
	}
	must(t, ReportDamage(t.Context(), st, Damage{Placement: 4, Controller: "c1", File: "/h", Detail: "wrong"}))
	storetest.Put(t, st, DamageFolder+"/x.json", []byte(`{"placement":3}`))
	storetest.Put(t, st, DamageFolder+"/y.json", bytes.Repeat([]byte("["), maxDamage+1))
	found, err := ReadDamages(t.Context(), st)
	must(t, err)
	if len(found) != 2 {
		t.Fatalf("%v", found)
	}
	for _, d := range found {
		if d.Placement == 3 && (d.File != "/f" || len(d.Detail) > maxDetail) || d.Placement == 4 && d.Detail != "wrong" {
			t.Errorf("%+v", d)
		}
		must(t, ClearDamage(t.Context(), st, d))
		must(t, ClearDamage(t.Context(), st, d))
	}
	if found, err := ReadDamages(t.Context(), st); err != nil || len(found) != 0 {
		t.Errorf("%v, %v", found, err)
	}
}

// FuzzRow: whatever lies in a catalogue is a row in its one spelling, or an error.
func FuzzRow(f *testing.F) {
	k := testKey("k1", 1)
	for _, r := range []Row{aRow("/x"), {Version: 1, Controller: "c", Path: "/p", Identity: "i", TTL: time.Minute, Sources: &Sources{Size: 1, Readers: 2, Siblings: []Sibling{{Name: "/s", Identity: "q"}}}}} {
		data, err := encode(r, k)
		must(f, err)
		f.Add(data)
		f.Add(data[:len(data)/2])
		f.Add(bytes.Replace(data, []byte(`"v":1`), []byte(`"v":1e0`), 1))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		row, err := decode(data)
		if err != nil {
			if !errors.Is(err, ErrRow) {
				t.Errorf("%v", err)
			}
			return
		}
		if again, err := spell(row); err != nil || !bytes.Equal(again, data) {
			t.Errorf("%q is spelled %q, %v", data, again, err)
		}
		must(t, row.Row.Validate())
		_ = row.verify(k.Keys())
	})
}
