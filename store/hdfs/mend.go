package hdfs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/datanode"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

// perNode is how much longer a DataNode waits for each node behind it. We must wait longer than the first, else it is blamed
// for one behind it.
const perNode = 5 * time.Second

// start opens a pipeline for the block: a new one, or one that takes it up where another broke.
func (o *output) start() error {
	s := o.now
	if s.located != nil {
		return o.takeUp()
	}
	b, err := o.place()
	if err != nil {
		return err
	}
	s.given(b, o.w.nodes)
	if len(s.targets) == 0 {
		return fmt.Errorf("%w: the NameNode gave block %d no DataNode", store.ErrUnavailable, int64(b.GetB().GetBlockId()))
	}
	s.pipe, err = o.w.pool.OpenPipeline(o.ctx, o.setup(hproto.OpWriteBlock_SETUP_CREATE, b.GetBlockToken()))
	return err
}

// setup is what all pipelines of the block have in common.
func (o *output) setup(stage hproto.OpWriteBlock_Stage, token *hproto.Token) datanode.Setup {
	more := time.Duration(max(0, len(o.now.targets)-3)) * perNode
	return datanode.Setup{
		Block:   datanode.Block{ExtendedBlock: o.now.block(o.size), Token: token},
		Targets: o.now.targets, Client: o.holder, Stage: stage, Patience: o.w.patience + more, Beat: min(o.w.patience/3, 20*time.Second),
	}
}

// place asks for the next block, on other nodes than those that have much to write. If it has too few without them, it is asked for
// once more.
func (o *output) place() (*hproto.LocatedBlock, error) {
	leave, err := o.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	excluded := o.excluded(time.Now())
	if o.exclude != nil {
		return o.placeApart(excluded)
	}
	avoid := o.w.spread.avoid(o.replicas, excluded)
	b, err := o.add(slices.Concat(excluded, avoid))
	if len(avoid) > 0 && (err != nil || len(b.GetLocs()) < o.replicas) {
		b, err = o.placeAnywhere(b, err, excluded)
	}
	if err == nil {
		o.placed(b)
	}
	return b, err
}

// placed notes which nodes the block keeps busy.
func (o *output) placed(b *hproto.LocatedBlock) {
	o.now.release()
	o.now.release = o.w.spread.begin(b.GetLocs())
}

// placeAnywhere replaces a block that has too few nodes, or is none because there were too few.
func (o *output) placeAnywhere(b *hproto.LocatedBlock, failed error, excluded []*hproto.DatanodeInfo) (*hproto.LocatedBlock, error) {
	o.w.spread.forget()
	var remote *namenode.RemoteError
	switch {
	case failed == nil:
		if err := o.giveBack(b); err != nil {
			return nil, err
		}
	case !errors.As(failed, &remote) || !tooFewNodes.MatchString(remote.Message):
		return nil, failed
	}
	return o.add(excluded)
}

// giveBack gives up a block of which nothing was written.
func (o *output) giveBack(b *hproto.LocatedBlock) error {
	err := o.w.names.AbandonBlock(o.ctx, &hproto.AbandonBlockRequest{B: b.GetB(), Src: &o.path, Holder: &o.holder, FileId: &o.id})
	if err != nil {
		return o.failed(err)
	}
	return nil
}

// enter has first blocks of files placed one after the other, so that each knows what the others are busy with. A later block is not
// held up, nor does it hold up others while the one before it is reported.
func (o *output) enter() (leave func(), err error) {
	if o.last != nil {
		return func() {}, nil
	}
	select {
	case o.w.placing <- struct{}{}:
		return func() { <-o.w.placing }, nil
	case <-o.ctx.Done():
		return nil, o.ctx.Err()
	}
}

