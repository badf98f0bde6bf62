package hdfs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/ec"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// batchPlaces bounds an answer of the NameNode about locations: about 230 bytes each, so half a MiB.
const batchPlaces = 2048

// renewBlocks is how many blocks are asked for again when one of them could not be read: its neighbours are likely to be on
// the same node.
const renewBlocks = 8

// layout is where one version of a file lies, as far as that is known. It is shared by all who have that version open and
// is safe for concurrent use. Asking again never mixes versions: what the NameNode says must fit what it said before.
type layout struct {
	path    string // in HDFS
	version version
	size    int64      // readable bytes: version.length, or less while the file is being written
	open    bool       // the file was being written when it was opened
	factor  int        // wanted number of replicas
	striped *ec.Policy // nil: whole replicas
	step    int64      // preferred block size, of a block group if striped
	learned time.Time  // when its first blocks were
	byPath  bool       // the inode cannot be asked for; guarded by asking

	asking chan struct{} // holds one value while somebody asks the NameNode about the file

	mu     sync.Mutex
	blocks []*block // known ones, sorted and disjoint
}

func newLayout(path string, s *hproto.FileStatus) *layout {
	l := &layout{
		path: path, version: versionOf(s), learned: time.Now(), size: int64(s.GetLength()), factor: max(int(s.GetBlockReplication()), 1),
		striped: policyOf(s.GetEcPolicy()), step: max(int64(s.GetBlockSize()), 1), asking: make(chan struct{}, 1),
		byPath: s.GetFileId() == 0 || slices.Contains(strings.Split(path, "/"), ".snapshot"),
	}
	if l.striped != nil {
		l.step *= int64(max(l.striped.Data, 1))
		l.factor = max(l.striped.Data+l.striped.Parity, 1)
	}
	return l
}

// batch is how many bytes of the file are located by one question.
func (l *layout) batch() int64 { return int64(max(batchPlaces/l.factor, 1)) * l.step }

// known returns the blocks of [off, off+n) if all are known, else where the first unknown byte is.
func (l *layout) known(off, n int64) (blocks []*block, missing int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := sort.Search(len(l.blocks), func(i int) bool { return l.blocks[i].end() > off })
	first := i
	for at := off; at < off+n; i++ {
		if i == len(l.blocks) || l.blocks[i].off > at {
			return nil, at, false
		}
		at = l.blocks[i].end()
	}
	return l.blocks[first:i:i], 0, true // put never changes a slice in place
}

// current returns what is known now of the block where b was.
func (l *layout) current(b *block) *block {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, found := findBlock(l.blocks, b.off)
	if !found {
		return nil
	}
	return l.blocks[i]
}

func findBlock(blocks []*block, off int64) (int, bool) {
	return slices.BinarySearchFunc(blocks, off, func(b *block, off int64) int { return cmp.Compare(b.off, off) })
}

// put takes in what the NameNode says now. Blocks that do not fit those known before are an error, and nothing is taken.
func (l *layout) put(blocks []*block) (changed string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	merged := slices.Clone(l.blocks)
	for _, b := range blocks {
		i, found := findBlock(merged, b.off)
		if found {
			if changed := sameBlock(merged[i], b); changed != "" {
				return changed
			}
			merged[i] = b
			continue
		}
		if i > 0 && merged[i-1].end() > b.off || i < len(merged) && b.end() > merged[i].off {
			return fmt.Sprintf("its block %s at offset %d overlaps one that was there before", b.id, b.off)
		}
		merged = slices.Insert(merged, i, b)
	}
	l.blocks = merged
	return ""
}

// blocksOf returns the blocks that hold [off, off+n), which lies inside the file. It asks the NameNode for those that are
// not known, many at a time.
func (s *Store) blocksOf(ctx context.Context, l *layout, off, n int64) ([]*block, error) {
	for {
		blocks, missing, ok := l.known(off, n)
		if ok {
			return blocks, nil
		}
		if err := s.learn(ctx, l, missing); err != nil {
			return nil, err
		}
	}
}

// learn asks the NameNode for a batch of blocks from an offset on, unless somebody else just did.
func (s *Store) learn(ctx context.Context, l *layout, off int64) error {
	if err := l.ask(ctx); err != nil {
		return err
	}
	defer l.asked()
	if _, _, ok := l.known(off, 1); ok {
		return nil
	}
	if err := s.fetch(ctx, l, off, l.batch()); err != nil {
		return err
	}
	if _, _, ok := l.known(off, 1); !ok {
		return fmt.Errorf("%w: the NameNode gives no block at offset %d of a file of %d bytes", store.ErrUnavailable, off, l.size)
	}
	return nil
}

// renew asks the NameNode again for a block that could not be read, and returns it as it is now. wide asks for a whole batch:
// block tokens expire together. Readers who failed together ask once, whichever of them is the first: what is asked for
// begins at a multiple of its length.
func (s *Store) renew(ctx context.Context, l *layout, b *block, wide bool) (*block, error) {
	if err := l.ask(ctx); err != nil {
		return nil, err
	}
	defer l.asked()
	if now := l.current(b); now != nil && now != b {
		return now, nil
	}
	n := renewBlocks * l.step
	if wide {
		n = l.batch()
	}
	if err := s.fetch(ctx, l, b.off-b.off%n, n); err != nil {
		return nil, err
	}
	now := l.current(b)
	if now == nil || now == b {
		return nil, fmt.Errorf("%w: the NameNode does not give block %s at offset %d any more", store.ErrUnavailable, b.id, b.off)
	}
	return now, nil
}

