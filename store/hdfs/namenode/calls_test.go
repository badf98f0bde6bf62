package namenode_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

// What a connection and a call say about themselves.
func TestWire(t *testing.T) {
	f := newFake(t, func(c *call) { c.info(7) })
	o := options(f)
	o.RealUser = "service"
	c := newClient(t, o)
	wantLength(t, c, 7)
	wantLength(t, c, 7)
	calls := f.seen()
	first, second := calls[0], calls[1]
	if got := first.context.String(); got != (&hproto.IpcConnectionContext{
		UserInfo: &hproto.UserInformation{EffectiveUser: proto.String("ada"), RealUser: proto.String("service")},
		Protocol: proto.String("org.apache.hadoop.hdfs.protocol.ClientProtocol"),
	}).String() {
		t.Errorf("context: %s", got)
	}
	if len(first.head.GetClientId()) != 16 || string(first.head.GetClientId()) != string(second.head.GetClientId()) {
		t.Errorf("client ids %x and %x: want the same 16 bytes", first.head.GetClientId(), second.head.GetClientId())
	}
	if first.head.GetCallId() == second.head.GetCallId() || first.head.GetRetryCount() != 0 {
		t.Errorf("headers %v and %v", first.head, second.head)
	}
	if got := first.method; got.GetMethodName() != "getFileInfo" || got.GetClientProtocolVersion() != 1 ||
		got.GetDeclaringClassProtocolName() != "org.apache.hadoop.hdfs.protocol.ClientProtocol" {
		t.Errorf("method %v", got)
	}
	if first.head.GetCallerContext().GetContext() != "stepahead" || first.head.GetRpcKind() != hproto.RpcRequestHeader_PROTOCOL_BUFFER {
		t.Errorf("header %v", first.head)
	}
	var request hproto.GetFileInfoRequest
	must(t, proto.Unmarshal(first.body, &request))
	if request.GetSrc() != "/f" || f.connections() != 1 {
		t.Errorf("request %v over %d connections", &request, f.connections())
	}
	s := c.Stats()
	if s.Calls["getFileInfo"] != 2 || s.Connections != 1 || s.BytesSent == 0 || s.BytesReceived == 0 || s.Failures["getFileInfo"] != 0 {
		t.Errorf("stats %+v", s)
	}
}

// Many calls share one connection and are answered in the opposite order.
func TestOutOfOrder(t *testing.T) {
	const n = 64
	var mu sync.Mutex
	var waiting []*call
	f := newFake(t, func(c *call) {
		mu.Lock()
		defer mu.Unlock()
		if waiting = append(waiting, c); len(waiting) < n {
			return
		}
		for i := n - 1; i >= 0; i-- {
			var r hproto.GetFileInfoRequest
			if err := proto.Unmarshal(waiting[i].body, &r); err != nil {
				t.Error(err)
			}
			waiting[i].info(uint64(len(r.GetSrc())))
		}
	})
	c := newClient(t, options(f))
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			path := "/" + strings.Repeat("x", i)
			info, err := c.GetFileInfo(t.Context(), path)
			if err != nil || info.GetLength() != uint64(len(path)) {
				t.Errorf("%s: answered %v, %v", path, info, err)
			}
		})
	}
	group.Wait()
	if f.connections() != 1 {
		t.Errorf("%d connections", f.connections())
	}
}

// A call that is never answered ends with its context; others on the connection are not disturbed, and an answer that comes
// too late disturbs nobody.
func TestCancel(t *testing.T) {
	late := make(chan *call, 1)
	f := newFake(t, func(c *call) {
		if c.method.GetMethodName() == "msync" {
			late <- c
			return
		}
		c.info(9)
	})
	c := newClient(t, options(f))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Msync(ctx) }()
	hung := <-late
	wantLength(t, c, 9)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled call: %v", err)
	}
	hung.answer(new(hproto.MsyncResponse))
	wantLength(t, c, 9)
	if f.connections() != 1 {
		t.Errorf("%d connections: cancelling cost one", f.connections())
	}
	past, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if err := c.Msync(past); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call past its deadline: %v", err)
	}
	if err := c.Msync(ctx); !errors.Is(err, context.Canceled) || len(f.seen()) != 3 {
		t.Errorf("a call whose context had ended: %v, %d calls were sent", err, len(f.seen()))
	}
}

