package hdfs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// pipe writes a file's bytes through streams, one after the other where one breaks: a DataNode that dies, or a NameNode
// that another takes over from, does not end it. It goes on at the byte up to which the broken stream's file was saved.
// The file is closed whenever there is no stream.
type pipe struct {
	w      *writing
	ctx    context.Context
	path   string
	wanted int    // replicas
	to     stream // nil: none is open
	total  int64  // bytes that were given to Write
	tail   []byte // the last of them, at least those that no DataNode has acknowledged

	saved    int64 // bytes that the file had when a stream last broke
	broke    int   // streams that have since then, without saving a byte more
	replicas int   // fewer than wanted while DataNodes are missing
}

const (
	// piece is how much a stream is given at a time.
	piece = 256 << 10
	// unsure is more than what a stream can hold without an acknowledgement: a piece, and 8 packets of 64 KiB.
	unsure = 1 << 20
	// maxBroken is how many streams may break in turn without saving a byte. The NameNode goes on choosing a dead
	// DataNode for some minutes, and who writes cannot tell it not to.
	maxBroken = 16
	// patient is how many may break before a block is asked for with a replica less, down to one: a dead DataNode is
	// then chosen more rarely, and a cluster with too few others can be written to. At the end the file gets the
	// number that is wanted.
	patient = 3
	// settling bounds the wait until the NameNode has closed the file of a broken stream.
	settling = 2 * time.Minute
)

// Write sends b. After an error nothing more can be written.
func (p *pipe) Write(b []byte) (int, error) {
	n := 0
	for n < len(b) {
		part := b[n:min(n+piece, len(b))]
		p.remember(part)
		if err := p.send(part); err != nil {
			if err := p.resume(err); err != nil {
				return n, err
			}
		}
		n += len(part)
	}
	return n, nil
}

// remember keeps the last bytes, moving them when twice as many as needed have come.
func (p *pipe) remember(b []byte) {
	if len(p.tail)+len(b) > 2*unsure {
		p.tail = p.tail[:copy(p.tail, p.tail[len(p.tail)-unsure:])]
	}
	p.tail = append(p.tail, b...)
	p.total += int64(len(b))
}

func (p *pipe) send(b []byte) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	if p.to == nil {
		to, err := p.w.appendTo(p.ctx, p.path)
		if err != nil {
			return err
		}
		p.to = to
	}
	_, err := p.to.Write(b)
	return err
}

// Close returns when all bytes are stored and the file is closed.
func (p *pipe) Close() error {
	for p.to != nil {
		err := p.to.Close()
		if err == nil {
			p.to = nil
			break
		}
		if err := p.resume(err); err != nil {
			return err
		}
	}
	if p.replicas != p.wanted {
		return p.setReplicas(p.wanted)
	}
	return p.ctx.Err()
}

func (p *pipe) setReplicas(n int) error {
	p.replicas = n
	return p.w.setReplication(p.ctx, p.path, n)
}

// resume goes on after a stream broke, if that can help.
func (p *pipe) resume(cause error) error {
	for {
		holder, said := p.drop()
		if said != nil {
			cause = fmt.Errorf("%w (DataNodes: %w)", cause, said)
		}
		if err := p.ctx.Err(); err != nil {
			return err
		}
		if store.ClassOf(cause) != store.Retryable {
			return cause
		}
		missing, err := p.settle(holder)
		if err == nil {
			err = p.patience(cause)
		}
		if err != nil {
			return err
		}
		if len(missing) == 0 {
			return nil
		}
		if cause = p.send(missing); cause == nil {
			return nil
		}
	}
}

// patience counts a break, and waits or asks for less; in the end it gives up with the cause.
func (p *pipe) patience(cause error) error {
	p.broke++
	if p.broke > maxBroken {
		return cause
	}
	if p.broke%patient == 0 && p.replicas > 1 {
		_ = p.setReplicas(p.replicas - 1) // a cluster that wants more refuses it
	}
	return p.w.pause(p.ctx, min(time.Duration(p.broke-1)*100*time.Millisecond, time.Second))
}

// drop gives the stream up. It says who had the file, and what DataNodes had against it.
func (p *pipe) drop() (holder string, said error) {
	if p.to == nil {
		return "", nil
	}
	holder = p.to.Holder()
	said = p.to.Abort()
	p.to = nil
	return holder, said
}

// settle has the NameNode close the file, and returns the bytes that it lacks.
func (p *pipe) settle(holder string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(p.ctx, settling)
	defer cancel()
	if !p.giveUpBlock(ctx, holder) {
		if err := p.recover(ctx); err != nil {
			return nil, err
		}
	}
	status, err := p.w.names.GetFileInfo(ctx, p.path)
	if err != nil {
		return nil, err
	}
	length := int64(status.GetLength())
	missing := p.total - length
	if missing < 0 || missing > int64(len(p.tail)) {
		return nil, fmt.Errorf("%w: %d of %d bytes were saved, too few to go on", store.ErrUnavailable, length, p.total)
	}
	if length > p.saved {
		p.saved, p.broke = length, 0
	}
	return p.tail[int64(len(p.tail))-missing:], nil
}

// giveUpBlock closes the file without its last block, if what that block may hold can be sent again: this takes no time,
// while a recovery waits for DataNodes. false: it was not possible.
func (p *pipe) giveUpBlock(ctx context.Context, holder string) bool {
	if holder == "" {
		return false
	}
	located, err := p.w.names.GetBlockLocations(ctx, p.path, 0, p.total)
	last := located.GetLastBlock()
	if err != nil || last == nil || located.GetIsLastBlockComplete() || p.total-int64(last.GetOffset()) > int64(len(p.tail)) {
		return false
	}
	if err := p.w.names.AbandonBlock(ctx, &hproto.AbandonBlockRequest{B: last.GetB(), Src: &p.path, Holder: &holder}); err != nil {
		return false
	}
	closed, err := p.w.names.Complete(ctx, &hproto.CompleteRequest{Src: &p.path, ClientName: &holder})
	return err == nil && closed
}

// recover takes the file from who had it: the NameNode closes it with what DataNodes have.
func (p *pipe) recover(ctx context.Context) error {
	for pause := 250 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		closed, err := p.w.names.RecoverLease(ctx, p.path, "stepahead-"+p.w.newName())
		if err != nil || closed {
			return err
		}
		if err := p.w.pause(ctx, pause); err != nil {
			return errors.Join(p.ctx.Err(), fmt.Errorf("%w: the NameNode has not closed the file in %v: its last block's DataNodes do not answer", store.ErrUnavailable, settling))
		}
	}
}
