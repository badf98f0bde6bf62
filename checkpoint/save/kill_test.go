package save

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stepahead-io/stepahead/checkpoint"
	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/storetest"
)

// errKilled is what all calls of a dead process come to.
var errKilled = errors.New("the process was killed")

// mortal is a store of a process that is killed before a call, or after it has taken place and before anything else is done: what was done stays, nothing
// more is done, nor taken back.
type mortal struct {
	store.Store
	mu    sync.Mutex
	lives int // calls before the death
	after bool
	kill  func()         // nil: the process is only dead to the store
	held  []func() error // what ends with the process
	log   []string
}

// call performs a call, or is dead.
func (m *mortal) call(what string, do func() error) error {
	m.mu.Lock()
	m.log = append(m.log, what)
	m.lives--
	lives := m.lives
	m.mu.Unlock()
	switch {
	case lives >= 0:
		return do()
	case lives == -1 && m.after:
		_ = do()
	}
	if m.kill != nil {
		m.kill()
	}
	return errKilled
}

// die ends what ends with the process.
func (m *mortal) die() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lives = -2
	for _, release := range m.held {
		_ = release()
	}
}

func (m *mortal) List(ctx context.Context, name string) (infos []store.Info, err error) {
	err = m.call("list", func() (err error) { infos, err = m.Store.List(ctx, name); return err })
	return infos, err
}

func (m *mortal) Stat(ctx context.Context, name string) (info store.Info, err error) {
	err = m.call("stat", func() (err error) { info, err = m.Store.Stat(ctx, name); return err })
	return info, err
}

func (m *mortal) Remove(ctx context.Context, name string) error {
	return m.call("remove "+path.Base(name), func() error { return m.Store.Remove(ctx, name) })
}

func (m *mortal) Rename(ctx context.Context, from, to string) error {
	return m.call("rename", func() error { return m.Store.Rename(ctx, from, to) })
}

func (m *mortal) Create(ctx context.Context, name string) (w store.Writer, err error) {
	err = m.call("create "+path.Base(name), func() (err error) { w, err = m.Store.Create(ctx, name); return err })
	if w != nil {
		m.hold(w.Abort)
	}
	return &mortalWriter{m, w}, err
}

func (m *mortal) CreateParts(ctx context.Context, name string) (w store.PartsWriter, err error) {
	err = m.call("create parts "+path.Base(name), func() (err error) { w, err = store.CreateParts(ctx, m.Store, name); return err })
	if w != nil {
		m.hold(w.Abort)
	}
	return &mortalParts{m, w}, err
}

func (m *mortal) Claim(ctx context.Context, name string) (c store.Claim, err error) {
	err = m.call("claim", func() (err error) { c, err = m.Store.(store.Claimer).Claim(ctx, name); return err })
	if c != nil {
		m.hold(c.Release)
	}
	return &mortalClaim{m, c}, err
}

func (m *mortal) hold(end func() error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = append(m.held, end)
}

type mortalWriter struct {
	m *mortal
	store.Writer
}

func (w *mortalWriter) Write(p []byte) (n int, err error) {
	err = w.m.call("write", func() (err error) { n, err = w.Writer.Write(p); return err })
	return n, err
}
func (w *mortalWriter) Close() error { return w.m.call("close", w.Writer.Close) }
func (w *mortalWriter) Abort() error { return w.m.call("abort", w.Writer.Abort) }

type mortalParts struct {
	m *mortal
	store.PartsWriter
}

func (w *mortalParts) WritePart(ctx context.Context, off int64, data [][]byte) error {
	return w.m.call("write part", func() error { return w.PartsWriter.WritePart(ctx, off, data) })
}
func (w *mortalParts) Close() error { return w.m.call("close parts", w.PartsWriter.Close) }
func (w *mortalParts) Abort() error { return w.m.call("abort parts", w.PartsWriter.Abort) }

type mortalClaim struct {
	m *mortal
	store.Claim
}

func (c *mortalClaim) Held(ctx context.Context) error {
	return c.m.call("held", func() error { return c.Claim.Held(ctx) })
}
func (c *mortalClaim) Release() error { return c.m.call("release", c.Claim.Release) }

// saveAll is a whole save of some files by one rank.
func saveAll(ctx context.Context, st store.Store, name string, files map[string][]byte, o Options) error {
	w, err := Begin(ctx, st, name, o)
	if err != nil {
		return err
	}
	err = func() error {
		for base, data := range files {
			if base == ".metadata" {
				continue
			}
			f, err := w.Create(base)
			if err != nil {
				return err
			}
			if _, err := f.Write(data); err != nil {
				return err
			}
			if err := f.End(); err != nil {
				return err
			}
		}
		return w.Commit(ctx, ".metadata", files[".metadata"])
	}()
	return errors.Join(err, w.Abort(ctx))
}