// add asks the NameNode for the next block, and says to it how long the one before is. It gives one when DataNodes have
// reported the block before that.
func (o *output) add(excluded []*hproto.DatanodeInfo) (*hproto.LocatedBlock, error) {
	end := time.Now().Add(o.w.patience)
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		b, err := o.w.names.AddBlock(o.ctx, &hproto.AddBlockRequest{
			Src: &o.path, ClientName: &o.holder, Previous: o.last, ExcludeNodes: excluded, FileId: &o.id,
		})
		var remote *namenode.RemoteError
		if errors.As(err, &remote) && strings.HasSuffix(remote.Class, ".NotReplicatedYetException") {
			if time.Now().After(end) {
				return nil, fmt.Errorf("%w: %w", o.unreported(), err)
			}
			if err := o.w.pause(o.ctx, pause); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, o.tooFew(err)
		}
		return b, nil
	}
}

// tooFew: where the NameNode finds no DataNode among those that did not fail, the others are tried again.
func (o *output) tooFew(err error) error {
	var remote *namenode.RemoteError
	if len(o.shunned) > 0 && errors.As(err, &remote) && tooFewNodes.MatchString(remote.Message) {
		n := len(o.shunned)
		o.shunned = nil
		return fmt.Errorf("%w: no DataNode takes a block but %d that failed: %w", store.ErrUnavailable, n, err)
	}
	return o.failed(err)
}

// takeUp gives the block another generation stamp, so that replicas on nodes that are left behind no longer count, and
// opens a pipeline through the others.
func (o *output) takeUp() error {
	s := o.now
	renewed, err := o.w.names.UpdateBlockForPipeline(o.ctx, s.block(s.acked), o.holder)
	if err != nil {
		return o.failed(err)
	}
	stage := hproto.OpWriteBlock_SETUP_STREAMING_RECOVERY
	if s.closing {
		stage = hproto.OpWriteBlock_CLOSE_RECOVERY
	}
	setup := o.setup(stage, renewed.GetBlockToken())
	setup.Min, setup.Max, setup.Stamp = s.acked, s.end, renewed.GetB().GetGenerationStamp()
	pipe, err := o.w.pool.OpenPipeline(o.ctx, setup)
	if err != nil {
		return err
	}
	s.pipe = pipe
	old := s.block(s.acked)
	after := &hproto.LocatedBlock{B: s.block(s.acked)}
	after.B.GenerationStamp = &setup.Stamp
	request := &hproto.UpdatePipelineRequest{ClientName: &o.holder, OldBlock: old, NewBlock: after.B}
	for _, t := range s.targets {
		request.NewNodes = append(request.NewNodes, t.Info.GetId())
		request.StorageIds = append(request.StorageIds, t.StorageID)
	}
	if err := o.w.names.UpdatePipeline(o.ctx, request); err != nil {
		return o.failed(err)
	}
	s.taken(after)
	return nil
}

// mend prepares another attempt after one that failed and took so long, or returns why there is none.
func (o *output) mend(cause error, took time.Duration) error {
	s := o.now
	s.drop()
	o.grew(s.acked)
	if err := o.ctx.Err(); err != nil {
		return err
	}
	switch o.trouble.add(took); {
	case errors.Is(cause, datanode.ErrClosed):
		return errStoreClosed
	case store.ClassOf(cause) != store.Retryable || final(cause):
		return cause
	}
	o.blame(cause)
	if o.trouble.over(time.Now(), longest*o.w.patience) {
		return o.trouble.error(o.best, cause)
	}
	if err := o.abandon(); err != nil {
		return errors.Join(cause, err)
	}
	if s.cut {
		o.spare = append(o.spare, s.trim(o.w.keepWhole)...) // what all members have
	}
	s.sent = 0
	return o.w.pause(o.ctx, o.trouble.pause())
}

// final tells whether another attempt would come to the same, or only after minutes in which it has been made already.
func final(cause error) bool {
	return errors.Is(cause, errGone) || errors.Is(cause, errUnreported) || errors.Is(cause, errNoPlace) || errors.Is(cause, namenode.ErrGaveUp)
}

// abandon gives a block up if all its bytes are here: another is faster than what is left of it.
func (o *output) abandon() error {
	s := o.now
	if s.located == nil || s.cut {
		return nil
	}
	if err := o.giveBack(s.located); err != nil {
		return err
	}
	s.release()
	s.located, s.closing, s.acked = nil, false, 0
	return nil
}
