package namenode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// errProtocol: the other side does not speak Hadoop's RPC, or not correctly.
var errProtocol = errors.New("protocol error")

// appendFrame appends a frame: the length of the rest in four bytes, then each message after its own length.
func appendFrame(dst []byte, messages ...proto.Message) ([]byte, error) {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	for _, m := range messages {
		dst = protowire.AppendVarint(dst, uint64(proto.Size(m)))
		var err error
		if dst, err = (proto.MarshalOptions{UseCachedSize: true}).MarshalAppend(dst, m); err != nil {
			return nil, err
		}
	}
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst, nil
}

// readFrame reads one frame of at most limit bytes, its length left out. io.EOF means that the stream ended
// between frames.
func readFrame(r io.Reader, limit int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := int32(binary.BigEndian.Uint32(head[:]))
	if n <= 0 || int(n) > limit {
		return nil, badLength(head, limit)
	}
	return readBody(r, int(n))
}

// tooLarge is the error of an answer above the limit.
type tooLarge struct{ n, limit int }

func (e tooLarge) Error() string {
	return fmt.Sprintf("an answer of %d bytes, want 1 to %d (ipc.maximum.response.length)", e.n, e.limit)
}

func (e tooLarge) Unwrap() error { return errProtocol }

// readBody reads n bytes. Memory is taken as they arrive: a length alone costs nothing.
func readBody(r io.Reader, n int) ([]byte, error) {
	const first = 64 << 10
	buf := make([]byte, min(n, first))
	for read := 0; ; {
		m, err := io.ReadFull(r, buf[read:])
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		if read += m; read == n {
			return buf, nil
		}
		buf = append(buf, make([]byte, min(n-read, len(buf)))...)
	}
}

// badLength says what an impossible length most likely means.
func badLength(head [4]byte, limit int) error {
	n := int32(binary.BigEndian.Uint32(head[:]))
	switch {
	case bytes.Equal(head[:], []byte("HTTP")):
		return fmt.Errorf("%w: a web server answers on this port: use the NameNode's RPC port (often 8020, 9000 or 9820)", errProtocol)
	case head[0] == 0x15 && head[1] == 3:
		return fmt.Errorf("%w: a TLS server answers on this port: use the NameNode's RPC port", errProtocol)
	case n == -1:
		return fmt.Errorf("%w: the server is older than Hadoop 2.1", errProtocol)
	}
	return tooLarge{int(n), limit}
}

// cut takes the first message, which its length precedes, off b.
func cut(b []byte) (message, rest []byte, err error) {
	message, n := protowire.ConsumeBytes(b)
	if n < 0 {
		return nil, nil, fmt.Errorf("%w: a message in a frame is cut", errProtocol)
	}
	return message, b[n:], nil
}

// takeMessage parses the first message of b into m and returns what follows it.
func takeMessage(b []byte, m proto.Message) (rest []byte, err error) {
	message, rest, err := cut(b)
	if err != nil {
		return nil, err
	}
	if err := proto.Unmarshal(message, m); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", errProtocol, m.ProtoReflect().Descriptor().Name(), err)
	}
	return rest, nil
}

// takeLast parses the only message that is left in a frame.
func takeLast(b []byte, m proto.Message) error {
	rest, err := takeMessage(b, m)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%w: %d bytes after the last message of a frame", errProtocol, len(rest))
	}
	return err
}
