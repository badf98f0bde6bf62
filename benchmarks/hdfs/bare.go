package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store/hdfs/conf"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

// bare is the floor: a socket, large reads, the packets of a block and a CRC32C over each chunk of them. It copies nothing
// to its caller, keeps no connection, retries nothing, checks nothing else. Reader i reads each block from replica i, so
// that many of them are spread evenly.
type bare struct {
	*meter
	names  *namenode.Client
	reader int
}

func newBare(c cluster, reader int) (client, error) {
	settings, err := conf.Load(func(key string) string { return map[string]string{"HADOOP_CONF_DIR": c.conf}[key] })
	if err != nil {
		return nil, err
	}
	at, err := settings.Cluster(c.url[len("hdfs://"):])
	if err != nil {
		return nil, err
	}
	return &bare{newMeter(), namenode.New(namenode.Options{Cluster: at, User: c.user}), reader}, nil
}

func (*bare) shared() bool { return false }
func (b *bare) close()     { b.names.Close() }

type bareFile struct {
	*bare
	blocks *hproto.LocatedBlocks
	buf    []byte
}

func (b *bare) open(ctx context.Context, path string) (file, error) {
	blocks, err := b.names.GetBlockLocations(ctx, path, 0, 1<<62)
	if err != nil {
		return nil, err
	}
	for _, x := range blocks.GetBlocks() { // the NameNode shuffles them for each caller
		slices.SortFunc(x.Locs, func(a, b *hproto.DatanodeInfo) int {
			return strings.Compare(a.GetId().GetDatanodeUuid(), b.GetId().GetDatanodeUuid())
		})
	}
	return &bareFile{b, blocks, make([]byte, 256<<10)}, nil
}

func (f *bareFile) size() int64 { return int64(f.blocks.GetFileLength()) }
func (f *bareFile) close()      {}

// readAt reads what buf would hold, and leaves it where it was received.
func (f *bareFile) readAt(ctx context.Context, buf []byte, off int64) error {
	for end := off + int64(len(buf)); off < end; {
		block := f.at(off)
		if block == nil {
			return io.ErrUnexpectedEOF
		}
		in := off - int64(block.GetOffset())
		n := min(end-off, int64(block.GetB().GetNumBytes())-in)
		if err := f.readBlock(ctx, block, in, n); err != nil {
			return err
		}
		off += n
	}
	return nil
}

func (f *bareFile) at(off int64) *hproto.LocatedBlock {
	for _, b := range f.blocks.GetBlocks() {
		if in := off - int64(b.GetOffset()); in >= 0 && in < int64(b.GetB().GetNumBytes()) {
			return b
		}
	}
	return nil
}

func (f *bareFile) readBlock(ctx context.Context, b *hproto.LocatedBlock, off, n int64) error {
	id := b.GetLocs()[f.reader%len(b.GetLocs())].GetId()
	c, err := f.dial(ctx, "tcp", net.JoinHostPort(id.GetIpAddr(), strconv.Itoa(int(id.GetXferPort()))))
	if err != nil {
		return err
	}
	defer c.Close()
	request, err := proto.Marshal(&hproto.OpReadBlock{
		Header: &hproto.ClientOperationHeader{
			BaseHeader: &hproto.BaseHeader{Block: b.GetB(), Token: b.GetBlockToken()}, ClientName: proto.String("bare"),
		},
		Offset: proto.Uint64(uint64(off)), Len: proto.Uint64(uint64(n)),
	})
	if err != nil {
		return err
	}
	request = append(protowire.AppendVarint([]byte{0, 28, 81}, uint64(len(request))), request...)
	if _, err := c.Write(request); err != nil {
		return err
	}
	p := packets{src: c, buf: f.buf, whole: len(f.buf)}
	return p.read()
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// packets are what a DataNode answers.
type packets struct {
	src   io.Reader
	buf   []byte
	r, w  int
	whole int // up to here, whole packets of the usual size fit: then none has to be moved
}

// need makes the next n bytes lie in one piece.
func (p *packets) need(n int) ([]byte, error) {
	if p.r == p.w {
		p.r, p.w = 0, 0
	}
	if len(p.buf)-p.r < n {
		p.w = copy(p.buf, p.buf[p.r:p.w])
		p.r = 0
	}
	for p.w-p.r < n {
		m, err := p.src.Read(p.buf[p.w:max(p.whole, p.r+n)])
		if p.w += m; err != nil {
			return nil, err
		}
	}
	return p.buf[p.r : p.r+n], nil
}

var errBare = errors.New("not what a DataNode sends")

func (p *packets) read() error {
	b, err := p.need(1)
	if err != nil {
		return err
	}
	size := int(b[0]) // the answer is shorter than 128 bytes
	if b, err = p.need(1 + size); err != nil {
		return err
	}
	var answer hproto.BlockOpResponse
	if err := proto.Unmarshal(b[1:], &answer); err != nil || answer.GetStatus() != hproto.BlockOpResponse_SUCCESS {
		return fmt.Errorf("%v, %w", answer.GetStatus(), errors.Join(errBare, err))
	}
	p.r += 1 + size
	for {
		n, err := p.packet(int(answer.GetReadOpChecksumInfo().GetChecksum().GetBytesPerChecksum()))
		if err != nil || n == 0 {
			return err
		}
	}
}

// packet reads one packet and returns how much data it had.
func (p *packets) packet(chunk int) (int, error) {
	b, err := p.need(6)
	if err != nil {
		return 0, err
	}
	body, head := int(binary.BigEndian.Uint32(b))-4, int(binary.BigEndian.Uint16(b[4:]))
	if body < 0 || head < 5 || 6+head+body > len(p.buf) {
		return 0, errBare
	}
	if p.whole == len(p.buf) {
		p.whole -= len(p.buf) % (6 + head + body)
	}
	if b, err = p.need(6 + head + body); err != nil {
		return 0, err
	}
	data := int(binary.LittleEndian.Uint32(b[6+head-4:])) // the header's last field
	if data > body {
		return 0, errBare
	}
	sums, bytes := b[6+head:6+head+body-data], b[6+head+body-data:]
	for i := 0; i < len(bytes); i += chunk {
		if crc32.Checksum(bytes[i:min(i+chunk, len(bytes))], castagnoli) != binary.BigEndian.Uint32(sums[4*(i/chunk):]) {
			return 0, errBare
		}
	}
	p.r += 6 + head + body
	return data, nil
}
