package datanode

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/internal/fakedn"
)

// drawParts draws parts inside [0, size): adjacent, apart, empty, over chunk and packet borders.
func drawParts(t *rapid.T, size int64) (parts []Part) {
	at := rapid.Int64Range(0, size-1).Draw(t, "start")
	for range rapid.IntRange(1, 6).Draw(t, "parts") {
		n := min(size-at, rapid.Int64Range(0, size/2+1).Draw(t, "len"))
		parts = append(parts, Part{at, bytes.Repeat([]byte{0xee}, int(n))})
		at += n + rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, size/4+1)).Draw(t, "gap")
		if at > size {
			break
		}
	}
	return parts
}

func checkParts(t interface{ Fatalf(string, ...any) }, data []byte, parts []Part) {
	for i, p := range parts {
		if !bytes.Equal(p.Buf, data[p.Off:p.Off+int64(len(p.Buf))]) {
			t.Fatalf("part %d at %d, %d bytes: not the block's bytes", i, p.Off, len(p.Buf))
		}
	}
}

// TestReadEqualsBlock: whatever the parts, the chunks, the packets and the pieces in which they arrive, the parts hold the
// block's bytes.
func TestReadEqualsBlock(t *testing.T) {
	ctx := within(t)
	data := content(300_000)
	pools := map[string]*Pool{}
	for name, o := range ways {
		pools[name] = newPool(t, o)
	}
	rapid.Check(t, func(t *rapid.T) {
		write := rapid.SampledFrom([]int{0, 0, 1, 700, 5000, 70_000}).Draw(t, "write")
		size := rapid.SampledFrom([]int{1, 511, 512, 513, 4000, 66_000, 300_000}).Draw(t, "size")
		if write == 1 {
			size = min(size, 4000)
		}
		n, err := fakedn.Start(fakedn.Options{
			Type:   rapid.SampledFrom([]hproto.Checksum_Type{hproto.Checksum_CRC32, hproto.Checksum_CRC32C}).Draw(t, "type"),
			Chunk:  rapid.SampledFrom([]int{512, 512, 1, 7, 4096, 100_000}).Draw(t, "chunk"),
			Packet: rapid.SampledFrom([]int{64 << 10, 64 << 10, 1, 4 << 10, 20_000, 200_000}).Draw(t, "packet"),
			Script: func(fakedn.Request) fakedn.Fault { return fakedn.Fault{Write: write} },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		b := Block{ExtendedBlock: n.Put(7, data[:size])}
		if rapid.Bool().Draw(t, "length not known") {
			b.NumBytes = nil
		}
		for range rapid.IntRange(1, 3).Draw(t, "reads") {
			parts := drawParts(t, int64(size))
			way := rapid.SampledFrom([]string{"direct", "buffered"}).Draw(t, "way")
			got, err := pools[way].Read(ctx, at(n), b, parts)
			last := parts[len(parts)-1]
			if want := last.Off + int64(len(last.Buf)) - parts[0].Off; err != nil || got != want {
				t.Fatalf("%d of %d bytes, %v", got, want, err)
			}
			checkParts(t, data, parts)
		}
		if accepted, _ := n.Conns(); accepted > 2 {
			t.Fatalf("%d connections for two pools that read one after the other", accepted)
		}
		for _, s := range n.Statuses() {
			if s != hproto.BlockOpResponse_CHECKSUM_OK {
				t.Fatalf("told the node %v", s)
			}
		}
	})
}

// TestResume: after any failure in the middle, the bytes below n are the block's, and a read from n on completes them.
func TestResume(t *testing.T) {
	ctx := within(t)
	data := content(200_000)
	for name, o := range ways {
		t.Run(name, func(t *testing.T) {
			good := start(t, fakedn.Options{})
			good.Put(7, data)
			var cut fakedn.Fault
			bad := start(t, fakedn.Options{Script: func(fakedn.Request) fakedn.Fault { return cut }})
			b := Block{ExtendedBlock: bad.Put(7, data)}
			p := newPool(t, o)
			for _, at0 := range []int{1, 30, 36, 100, 60_000, 66_200, 66_300, 150_000, 201_500} {
				for _, f := range []fakedn.Fault{{Cut: at0}, {Cut: at0, Reset: true}, {Flip: []int64{int64(at0) % 190_000}}} {
					cut = f
					buf := make([]byte, 190_001)
					n, err := p.Read(ctx, at(bad), b, []Part{{9_000, buf}})
					if err == nil && f.Cut < 0 {
						t.Fatalf("%+v: no error", f)
					}
					if !bytes.Equal(buf[:n], data[9_000:9_000+n]) {
						t.Fatalf("%+v: the first %d bytes are not the block's", f, n)
					}
					if n < int64(len(buf)) {
						if _, err := p.Read(ctx, at(good), b, []Part{{9_000 + n, buf[n:]}}); err != nil {
							t.Fatal(err)
						}
					}
					if !bytes.Equal(buf, data[9_000:199_001]) {
						t.Fatalf("%+v: resumed at %d: not the block's bytes", f, n)
					}
				}
			}
		})
	}
}

// TestFlippedByte: a byte that changed anywhere in the chunks that are read is an error, and nothing from its chunk on counts.
func TestFlippedByte(t *testing.T) {
	ctx := within(t)
	data := content(150_000)
	for name, o := range ways {
		t.Run(name, func(t *testing.T) {
			var flip int64
			n := start(t, fakedn.Options{Script: func(fakedn.Request) fakedn.Fault { return fakedn.Fault{Flip: []int64{flip}} }})
			b := Block{ExtendedBlock: n.Put(7, data)}
			p := newPool(t, o)
			for _, c := range []struct {
				flip, off, len int64
				bad            bool
			}{
				{0, 0, 150_000, true}, {149_999, 0, 150_000, true}, {70_000, 1000, 100_000, true}, {1600, 1900, 10, true}, // the same chunk
				{1023, 1024, 100, false}, {2048, 1024, 1024, false}, // the chunks beside it
				{1024, 1024, 1, true}, {1535, 1024, 1, true},
			} {
				flip = c.flip
				got, err := p.Read(ctx, at(n), b, []Part{{c.off, make([]byte, c.len)}})
				if errors.Is(err, ErrChecksum) != c.bad || err != nil != c.bad {
					t.Errorf("%+v: %v", c, err)
				}
				if c.bad && got > max(0, c.flip-c.off) {
					t.Errorf("%+v: %d bytes count", c, got)
				}
			}
		})
	}
}

// TestFaults: what a node does wrong has a kind, and never hangs.
func TestFaults(t *testing.T) {
	ctx := within(t)
	data := content(200_000)
	refuse := func(s hproto.BlockOpResponse_Status, text string) fakedn.Fault {
		return fakedn.Fault{Status: s, Message: text}
	}
	header := func(change func(p *fakedn.Packet)) fakedn.Fault { return fakedn.Fault{Header: change} }
	rewrite := func(change func(b []byte) []byte) fakedn.Fault { return fakedn.Fault{Rewrite: change} }
	answer := len(plainAnswer(t, data))
	faults := map[string]struct {
		fault fakedn.Fault
		kind  error
		says  string
	}{
		"hang-up":             {fakedn.Fault{Hangup: true}, ErrBroken, "waiting for the answer"},
		"token":               {refuse(hproto.BlockOpResponse_ERROR_ACCESS_TOKEN, "Got access token error"), ErrToken, "access token"},
		"token in text":       {refuse(hproto.BlockOpResponse_ERROR, "x received exception org.apache.hadoop.security.token.SecretManager$InvalidToken: old"), ErrToken, "old"},
		"gone":                {refuse(hproto.BlockOpResponse_ERROR, "x received exception org.apache.hadoop.hdfs.server.datanode.ReplicaNotFoundException: y"), ErrMissing, "y"},
		"older":               {refuse(hproto.BlockOpResponse_ERROR, "java.io.IOException: Replica gen stamp < block genstamp, block=z"), ErrMissing, "z"},
		"length":              {refuse(hproto.BlockOpResponse_ERROR, "java.io.IOException:  Offset 0 and length 9 don't match block q"), ErrLength, "q"},
		"other":               {refuse(hproto.BlockOpResponse_ERROR_INVALID, "no\nsecond line"), ErrRefused, "no"},
		"cut in the answer":   {fakedn.Fault{Cut: 3}, ErrBroken, "waiting for the answer"},
		"cut":                 {fakedn.Fault{Cut: 100_000}, ErrBroken, "unexpected EOF"},
		"reset":               {fakedn.Fault{Cut: 100_000, Reset: true}, ErrBroken, ""},
		"no answer":           {rewrite(func([]byte) []byte { return []byte{0} }), ErrProtocol, "required"},
		"endless length":      {rewrite(func([]byte) []byte { return bytes.Repeat([]byte{0xff}, 20) }), ErrProtocol, "length"},
		"huge answer":         {rewrite(func([]byte) []byte { return []byte{0xff, 0xff, 0xff, 0x07} }), ErrProtocol, "at most"},
		"garbage":             {rewrite(func(b []byte) []byte { return bytes.Repeat([]byte("HTTP/1.1 "), 40) }), ErrProtocol, ""},
		"huge packet":         {rewrite(func(b []byte) []byte { return append(b[:answer:answer], 0x7f, 0xff, 0xff, 0xff, 0, 25) }), ErrProtocol, "16777216"},
		"tiny packet":         {rewrite(func(b []byte) []byte { return append(b[:answer:answer], 0, 0, 0, 3, 0, 25) }), ErrProtocol, "3 bytes"},
		"no header":           {rewrite(func(b []byte) []byte { return append(b[:answer:answer], 0, 0, 0, 4, 0, 0) }), ErrProtocol, "lacks required"},
		"seqno":               {header(func(p *fakedn.Packet) { *p.Header.Seqno += 1 }), ErrProtocol, "packet 1 where 0"},
		"offset":              {header(func(p *fakedn.Packet) { *p.Header.OffsetInBlock += 512 }), ErrProtocol, "begins at 2048"},
		"negative offset":     {header(func(p *fakedn.Packet) { *p.Header.OffsetInBlock = math.MinInt64 }), ErrProtocol, "begins at -"},
		"negative data":       {header(func(p *fakedn.Packet) { *p.Header.DataLen = -1 }), ErrProtocol, "-1 bytes of data"},
		"more data than sent": {header(func(p *fakedn.Packet) { *p.Header.DataLen = math.MaxInt32 }), ErrProtocol, "bytes of data"},
		"no data":             {header(func(p *fakedn.Packet) { p.Data, p.Sums, p.Header.DataLen = nil, nil, proto.Int32(0) }), ErrProtocol, "0 bytes of data"},
		"too few sums":        {header(func(p *fakedn.Packet) { p.Sums = p.Sums[min(4, len(p.Sums)):] }), ErrProtocol, "of checksums"},
		"too many sums":       {header(func(p *fakedn.Packet) { p.Sums = append(p.Sums, 0, 0, 0, 0) }), ErrProtocol, "of checksums"},
		"wrong sum":           {header(func(p *fakedn.Packet) { p.Sums = bytes.Repeat([]byte{1}, len(p.Sums)) }), ErrChecksum, "512 bytes from 1536"},
		"half a chunk":        {header(func(p *fakedn.Packet) { cutData(p, 700) }), ErrProtocol, "inside a chunk"},
		"ends early": {header(func(p *fakedn.Packet) {
			p.Header.LastPacketInBlock, p.Header.DataLen, p.Data, p.Sums = proto.Bool(true), proto.Int32(0), nil, nil
		}), ErrProtocol, "data ends at 1536"},
		"last with data": {header(func(p *fakedn.Packet) { p.Header.LastPacketInBlock = proto.Bool(true) }), ErrProtocol, "the last packet carries"},
	}
	for name, c := range faults {
		for way, o := range ways {
			t.Run(name+"/"+way, func(t *testing.T) {
				n := start(t, fakedn.Options{Script: func(fakedn.Request) fakedn.Fault { return c.fault }})
				p := newPool(t, o)
				b := Block{ExtendedBlock: n.Put(7, data)}
				got, err := p.Read(ctx, at(n), b, []Part{{1600, make([]byte, 190_000)}})
				var where *NodeError
				if !errors.Is(err, c.kind) || !errors.As(err, &where) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%d bytes, %v; want %v with %q", got, err, c.kind, c.says)
				}
				if s := p.Stats(); s.Idle != 0 || s.Connections != 0 {
					t.Errorf("the connection is kept: %+v", s)
				}
			})
		}
	}
}

// plainAnswer is the message with which a node answers a read that it serves.
func plainAnswer(t *testing.T, data []byte) []byte {
	var all []byte
	n := start(t, fakedn.Options{Script: func(fakedn.Request) fakedn.Fault {
		return fakedn.Fault{Rewrite: func(b []byte) []byte { all = b; return b }}
	}})
	p := newPool(t, Options{})
	if _, err := p.Read(within(t), at(n), Block{ExtendedBlock: n.Put(7, data)}, []Part{{1600, make([]byte, 190_000)}}); err != nil {
		t.Fatal(err)
	}
	return all[:1+int(all[0])]
}

func cutData(p *fakedn.Packet, to int) {
	if len(p.Data) > to {
		p.Data, p.Header.DataLen = p.Data[:to], proto.Int32(int32(to))
		p.Sums = p.Sums[:4*((to+511)/512)]
	}
}

// TestBadParts: parts that overlap or lie outside any block are refused before anything is sent.
func TestBadParts(t *testing.T) {
	p := newPool(t, Options{Dial: noDial(t)})
	b := Block{ExtendedBlock: &hproto.ExtendedBlock{}}
	for _, parts := range [][]Part{
		{{-1, make([]byte, 2)}}, {{5, make([]byte, 2)}, {6, make([]byte, 2)}}, {{5, make([]byte, 2)}, {0, make([]byte, 2)}},
		{{math.MaxInt64, make([]byte, 2)}},
	} {
		if _, err := p.Read(within(t), Node{}, b, parts); err == nil || errors.As(err, new(*NodeError)) {
			t.Errorf("%v: %v", parts, err)
		}
	}
	for _, parts := range [][]Part{nil, {{5, nil}}, {{5, []byte{}}, {5, []byte{}}}} {
		if n, err := p.Read(within(t), Node{}, b, parts); n != 0 || err != nil {
			t.Errorf("%v: %d, %v", parts, n, err)
		}
	}
}

// TestUnverified: a replica without checksums is refused unless the caller accepts it, and counted then.
func TestUnverified(t *testing.T) {
	ctx := within(t)
	data := content(200_000)
	for name, o := range ways {
		t.Run(name, func(t *testing.T) {
			n := start(t, fakedn.Options{Null: true})
			p := newPool(t, o)
			b := Block{ExtendedBlock: n.Put(7, data)}
			parts := []Part{{1, make([]byte, 150_000)}}
			if got, err := p.Read(ctx, at(n), b, parts); got != 0 || !errors.Is(err, ErrUnverified) {
				t.Errorf("%d, %v", got, err)
			}
			b.AcceptUnverified = true
			if got, err := p.Read(ctx, at(n), b, parts); got != 150_000 || err != nil {
				t.Errorf("%d, %v", got, err)
			}
			checkParts(t, data, parts)
			if s := p.Stats(); s.Unverified != 150_000 || s.Idle != 1 {
				t.Errorf("%+v", s)
			}
			if _, err := p.Read(ctx, at(n), b, parts); err != nil { // the node has read the farewell by now
				t.Fatal(err)
			}
			if got := fmt.Sprint(n.Statuses()[0]); got != "SUCCESS" {
				t.Errorf("told the node %s", got)
			}
		})
	}
}

// TestFarewellFails: bytes that all arrived are good, whatever comes after them.
func TestFarewellFails(t *testing.T) {
	ctx := within(t)
	data := content(100_000)
	for name, o := range ways {
		for what, f := range map[string]fakedn.Fault{
			"no last packet": {Rewrite: func(b []byte) []byte { return b[:len(b)-31] }, Cut: 1 << 30},
			"half of it":     {Rewrite: func(b []byte) []byte { return b[:len(b)-7] }, Cut: 1 << 30},
			"more after it":  {Rewrite: func(b []byte) []byte { return append(b, 1, 2, 3) }},
			"another packet": {Rewrite: func(b []byte) []byte { return append(b[:len(b)-31:len(b)-31], b[len(b)-200:]...) }},
		} {
			t.Run(what+"/"+name, func(t *testing.T) {
				n := start(t, fakedn.Options{Script: func(fakedn.Request) fakedn.Fault { return f }})
				p := newPool(t, o)
				parts := []Part{{10, make([]byte, 90_000)}}
				if got, err := p.Read(ctx, at(n), Block{ExtendedBlock: n.Put(7, data)}, parts); got != 90_000 || err != nil {
					t.Fatalf("%d, %v", got, err)
				}
				checkParts(t, data, parts)
				// What comes after it may come too late to be seen; the next request then meets it.
				if what != "more after it" && p.Stats().Idle != 0 {
					t.Error("the connection is kept")
				}
			})
		}
	}
}
