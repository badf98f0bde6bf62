package temporary

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// disk is what survives a process: a folder, and what the processes below have set of its files.
type disk struct {
	*dir.Store
	mu         sync.Mutex
	attributes map[store.Identity]string
	policies   map[store.Identity]string
}

func newDisk(t testing.TB) *disk {
	t.Helper()
	root := t.TempDir()
	var topology dir.Topology
	for i := range 9 {
		topology.Nodes = append(topology.Nodes, dir.Node{Name: fmt.Sprint("dn", i)})
	}
	must(t, dir.Init(root, topology))
	st, _, err := dir.Open(root, dir.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, st.Close()) })
	return &disk{Store: st, attributes: map[store.Identity]string{}, policies: map[store.Identity]string{}}
}

// errKilled is what a process sees of the world after its end.
var errKilled = errors.New("killed")

// process is a store as one process sees it that is killed at its change number dies, 0 for never: before the change, or, with after, when it was made.
type process struct {
	*disk
	dies  int
	after bool
	made  int
	log   []string
}

func (p *process) change(what string, do func() error) error {
	p.made++
	if p.dies > 0 && (p.made > p.dies || p.made == p.dies && !p.after) {
		return errKilled
	}
	p.log = append(p.log, what)
	err := do()
	if p.made == p.dies {
		return errKilled
	}
	return err
}

func (p *process) Remove(ctx context.Context, name string) error {
	return p.change("remove "+name, func() error { return p.Store.Remove(ctx, name) })
}

func (p *process) Rename(ctx context.Context, from, to string) error {
	return p.change("rename to "+to, func() error { return p.Store.Rename(ctx, from, to) })
}

func (p *process) Create(ctx context.Context, name string) (w store.Writer, err error) {
	err = p.change("create "+name, func() error {
		w, err = p.Store.Create(ctx, name)
		return err
	})
	if err != nil && w != nil {
		return nil, errors.Join(err, w.Abort()) // a killed writer leaves a file that nobody holds, which another removes
	}
	return w, err
}

func (p *process) SetReplication(ctx context.Context, name string, n int) error {
	return p.change(fmt.Sprint("replication ", n), func() error { return p.Store.SetReplication(ctx, name, n) })
}

func (p *process) identity(ctx context.Context, name string) (store.Identity, error) {
	info, err := p.Stat(ctx, name)
	return info.Identity, err
}

func (p *process) Attribute(ctx context.Context, name, attribute string) ([]byte, bool, error) {
	id, err := p.identity(ctx, name)
	p.mu.Lock()
	defer p.mu.Unlock()
	v, ok := p.attributes[id]
	return []byte(v), ok && attribute == Attribute, err
}

func (p *process) SetAttribute(ctx context.Context, name, attribute string, value []byte) error {
	id, err := p.identity(ctx, name)
	if err != nil {
		return err
	}
	return p.change("attribute", func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if value == nil {
			delete(p.attributes, id)
		} else {
			p.attributes[id] = string(value)
		}
		return nil
	})
}

func (p *process) StoragePolicy(ctx context.Context, name string) (store.StoragePolicy, error) {
	id, err := p.identity(ctx, name)
	p.mu.Lock()
	defer p.mu.Unlock()
	if v, ok := p.policies[id]; ok {
		return store.StoragePolicy{Name: v, Own: true}, err
	}
	return store.StoragePolicy{Name: "HOT"}, err
}

func (p *process) SetStoragePolicy(ctx context.Context, name, policy string) error {
	id, err := p.identity(ctx, name)
	if err != nil {
		return err
	}
	return p.change("policy "+policy, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if policy == "" {
			delete(p.policies, id)
		} else {
			p.policies[id] = policy
		}
		return nil
	})
}

// tree is every file of a disk and what is set of it: names alone of folders.
func (d *disk) tree(t testing.TB) string {
	t.Helper()
	var lines []string
	var walk func(dir string)
	walk = func(dir string) {
		infos, err := d.List(t.Context(), dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for _, i := range infos {
			if i.Dir {
				lines = append(lines, i.Name+"/")
				walk(i.Name)
				continue
			}
			lines = append(lines, fmt.Sprintf("%s %s replicas=%d attribute=%q policy=%q", i.Name, i.Identity, i.Replicas, d.attributes[i.Identity], d.policies[i.Identity]))
		}
	}
	walk("/")
	for _, folder := range []string{Folder, DataFolder, path.Dir(rowName)} {
		walk(folder)
	}
	for _, m := range []map[store.Identity]string{d.attributes, d.policies} {
		for _, id := range slices.Sorted(maps.Keys(m)) {
			lines = append(lines, fmt.Sprint(id, m[id]))
		}
	}
	return strings.Join(lines, "\n")
}
