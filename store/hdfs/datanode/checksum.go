package datanode

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// CRC32C asks node for the CRC32C of its replica of a block, as long as the block is said to be. The node makes it of the sums that it keeps with the replica, and
// reads no byte of it. Errors are *NodeError, as those of Read, and match errors.ErrUnsupported where the sums are of another kind, or the node is of Hadoop before 3.1.1,
// which joins none.
func (p *Pool) CRC32C(ctx context.Context, node Node, b Block) (sum uint32, err error) {
	request, err := appendOp(nil, opChecksum, &hproto.OpBlockChecksum{
		Header: b.header(), Options: &hproto.BlockChecksumOptions{Type: hproto.BlockChecksumOptions_COMPOSITE_CRC.Enum()},
	})
	if err == nil {
		err = p.with(ctx, node, b, func(c *conn) (o outcome, err error) {
			o, sum, err = checksum(ctx, c, request)
			return o, err
		})
	}
	if errors.Is(err, ErrBroken) && lost(err) {
		err = fmt.Errorf("%w: it ended the connection, which is how it says that it cannot: %v", ErrRefused, err)
	}
	if err != nil {
		return 0, &NodeError{Node: node, Block: b.Name(), Op: "CRC32C", Err: err}
	}
	return sum, nil
}

// checksum sends the request and takes the answer, after which the node ends the connection.
func checksum(ctx context.Context, c *conn, request []byte) (outcome, uint32, error) {
	if _, err := c.dst.Write(request); err != nil {
		return outcome{}, 0, broken(ctx, "sending the request", err)
	}
	in := inbox{buf: make([]byte, 1<<10)}
	answer, err := in.message(ctx, c.src, "waiting for the sum", len(in.buf))
	if err != nil {
		return outcome{answered: in.w > 0}, 0, err
	}
	sum, err := parseChecksum(answer)
	return outcome{answered: true}, sum, err
}

// parseChecksum reads the answer to a question for a CRC32C.
func parseChecksum(b []byte) (uint32, error) {
	m, err := parseAnswer(b)
	if err != nil {
		return 0, err
	}
	r := m.GetChecksumResponse()
	switch {
	case r == nil:
		return 0, violation("the answer says nothing about a sum")
	case r.GetOptions().GetType() != hproto.BlockChecksumOptions_COMPOSITE_CRC:
		return 0, fmt.Errorf("%w: the node joins no sums, as Hadoop does since 3.1.1", errors.ErrUnsupported)
	case r.CrcType == nil || r.GetCrcType() != hproto.Checksum_CRC32C:
		return 0, fmt.Errorf("%w: the replica has sums of the kind %v, not CRC32C", errors.ErrUnsupported, r.GetCrcType())
	case len(r.GetBlockChecksum()) != crcLength:
		return 0, violation("a CRC32C of %d bytes", len(r.GetBlockChecksum()))
	}
	return binary.BigEndian.Uint32(r.GetBlockChecksum()), nil
}

// crcLength is that of a CRC32C, in bytes.
const crcLength = 4
