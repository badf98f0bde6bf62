package sources

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/store"
)

// sibling makes a temporary copy of a file on other nodes, which our readers find through the catalogue. The original is not touched.
type sibling struct{ hot }

// The files in the place of a sibling: what is being written and was not compared yet, and what was, which has the checksum of its content in its name.
const (
	partBase = "part"
	doneBase = "crc32c-"
)

// located is the fact of a sibling, and of a raised file.
type located struct {
	Size   int64            `json:"size"`
	Spread spread           `json:"spread"`
	Was    *temporary.State `json:"was,omitempty"` // of a raised file
}

func parseFact(data json.RawMessage) (located, error) {
	var f located
	err := json.Unmarshal(data, &f)
	if err == nil {
		err = f.Spread.check()
	}
	if err != nil {
		return f, fmt.Errorf("the fact of a placement is none: %w", err)
	}
	return f, nil
}

// locate looks where a file lies. An empty file lies nowhere.
func (s subject) locate(ctx context.Context, size int64) (spread, error) {
	if size == 0 {
		return spread{}, nil
	}
	rows, err := s.st.Locate(ctx, s.name, 0, size)
	return spreadOf(rows), err
}

func (b sibling) Fact(ctx context.Context, m plan.Make) (json.RawMessage, error) {
	s, err := b.subject(controller.Placement{Make: m})
	if err != nil {
		return nil, err
	}
	info, err := s.original(ctx)
	if err != nil {
		return nil, err
	}
	f := located{Size: info.Size}
	if f.Spread, err = s.locate(ctx, info.Size); err != nil {
		return nil, explain(err)
	}
	return json.Marshal(f)
}

func (b sibling) Make(ctx context.Context, p controller.Placement, t controller.Tools) (controller.Made, error) {
	s, err := b.subject(p)
	if err != nil {
		return controller.Made{}, err
	}
	info, err := s.original(ctx)
	if err != nil {
		return controller.Made{}, err
	}
	f, err := parseFact(p.Fact)
	if err != nil {
		return controller.Made{}, err
	}
	m := b.mark(s, p)
	m.Place, m.Row = temporary.PlaceOf(b.o.Controller, p.Make.ID), b.rowName(s)
	if err := b.writeMark(ctx, s.st, m, t); err != nil {
		return controller.Made{}, b.giveUp(ctx, p.Make.ID, t, err)
	}
	err = b.make(ctx, s, p, f, info, t)
	var made controller.Made
	if err == nil {
		made.Short, err = b.short(ctx, s, p)
	}
	if err != nil {
		return controller.Made{}, b.giveUp(ctx, p.Make.ID, t, err)
	}
	return made, nil
}

// short is how many replicas fewer the sibling has than it was to have: the store has no place for more beside the original's.
func (b sibling) short(ctx context.Context, s subject, p controller.Placement) (int, error) {
	found, _, err := find(ctx, s.st, temporary.PlaceOf(b.o.Controller, p.Make.ID))
	if err != nil {
		return 0, err
	}
	info, err := s.st.Stat(ctx, found.Name)
	if err != nil || info.Replicas < 1 || info.Replicas >= p.Make.Extra {
		return 0, err
	}
	b.o.Log.Info("a sibling has fewer replicas than it was to have: the store has no place for more", zap.String("path", s.name),
		zap.Int("replicas", info.Replicas), zap.Int("wanted", p.Make.Extra))
	return p.Make.Extra - info.Replicas, nil
}

