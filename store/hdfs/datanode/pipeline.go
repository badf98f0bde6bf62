package datanode

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// window is how many packets may be on their way without an answer: 4 MiB, what 10 Gbit/s carry in 3 ms.
const window = 64

// Pipeline is a chain of DataNodes through which one block is written: each keeps the bytes and passes them on to the
// next. Its methods are for one goroutine; a goroutine of its own receives what the nodes answer, until Close.
type Pipeline struct {
	pool  *Pool
	setup Setup
	ctx   context.Context
	slot  *slot
	conn  *conn
	stop  func() bool
	ended chan struct{} // closed when the receiver of answers has ended

	sending sync.Mutex // held while bytes are sent, so that they are whole packets
	sent    time.Time  // when a packet was last sent

	mu      sync.Mutex
	moved   sync.Cond // flow or err have changed
	flow    flow
	closing bool // the last packet is on its way
	err     error
	beat    *time.Timer
}

// OpenPipeline connects to the first node and returns when all are ready for the block. The pipeline breaks when ctx ends;
// errors are *PipelineError, or match ctx.Err(). The caller closes it.
func (p *Pool) OpenPipeline(ctx context.Context, s Setup) (*Pipeline, error) {
	if len(s.Targets) == 0 {
		return nil, fmt.Errorf("datanode.OpenPipeline %s: %w: no DataNode is to have it", s.Block.Name(), ErrConnect)
	}
	s = s.withDefaults()
	c, err := p.connect(ctx, s.Targets[0].Node, s.Block)
	if errors.Is(err, ErrProtection) {
		return nil, s.failed(nobody, err)
	}
	if err != nil {
		return nil, s.failed(0, err)
	}
	c.stall = s.Patience
	c.armed.read, c.armed.write = time.Time{}, time.Time{}
	w := &Pipeline{pool: p, setup: s, ctx: ctx, slot: &slot{addr: s.Targets[0].Node.Addr, conn: c}, conn: c, ended: make(chan struct{})}
	w.moved.L = &w.mu
	w.flow.acked = s.Min
	if !p.adopt(w.slot) {
		return nil, s.failed(nobody, ErrClosed)
	}
	w.stop = context.AfterFunc(ctx, c.abort)
	in := inbox{buf: make([]byte, 1<<10)}
	if bad, err := s.ask(ctx, c, &in); err != nil {
		close(w.ended)
		w.Close()
		return nil, s.failed(bad, err)
	}
	go w.receive(in)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.beat = time.AfterFunc(s.Beat, w.pulse)
	return w, nil
}

// adopt has the pool's Close find a connection that is no reader's.
func (p *Pool) adopt(s *slot) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		s.conn.Close()
		return false
	}
	p.busy[s] = struct{}{}
	p.pipelines++
	return true
}

// abandon forgets it again. It may be called again.
func (p *Pool) abandon(s *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.busy[s]; known {
		delete(p.busy, s)
		p.pipelines--
	}
}

// Send sends a packet. It waits while too many are on their way. An error may be one of an earlier packet.
func (w *Pipeline) Send(p *Packet) error {
	seqno, err := w.admit(p.End())
	if err != nil {
		return err
	}
	return w.write(p.frame(seqno))
}

// Finish returns when all nodes have everything that was sent and have closed the block, which has so many bytes.
func (w *Pipeline) Finish(size int64) error {
	if err := w.drained(); err != nil {
		return err
	}
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	seqno, err := w.admit(size)
	if err != nil {
		return err
	}
	if err := w.write(packet{plen: 4, off: size, seqno: seqno, last: true}.appendHeader(nil)); err != nil {
		return err
	}
	return w.drained()
}

// Acked is how many bytes of the block all nodes have.
func (w *Pipeline) Acked() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flow.acked
}

// Closing tells whether Finish has asked the nodes to close the block: some may have done so.
func (w *Pipeline) Closing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closing
}

// Close frees the pipeline, and breaks it if it is not finished. It may be called again.
func (w *Pipeline) Close() {
	w.stop()
	w.fail(0, ErrBroken)
	w.conn.abort()
	<-w.ended
	w.pool.abandon(w.slot)
}

// admit notes a packet when there is room for it among those on their way.
func (w *Pipeline) admit(end int64) (seqno int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.err == nil && len(w.flow.ends) >= window {
		w.moved.Wait()
	}
	if w.err != nil {
		return 0, w.err
	}
	return w.flow.send(end), nil
}

// drained waits until everything is acknowledged.
func (w *Pipeline) drained() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.err == nil && len(w.flow.ends) > 0 {
		w.moved.Wait()
	}
	return w.err
}

// write sends a packet. Where that fails because the first node has ended the connection, what it said before counts.
func (w *Pipeline) write(frame []byte) error {
	w.sending.Lock()
	_, err := w.conn.dst.Write(frame)
	w.sent = time.Now()
	w.sending.Unlock()
	switch {
	case err == nil:
		return nil
	case !lost(err):
		w.fail(0, broken(w.ctx, "sending a packet", err))
		w.conn.abort()
	}
	<-w.ended
	w.fail(0, broken(w.ctx, "sending a packet", err))
	return w.failure()
}

// fail notes why the pipeline broke; the first reason counts.
func (w *Pipeline) fail(bad int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = w.setup.failed(bad, err)
	}
	if w.beat != nil {
		w.beat.Stop()
	}
	w.moved.Broadcast()
}

func (w *Pipeline) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// receive takes what the nodes answer, up to the answer to the last packet.
func (w *Pipeline) receive(in inbox) {
	defer close(w.ended)
	for {
		b, err := in.message(w.ctx, w.conn.src, "waiting for acknowledgements", len(in.buf))
		var a ack
		if err == nil {
			a, err = parseAck(b, len(w.setup.Targets))
		}
		if err != nil {
			w.fail(0, err)
			return
		}
		if a.bad >= 0 {
			w.fail(a.bad, a.failure())
			return
		}
		done, err := w.take(a)
		if err != nil {
			w.fail(0, err)
			return
		}
		if done {
			return
		}
	}
}

// take notes an answer; done: no other is due.
func (w *Pipeline) take(a ack) (done bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.moved.Broadcast()
	if err := w.flow.take(a); err != nil {
		return false, err
	}
	return w.closing && len(w.flow.ends) == 0 && a.seqno != heartbeat, nil
}

// pulse sends a heartbeat where nothing else was sent, and comes again.
func (w *Pipeline) pulse() {
	w.sending.Lock()
	defer w.sending.Unlock()
	if !w.alive() {
		return
	}
	if time.Since(w.sent) >= w.setup.Beat {
		if _, err := w.conn.dst.Write(packet{plen: 4, seqno: heartbeat}.appendHeader(nil)); err != nil {
			w.fail(0, broken(w.ctx, "sending a heartbeat", err))
			w.conn.abort()
			return
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.beat.Reset(w.setup.Beat)
	}
}

func (w *Pipeline) alive() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err == nil && !w.closing
}
