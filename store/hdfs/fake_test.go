package hdfs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
	"github.com/stepahead-io/stepahead/store/hdfs/datanode"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// fake is a NameNode and its DataNodes in memory. Tests make it fail by setting its fields before they use it, or by hooks.
type fake struct {
	mu     sync.Mutex
	files  map[string]*fakeFile
	nodes  []*hproto.DatanodeInfo
	calls  map[string]int
	bad    []*hproto.LocatedBlock // reported
	inodes bool                   // /.reserved/.inodes works
	tokens int                    // block tokens are of this generation; 0: none
	next   uint64                 // inode and block ids
	reads  []fakeRead

	// down, slow and broken are by DataNode (index): refuses connections; takes so long; ends the connection after so many
	// bytes of each read, from 1 on.
	down   map[int]bool
	slow   map[int]time.Duration
	broken map[int]int64
	// wrong and missing are by block id and DataNode.
	wrong, missing map[[2]int64]bool
	onRead         func(node int, b datanode.Block) error
	sums           []int // DataNodes that were asked for one
	noSums         bool  // they make none
}

type fakeFile struct {
	status *hproto.FileStatus
	blocks []*fakeBlock
	open   bool // the last block is being written
}

type fakeBlock struct {
	id    int64
	stamp uint64
	off   int64
	data  []byte
	on    []int // DataNodes
}

type fakeRead struct {
	node       int
	block      int64
	off, asked int64
}

const pool = "BP-1"

func newFake(nodes int) *fake {
	f := &fake{
		files: map[string]*fakeFile{}, calls: map[string]int{}, inodes: true, next: 1000,
		down: map[int]bool{}, slow: map[int]time.Duration{}, broken: map[int]int64{}, wrong: map[[2]int64]bool{}, missing: map[[2]int64]bool{},
	}
	for i := range nodes {
		f.nodes = append(f.nodes, &hproto.DatanodeInfo{
			Id: &hproto.DatanodeID{
				IpAddr: proto.String(fmt.Sprintf("10.0.0.%d", i)), HostName: proto.String(fmt.Sprintf("dn%d", i)),
				DatanodeUuid: proto.String(fmt.Sprintf("uuid-%02d", i)), XferPort: proto.Uint32(9866), InfoPort: proto.Uint32(9864), IpcPort: proto.Uint32(9867),
			},
			Location: proto.String(fmt.Sprintf("/rack%d", i%3)), LastUpdate: proto.Uint64(1_000_000),
		})
	}
	return f
}

// put makes a file of blocks of a size, each on `factor` nodes, in place of what had the name.
func (f *fake) put(name string, data []byte, blockSize, factor int) *fakeFile {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	file := &fakeFile{status: &hproto.FileStatus{
		FileType: hproto.FileStatus_FILE.Enum(), Path: []byte{}, Length: proto.Uint64(uint64(len(data))), Permission: &hproto.FsPermission{Perm: proto.Uint32(0o644)},
		Owner: proto.String("alice"), Group: proto.String("users"), ModificationTime: proto.Uint64(1_700_000_000_000 + f.next), AccessTime: proto.Uint64(0),
		BlockReplication: proto.Uint32(uint32(factor)), BlockSize: proto.Uint64(uint64(blockSize)), FileId: proto.Uint64(f.next),
	}}
	for off := 0; off < len(data); off += blockSize {
		f.next++
		b := &fakeBlock{id: int64(f.next), stamp: 1000 + f.next, off: int64(off), data: data[off:min(off+blockSize, len(data))]}
		for k := range min(factor, len(f.nodes)) {
			b.on = append(b.on, (int(f.next)+k)%len(f.nodes))
		}
		file.blocks = append(file.blocks, b)
	}
	f.files[name] = file
	return file
}

func (f *fake) called(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[method]
}

// find returns the file of a path, or of an inode's.
func (f *fake) find(method, name string) (*fakeFile, error) {
	f.calls[method]++
	if id, ok := strings.CutPrefix(name, "/.reserved/.inodes/"); ok && f.inodes {
		for _, file := range f.files {
			if fmt.Sprint(file.status.GetFileId()) == id {
				return file, nil
			}
		}
	}
	if file := f.files[name]; file != nil {
		return file, nil
	}
	return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
}

