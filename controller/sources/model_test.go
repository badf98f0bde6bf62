package sources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
)

func TestMain(m *testing.M) { hdfstest.Main(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const (
	disk    = "DISK"
	archive = "ARCHIVE"
)

// cluster is a folder whose files have blocks on nodes as HDFS places them: a policy names the type of storage of new replicas, a type that the policy
// does not name is in excess first, and then the replica on the node with the most free space stays. It is what outlives a process.
type cluster struct {
	*dir.Store
	blockSize int64

	mu     sync.Mutex
	nodes  []*node
	files  map[store.Identity]*inode
	lag    int // how often it is asked before replicas come or go
	most   int // of the replicas of a block of a file that is placed on other nodes than some; 0: no bound
	refuse map[string]error
	onDo   func(what string) // before every change
}

type node struct {
	name    string
	archive bool // it has a storage of that type
	dead    bool
}

type inode struct {
	blocks    [][]replica
	want      int
	policy    string // "" is inherited
	attribute string
	waited    int
}

type replica struct {
	node int
	kind string
}

func newCluster(t testing.TB, nodes, tagged int) *cluster {
	t.Helper()
	root := t.TempDir()
	must(t, dir.Init(root, dir.Topology{Nodes: []dir.Node{{Name: "one"}}, BlockSize: 1 << 10}))
	st, _, err := dir.Open(root, dir.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, st.Close()) })
	c := &cluster{Store: st, blockSize: 1 << 10, files: map[store.Identity]*inode{}, refuse: map[string]error{}}
	for i := range nodes {
		c.nodes = append(c.nodes, &node{name: fmt.Sprintf("dn%02d", i), archive: i < tagged})
	}
	for _, folder := range []string{temporary.Folder, temporary.DataFolder, catalogue.Folder} {
		must(t, c.MakeFolder(t.Context(), folder))
	}
	return c
}

func (c *cluster) BlockSize() int64 { return c.blockSize }

// inode returns a file; one that nobody placed has three replicas.
func (c *cluster) inode(info store.Info) *inode {
	f := c.files[info.Identity]
	if f == nil {
		f = c.place(info, store.Placement{Replicas: 3})
		c.files[info.Identity] = f
	}
	return f
}

func (c *cluster) place(info store.Info, p store.Placement) *inode {
	f := &inode{want: p.Replicas}
	for off := int64(0); off < info.Size; off += c.blockSize {
		var exclude []string
		if p.Exclude != nil {
			exclude = p.Exclude(off)
		}
		var b []replica
		most := p.Replicas
		if p.Exclude != nil && c.most > 0 {
			most = min(most, c.most)
		}
		for _, n := range c.ranked(string(info.Identity), off) {
			if len(b) < most && !slices.Contains(exclude, c.nodes[n].name) && !c.nodes[n].dead {
				b = append(b, replica{n, disk})
			}
		}
		f.blocks = append(f.blocks, b)
		if p.Exclude != nil {
			f.want = min(f.want, len(b))
		}
	}
	for i := range f.blocks {
		f.blocks[i] = f.blocks[i][:min(f.want, len(f.blocks[i]))]
	}
	return f
}

// ranked is an order of the nodes that looks random.
func (c *cluster) ranked(key string, off int64) []int {
	order := make([]int, len(c.nodes))
	hash := func(n int) uint64 {
		h := fnv.New64a()
		fmt.Fprint(h, key, off, "/", n*2654435761)
		return h.Sum64()
	}
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(hash(a), hash(b)) })
	return order
}

// work has replicas come and go.
func (c *cluster) work(id store.Identity, f *inode) {
	if f.waited++; f.waited < c.lag {
		return
	}
	kind := disk
	if f.policy == "COLD" {
		kind = archive
	}
	for i, b := range f.blocks {
		b = slices.DeleteFunc(slices.Clone(b), func(r replica) bool { return c.nodes[r.node].dead })
		for _, n := range c.ranked(string(id), int64(i)) {
			has := slices.ContainsFunc(b, func(r replica) bool { return r.node == n })
			if len(b) < f.want && !has && !c.nodes[n].dead && (kind == disk || c.nodes[n].archive) {
				b = append(b, replica{n, kind})
			}
		}
		for len(b) > f.want {
			worst := slices.MaxFunc(b, func(x, y replica) int { // the first nodes have the most free space
				return cmp.Or(cmp.Compare(excess(x, kind), excess(y, kind)), cmp.Compare(x.node, y.node))
			})
			b = slices.DeleteFunc(b, func(r replica) bool { return r == worst })
		}
		f.blocks[i] = b
	}
}

