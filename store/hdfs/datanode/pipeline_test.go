package datanode

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/internal/fakedn"
)

// chain starts three fake DataNodes, of which one does what script says, and says how a block is written to them.
func chain(t testing.TB, faulty int, f fakedn.Fault) ([]*fakedn.Node, Setup) {
	t.Helper()
	nodes := make([]*fakedn.Node, 3)
	s := Setup{Client: "me", Stage: hproto.OpWriteBlock_SETUP_CREATE, Block: Block{ExtendedBlock: &hproto.ExtendedBlock{
		PoolId: proto.String("BP-1"), BlockId: proto.Uint64(7), GenerationStamp: proto.Uint64(1001), NumBytes: proto.Uint64(1 << 27),
	}}}
	for i := range nodes {
		var o fakedn.Options
		if i == faulty {
			o.Script = func(fakedn.Request) fakedn.Fault { return f }
		}
		nodes[i] = start(t, o)
		s.Targets = append(s.Targets, Target{Node: at(nodes[i]), Info: nodes[i].Info(), Storage: 1, StorageID: "DS-1"})
	}
	return nodes, s
}

// packets cuts data into packets from an offset on.
func packets(off int64, data []byte) (all []*Packet) {
	for len(data) > 0 {
		p := NewPacket(off, len(data))
		n := p.Fill(data)
		data, off, all = data[n:], off+int64(n), append(all, p)
	}
	return all
}

// through writes a block through a pipeline.
func through(ctx context.Context, pool *Pool, s Setup, data []byte) error {
	w, err := pool.OpenPipeline(ctx, s)
	if err != nil {
		return err
	}
	defer w.Close()
	for _, p := range packets(0, data) {
		if err := w.Send(p); err != nil {
			return err
		}
	}
	return w.Finish(int64(len(data)))
}

func TestPipelineWrites(t *testing.T) {
	for _, n := range []int{1, 511, 512, 513, PacketSize - 1, PacketSize, PacketSize + 1, window*PacketSize + 100_017} {
		nodes, s := chain(t, -1, fakedn.Fault{})
		data := content(n)
		if err := through(within(t), newPool(t, Options{}), s, data); err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		for i, node := range nodes {
			if r := node.Replica(7); !r.Final || r.Stamp != 1001 || !bytes.Equal(r.Data, data) {
				t.Errorf("%d bytes: node %d has %d, closed %v", n, i, len(r.Data), r.Final)
			}
		}
		w := nodes[0].Requests()[0].Write
		if w.GetPipelineSize() != 3 || len(w.GetTargets()) != 2 || w.GetStorageType() != 1 || w.GetStorageId() != "DS-1" || w.GetTargetStorageIds()[1] != "DS-1" {
			t.Errorf("asked for %v", w)
		}
	}
}

// TestPipelineBlames: whatever a node does, the error names it, or one before it that could not tell.
func TestPipelineBlames(t *testing.T) {
	refuse := hproto.BlockOpResponse_ERROR
	for _, c := range []struct {
		what string
		node int
		f    fakedn.Fault
		kind error
		bad  int
	}{
		{"refused by the first", 0, fakedn.Fault{Status: refuse, Message: "no room"}, ErrRefused, 0},
		{"refused by the last", 2, fakedn.Fault{Status: refuse, Message: "no room"}, ErrRefused, 2},
		{"token", 0, fakedn.Fault{Status: refuse, Message: "InvalidToken: expired"}, ErrToken, 0},
		{"gone at once, the second", 1, fakedn.Fault{Hangup: true}, ErrRefused, 1},
		{"gone at once, the first", 0, fakedn.Fault{Hangup: true}, ErrBroken, 0},
		{"gone in the middle, the first", 0, fakedn.Fault{Hangup: true, After: 3}, ErrBroken, 0},
		{"gone in the middle, the second", 1, fakedn.Fault{Hangup: true, After: 3}, ErrRefused, 1},
		{"gone in the middle, the last", 2, fakedn.Fault{Hangup: true, After: 30}, ErrRefused, 2},
		{"says error, the second", 1, fakedn.Fault{Status: refuse, After: 5}, ErrRefused, 1},
		{"silent", 0, fakedn.Fault{Stall: 1, After: 4}, ErrBroken, 0},
		{"silent at once", 0, fakedn.Fault{Stall: 1}, ErrBroken, 0},
		{"wrong packet", 0, fakedn.Fault{Ack: func(a *hproto.PipelineAck) { *a.Seqno++ }}, ErrProtocol, 0},
		{"too few nodes", 0, fakedn.Fault{Ack: func(a *hproto.PipelineAck) { a.Reply = a.Reply[:2] }}, ErrProtocol, 0},
		{"too many nodes", 0, fakedn.Fault{Ack: func(a *hproto.PipelineAck) { a.Reply = append(a.Reply, 0) }}, ErrProtocol, 0},
		{"restarts, the first", 0, fakedn.Fault{Status: hproto.BlockOpResponse_OOB_RESTART, After: 3}, ErrRestarting, 0},
		{"restarts, the last", 2, fakedn.Fault{Status: hproto.BlockOpResponse_OOB_RESTART, After: 3}, ErrRestarting, 2},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			_, s := chain(t, c.node, c.f)
			s.Patience = 20 * time.Second
			if c.f.Stall > 0 {
				s.Patience = 200 * time.Millisecond
			}
			err := through(within(t), newPool(t, Options{}), s, content(3<<20))
			var p *PipelineError
			if !errors.As(err, &p) || !errors.Is(err, c.kind) || p.Bad != c.bad || store.ClassOf(err) != store.Retryable {
				t.Errorf("%v: blames %+v, want node %d, %v", err, p, c.bad, c.kind)
			}
		})
	}
}

