package datanode

import (
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/internal/fakedn"
)

// FuzzPacketHeader: our parser takes what protobuf takes and reads the same from it.
func FuzzPacketHeader(f *testing.F) {
	header := func(m *hproto.PacketHeader) []byte {
		b, err := proto.MarshalOptions{AllowPartial: true}.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	full := &hproto.PacketHeader{OffsetInBlock: proto.Int64(-5), Seqno: proto.Int64(7), LastPacketInBlock: proto.Bool(true), DataLen: proto.Int32(-1)}
	f.Add(header(full))
	full.SyncBlock = proto.Bool(true)
	f.Add(header(full))
	f.Add(header(&hproto.PacketHeader{Seqno: proto.Int64(7)}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		var m hproto.PacketHeader
		var p packet
		theirs, ours := proto.Unmarshal(b, &m), p.parseHeader(b)
		if ours != nil && !errors.Is(ours, ErrProtocol) {
			t.Fatal(ours)
		}
		if ours == nil && theirs != nil {
			t.Fatalf("we take %x: %v", b, theirs)
		}
		if ours != nil {
			return
		}
		want := packet{off: m.GetOffsetInBlock(), seqno: m.GetSeqno(), last: m.GetLastPacketInBlock(), data: int(m.GetDataLen())}
		if p != want {
			t.Fatalf("%x: %+v, protobuf reads %+v", b, p, want)
		}
	})
}

// TestHeaderBytes: the bytes that we expect of a node are those that protobuf makes.
func TestHeaderBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := packet{
			plen: rapid.IntRange(4, maxPacket).Draw(t, "plen"), hlen: headerLen, off: rapid.Int64().Draw(t, "off"), seqno: rapid.Int64().Draw(t, "seqno"),
			last: rapid.Bool().Draw(t, "last"), data: int(rapid.Int32().Draw(t, "data")),
		}
		wire := fakedn.Packet{Header: &hproto.PacketHeader{OffsetInBlock: &p.off, Seqno: &p.seqno, LastPacketInBlock: &p.last, DataLen: proto.Int32(int32(p.data))}}
		want := wire.Append(nil)
		got := p.appendHeader(nil)
		if !bytes.Equal(got[4:], want[4:]) {
			t.Fatalf("%x, protobuf makes %x", got, want)
		}
		back, err := parseLengths(got)
		if err != nil {
			return // too large
		}
		if err := back.parseHeader(got[lengths:]); err != nil || back != p {
			t.Fatalf("%+v came back as %+v, %v", p, back, err)
		}
	})
}

// FuzzAnswer: no answer to a read breaks more than the read, and none that is taken begins at a wrong place.
func FuzzAnswer(f *testing.F) {
	good := &hproto.BlockOpResponse{
		Status: hproto.BlockOpResponse_SUCCESS.Enum(),
		ReadOpChecksumInfo: &hproto.ReadOpChecksumInfo{
			Checksum: &hproto.Checksum{Type: hproto.Checksum_CRC32C.Enum(), BytesPerChecksum: proto.Uint32(512)}, ChunkOffset: proto.Uint64(1024),
		},
	}
	seed := func() {
		b, err := proto.Marshal(good)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, int64(1030), int64(2000))
	}
	seed()
	good.ReadOpChecksumInfo.Checksum.BytesPerChecksum = proto.Uint32(0)
	seed()
	good.ReadOpChecksumInfo.ChunkOffset = proto.Uint64(1 << 63)
	seed()
	good.Status, good.Message = hproto.BlockOpResponse_ERROR.Enum(), proto.String("no")
	seed()
	f.Fuzz(func(t *testing.T, b []byte, start, end int64) {
		if start < 0 || end <= start {
			return
		}
		c, err := parseReadAnswer(b, start, end)
		if err != nil {
			return
		}
		if c.off < 0 || c.off > start || start-c.off >= int64(c.chunk) || c.limit < end || c.chunk < 1 {
			t.Fatalf("%+v for [%d, %d)", c, start, end)
		}
	})
}

// FuzzPackets: whatever a node sends after a good answer, each byte that counts passed its checksum at its place.
func FuzzPackets(f *testing.F) {
	data := content(3000)
	n, err := fakedn.Start(fakedn.Options{Packet: 1024, Script: func(fakedn.Request) fakedn.Fault {
		return fakedn.Fault{Rewrite: func(b []byte) []byte { f.Add(bytes.Clone(b[1+int(b[0]):])); return b }}
	}})
	if err != nil {
		f.Fatal(err)
	}
	p := NewPool(Options{})
	if _, err := p.Read(within(f), at(n), Block{ExtendedBlock: n.Put(7, data)}, []Part{{100, make([]byte, 2500)}}); err != nil {
		f.Fatal(err)
	}
	p.Close()
	n.Close()
	f.Fuzz(func(t *testing.T, b []byte) {
		way := course{checksums: checksums{castagnoli, 512}, off: 0, end: 2600, limit: 3072}
		in := inbox{buf: make([]byte, 100)}
		src := bytes.NewReader(b)
		for !way.ended() {
			before := way.off
			p, sums, data, err := in.next(context.Background(), src, &way)
			if err != nil {
				return
			}
			if p.off != before || len(data) != p.data || len(sums) != 4*((p.data+511)/512) || p.size() > len(b) {
				t.Fatalf("%+v with %d and %d bytes", p, len(sums), len(data))
			}
			if way.verify(sums, [][]byte{data}) >= 0 {
				return
			}
			way.pass(p)
		}
		if way.off < 2600 || way.off > 3072 {
			t.Fatalf("ended at %d", way.off)
		}
	})
}

// TestVerifyPieces: where the data is cut makes no difference to what is wrong with it.
func TestVerifyPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := checksums{castagnoli, rapid.SampledFrom([]int{1, 3, 512, 1000}).Draw(t, "chunk")}
		data := content(rapid.IntRange(1, 5000).Draw(t, "size"))
		var sums []byte
		for i := 0; i < len(data); i += s.chunk {
			c := crc32.Checksum(data[i:min(i+s.chunk, len(data))], castagnoli)
			sums = append(sums, byte(c>>24), byte(c>>16), byte(c>>8), byte(c))
		}
		want := -1
		if rapid.Bool().Draw(t, "flip") {
			i := rapid.IntRange(0, len(data)-1).Draw(t, "where")
			data[i] ^= 4
			want = i / s.chunk
		}
		var pieces [][]byte
		for rest := data; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		if got := s.verify(sums, pieces); got != want {
			t.Fatalf("chunk %d, want %d", got, want)
		}
	})
}
