package namenode

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/store/hdfs/conf"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// served is a connection of which nothing runs: what is fed to it goes through the parsers alone.
func served(t testing.TB) (*conn, *request) {
	c := New(Options{User: "ada", Cluster: conf.Cluster{NameNodes: []conf.NameNode{{Addr: "h:1"}}}})
	near, far := net.Pipe()
	t.Cleanup(func() { near.Close(); far.Close() })
	n := newConn(&counted{Conn: near, client: c}, bufio.NewReader(near), c.nodes[0], agreement{}, nil)
	r := &request{id: 7, answer: make(chan answer, 1)}
	if err := n.register(r); err != nil {
		t.Fatal(err)
	}
	return n, r
}

func answerFrame(t testing.TB, status hproto.RpcResponseHeader_Status, id uint32, more ...proto.Message) []byte {
	head := &hproto.RpcResponseHeader{
		CallId: &id, Status: &status, ExceptionClassName: proto.String("java.io.IOException"),
		ErrorMsg: proto.String("java.io.IOException: no\n\tat a.b(C.java:1)"), RouterFederatedState: []byte("\n\x05\n\x01a\x10\x07"),
	}
	frame, err := appendFrame(nil, append([]proto.Message{head}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	return frame[4:]
}

// FuzzAnswer: no frame of a NameNode may panic, and what reaches a call is a message or an error.
func FuzzAnswer(f *testing.F) {
	f.Add(answerFrame(f, hproto.RpcResponseHeader_SUCCESS, 7, &hproto.MkdirsResponse{Result: proto.Bool(true)}))
	f.Add(answerFrame(f, hproto.RpcResponseHeader_ERROR, 7))
	f.Add(answerFrame(f, hproto.RpcResponseHeader_FATAL, 1))
	f.Add([]byte{0})
	f.Fuzz(func(t *testing.T, frame []byte) {
		c, r := served(t)
		err := c.deliver(frame)
		select {
		case a := <-r.answer:
			if (a.message == nil) == (a.err == nil) {
				t.Errorf("an answer with %v and %v", a.message, a.err)
			}
			if a.err != nil {
				_ = a.err.Error()
			} else {
				parseAnswer(a.message, new(hproto.GetBlockLocationsResponse))
				parseAnswer(a.message, new(hproto.GetListingResponse))
			}
		default:
			if err == nil && bytes.Contains(frame, []byte{0x08, 7}) && len(c.pending) == 0 {
				t.Error("the answer is lost")
			}
		}
		parseSasl(frame, c.n)
	})
}

// FuzzStream: a stream of frames is read whole or refused.
func FuzzStream(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02ab\x00\x00\x00\x01c"))
	f.Add([]byte("HTTP/1.1"))
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := bytes.NewReader(stream)
		for {
			frame, err := readFrame(r, 1<<20)
			if err != nil {
				break
			}
			if len(frame) == 0 || len(frame) > len(stream) {
				t.Fatalf("a frame of %d bytes in a stream of %d", len(frame), len(stream))
			}
		}
	})
}

func FuzzLiveNodes(f *testing.F) {
	f.Add([]byte(`{"beans":[{"LiveNodes":"{\"a:1\":{\"xferaddr\":\"1.2.3.4:5\",\"capacity\":1}}"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) { parseLiveNodes(body) })
}

// Frames come out as they went in, however the stream is cut.
func TestFramesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stream []byte
		bodies := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 200_000), 1, 4).Draw(t, "bodies")
		for _, body := range bodies {
			var err error
			if stream, err = appendFrame(stream, &hproto.RpcSasl{State: hproto.RpcSasl_WRAP.Enum(), Token: body}); err != nil {
				t.Fatal(err)
			}
		}
		r := &pieces{data: stream, n: rapid.IntRange(1, 70_000).Draw(t, "piece")}
		for _, body := range bodies {
			frame, err := readFrame(r, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			var m hproto.RpcSasl
			if err := takeLast(frame, &m); err != nil || !bytes.Equal(m.Token, body) {
				t.Fatalf("%d bytes came out as %d, %v", len(body), len(m.Token), err)
			}
		}
		if _, err := readFrame(r, 1<<20); err != io.EOF {
			t.Fatalf("at the end: %v", err)
		}
	})
}

type pieces struct {
	data []byte
	n    int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.data) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.n)], p.data)
	p.data = p.data[n:]
	return n, nil
}

// A length of 100 MiB with nothing behind it must not take that memory.
func TestLengthCostsNothing(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := readFrame(bytes.NewReader([]byte{6, 0, 0, 0, 1}), 128<<20); err != io.ErrUnexpectedEOF {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	allocated := after.TotalAlloc - before.TotalAlloc
	if allocated > 1<<20 {
		t.Errorf("%d bytes were taken", allocated)
	}
}

// The defaults are those of the documentation, and configuration fills what is not set.
func TestWithConfig(t *testing.T) {
	var config *conf.Config
	config = config.With("ipc.client.rpc-timeout.ms", "60000").With("ipc.client.connect.timeout", "3s").With("dfs.client.failover.max.attempts", "4").
		With("hadoop.rpc.protection", "privacy,integrity").With("ipc.ping.interval", "0")
	o, err := Options{ConnectTimeout: time.Second}.WithConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	o = o.withDefaults()
	if o.CallTimeout != time.Minute || o.ConnectTimeout != time.Second || o.Rounds != 4 || len(o.Protection) != 2 || o.PingInterval != time.Minute || o.MaxAnswer != 128<<20 {
		t.Errorf("%+v", o)
	}
	if _, err := (Options{}).WithConfig(config.With("hadoop.rpc.protection", "secret")); err == nil {
		t.Error("a protection that nobody knows was taken")
	}
	if _, err := o.Dial(context.Background(), "nonsense", ""); err == nil {
		t.Error("no dialer")
	}
}
