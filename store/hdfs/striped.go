package hdfs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/ec"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// maxStripedSpan bounds what one read of a striped block group covers: its units are read at the same time.
const maxStripedSpan = 8 << 20

// systemPolicies are those that NameNodes name by number only: RS-6-3, RS-3-2, RS-LEGACY-6-3, XOR-2-1 and RS-10-4, with cells of
// 1 MiB.
var systemPolicies = map[uint32]ec.Policy{
	1: {Codec: "rs", Data: 6, Parity: 3, Cell: 1 << 20},
	2: {Codec: "rs", Data: 3, Parity: 2, Cell: 1 << 20},
	3: {Codec: "rs-legacy", Data: 6, Parity: 3, Cell: 1 << 20},
	4: {Codec: "xor", Data: 2, Parity: 1, Cell: 1 << 20},
	5: {Codec: "rs", Data: 10, Parity: 4, Cell: 1 << 20},
}

// policyOf returns how a file is striped; nil if it is not.
func policyOf(p *hproto.ErasureCodingPolicy) *ec.Policy {
	if p == nil {
		return nil
	}
	if system, ok := systemPolicies[p.GetId()]; ok {
		return &system
	}
	return &ec.Policy{
		Codec: p.GetSchema().GetCodecName(), Data: int(p.GetSchema().GetDataUnits()),
		Parity: int(p.GetSchema().GetParityUnits()), Cell: int64(p.GetCellSize()),
	}
}

// readGroup reads a request of an erasure-coded file: from the nodes that hold its bytes, and what they do not give decoded
// from others. The first try leaves out what failed lately; the second, with the locations that the NameNode knows then,
// nothing.
func (s *Store) readGroup(ctx context.Context, l *layout, r request) error {
	parts := make([]ec.Part, len(r.parts))
	for i, p := range r.parts {
		parts[i] = ec.Part(p)
	}
	u := &units{s: s, l: l, b: r.block}
	err := ec.Read(ctx, *l.striped, r.block.len, u, parts)
	if class := store.ClassOf(err); class != store.Retryable && class != store.Corrupt {
		return err
	}
	again := &blockRead{s: s, l: l, b: u.group()}
	if renewed := again.renew(ctx, false); renewed != nil {
		return errors.Join(renewed, err)
	}
	return ec.Read(ctx, *l.striped, r.block.len, &units{s: s, l: l, b: again.b, all: true}, parts)
}

// units gives the units of a block group to package ec.
type units struct {
	s   *Store
	l   *layout
	all bool // try those that failed lately, too, and wait as long as it takes

	mu      sync.Mutex
	b       *block
	renewed bool
}

func (u *units) group() *block {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.b
}

// places are the nodes that hold a unit, the best first.
func (u *units) places(unit int) []place {
	b, when := u.group(), time.Now()
	bad := func(p place) int { return u.s.bad.badness(unitID(b, unit), p.node, when) }
	return slices.DeleteFunc(u.s.reader.order(b, bad, nil), func(p place) bool {
		return p.unit != unit || !u.all && bad(p) != fine
	})
}

func (u *units) Has(unit int) bool { return len(u.places(unit)) > 0 }

// Read reads parts of a unit from its nodes, in turn. A token that is refused is renewed once.
func (u *units) Read(ctx context.Context, unit int, parts []ec.Part) (n int64, err error) {
	left := make([]part, len(parts))
	for i, p := range parts {
		left[i] = part(p)
	}
	start := left[0].Off
	err = fmt.Errorf("%w: no DataNode holds unit %d", store.ErrUnavailable, unit)
	places := u.places(unit)
	for i := 0; i < len(places); i++ {
		b := u.unit(unit)
		a := attempt{s: u.s, b: b, at: places[i], parts: left, patient: u.all, badness: u.s.bad.badness(b.id, places[i].node, time.Now())}
		var got int64
		got, _, err = a.run(ctx)
		u.s.stats.delivered(u.s.reader.distance(places[i].node), min(got, asked(left)))
		if err == nil {
			u.s.bad.nodeWorked(places[i].node)
			return partsEnd(left) - start, nil
		}
		if ctx.Err() != nil {
			return n, ctx.Err()
		}
		n = left[0].Off + got - start
		if left = rest(left, got); len(left) == 0 {
			return n, nil
		}
		if errors.Is(err, errTurnedBad) {
			err = fmt.Errorf("%w: %s: %w", store.ErrUnavailable, places[i].node, err)
			continue
		}
		again, renewed := u.failed(ctx, b, places[i], err)
		if renewed != nil {
			return n, renewed
		}
		if again {
			places = u.places(unit)
			i = -1
		}
	}
	return n, err
}

// failed keeps what a failed attempt teaches. again means that there are new tokens.
func (u *units) failed(ctx context.Context, b *block, p place, err error) (again bool, renewed error) {
	c := causeOf(err)
	u.s.stats.retried(c)
	switch {
	case c == byToken:
		return u.renew(ctx)
	case c.blamesNode():
		u.s.bad.nodeFailed(p.node, time.Now())
	case c.blamesReplica():
		u.s.bad.replicaFailed(b.id, p.node, time.Now())
	}
	if c == byChecksum {
		u.s.reportCorrupt(ctx, b, []place{p})
	}
	return false, nil
}

// renew asks for the group's tokens and nodes, once in a read.
func (u *units) renew(ctx context.Context) (bool, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.renewed {
		return false, nil
	}
	u.renewed = true
	r := &blockRead{s: u.s, l: u.l, b: u.b}
	err := r.renew(ctx, true)
	u.b = r.b
	return err == nil, err
}

// unit is the internal block that is a unit of the group.
func (u *units) unit(unit int) *block {
	b := u.group()
	id := unitID(b, unit)
	n := u.l.striped.UnitLen(b.len, unit)
	return &block{
		id: id, len: n,
		ext:    &hproto.ExtendedBlock{PoolId: &id.pool, BlockId: proto.Uint64(uint64(id.id)), GenerationStamp: &id.stamp, NumBytes: proto.Uint64(uint64(n))},
		places: slices.DeleteFunc(slices.Clone(b.places), func(p place) bool { return p.unit != unit }),
	}
}

func unitID(group *block, unit int) blockID {
	id := group.id
	id.id += int64(unit)
	return id
}