// TestPipelineBlamesNobody for what no DataNode can help: how to connect to it cannot be learned.
func TestPipelineBlamesNobody(t *testing.T) {
	_, s := chain(t, -1, fakedn.Fault{})
	for name, security := range map[string]Security{
		"nothing is known": unknown{store.ErrUnavailable},
		"no key":           fixed(Protection{Mode: Encrypted}),
		"a strange key":    fixed(Protection{Mode: Encrypted, Key: &hproto.DataEncryptionKey{EncryptionAlgorithm: proto.String("rot13")}}),
	} {
		err := through(within(t), newPool(t, Options{Security: security}), s, content(1))
		var p *PipelineError
		if !errors.As(err, &p) || !errors.Is(err, ErrProtection) || p.Bad != nobody {
			t.Errorf("%s: %v blames %+v", name, err, p)
		}
		if class := store.ClassOf(err); name == "nothing is known" && class != store.Retryable {
			t.Errorf("%s: %v is %s", name, err, class)
		}
	}
}

// unknown is a Security that knows nothing.
type unknown struct{ err error }

func (u unknown) Protection(context.Context) (Protection, error) { return Protection{}, u.err }
func (unknown) KeyRefused(*hproto.DataEncryptionKey)             {}

// TestPipelinesAreNoReaders: they are counted on their own, and reads do not wait for them.
func TestPipelinesAreNoReaders(t *testing.T) {
	nodes, s := chain(t, -1, fakedn.Fault{})
	b := Block{ExtendedBlock: nodes[0].Put(8, content(100))}
	pool, ctx := newPool(t, Options{MaxConns: 1, MaxTotal: 1}), within(t)
	var open []*Pipeline
	for id := range uint64(3) {
		s.Block.BlockId = proto.Uint64(100 + id)
		w, err := pool.OpenPipeline(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		open = append(open, w)
	}
	if _, err := pool.Read(ctx, at(nodes[0]), b, []Part{{0, make([]byte, 100)}}); err != nil {
		t.Fatal(err)
	}
	if n := pool.Stats(); n.Pipelines != 3 || n.Connections != 1 {
		t.Errorf("%+v", n)
	}
	for _, w := range open {
		w.Close()
		w.Close()
	}
	if n := pool.Stats(); n.Pipelines != 0 {
		t.Errorf("%+v when all are closed", n)
	}
}

// TestPipelineTakesUp: a block goes on with the nodes that are left, under another stamp, and is closed by them.
func TestPipelineTakesUp(t *testing.T) {
	nodes, s := chain(t, 1, fakedn.Fault{Hangup: true, After: 40})
	pool, ctx, data := newPool(t, Options{}), within(t), content(4<<20+5)
	w, err := pool.OpenPipeline(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	all := packets(0, data)
	for _, p := range all {
		if err = w.Send(p); err != nil {
			break
		}
	}
	if err == nil {
		err = w.Finish(int64(len(data)))
	}
	if err == nil || w.Closing() {
		t.Fatalf("%v, closing %v", err, w.Closing())
	}
	w.Close()
	acked := w.Acked()
	s.Targets = []Target{s.Targets[0], s.Targets[2]}
	s.Stage, s.Min, s.Max, s.Stamp = hproto.OpWriteBlock_SETUP_STREAMING_RECOVERY, acked, int64(len(data)), 1002
	if w, err = pool.OpenPipeline(ctx, s); err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if p.End() > acked {
			if err := w.Send(p); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Finish(int64(len(data))); err != nil || !w.Closing() {
		t.Fatal(err)
	}
	w.Close()
	s.Block.GenerationStamp, s.Stage, s.Min, s.Stamp = proto.Uint64(1002), hproto.OpWriteBlock_CLOSE_RECOVERY, int64(len(data)), 1003
	if w, err = pool.OpenPipeline(ctx, s); err != nil {
		t.Fatal(err)
	}
	w.Close()
	for _, node := range []*fakedn.Node{nodes[0], nodes[2]} {
		if r := node.Replica(7); !r.Final || r.Stamp != 1003 || !bytes.Equal(r.Data, data) {
			t.Errorf("%d bytes, closed %v, stamp %d", len(r.Data), r.Final, r.Stamp)
		}
	}
}

// TestPipelineEnds with its context and with its pool, whatever it waits for.
func TestPipelineEnds(t *testing.T) {
	for _, what := range []string{"context", "pool"} {
		t.Run(what, func(t *testing.T) {
			_, s := chain(t, 0, fakedn.Fault{Stall: 1, After: 1})
			pool := newPool(t, Options{})
			ctx, cancel := context.WithCancel(within(t))
			time.AfterFunc(50*time.Millisecond, func() {
				cancel()
				if what == "pool" {
					pool.Close()
				}
			})
			if what == "pool" {
				ctx = within(t)
			}
			err := through(ctx, pool, s, content(16<<20))
			if what == "context" && !errors.Is(err, context.Canceled) || err == nil {
				t.Error(err)
			}
			if pool.Close(); what == "pool" {
				if _, err := pool.OpenPipeline(ctx, s); !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
			}
		})
	}
}

// TestHeartbeats: DataNodes give up a writer from whom nothing comes.
func TestHeartbeats(t *testing.T) {
	var beats atomic.Int64
	seen := make(chan struct{})
	nodes, s := chain(t, 2, fakedn.Fault{Ack: func(a *hproto.PipelineAck) {
		if a.GetSeqno() == heartbeat && beats.Add(1) == 3 {
			close(seen)
		}
	}})
	s.Beat = 10 * time.Millisecond
	ctx := within(t)
	w, err := newPool(t, Options{}).OpenPipeline(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	select {
	case <-seen:
	case <-ctx.Done():
		t.Fatal("no heartbeats")
	}
	data := content(100)
	if err := errors.Join(w.Send(packets(0, data)[0]), w.Finish(100)); err != nil {
		t.Fatal(err)
	}
	if r := nodes[2].Replica(7); !bytes.Equal(r.Data, data) {
		t.Errorf("%d bytes", len(r.Data))
	}
}

// TestFlow: bytes count as with all nodes when their packets were acknowledged, in order, each once.
func TestFlow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f flow
		var sent []int64
		answered := 0
		t.Repeat(map[string]func(*rapid.T){
			"send": func(t *rapid.T) {
				end := int64(len(sent)+1) * 100
				if seqno := f.send(end); seqno != int64(len(sent)) {
					t.Fatalf("packet %d where %d was due", seqno, len(sent))
				}
				sent = append(sent, end)
			},
			"answer": func(t *rapid.T) {
				seqno := rapid.Int64Range(outOfBand, int64(len(sent)+1)).Draw(t, "seqno")
				err := f.take(ack{seqno: seqno, bad: -1})
				due := seqno == int64(answered) && answered < len(sent)
				if (err == nil) != (due || seqno == heartbeat) {
					t.Fatalf("answer to %d, %d of %d answered: %v", seqno, answered, len(sent), err)
				}
				if due {
					answered++
				}
			},
			"": func(t *rapid.T) {
				want := int64(0)
				if answered > 0 {
					want = sent[answered-1]
				}
				if f.acked != want || len(f.ends) != len(sent)-answered {
					t.Fatalf("%d bytes acknowledged, want %d; %d on their way", f.acked, want, len(f.ends))
				}
			},
		})
	})
}

func FuzzAck(f *testing.F) {
	for _, a := range []*hproto.PipelineAck{
		{Seqno: proto.Int64(0), Reply: make([]hproto.BlockOpResponse_Status, 3)},
		{Seqno: proto.Int64(heartbeat), Reply: make([]hproto.BlockOpResponse_Status, 1)},
		{Seqno: proto.Int64(outOfBand), Reply: []hproto.BlockOpResponse_Status{hproto.BlockOpResponse_OOB_RESTART}},
		{Seqno: proto.Int64(1), Reply: []hproto.BlockOpResponse_Status{0, hproto.BlockOpResponse_ERROR}},
	} {
		b, err := proto.Marshal(a)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parseAck(b, 3)
		if err != nil {
			if !errors.Is(err, ErrProtocol) {
				t.Fatal(err)
			}
			return
		}
		if a.bad >= 3 || a.seqno < outOfBand || (a.bad >= 0) != (a.status != 0) {
			t.Fatalf("%+v", a)
		}
		w := flow{ends: []int64{10, 20}, next: 2}
		if err := w.take(a); err == nil && w.acked > 10 {
			t.Fatalf("%+v acknowledges %d bytes", a, w.acked)
		}
	})
}
