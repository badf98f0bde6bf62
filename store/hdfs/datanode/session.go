package datanode

import (
	"context"
	"fmt"
)

// session is one read in flight: what it waits for, and the memory for what is no part of the result. Sessions are used
// again for the sake of that memory.
type session struct {
	in      inbox
	flight  flight
	way     course
	to      landing
	replica int64 // the length of the replica, as far as we know
	misses  int   // packets that were not what was expected
	request []byte
}

// directFrom is from how much data in a packet it is worth to receive it in its place.
const directFrom = 16 << 10

// maxMisses is after how many unexpected packets a read expects nothing any more: each costs a copy.
const maxMisses = 4

// outcome is what a read came to.
type outcome struct {
	n        int64 // bytes that arrived, verified, from the landing's start on
	answered bool  // the DataNode said something
	clean    bool  // the connection can be used again
}

// read asks a DataNode for the bytes of l and receives them.
func (s *session) read(ctx context.Context, c *conn, client string, b Block, l landing) (outcome, error) {
	s.to, s.misses, s.replica = l, 0, int64(b.GetNumBytes())
	s.in.r, s.in.w = 0, 0
	if err := s.ask(ctx, c, client, b); err != nil {
		return outcome{answered: s.in.w > 0}, err
	}
	if s.way.table == nil && !b.AcceptUnverified {
		return outcome{answered: true}, ErrUnverified
	}
	err := s.receive(ctx, c)
	o := outcome{n: max(0, min(s.way.off, l.end)-l.start), answered: true}
	if err == nil {
		o.clean = s.farewell(c)
	}
	if s.way.ended() { // all bytes are here: if anything failed, it is the farewell
		return o, nil
	}
	return o, err
}

// ask sends the request and receives the answer.
func (s *session) ask(ctx context.Context, c *conn, client string, b Block) (err error) {
	want := s.to.end - s.to.start
	s.request, err = appendOp(s.request[:0], opRead, b.readRequest(client, s.to.start, want))
	if err != nil {
		return err
	}
	if _, err := c.dst.Write(s.request); err != nil {
		return broken(ctx, "sending the request", err)
	}
	more := 1 << 10 // the answer and not much besides: what comes with it is copied
	if want <= bufferSize/2 || c.raw == nil {
		more = bufferSize
	}
	answer, err := s.in.message(ctx, c.src, "waiting for the answer", more)
	if err != nil {
		return err
	}
	s.way, err = parseReadAnswer(answer, s.to.start, s.to.end)
	return err
}

// receive receives packets to the last one.
func (s *session) receive(ctx context.Context, c *conn) error {
	for {
		last, err := s.some(ctx, c)
		if err != nil || last {
			return err
		}
	}
}

// some receives at least one packet; last: it was the end.
func (s *session) some(ctx context.Context, c *conn) (last bool, err error) {
	typical := c.data
	if typical == 0 { // what DataNodes send over a bare connection
		typical = (64<<10 + s.way.chunk - 1) / s.way.chunk * s.way.chunk
	}
	if c.raw != nil && typical >= directFrom && s.misses < maxMisses {
		s.flight.plan(s.way, &s.to, typical, s.replica)
		if s.flight.n > 0 {
			return s.fly(ctx, c)
		}
	}
	return s.step(ctx, c)
}

// step receives one packet by way of the inbox.
func (s *session) step(ctx context.Context, c *conn) (last bool, err error) {
	p, sums, data, err := s.in.next(ctx, c.src, &s.way)
	if err != nil {
		return false, err
	}
	if bad := s.way.verify(sums, [][]byte{data}); bad >= 0 {
		return false, s.corrupt(bad)
	}
	if !p.last && p.off+int64(p.data) < s.way.end {
		c.data = p.data
	}
	s.to.put(p.off, data)
	s.way.pass(p)
	return p.last, nil
}

// fly receives a flight. It ends early where another packet comes than was expected.
func (s *session) fly(ctx context.Context, c *conn) (last bool, err error) {
	f := &s.flight
	s.in.r += f.fill(s.in.bytes())
	for i := 0; i < f.n; {
		switch f.state(i) {
		case flying:
			n, err := c.readv(f.rest())
			if err != nil {
				return false, broken(ctx, "reading a packet", err)
			}
			f.got += n
		case unexpected:
			s.misses++
			s.in.replace(f.unfold(i, s.in.bytes()))
			return s.step(ctx, c)
		case landed:
			if bad := s.way.verify(f.sums(i), f.data(i)); bad >= 0 {
				return false, s.corrupt(bad)
			}
			s.way.pass(f.legs[i].packet)
			last = f.legs[i].last
			i++
		}
	}
	return last, nil
}

func (s *session) corrupt(chunk int) error {
	at := s.way.off + int64(chunk)*int64(s.way.chunk)
	return fmt.Errorf("%w, in the %d bytes from %d of the block", ErrChecksum, s.way.chunk, at)
}

// farewell tells the DataNode that everything was read, so that it waits for another request; it says whether it does.
func (s *session) farewell(c *conn) bool {
	if s.in.len() > 0 {
		return false // it said more than it should: whose answer would that be?
	}
	status := byte(6) // CHECKSUM_OK
	if s.way.table == nil {
		status = 0 // SUCCESS
	}
	_, err := c.dst.Write([]byte{2, 0x08, status}) // a delimited ClientReadStatus
	return err == nil
}