// make makes the file, if it is not there.
func (b sibling) make(ctx context.Context, s subject, p controller.Placement, f located, info store.Info, t controller.Tools) error {
	dir := temporary.PlaceOf(b.o.Controller, p.Make.ID)
	if _, size, err := find(ctx, s.st, dir); err == nil && size == info.Size {
		return nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	part := path.Join(dir, partBase)
	err := temporary.Change(ctx, t.Fence, func(ctx context.Context) error { return s.st.Remove(ctx, part) })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	c := copying{st: s.st, from: s.name, to: part, size: info.Size, identity: info.Identity, tools: t, pace: newPace(b.o.Clock, t.Rate)}
	c.placement = store.Placement{Replicas: max(p.Make.Extra, 1), BlockSize: blockSize(s.st, f.Spread)}
	block := c.placement.BlockSize
	if block == 0 {
		block = ownBlockSize(s.st)
	}
	c.placement.Exclude = func(off int64) []string { return f.Spread.nodes(off, block) }
	sum, err := c.run(ctx)
	if err != nil {
		return err
	}
	if _, err := s.original(ctx); err != nil {
		return err
	}
	done := path.Join(dir, doneBase+hex.EncodeToString([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}))
	return temporary.Change(ctx, t.Fence, func(ctx context.Context) error { return s.st.Rename(ctx, part, done) })
}

func ownBlockSize(st store.Store) int64 {
	if b, ok := st.(store.BlockSizer); ok {
		return b.BlockSize()
	}
	return 0
}

// blockSize is that of a file that lies so; 0 where it is the store's own, or any will do.
func blockSize(st store.Store, s spread) int64 {
	var longest int64
	for _, b := range s.Blocks {
		longest = max(longest, b.Len)
	}
	own := ownBlockSize(st)
	if longest == own || len(s.Blocks) <= 1 && longest <= own {
		return 0
	}
	const checksummed = 512 // blocks are whole multiples of what has a checksum
	return (longest + checksummed - 1) / checksummed * checksummed
}

// find returns the sibling in a place that was compared with the original, and its length; fs.ErrNotExist if there is none.
func find(ctx context.Context, st store.Store, dir string) (catalogue.Sibling, int64, error) {
	infos, err := st.List(ctx, dir)
	if err != nil {
		return catalogue.Sibling{}, 0, err
	}
	for _, i := range infos {
		digits, ok := strings.CutPrefix(path.Base(i.Name), doneBase)
		sum, err := strconv.ParseUint(digits, 16, 32)
		if ok && err == nil && !i.Dir {
			return catalogue.Sibling{Name: i.Name, Identity: i.Identity, CRC32C: uint32(sum)}, i.Size, nil
		}
	}
	return catalogue.Sibling{}, 0, fmt.Errorf("%s: no sibling in it: %w", st.Address(dir), fs.ErrNotExist)
}

func (b sibling) Publish(ctx context.Context, p controller.Placement, t controller.Tools) error {
	s, err := b.subject(p)
	if err != nil {
		return err
	}
	info, err := s.original(ctx)
	if err != nil {
		return err
	}
	found, size, err := find(ctx, s.st, temporary.PlaceOf(b.o.Controller, b.id(p)))
	if err == nil && size != info.Size {
		err = fmt.Errorf("%w: %s has %d bytes, the original %d", store.ErrCorrupt, s.st.Address(found.Name), size, info.Size)
	}
	if err != nil {
		return &controller.Error{Reason: plan.ReasonFailed, Err: err}
	}
	if _, err := b.extend(ctx, p, t); err != nil {
		return explain(err)
	}
	return explain(b.writeRow(ctx, s, p, t, info.Size, []catalogue.Sibling{found}))
}

func (b sibling) Extend(ctx context.Context, p controller.Placement, t controller.Tools) error {
	there, err := b.extend(ctx, p, t)
	if err != nil || !there {
		return err
	}
	s, err := b.subject(p)
	if err != nil {
		return err
	}
	if published, err := b.published(ctx, s, p); err != nil || !published {
		return err
	}
	return b.Publish(ctx, p, t)
}

func (b sibling) Withdraw(ctx context.Context, p controller.Placement, t controller.Tools) error {
	s, err := b.subject(p)
	if err != nil {
		return err
	}
	return explain(temporary.Change(ctx, t.Fence, func(ctx context.Context) error {
		return catalogue.Withdraw(ctx, s.st, path.Base(b.rowName(s)), b.o.Controller, uint64(b.id(p)))
	}))
}

func (b sibling) Remove(ctx context.Context, p controller.Placement, t controller.Tools) error {
	_, err := b.undo(ctx, b.id(p), t)
	return err
}
