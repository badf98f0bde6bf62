package foreign

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/stepahead-io/stepahead/binfmt/media"
)

// errEnough ends the reading of a shard of which no more samples are wanted.
var errEnough = errors.New("enough")

// reading says what becomes of the samples of a shard.
type reading struct {
	sum  *summary // what is known of the shard; what is found out is added
	step func(n int64)
	warn func(format string, args ...any)
	// each takes a sample, and the file that its parts are in, which is unpacked. It may read them until it returns.
	each func(f File, r Row) error
}

// samples reads a shard.
func (x *indexer) samples(ctx context.Context, s *shard, to reading) error {
	raw, err := x.open(ctx, s, func(n int64) { to.sum.Read += n }, to.step)
	if err != nil {
		return err
	}
	defer raw.f.Close()
	f, done, err := x.unpacked(s, raw, to.sum)
	if err != nil {
		return err
	}
	defer done()
	err = x.container.Rows(ctx, x.src, s.Shard, f, &sampleSink{f, to})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	raw.advance(0, s.size)
	return nil
}

// unpacked returns a shard's file as Rows gets it. done frees what it holds.
func (x *indexer) unpacked(s *shard, raw *storeFile, sum *summary) (f File, done func(), err error) {
	if _, loose := x.container.(Loose); loose {
		return raw, func() {}, nil
	}
	how := s.Compression
	if how == ByContent {
		head := make([]byte, min(CompressionLen, raw.Size()))
		if _, err := raw.ReadAt(head, 0); err != nil {
			return nil, nil, err
		}
		how = Compression(head)
	}
	if how == "" {
		return newPlainStream(raw), func() {}, nil
	}
	if sum.Unpacked == 0 {
		if sum.Unpacked, err = measure(how, raw); err != nil {
			return nil, nil, err
		}
	}
	in, err := unpacker(how, inOrder(raw), raw.Size())
	if err != nil {
		return nil, nil, err
	}
	return newStream(in, sum.Unpacked), func() { _ = in.Close() }, nil // it was only read from
}

// inOrder reads a file from its start to its end, in long pieces.
func inOrder(f File) io.Reader {
	const piece = 4 << 20
	return bufio.NewReaderSize(io.NewSectionReader(f, 0, f.Size()), int(min(piece, max(f.Size(), 16))))
}

// measure returns the length of what a compressed file unpacks to, which only unpacking it tells.
func measure(how string, f File) (int64, error) {
	in, err := unpacker(how, inOrder(f), f.Size())
	if err != nil {
		return 0, err
	}
	n, err := io.CopyBuffer(io.Discard, onlyReader{in}, make([]byte, 1<<20))
	return n, errors.Join(err, in.Close())
}

// sampleSink gives samples away and lets the stream forget what is before them.
type sampleSink struct {
	f File
	reading
}

// Row implements Sink.
func (k *sampleSink) Row(r Row) error {
	if err := k.each(k.f, r); err != nil {
		return err
	}
	if s, ok := k.f.(*stream); ok {
		for _, p := range r.Parts {
			s.release(p.Off + p.Len)
		}
	}
	return nil
}

// Warn implements Sink.
func (k *sampleSink) Warn(format string, args ...any) { k.warn(format, args...) }

// partReader reads the bytes of a part.
func partReader(f File, p Part) io.Reader {
	if p.Data != nil {
		return bytes.NewReader(p.Data)
	}
	return io.NewSectionReader(f, p.Off, p.Len)
}

// look reads the parts of a sample and sets what an index says of them.
func look(f File, r Row) error {
	buf := make([]byte, 32<<10)
	for i := range r.Parts {
		p := &r.Parts[i]
		if p.Data != nil {
			p.Len = int64(len(p.Data))
		}
		seen, err := media.Look(partReader(f, *p), buf)
		switch {
		case err != nil:
			return err
		case seen.Len != p.Len:
			return fmt.Errorf("sample %q, field %s: %d bytes, want %d: %w", r.Key, p.Field, seen.Len, p.Len, ErrContainer)
		case p.HasCRC && seen.CRC != p.CRC:
			return fmt.Errorf("sample %q, field %s: its bytes have the CRC32C %08x, the container says %08x: it is damaged: %w", r.Key, p.Field, seen.CRC, p.CRC, ErrContainer)
		}
		p.CRC, p.HasCRC = seen.CRC, true
		if p.Type == "" || p.Type == media.Unknown {
			p.Type = seen.Type
		}
		if p.Type == seen.Type {
			p.Width, p.Height = seen.Width, seen.Height
		}
	}
	return nil
}