// Close ends calls in flight, and later ones fail.
func TestClose(t *testing.T) {
	arrived := make(chan struct{})
	f := newFake(t, func(c *call) { close(arrived) })
	c := newClient(t, options(f))
	ended := make(chan error, 1)
	go func() { ended <- c.Msync(t.Context()) }()
	<-arrived
	c.Close()
	if err := <-ended; !errors.Is(err, fs.ErrClosed) {
		t.Errorf("call in flight: %v", err)
	}
	if _, err := length(t.Context(), c); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("call after Close: %v", err)
	}
	c.Close()
}

// An idle connection is closed; the next call opens another, and this is no retry.
func TestIdle(t *testing.T) {
	k := newClock(0)
	f := newFake(t, func(c *call) { c.info(1) })
	o := options(f)
	o.Clock, o.IdleTimeout = k, 10*time.Second
	c := newClient(t, o)
	wantLength(t, c, 1)
	k.advance(5 * time.Second) // used again: not idle for long
	wantLength(t, c, 1)
	if n := f.connections(); n != 1 {
		t.Fatalf("%d connections", n)
	}
	for f.open() > 0 {
		k.advance(5 * time.Second)
		time.Sleep(time.Millisecond)
	}
	wantLength(t, c, 1)
	if s := c.Stats(); s.Connections != 2 || s.Retries["stale"] != 0 {
		t.Errorf("%+v", s)
	}
}

// open counts the connections that the client has not closed.
func (f *fake) open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.sessions) - f.ended
}

// While a call waits in silence the NameNode is pinged, and the connection is not idle.
func TestPing(t *testing.T) {
	k := newClock(0)
	hung := make(chan *call, 1)
	f := newFake(t, func(c *call) { hung <- c })
	o := options(f)
	o.Clock, o.IdleTimeout, o.PingInterval, o.CallTimeout = k, 10*time.Second, 20*time.Second, time.Hour
	c := newClient(t, o)
	ended := make(chan error, 1)
	go func() { ended <- c.Msync(t.Context()) }()
	waiting := <-hung
	for f.pings() == 0 {
		k.advance(5 * time.Second)
		time.Sleep(time.Millisecond)
	}
	waiting.answer(new(hproto.MsyncResponse))
	must(t, <-ended)
	if f.connections() != 1 {
		t.Errorf("%d connections", f.connections())
	}
}

func (f *fake) pings() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, s := range f.sessions {
		n += s.pings
	}
	return n
}

// A large folder is listed page by page, over a failover between two pages.
func TestListAll(t *testing.T) {
	page := func(c *call) {
		var r hproto.GetListingRequest
		must(t, proto.Unmarshal(c.body, &r))
		first := 0
		if len(r.GetStartAfter()) > 0 {
			fmt.Sscanf(string(r.GetStartAfter()), "f%05d", &first)
			first++
		}
		list := &hproto.DirectoryListing{}
		for i := first; i < min(first+1000, 2500); i++ {
			s := status(uint64(i))
			s.Path = fmt.Appendf(nil, "f%05d", i)
			list.PartialListing = append(list.PartialListing, s)
		}
		list.RemainingEntries = proto.Uint32(uint32(2500 - first - len(list.PartialListing)))
		c.answer(&hproto.GetListingResponse{DirList: list})
	}
	one := newFake(t, func(c *call) {
		if c.nth > 2 {
			c.standby()
			return
		}
		page(c)
	})
	two := newFake(t, page)
	c := newClient(t, options(one, two))
	n := 0
	must(t, c.ListAll(t.Context(), "/d", func(s *hproto.FileStatus) error {
		if s.GetLength() != uint64(n) {
			t.Fatalf("entry %d is %s", n, s.GetPath())
		}
		n++
		return nil
	}))
	if n != 2500 || len(one.seen()) != 3 || len(two.seen()) != 1 {
		t.Errorf("%d entries over %d and %d calls", n, len(one.seen()), len(two.seen()))
	}
}

// A NameNode whose pages make no progress must not be asked for ever.
func TestListAllStuck(t *testing.T) {
	f := newFake(t, func(c *call) {
		s := status(1)
		s.Path = []byte("same")
		c.answer(&hproto.GetListingResponse{DirList: &hproto.DirectoryListing{PartialListing: []*hproto.FileStatus{s}, RemainingEntries: proto.Uint32(3)}})
	})
	c := newClient(t, options(f))
	err := c.ListAll(t.Context(), "/d", func(*hproto.FileStatus) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "a page ends where it begins") {
		t.Errorf("%v", err)
	}
}