// complete tells whether a path holds a complete checkpoint, and of which save.
func complete(t *testing.T, st store.Store, name string) (id string, whole bool) {
	t.Helper()
	c, err := checkpoint.Open(t.Context(), st, name, checkpoint.Options{})
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, checkpoint.ErrNone) {
		return "", false
	}
	if err != nil {
		t.Fatal(err)
	}
	return c.SaveID, c.Complete() == nil
}

// wantFiles wants exactly these files, with this content.
func wantFiles(t *testing.T, st store.Store, name string, files map[string][]byte) {
	t.Helper()
	infos, err := st.List(t.Context(), name)
	must(t, err)
	if len(infos) != len(files) {
		t.Errorf("%d files in the folder, want %d: %v", len(infos), len(files), infos)
	}
	for base, data := range files {
		if !bytes.Equal(storetest.Get(t, st, path.Join(name, base)), data) {
			t.Errorf("%s is another", base)
		}
	}
}

// killEverywhere kills a save at every call that it makes of a store. What is then at the path is complete only if the marker has its
// name; the next save removes what is left and is complete.
func killEverywhere(t *testing.T, st store.Store, o Options, older, files map[string][]byte) {
	o.Layout, o.Overwrite, o.Patience = TorchDCP(), true, -1
	for _, after := range []bool{false, true} {
		for lives := 0; ; lives++ {
			name := fmt.Sprintf("/step-%d-%v", lives, after)
			if older != nil {
				must(t, saveAll(t.Context(), st, name, older, o))
			}
			m := &mortal{Store: st, lives: lives, after: after}
			err := saveAll(t.Context(), m, name, files, o)
			m.die()
			if err == nil {
				t.Logf("%d calls: %q", lives, m.log)
				break
			}
			_, marked := st.Stat(t.Context(), path.Join(name, ".metadata"))
			id, whole := complete(t, st, name)
			if whole != (marked == nil) {
				t.Fatalf("killed at %q (%v): complete: %v, the marker: %v", m.log[lives], after, whole, marked)
			}
			if whole && older == nil && !(after && m.log[lives] == "close") && m.log[lives] != "release" {
				t.Fatalf("killed at %q: complete", m.log[lives])
			}
			if whole {
				want := older
				if got := storetest.Get(t, st, path.Join(name, ".metadata")); bytes.Equal(got, files[".metadata"]) {
					want = files
				}
				wantFiles(t, st, name, want)
			}
			must(t, saveAll(t.Context(), st, name, files, o))
			if again, whole := complete(t, st, name); !whole {
				t.Fatalf("the save after the killed one is not complete (%s, %s)", id, again)
			}
			wantFiles(t, st, name, files)
		}
	}
}

// torchSave returns the files of a save that torch wrote, and one more that is written in parts.
func torchSave(t testing.TB, of string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{"__9_0.distcp": random(3*chunk-5, 1)}
	packed, err := filepath.Glob(filepath.Join("..", "dcp", "testdata", of, "*.gz"))
	must(t, err)
	for _, p := range packed {
		data, err := os.ReadFile(p)
		must(t, err)
		z, err := gzip.NewReader(bytes.NewReader(data))
		must(t, err)
		name := strings.TrimSuffix(filepath.Base(p), ".gz")
		if name == "metadata" {
			name = ".metadata"
		}
		files[name], err = io.ReadAll(z)
		must(t, err)
	}
	if len(files) < 3 {
		t.Fatalf("%s: %d files", of, len(files))
	}
	return files
}

var tight = Options{Limits: Limits{Memory: 2 * chunk, Parts: 2, PartSize: chunk}}

func TestKilledSaves(t *testing.T) {
	t.Run("nothing before", func(t *testing.T) { killEverywhere(t, newDir(t), tight, nil, torchSave(t, "plain")) })
	t.Run("over another", func(t *testing.T) {
		killEverywhere(t, newDir(t), tight, torchSave(t, "ranks"), torchSave(t, "plain"))
	})
	t.Run("HDFS", func(t *testing.T) {
		c := hdfstest.Shared(t)
		st := openCluster(t, c, c.Dir(t), nil)
		killEverywhere(t, st, tight, torchSave(t, "ranks"), torchSave(t, "plain"))
	})
}