func excess(r replica, kind string) int {
	if r.kind != kind {
		return 1
	}
	return 0
}

func (c *cluster) Stat(ctx context.Context, name string) (store.Info, error) {
	info, err := c.Store.Stat(ctx, c.named(ctx, name))
	if err == nil && !info.Dir {
		c.mu.Lock()
		defer c.mu.Unlock()
		info.Replicas = c.inode(info).want
	}
	return info, err
}

func (c *cluster) Locate(ctx context.Context, name string, off, n int64) ([]store.Replica, error) {
	info, err := c.Store.Stat(ctx, name)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.inode(info)
	c.work(info.Identity, f)
	var rows []store.Replica
	for i, b := range f.blocks {
		at := int64(i) * c.blockSize
		for _, r := range b {
			if !c.nodes[r.node].dead {
				rows = append(rows, store.Replica{Node: c.nodes[r.node].name, Rack: fmt.Sprint("/r", r.node%3), Storage: r.kind, Off: at, Len: min(c.blockSize, info.Size-at)})
			}
		}
	}
	return rows, ctx.Err()
}

// byIdentity begins the name of a file, wherever it is, among those that tests rename.
const byIdentity = "identity "

// named is what a file is called now.
func (c *cluster) named(ctx context.Context, name string) string {
	id, is := strings.CutPrefix(name, byIdentity)
	if !is {
		return name
	}
	for _, name := range []string{hotFile, movedFile} {
		if info, err := c.Store.Stat(ctx, name); err == nil && string(info.Identity) == id {
			return name
		}
	}
	return "/gone"
}

// with changes a file unless that is refused.
func (c *cluster) with(ctx context.Context, what, name string, do func(*inode)) error {
	info, err := c.Store.Stat(ctx, c.named(ctx, name))
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refuse[what]; err != nil {
		return fmt.Errorf("model.%s %s: %w", what, name, err)
	}
	f := c.inode(info)
	do(f)
	f.waited = 0
	return ctx.Err()
}

// process is the cluster as one process sees it that is killed at its change number dies, 0 for never: before the change, or, with after, when it was made.
type process struct {
	*cluster
	dies  int
	after bool

	mu   sync.Mutex
	made int
	log  []string
}

var errKilled = errors.New("killed")

func (p *process) change(what string, do func() error) error {
	p.mu.Lock()
	p.made++
	at := p.made
	p.log = append(p.log, what)
	p.mu.Unlock()
	if p.dies > 0 && (at > p.dies || at == p.dies && !p.after) {
		return errKilled
	}
	if p.onDo != nil {
		p.onDo(what)
	}
	err := do()
	if at == p.dies {
		return errKilled
	}
	return err
}

func (p *process) Remove(ctx context.Context, name string) error {
	return p.change("remove "+path.Base(name), func() error { return p.Store.Remove(ctx, name) })
}

func (p *process) Rename(ctx context.Context, from, to string) error {
	return p.change("rename to "+path.Base(to), func() error { return p.Store.Rename(ctx, from, to) })
}

func (p *process) Create(ctx context.Context, name string) (w store.Writer, err error) {
	err = p.change("create "+path.Base(name), func() error {
		w, err = p.Store.Create(ctx, name)
		return err
	})
	if err != nil && w != nil {
		return nil, errors.Join(err, w.Abort()) // what a killed writer leaves is held by nobody
	}
	return w, err
}

func (p *process) CreatePlaced(ctx context.Context, name string, at store.Placement) (w store.Writer, err error) {
	err = p.change("create placed "+path.Base(name), func() error {
		if err := p.refuse["create"]; err != nil {
			return err
		}
		w, err = p.Store.Create(ctx, name)
		return err
	})
	if err != nil {
		if w != nil {
			err = errors.Join(err, w.Abort())
		}
		return nil, err
	}
	return &placedWriter{Writer: w, p: p, name: name, at: at}, nil
}