func (f *fake) GetFileInfo(ctx context.Context, name string) (*hproto.FileStatus, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for path := range f.files {
		if name == "/" || strings.HasPrefix(path, name+"/") {
			f.calls["getFileInfo"]++
			return &hproto.FileStatus{FileType: hproto.FileStatus_DIR.Enum(), ModificationTime: proto.Uint64(1)}, nil
		}
	}
	file, err := f.find("getFileInfo", name)
	if err != nil {
		return nil, err
	}
	return proto.Clone(file.status).(*hproto.FileStatus), nil
}

func (f *fake) GetBlockLocations(ctx context.Context, name string, off, n int64) (*hproto.LocatedBlocks, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	file, err := f.find("getBlockLocations", name)
	if err != nil {
		return nil, err
	}
	return f.locate(file, off, n), nil
}

func (f *fake) locate(file *fakeFile, off, n int64) *hproto.LocatedBlocks {
	answer := &hproto.LocatedBlocks{
		FileLength: proto.Uint64(file.status.GetLength()), UnderConstruction: &file.open, IsLastBlockComplete: proto.Bool(!file.open), EcPolicy: file.status.EcPolicy,
	}
	for i, b := range file.blocks {
		lb := f.located(b)
		if i == len(file.blocks)-1 {
			answer.LastBlock = lb
			if file.open {
				answer.FileLength = proto.Uint64(uint64(b.off))
			}
		}
		if b.off < off+n && off < b.off+int64(len(b.data)) {
			answer.Blocks = append(answer.Blocks, lb)
		}
	}
	return answer
}

// located describes a block with its nodes in an order that is different each time, as the NameNode does.
func (f *fake) located(b *fakeBlock) *hproto.LocatedBlock {
	lb := &hproto.LocatedBlock{
		B:      &hproto.ExtendedBlock{PoolId: proto.String(pool), BlockId: proto.Uint64(uint64(b.id)), GenerationStamp: &b.stamp, NumBytes: proto.Uint64(uint64(len(b.data)))},
		Offset: proto.Uint64(uint64(b.off)), Corrupt: proto.Bool(false), BlockToken: &hproto.Token{},
	}
	if f.tokens > 0 {
		lb.BlockToken.Identifier = []byte{byte(f.tokens)}
	}
	for _, i := range rand.Perm(len(b.on)) {
		lb.Locs = append(lb.Locs, f.nodes[b.on[i]])
		lb.StorageTypes = append(lb.StorageTypes, 1)
		lb.StorageIds = append(lb.StorageIds, fmt.Sprintf("DS-%d", b.on[i]))
	}
	return lb
}

func (f *fake) GetListing(ctx context.Context, dir string, after []byte, located bool) (*hproto.DirectoryListing, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls["getListing"]++
	const page = 10
	all := f.entries(dir, after, located)
	left := max(len(all)-page, 0)
	return &hproto.DirectoryListing{PartialListing: all[:len(all)-left], RemainingEntries: proto.Uint32(uint32(left))}, nil
}

func (f *fake) ListAll(ctx context.Context, dir string, each func(*hproto.FileStatus) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.entries(dir, nil, false) {
		if err := each(s); err != nil {
			return err
		}
	}
	return nil
}

// entries is what a folder holds after a name, sorted. f.mu is held.
func (f *fake) entries(dir string, after []byte, located bool) (all []*hproto.FileStatus) {
	for name, file := range f.files {
		base := path.Base(name)
		if path.Dir(name) == dir && base > string(after) {
			s := proto.Clone(file.status).(*hproto.FileStatus)
			s.Path = []byte(base)
			if located {
				s.Locations = f.locate(file, 0, int64(s.GetLength())+1)
			}
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *hproto.FileStatus) int { return cmp.Compare(string(a.Path), string(b.Path)) })
	return all
}

