package namenode_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

func TestMain(m *testing.M) { hdfstest.Main(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fake is a NameNode that does what a test says.
type fake struct {
	t  testing.TB
	ln net.Listener
	// serve answers one call, in a goroutine of its own.
	serve func(c *call)
	// accepted sees each new connection before a byte is read, and gives the one to serve; nil: none.
	accepted func(n int, c net.Conn) net.Conn
	// greeting replaces the SASL exchange.
	greeting func(s *session) error

	mu       sync.Mutex
	sessions []*session
	calls    []*call
	ended    int // sessions
	start    sync.Once
	tasks    sync.WaitGroup
}

// session is one connection of the fake.
type session struct {
	fake    *fake
	conn    net.Conn
	r       io.Reader
	saslOn  bool
	context *hproto.IpcConnectionContext
	wrap    func(plain []byte) []byte // nil: frames travel as they are
	pings   int
	mu      sync.Mutex // one writer
}

// call is one call to the fake.
type call struct {
	*session
	head   *hproto.RpcRequestHeader
	method *hproto.RequestHeader
	body   []byte
	nth    int // of the fake's calls, from 1
}

func newFake(t testing.TB, serve func(c *call)) *fake {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	f := &fake{t: t, ln: ln, serve: serve}
	t.Cleanup(f.stop)
	return f
}

// addr starts the fake: what a test wants of it is set before.
func (f *fake) addr() string {
	f.start.Do(func() { f.tasks.Go(f.accept) })
	return f.ln.Addr().String()
}

func (f *fake) stop() {
	f.ln.Close()
	f.mu.Lock()
	for _, s := range f.sessions {
		s.conn.Close()
	}
	f.mu.Unlock()
	f.tasks.Wait()
}

func (f *fake) accept() {
	for n := 1; ; n++ {
		c, err := f.ln.Accept()
		if err != nil {
			return
		}
		if f.accepted != nil {
			if served := f.accepted(n, c); served != nil {
				c = served
			} else {
				c.Close()
				continue
			}
		}
		s := &session{fake: f, conn: c, r: c}
		f.mu.Lock()
		f.sessions = append(f.sessions, s)
		f.mu.Unlock()
		f.tasks.Go(func() {
			s.run()
			c.Close()
			f.mu.Lock()
			f.ended++
			f.mu.Unlock()
		})
	}
}

func (s *session) run() error {
	var opening [7]byte
	if _, err := io.ReadFull(s.r, opening[:]); err != nil {
		return err
	}
	if !bytes.Equal(opening[:6], []byte("hrpc\x09\x00")) {
		s.fake.t.Errorf("connection begins with %q", opening)
	}
	if s.saslOn = opening[6] == 0xDF; s.saslOn {
		if err := s.fake.greeting(s); err != nil {
			return err
		}
	}
	for {
		frame, err := s.frame()
		if err != nil {
			return err
		}
		if err := s.take(frame); err != nil {
			return err
		}
	}
}

func (s *session) frame() ([]byte, error) {
	var n [4]byte
	if _, err := io.ReadFull(s.r, n[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(n[:]))
	_, err := io.ReadFull(s.r, b)
	return b, err
}

// part parses the next message of a frame.
func part(b []byte, m proto.Message) []byte {
	raw, n := protowire.ConsumeBytes(b)
	if n < 0 {
		panic("a frame of the client is cut")
	}
	if err := proto.Unmarshal(raw, m); err != nil {
		panic(err)
	}
	return b[n:]
}

func (s *session) take(frame []byte) error {
	var head hproto.RpcRequestHeader
	rest := part(frame, &head)
	switch head.GetCallId() {
	case -3:
		s.context = new(hproto.IpcConnectionContext)
		part(rest, s.context)
		return nil
	case -4:
		s.fake.mu.Lock()
		s.pings++
		s.fake.mu.Unlock()
		return nil
	}
	c := &call{session: s, head: &head, method: new(hproto.RequestHeader)}
	rest = part(rest, c.method)
	c.body, _ = protowire.ConsumeBytes(rest)
	s.fake.mu.Lock()
	s.fake.calls = append(s.fake.calls, c)
	c.nth = len(s.fake.calls)
	s.fake.mu.Unlock()
	s.fake.tasks.Go(func() { s.fake.serve(c) })
	return nil
}

func framed(messages ...proto.Message) []byte {
	var b []byte
	for _, m := range messages {
		raw, err := proto.Marshal(m)
		if err != nil {
			panic(err)
		}
		b = protowire.AppendBytes(b, raw)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

func (s *session) write(plain []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wrap != nil {
		plain = s.wrap(plain)
	}
	s.conn.Write(plain)
}

// raw writes bytes as they are.
func (s *session) raw(b []byte) { s.conn.Write(b) }

func (s *session) close() { s.conn.Close() }

// reset ends the connection so that the client sees a reset.
func (s *session) reset() {
	s.conn.(*net.TCPConn).SetLinger(0)
	s.conn.Close()
}

func (c *call) header(status hproto.RpcResponseHeader_Status) *hproto.RpcResponseHeader {
	return &hproto.RpcResponseHeader{CallId: proto.Uint32(uint32(c.head.GetCallId())), Status: &status, ClientId: c.head.ClientId}
}

func (c *call) answer(m proto.Message) {
	c.write(framed(c.header(hproto.RpcResponseHeader_SUCCESS), m))
}

// throw answers with an exception, as Hadoop does: class, and message with a stack.
func (c *call) throw(status hproto.RpcResponseHeader_Status, class, message string) {
	h := c.header(status)
	h.ExceptionClassName = &class
	h.ErrorMsg = proto.String(message + "\n\tat org.apache.hadoop.Some.method(Some.java:17)\n\tat java.base/java.lang.Thread.run(Thread.java:840)\n")
	h.ErrorDetail = hproto.RpcResponseHeader_ERROR_APPLICATION.Enum()
	c.write(framed(h))
}

const (
	ipc       = "org.apache.hadoop.ipc."
	standby   = ipc + "StandbyException"
	retriable = ipc + "RetriableException"
	safeMode  = "org.apache.hadoop.hdfs.server.namenode.SafeModeException"
)

func (c *call) standby() {
	c.throw(hproto.RpcResponseHeader_ERROR, standby, "Operation category READ is not supported in state standby")
}

// info answers getFileInfo with a file whose length is n.
func (c *call) info(n uint64) { c.answer(&hproto.GetFileInfoResponse{Fs: status(n)}) }

func status(n uint64) *hproto.FileStatus {
	return &hproto.FileStatus{
		FileType: hproto.FileStatus_FILE.Enum(), Path: []byte{}, Length: &n, Permission: &hproto.FsPermission{Perm: proto.Uint32(0o644)},
		Owner: proto.String("ada"), Group: proto.String("g"), ModificationTime: proto.Uint64(1), AccessTime: proto.Uint64(1),
	}
}

// seen returns the calls that came so far.
func (f *fake) seen() []*call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

func (f *fake) connections() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.sessions)
}

// clock is a time that only the test moves. Pauses of at most jump pass at once and are recorded.
type clock struct {
	mu     sync.Mutex
	now    time.Time
	jump   time.Duration
	pauses []time.Duration
	timers []timer
	added  chan struct{} // of 1: a timer was added
}

type timer struct {
	at time.Time
	c  chan time.Time
}

func newClock(jump time.Duration) *clock {
	return &clock{now: time.Unix(1_000_000, 0), jump: jump, added: make(chan struct{}, 1)}
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := make(chan time.Time, 1)
	if d <= c.jump {
		c.pauses = append(c.pauses, d)
		c.now = c.now.Add(d)
		ch <- c.now
		return ch
	}
	c.timers = append(c.timers, timer{c.now.Add(d), ch})
	select {
	case c.added <- struct{}{}:
	default:
	}
	return ch
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.timers = slices.DeleteFunc(c.timers, func(t timer) bool {
		if t.at.After(c.now) {
			return false
		}
		t.c <- c.now
		return true
	})
}

// options call these NameNodes, without long pauses.
func options(nodes ...*fake) namenode.Options {
	o := namenode.Options{User: "ada", PauseBase: time.Millisecond, PauseMax: 4 * time.Millisecond, Cluster: conf.Cluster{Name: "lake", HA: len(nodes) > 1}}
	for i, f := range nodes {
		o.Cluster.NameNodes = append(o.Cluster.NameNodes, conf.NameNode{ID: fmt.Sprintf("nn%d", i+1), Addr: f.addr()})
	}
	return o
}

func newClient(t testing.TB, o namenode.Options) *namenode.Client {
	t.Helper()
	c := namenode.New(o)
	t.Cleanup(func() { c.Close() })
	return c
}

// length calls getFileInfo and returns the length in the answer.
func length(ctx context.Context, c *namenode.Client) (int64, error) {
	info, err := c.GetFileInfo(ctx, "/f")
	return int64(info.GetLength()), err
}

func wantLength(t testing.TB, c *namenode.Client, want int64) {
	t.Helper()
	if got, err := length(t.Context(), c); err != nil || got != want {
		t.Fatalf("length %d, %v, want %d", got, err, want)
	}
}