type placedWriter struct {
	store.Writer
	p    *process
	name string
	at   store.Placement
}

func (w *placedWriter) Close() error {
	return w.p.change("close "+path.Base(w.name), func() error {
		if err := w.Writer.Close(); err != nil {
			return err
		}
		info, err := w.p.Store.Stat(context.Background(), w.name)
		if err != nil {
			return err
		}
		w.p.cluster.mu.Lock()
		defer w.p.cluster.mu.Unlock()
		f := w.p.place(info, w.at)
		w.p.files[info.Identity] = f
		if f.want == 0 {
			return errors.Join(store.ErrUnavailable, w.p.Store.Remove(context.Background(), w.name))
		}
		return nil
	})
}

func (p *process) SetReplication(ctx context.Context, name string, n int) error {
	return p.change(fmt.Sprint("replication ", n), func() error {
		return p.with(ctx, "SetReplication", name, func(f *inode) { f.want = n })
	})
}

func (p *process) Attribute(ctx context.Context, name, attribute string) (value []byte, ok bool, err error) {
	err = p.with(ctx, "Attribute", name, func(f *inode) { value, ok = []byte(f.attribute), f.attribute != "" && attribute == temporary.Attribute })
	return value, ok, err
}

func (p *process) SetAttribute(ctx context.Context, name, attribute string, value []byte) error {
	return p.change("attribute", func() error {
		return p.with(ctx, "SetAttribute", name, func(f *inode) { f.attribute = string(value) })
	})
}

func (p *process) StoragePolicy(ctx context.Context, name string) (s store.StoragePolicy, err error) {
	err = p.with(ctx, "StoragePolicy", name, func(f *inode) { s = store.StoragePolicy{Name: cmp.Or(f.policy, "HOT"), Own: f.policy != ""} })
	return s, err
}

func (p *process) SetStoragePolicy(ctx context.Context, name, policy string) error {
	return p.change("policy "+policy, func() error {
		return p.with(ctx, "SetStoragePolicy", name, func(f *inode) { f.policy = policy })
	})
}

func (p *process) MoveReplica(ctx context.Context, name string, off int64, from, to string) error {
	return p.change(fmt.Sprintf("move block %d", off), func() error {
		return p.with(ctx, "MoveReplica", name, func(f *inode) {
			b := f.blocks[off/p.blockSize]
			for i, r := range b {
				if p.nodes[r.node].name == from {
					b[i].node = slices.IndexFunc(p.nodes, func(n *node) bool { return n.name == to })
				}
			}
		})
	})
}

// tree is every file and how it lies, once all replicas have come and gone.
func (c *cluster) tree(t testing.TB) string {
	t.Helper()
	var lines []string
	live := map[store.Identity]bool{}
	var walk func(dir string)
	walk = func(dir string) {
		infos, err := c.List(t.Context(), dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for _, i := range infos {
			if i.Dir {
				lines = append(lines, i.Name+"/")
				walk(i.Name)
				continue
			}
			for range c.lag + 1 {
				_, err := c.Locate(t.Context(), i.Name, 0, i.Size)
				must(t, err)
			}
			f := c.files[i.Identity]
			live[i.Identity] = true
			at := slices.Clone(f.blocks)
			for n := range at {
				at[n] = slices.SortedFunc(slices.Values(at[n]), func(a, b replica) int { return cmp.Compare(a.node, b.node) })
			}
			lines = append(lines, fmt.Sprintf("%s %s want=%d policy=%q attribute=%q %v", i.Name, i.Identity, f.want, f.policy, f.attribute, at))
		}
	}
	walk("/")
	for _, folder := range []string{temporary.Folder, temporary.DataFolder, catalogue.Folder} {
		walk(folder)
	}
	maps.DeleteFunc(c.files, func(id store.Identity, _ *inode) bool { return !live[id] })
	return strings.Join(lines, "\n")
}
