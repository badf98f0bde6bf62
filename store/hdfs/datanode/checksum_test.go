package datanode

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"net"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// sumAnswer is how a DataNode of Hadoop 3 answers.
func sumAnswer(sum uint32) *hproto.BlockOpResponse {
	return &hproto.BlockOpResponse{
		Status: hproto.BlockOpResponse_SUCCESS.Enum(),
		ChecksumResponse: &hproto.OpBlockChecksumResponse{
			BytesPerCrc: proto.Uint32(512), CrcPerBlock: proto.Uint64(2), BlockChecksum: binary.BigEndian.AppendUint32(nil, sum), CrcType: hproto.Checksum_CRC32C.Enum(),
			Options: &hproto.BlockChecksumOptions{Type: hproto.BlockChecksumOptions_COMPOSITE_CRC.Enum()},
		},
	}
}

// changed is a good answer with a change.
func changed(change func(m *hproto.BlockOpResponse, r *hproto.OpBlockChecksumResponse)) *hproto.BlockOpResponse {
	m := sumAnswer(7)
	change(m, m.ChecksumResponse)
	return m
}

// sumServer is the other end of one connection: it reads a question for a sum and gives an answer, or none, and ends.
func sumServer(t *testing.T, answer *hproto.BlockOpResponse) Options {
	return Options{Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			b := make([]byte, 64<<10)
			n, err := theirs.Read(b)
			if err != nil || n < 4 || b[2] != 85 {
				t.Errorf("request of %d bytes, %v", n, err)
				return
			}
			var m hproto.OpBlockChecksum
			body, _ := protowire.ConsumeBytes(b[3:n])
			if err := proto.Unmarshal(body, &m); err != nil || m.GetHeader().GetBlock().GetBlockId() != 7 || m.GetOptions().GetType() != hproto.BlockChecksumOptions_COMPOSITE_CRC {
				t.Errorf("%v, %v", &m, err)
			}
			if answer == nil {
				return
			}
			said, err := appendDelimited(nil, answer)
			if err != nil {
				t.Error(err)
			}
			_, _ = theirs.Write(said)
		}()
		return ours, nil
	}}
}

// TestCRC32C: a sum is taken only of an answer that says that it is one; whatever else a node says is an error of its kind.
func TestCRC32C(t *testing.T) {
	type response = hproto.OpBlockChecksumResponse
	for what, c := range map[string]struct {
		answer *hproto.BlockOpResponse
		want   error
	}{
		"a sum":        {sumAnswer(0xfedcba98), nil},
		"old":          {changed(func(_ *hproto.BlockOpResponse, r *response) { r.Options, r.BlockChecksum = nil, make([]byte, 16) }), errors.ErrUnsupported},
		"another kind": {changed(func(_ *hproto.BlockOpResponse, r *response) { r.CrcType = hproto.Checksum_CRC32.Enum() }), errors.ErrUnsupported},
		"no kind":      {changed(func(_ *hproto.BlockOpResponse, r *response) { r.CrcType = nil }), errors.ErrUnsupported},
		"cut":          {changed(func(_ *hproto.BlockOpResponse, r *response) { r.BlockChecksum = r.BlockChecksum[:3] }), ErrProtocol},
		"nothing":      {changed(func(m *hproto.BlockOpResponse, _ *response) { m.ChecksumResponse = nil }), ErrProtocol},
		"token":        {&hproto.BlockOpResponse{Status: hproto.BlockOpResponse_ERROR_ACCESS_TOKEN.Enum()}, ErrToken},
		"refused":      {&hproto.BlockOpResponse{Status: hproto.BlockOpResponse_ERROR_UNSUPPORTED.Enum()}, ErrRefused},
		"no answer":    {nil, ErrRefused}, // a node that does not have the replica ends the connection
	} {
		block := Block{ExtendedBlock: &hproto.ExtendedBlock{
			PoolId: proto.String("pool"), BlockId: proto.Uint64(7), GenerationStamp: proto.Uint64(1), NumBytes: proto.Uint64(1000),
		}}
		sum, err := newPool(t, sumServer(t, c.answer)).CRC32C(within(t), Node{Addr: "node:1"}, block)
		var node *NodeError
		if c.want == nil && (err != nil || sum != 0xfedcba98) || c.want != nil && (!errors.Is(err, c.want) || !errors.As(err, &node)) {
			t.Errorf("%s: %08x, %v; want %v", what, sum, err, c.want)
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v: it looks as if the node had gone", what, err)
		}
	}
}

// FuzzChecksum: of any bytes comes a sum or an error of a kind, and a sum only if all says that it is one.
func FuzzChecksum(f *testing.F) {
	for _, m := range []*hproto.BlockOpResponse{
		sumAnswer(1), changed(func(_ *hproto.BlockOpResponse, r *hproto.OpBlockChecksumResponse) { r.Options = nil }), {Status: hproto.BlockOpResponse_ERROR.Enum()},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		sum, err := parseChecksum(b)
		if err != nil {
			var known bool
			for _, kind := range []error{ErrProtocol, ErrToken, ErrRefused, ErrMissing, ErrLength, errors.ErrUnsupported} {
				known = known || errors.Is(err, kind)
			}
			if !known || sum != 0 {
				t.Fatalf("%08x, %v", sum, err)
			}
			return
		}
		var m hproto.BlockOpResponse
		if err := proto.Unmarshal(b, &m); err != nil {
			t.Fatalf("%08x of no message: %v", sum, err)
		}
		if want := sumAnswer(sum).ChecksumResponse; string(m.ChecksumResponse.BlockChecksum) != string(want.BlockChecksum) || *m.ChecksumResponse.CrcType != *want.CrcType || *m.ChecksumResponse.Options.Type != *want.Options.Type {
			t.Fatalf("%08x of %v", sum, &m)
		}
	})
}

// sums asks every replica of a file for its sum, and compares it with that of the bytes.
func (r realm) sums(t *testing.T, p *Pool, path string, data []byte) {
	t.Helper()
	for _, x := range r.replicas(t, path) {
		sum, err := p.CRC32C(within(t), x.node, x.block)
		want := crc32.Checksum(data[x.off:x.off+int64(x.block.GetNumBytes())], crc32.MakeTable(crc32.Castagnoli))
		if err != nil || sum != want {
			t.Errorf("%s at %s: %08x, %v; want %08x", x.block.Name(), x.node, sum, err, want)
		}
	}
}

// TestRealChecksums: a real DataNode's sums are those of the bytes; a replica that it does not have is refused, and other calls go on.
func TestRealChecksums(t *testing.T) {
	c := enter(t, hdfstest.Shared(t))
	path := c.Dir(t) + "/file"
	data := hdfstest.Bytes(8, 3<<20+777)
	c.Put(path, data, 2, 1<<20)
	p := newPool(t, Options{})
	c.sums(t, p, path, data)
	x := c.replicas(t, path)[0]
	missing := Block{ExtendedBlock: proto.CloneOf(x.block.ExtendedBlock), Token: x.block.Token}
	*missing.BlockId += 12345
	if sum, err := p.CRC32C(within(t), x.node, missing); err == nil || store.ClassOf(err) != store.Retryable {
		t.Errorf("of a block that it does not have: %08x, %v", sum, err)
	}
	c.sums(t, p, path, data)
	readRandomly(t, p, c.replicas(t, path), data, 1)
}