func (l *layout) ask(ctx context.Context) error {
	select {
	case l.asking <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *layout) asked() { <-l.asking }

// fetch asks the NameNode for the blocks of [off, off+n), as far as the file reaches. Blocks that are not known yet cannot be
// compared with what they were, so the version is looked at before they are taken in. The caller has asking.
func (s *Store) fetch(ctx context.Context, l *layout, off, n int64) error {
	n = min(n, max(l.size-off, 1))
	located, err := s.locations(ctx, l, off, n)
	if err != nil {
		return err
	}
	if _, _, known := l.known(off, min(n, l.size-off)); !known {
		if err := s.sameVersion(ctx, l); err != nil {
			return err
		}
	}
	err = s.takeIn(l, located)
	s.layouts.grew(l)
	if errors.Is(err, store.ErrIdentity) {
		s.layouts.forget(l.path)
		if gone := s.stillThere(ctx, l); gone != nil { // it knows the identity that is there now
			return gone
		}
	}
	return err
}

// takeIn puts what the NameNode says into the layout, if it is about the version that was opened.
func (s *Store) takeIn(l *layout, located *hproto.LocatedBlocks) error {
	if !l.open && (int64(located.GetFileLength()) != l.version.length || located.GetUnderConstruction()) {
		return s.changed(l, fmt.Sprintf("it had %d bytes and has %d, being written: %v", l.version.length, located.GetFileLength(), located.GetUnderConstruction()))
	}
	blocks := make([]*block, 0, len(located.GetBlocks()))
	for _, lb := range located.GetBlocks() {
		b := s.nodes.blockOf(lb)
		s.learnFrom(b)
		if b.off < 0 || b.len < 0 || b.off > l.size {
			return fmt.Errorf("%w: the NameNode describes block %s as [%d, %d+%d) of a file of %d bytes", store.ErrUnavailable, b.id, b.off, b.off, b.len, l.size)
		}
		if l.open && (b.end() > l.size || isOpen(located, lb)) {
			b.open, b.len = true, l.size-b.off
		}
		if b.len > 0 && b.end() <= l.size {
			blocks = append(blocks, b)
		}
	}
	if changed := l.put(blocks); changed != "" {
		return s.changed(l, changed)
	}
	return nil
}

// learnFrom keeps what a block tells about the cluster.
func (s *Store) learnFrom(b *block) {
	if b.token != nil {
		s.tokens.Store(true)
	}
	for _, p := range b.places {
		s.reader.saw(p.node)
	}
}

// isOpen tells whether a block is the one that is being written.
func isOpen(located *hproto.LocatedBlocks, b *hproto.LocatedBlock) bool {
	return located.GetUnderConstruction() && !located.GetIsLastBlockComplete() && located.GetLastBlock().GetB().GetBlockId() == b.GetB().GetBlockId()
}

// takeOpen pins the length that a file has which is still being written: its complete blocks, and what all replicas of the
// last one have. Where no DataNode says how much that is, the last block is left out.
func (s *Store) takeOpen(ctx context.Context, l *layout, located *hproto.LocatedBlocks) error {
	l.open, l.size = true, int64(located.GetFileLength())
	if last := located.GetLastBlock(); last != nil && !located.GetIsLastBlockComplete() {
		l.size += s.visibleLength(ctx, s.nodes.blockOf(last))
	}
	return s.takeIn(l, located)
}

// changed is the error of a file whose inode is the same, and its content is not.
func (s *Store) changed(l *layout, how string) error {
	id := l.version.identity()
	return &store.IdentityError{Name: s.url(l.path), Pinned: id, Now: id + store.Identity(" ("+how+")")}
}

// inode is the path that leads to the version that was opened and to no other file, whatever its name is now.
func (l *layout) inode() string { return inodePath(l.version.inode) }

// locations asks for blocks of the version that was opened: by its inode, which a file that took over the name does not
// have. Where an inode cannot be asked for (snapshots, routers), the file's status before and after tells.
func (s *Store) locations(ctx context.Context, l *layout, off, n int64) (*hproto.LocatedBlocks, error) {
	if !l.byPath {
		located, err := s.names.GetBlockLocations(ctx, l.inode(), off, n)
		if err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return located, err
		}
	}
	if err := s.stillThere(ctx, l); err != nil {
		return nil, err
	}
	located, err := s.names.GetBlockLocations(ctx, l.path, off, n)
	if err != nil {
		return nil, err
	}
	l.byPath = true
	return located, s.stillThere(ctx, l)
}

// stillThere returns nil if the file's name still leads to the version that was opened.
func (s *Store) stillThere(ctx context.Context, l *layout) error {
	status, err := s.names.GetFileInfo(ctx, l.path)
	if err != nil {
		s.layouts.forget(l.path)
		return err
	}
	return s.compare(l, status)
}

// sameVersion returns nil if the file, under whatever name, is the version that was opened.
func (s *Store) sameVersion(ctx context.Context, l *layout) error {
	if !l.byPath {
		status, err := s.names.GetFileInfo(ctx, l.inode())
		if err == nil {
			return s.compare(l, status)
		}
	}
	return s.stillThere(ctx, l)
}

func (s *Store) compare(l *layout, status *hproto.FileStatus) error {
	now := versionOf(status)
	if now != l.version && !(l.open && now.inode == l.version.inode) {
		s.layouts.forget(l.path)
		return &store.IdentityError{Name: s.url(l.path), Pinned: l.version.identity(), Now: now.identity()}
	}
	return nil
}
