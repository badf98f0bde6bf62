package datanode

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/internal/fakedn"
)

func TestBlockChecksum(t *testing.T) {
	ctx := within(t)
	data := content(100_000)
	refuse := false
	n := start(t, fakedn.Options{Script: func(fakedn.Request) fakedn.Fault { return fakedn.Fault{Hangup: refuse} }})
	b := Block{ExtendedBlock: n.Put(7, data)}
	p := newPool(t, Options{})
	sum, err := p.BlockChecksum(ctx, at(n), b, hproto.BlockChecksumOptions_COMPOSITE_CRC)
	if err != nil || binary.BigEndian.Uint32(sum.Sum) != crc32.Checksum(data, castagnoli) || sum.BytesPerCRC != 512 || sum.Type != hproto.Checksum_CRC32C {
		t.Errorf("%+v, %v", sum, err)
	}
	if _, err := p.BlockChecksum(ctx, at(n), b, hproto.BlockChecksumOptions_MD5CRC); !errors.Is(err, ErrProtocol) { // 4 bytes are no MD5
		t.Errorf("got %v", err)
	}
	refuse = true
	if _, err := p.BlockChecksum(ctx, at(n), b, hproto.BlockChecksumOptions_COMPOSITE_CRC); !errors.Is(err, ErrBroken) {
		t.Errorf("got %v", err)
	}
	if s := p.Stats(); s.Connections != 0 {
		t.Errorf("%+v", s)
	}
}

func FuzzChecksumAnswer(f *testing.F) {
	for _, sum := range [][]byte{make([]byte, 4), make([]byte, 16), {}} {
		b, err := proto.Marshal(&hproto.BlockOpResponse{
			Status: hproto.BlockOpResponse_SUCCESS.Enum(),
			ChecksumResponse: &hproto.OpBlockChecksumResponse{
				BytesPerCrc: proto.Uint32(512), CrcPerBlock: proto.Uint64(8), BlockChecksum: sum,
				Options: &hproto.BlockChecksumOptions{Type: hproto.BlockChecksumOptions_COMPOSITE_CRC.Enum()},
			},
		})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if sum, err := parseChecksumAnswer(b, hproto.BlockChecksumOptions_COMPOSITE_CRC); err == nil && len(sum.Sum) != 4 {
			t.Fatalf("%+v", sum)
		}
	})
}