func (f *fake) ReportBadBlocks(ctx context.Context, blocks []*hproto.LocatedBlock) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bad = append(f.bad, blocks...)
	return nil
}

// Read is a DataNode's. Bytes that cannot be right are written behind what is reported as read, as a real one may.
func (f *fake) Read(ctx context.Context, at datanode.Node, b datanode.Block, parts []datanode.Part) (int64, error) {
	f.mu.Lock()
	node := slices.IndexFunc(f.nodes, func(d *hproto.DatanodeInfo) bool { return d.GetId().GetDatanodeUuid() == at.UUID })
	key := [2]int64{int64(b.GetBlockId()), int64(node)}
	data := f.content(key[0], b.GetGenerationStamp(), node)
	down, slow, broken, wrong := f.down[node], f.slow[node], f.broken[node], f.wrong[key]
	stale := f.tokens > 0 && (b.Token == nil || int(b.Token.GetIdentifier()[0]) != f.tokens)
	hook := f.onRead
	f.reads = append(f.reads, fakeRead{node, key[0], parts[0].Off, partsEnd(parts) - parts[0].Off})
	f.mu.Unlock()
	if hook != nil {
		if err := hook(node, b); err != nil {
			return 0, err
		}
	}
	if slow > 0 {
		if err := store.Sleep(ctx, slow); err != nil {
			return 0, err
		}
	}
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case down:
		return 0, datanode.ErrConnect
	case stale:
		return 0, datanode.ErrToken
	case data == nil:
		return 0, datanode.ErrMissing
	case partsEnd(parts) > int64(len(data)):
		return 0, datanode.ErrLength
	}
	start := parts[0].Off
	limit := partsEnd(parts) - start
	var failed error
	if broken > 0 && limit >= broken {
		limit, failed = broken-1, datanode.ErrBroken
	}
	if wrong {
		limit, failed = limit/2, datanode.ErrChecksum
	}
	for _, p := range parts {
		copy(p.Buf, data[p.Off:])
		if ok := max(start+limit-p.Off, 0); ok < int64(len(p.Buf)) {
			for i := range p.Buf[ok:] {
				p.Buf[ok+int64(i)] ^= 0xff
			}
		}
	}
	return limit, failed
}

// CRC32C is a DataNode's. One whose replica is wrong has the right sum of it: it reads no bytes.
func (f *fake) CRC32C(ctx context.Context, at datanode.Node, b datanode.Block) (uint32, error) {
	f.mu.Lock()
	node := slices.IndexFunc(f.nodes, func(d *hproto.DatanodeInfo) bool { return d.GetId().GetDatanodeUuid() == at.UUID })
	data := f.content(int64(b.GetBlockId()), b.GetGenerationStamp(), node)
	down, slow := f.down[node], f.slow[node]
	stale := f.tokens > 0 && (b.Token == nil || int(b.Token.GetIdentifier()[0]) != f.tokens)
	f.sums = append(f.sums, node)
	f.mu.Unlock()
	if err := store.Sleep(ctx, slow); err != nil {
		return 0, err
	}
	switch {
	case down:
		return 0, datanode.ErrConnect
	case stale:
		return 0, datanode.ErrToken
	case data == nil:
		return 0, datanode.ErrRefused
	case f.noSums:
		return 0, fmt.Errorf("old: %w", errors.ErrUnsupported)
	}
	return crc32.Checksum(data[:b.GetNumBytes()], crc32.MakeTable(crc32.Castagnoli)), nil
}

func (f *fake) content(id int64, stamp uint64, node int) []byte {
	if f.missing[[2]int64{id, int64(node)}] {
		return nil
	}
	for _, file := range f.files {
		for _, b := range file.blocks {
			if b.id == id && b.stamp >= stamp && slices.Contains(b.on, node) {
				return b.data
			}
		}
	}
	return nil
}

func newFakeStore(t testing.TB, f *fake, o Options) *Store {
	t.Helper()
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	return newStore(o.withDefaults(), conf.Cluster{Name: "fake:8020"}, f, f)
}

func random(n int, seed uint64) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(b)
	return b
}