// What absent things look like.
func TestAbsent(t *testing.T) {
	f := newFake(t, func(c *call) {
		switch c.method.GetMethodName() {
		case "getFileInfo":
			c.answer(&hproto.GetFileInfoResponse{})
		case "getListing":
			c.answer(&hproto.GetListingResponse{})
		case "delete":
			c.answer(&hproto.DeleteResponse{Result: proto.Bool(false)})
		default:
			c.throw(hproto.RpcResponseHeader_ERROR, "java.io.FileNotFoundException", "java.io.FileNotFoundException: File does not exist: /f")
		}
	})
	c := newClient(t, options(f))
	ctx := t.Context()
	_, info := c.GetFileInfo(ctx, "/f")
	_, list := c.GetListing(ctx, "/f", nil, false)
	_, blocks := c.GetBlockLocations(ctx, "/f", 0, 1)
	for what, err := range map[string]error{"info": info, "list": list, "blocks": blocks} {
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "/f") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if deleted, err := c.Delete(ctx, "/f", false); deleted || err != nil {
		t.Errorf("delete: %v, %v", deleted, err)
	}
	if _, err := c.SetReplication(ctx, "/f", 0); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("no replicas: %v", err)
	}
}

// A NameNode that lacks a method is asked once, and the older way is taken.
func TestOldNameNode(t *testing.T) {
	k := newClock(0)
	f := newFake(t, func(c *call) {
		switch c.method.GetMethodName() {
		case "getLocatedFileInfo":
			h := c.header(hproto.RpcResponseHeader_ERROR)
			h.ExceptionClassName = proto.String(ipc + "RpcNoSuchMethodException")
			h.ErrorDetail = hproto.RpcResponseHeader_ERROR_NO_SUCH_METHOD.Enum()
			c.write(framed(h))
		case "getFileInfo":
			c.info(5)
		case "getBlockLocations":
			c.answer(&hproto.GetBlockLocationsResponse{Locations: &hproto.LocatedBlocks{
				FileLength: proto.Uint64(5), UnderConstruction: proto.Bool(false), IsLastBlockComplete: proto.Bool(true)}})
		}
	})
	o := options(f)
	o.Clock = k
	c := newClient(t, o)
	asked := func() (n int) {
		for _, c := range f.seen() {
			if c.method.GetMethodName() == "getLocatedFileInfo" {
				n++
			}
		}
		return n
	}
	for range 3 {
		info, err := c.GetLocatedFileInfo(t.Context(), "/f", true)
		if err != nil || info.GetLocations().GetFileLength() != 5 {
			t.Fatalf("%v, %v", info, err)
		}
	}
	if n := asked(); n != 1 {
		t.Errorf("asked %d times for a method that is lacking", n)
	}
	k.advance(time.Hour) // it may have been upgraded
	_, err := c.GetLocatedFileInfo(t.Context(), "/f", true)
	must(t, err)
	if n := asked(); n != 2 {
		t.Errorf("asked %d times", n)
	}
}

// What the newest state of the namespace is travels with later calls.
func TestStateID(t *testing.T) {
	f := newFake(t, func(c *call) {
		h := c.header(hproto.RpcResponseHeader_SUCCESS)
		h.StateId = proto.Int64([]int64{40, 30, 50}[(c.nth-1)%3])
		raw, err := proto.Marshal(&hproto.RouterFederatedState{NamespaceStateIds: map[string]int64{"a": int64(c.nth), "b": int64(10 - c.nth)}})
		must(t, err)
		h.RouterFederatedState = raw
		c.write(framed(h, new(hproto.MsyncResponse)))
	})
	c := newClient(t, options(f))
	for range 3 {
		must(t, c.Msync(t.Context()))
	}
	calls := f.seen()
	if calls[0].head.StateId != nil || calls[1].head.GetStateId() != 40 || calls[2].head.GetStateId() != 40 {
		t.Errorf("states %v %v %v", calls[0].head.StateId, calls[1].head.GetStateId(), calls[2].head.GetStateId())
	}
	var router hproto.RouterFederatedState
	must(t, proto.Unmarshal(calls[2].head.GetRouterFederatedState(), &router))
	if ids := router.GetNamespaceStateIds(); ids["a"] != 2 || ids["b"] != 9 {
		t.Errorf("a router's states: %v", ids)
	}
}

func TestOptions(t *testing.T) {
	err := namenode.Options{CallTimeout: -1, PauseBase: time.Hour, PauseMax: 1, MaxAnswer: 5}.Validate()
	for _, want := range []string{"Cluster has no NameNodes", "User is empty", "CallTimeout: -1ns", "PauseMax 1ns is less", "MaxAnswer 5"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
}
