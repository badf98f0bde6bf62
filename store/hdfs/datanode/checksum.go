package datanode

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// Checksum is a DataNode's own checksum of a whole replica.
type Checksum struct {
	// Sum is 4 big-endian bytes for COMPOSITE_CRC, the CRC of the replica's bytes; 16 bytes for MD5CRC, which depends on
	// BytesPerCRC too.
	Sum []byte
	// Type and BytesPerCRC say how the replica is protected; CRCs is how many checksums it has, 0 if the node does not say.
	Type        hproto.Checksum_Type
	BytesPerCRC int
	CRCs        int64
}

// BlockChecksum asks a DataNode for the checksum of a whole replica, made from the checksums that lie beside it: a node that
// answers has not necessarily read the bytes. DataNodes close the connection after it. Errors are those of Read, but
// DataNodes also close it when they fail, which is ErrBroken.
func (p *Pool) BlockChecksum(ctx context.Context, node Node, b Block, kind hproto.BlockChecksumOptions_Type) (Checksum, error) {
	const op = "BlockChecksum"
	var sum Checksum
	err := p.with(ctx, node, b, func(c *conn) (o outcome, err error) {
		var in inbox
		sum, err = askChecksum(ctx, c, &in, b, kind)
		return outcome{answered: in.w > 0}, err
	})
	if err != nil {
		return Checksum{}, &NodeError{Node: node, Block: b.Name(), Op: op, Err: err}
	}
	return sum, nil
}

func askChecksum(ctx context.Context, c *conn, in *inbox, b Block, kind hproto.BlockChecksumOptions_Type) (Checksum, error) {
	request, err := appendOp(nil, opChecksum, &hproto.OpBlockChecksum{
		Header: b.header(), Options: &hproto.BlockChecksumOptions{Type: kind.Enum(), StripeLength: proto.Uint64(0)},
	})
	if err != nil {
		return Checksum{}, err
	}
	if _, err := c.dst.Write(request); err != nil {
		return Checksum{}, broken(ctx, "sending the request", err)
	}
	answer, err := in.message(ctx, c.src, "waiting for the checksum", 1<<10)
	if err != nil {
		return Checksum{}, err
	}
	return parseChecksumAnswer(answer, kind)
}

func parseChecksumAnswer(b []byte, kind hproto.BlockChecksumOptions_Type) (Checksum, error) {
	m, err := parseAnswer(b)
	if err != nil {
		return Checksum{}, err
	}
	r := m.GetChecksumResponse()
	size := map[hproto.BlockChecksumOptions_Type]int{hproto.BlockChecksumOptions_COMPOSITE_CRC: 4, hproto.BlockChecksumOptions_MD5CRC: 16}[kind]
	if got := r.GetOptions().GetType(); r == nil || got != kind { // an old node does not know the options and answers MD5CRC
		return Checksum{}, violation("asked for %v, got %v", kind, got)
	}
	if len(r.GetBlockChecksum()) != size || r.GetBytesPerCrc() > maxChunk {
		return Checksum{}, violation("a checksum of %d bytes, of CRCs over %d: %v has %d", len(r.GetBlockChecksum()), r.GetBytesPerCrc(), kind, size)
	}
	return Checksum{
		Sum: r.GetBlockChecksum(), Type: r.GetCrcType(), BytesPerCRC: int(r.GetBytesPerCrc()), CRCs: int64(r.GetCrcPerBlock()),
	}, nil
}
