package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/datanode"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

// output is a new file of which the bytes go, block by block, through pipelines of DataNodes. It goes around those that
// fail. Nothing is asked of anybody before there is a packet to send.
type output struct {
	w      *writing
	ctx    context.Context
	path   string
	holder string // who has the lease
	id     uint64 // its inode
	size   int64  // of a block
	lease  *lease
	// replicas is how many each block is to have, as the NameNode knows it.
	replicas int
	// exclude says which DataNodes may not get the block that begins at an offset; nil: all may get all.
	exclude func(off int64) []string
	// forgiven are the DataNodes that have failed and were tried once more for this block, of a file that is placed.
	forgiven []string

	last    *hproto.ExtendedBlock // the block that was closed last; nil: none was
	now     *section              // the block that is being written; nil: none is
	shunned []shunned             // DataNodes that failed
	closed  int64                 // bytes in closed blocks
	best    int64                 // bytes of the file that DataNodes have had at most
	trouble trouble               // since best last grew
	spare   []*datanode.Packet
}

// errGone: a writer that does not renew its lease loses the file.
var errGone = fmt.Errorf("%w: the file was removed while it was being written, or its lease had run out: write it again", store.ErrUnavailable)

// errUnreported: DataNodes closed a block and did not tell the NameNode in time. Another pipeline would not help.
var errUnreported = fmt.Errorf("%w: too few DataNodes have reported a block: look whether they reach the NameNode", store.ErrUnavailable)

// Write takes b. After an error nothing more can be written.
func (o *output) Write(b []byte) (n int, err error) {
	for n < len(b) {
		if err := o.ctx.Err(); err != nil {
			return n, err
		}
		if o.now == nil {
			o.now = &section{release: func() {}}
		}
		s := o.now
		n += s.fill(b[n:], o.size, o.packet)
		full := s.end == o.size
		if !full && !s.filling.Full() {
			continue
		}
		s.seal()
		if err := o.push(full); err != nil {
			return n, err
		}
	}
	return n, nil
}

// Close returns when all bytes are stored and the NameNode has closed the file.
func (o *output) Close() error {
	if o.now != nil {
		o.now.seal()
		if err := o.push(true); err != nil {
			return err
		}
	}
	if err := o.complete(); err != nil {
		return err
	}
	o.lease.drop()
	return nil
}

// drop gives up what is not closed. It may be called again.
func (o *output) drop() {
	o.lease.drop()
	if o.now != nil {
		o.now.drop()
		o.now.release()
	}
}

// packet returns an empty packet.
func (o *output) packet(off int64, bytes int) *datanode.Packet {
	n := len(o.spare) - 1
	if n < 0 {
		return datanode.NewPacket(off, bytes)
	}
	p := o.spare[n]
	o.spare = o.spare[:n]
	p.Reset(off)
	return p
}

// push sends all packets there are, and ends the block if that is asked, over as many pipelines as it takes.
func (o *output) push(finish bool) error {
	for began := time.Now(); ; {
		err := o.send(finish)
		if err == nil {
			return nil
		}
		now := time.Now()
		if err := o.mend(err, now.Sub(began)); err != nil {
			return err
		}
		began = now
	}
}

// send is push through one pipeline.
func (o *output) send(finish bool) error {
	s := o.now
	if s.pipe == nil {
		if err := o.start(); err != nil {
			return err
		}
	}
	if !s.closing { // else it has all bytes
		if err := o.stream(finish); err != nil {
			return err
		}
	}
	if finish {
		s.drop()
		s.release()
		o.last, o.now = s.block(s.end), nil
		o.forgiven = nil
		o.closed += s.end
		o.spare = append(o.spare, s.held...)
	}
	return nil
}

// grew notes how far DataNodes are.
func (o *output) grew(acked int64) {
	o.now.acked = max(o.now.acked, acked)
	if at := o.closed + o.now.acked; at > o.best {
		o.best, o.trouble = at, trouble{}
	}
}

func (o *output) stream(finish bool) error {
	s := o.now
	for ; s.sent < len(s.held); s.sent++ {
		if err := s.pipe.Send(s.held[s.sent]); err != nil {
			return err
		}
	}
	o.grew(s.pipe.Acked())
	o.spare = append(o.spare, s.trim(o.w.keepWhole)...)
	if !finish {
		return nil
	}
	return s.pipe.Finish(s.end)
}

// complete has the NameNode close the file, which it does when enough DataNodes have reported the last block.
func (o *output) complete() error {
	end := time.Now().Add(o.w.patience)
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		done, err := o.w.names.Complete(o.ctx, &hproto.CompleteRequest{Src: &o.path, ClientName: &o.holder, Last: o.last, FileId: &o.id})
		switch {
		case err != nil:
			return o.failed(err)
		case done:
			return nil
		case time.Now().After(end):
			return o.unreported()
		}
		if err := o.w.pause(o.ctx, pause); err != nil {
			return err
		}
	}
}

// unreported says which block DataNodes have not reported.
func (o *output) unreported() error {
	return fmt.Errorf("%w (block %d or the one before it, after %v)", errUnreported, int64(o.last.GetBlockId()), o.w.patience)
}

// errStoreClosed: somebody closed the Store under the writer.
var errStoreClosed = fmt.Errorf("%w: the store was closed while the file was being written", fs.ErrClosed)

// failed gives the error of a call about the open file its meaning. That the file is not there must not look as if some
// other was asked for.
func (o *output) failed(err error) error {
	var remote *namenode.RemoteError
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.As(err, &remote) && errors.Is(remote, fs.ErrClosed): // no file, or no lease
		if renewal := o.lease.failure(); renewal != nil {
			return fmt.Errorf("%w: %v; the last renewal of its lease: %v", errGone, err, renewal)
		}
		return fmt.Errorf("%w: %v", errGone, err)
	case errors.Is(err, fs.ErrClosed):
		return errStoreClosed
	}
	return writeError(err)
}
