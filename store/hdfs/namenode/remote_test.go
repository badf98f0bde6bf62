package namenode_test

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

// What each exception means to callers that know nothing of Java.
func TestMeanings(t *testing.T) {
	var class, message string
	f := newFake(t, func(c *call) { c.throw(hproto.RpcResponseHeader_ERROR, class, message) })
	c := newClient(t, options(f))
	for _, x := range []struct {
		class, message string
		is             error
		want           store.Class
		text           string
	}{
		{"java.io.FileNotFoundException", "File does not exist: /f", fs.ErrNotExist, store.NotFound, "getFileInfo at "},
		{"org.apache.hadoop.security.AccessControlException", `Permission denied: user=bob, access=READ, inode="/f":ada:g:-rw-------`, fs.ErrPermission, store.Permanent, "user=bob"},
		{"org.apache.hadoop.security.authorize.AuthorizationException", "User: a is not allowed to impersonate b", fs.ErrPermission, store.Permanent, "impersonate"},
		{"org.apache.hadoop.fs.FileAlreadyExistsException", "", fs.ErrExist, store.Permanent, ""},
		{"org.apache.hadoop.hdfs.protocol.AlreadyBeingCreatedException", "", fs.ErrExist, store.Permanent, ""},
		{"org.apache.hadoop.fs.ParentNotDirectoryException", "", syscall.ENOTDIR, store.Permanent, ""},
		{"org.apache.hadoop.fs.PathIsNotEmptyDirectoryException", "", syscall.ENOTEMPTY, store.Permanent, ""},
		{"org.apache.hadoop.hdfs.protocol.DSQuotaExceededException", "The DiskSpace quota of /q is exceeded", syscall.EDQUOT, store.Permanent, "free some of the folder's quota"},
		{"org.apache.hadoop.hdfs.protocol.NSQuotaExceededException", "", syscall.EDQUOT, store.Permanent, ""},
		{"org.apache.hadoop.hdfs.protocol.FSLimitException$PathComponentTooLongException", "", syscall.ENAMETOOLONG, store.Permanent, ""},
		{safeMode, "Cannot create /f. Name node is in safe mode.", store.ErrUnavailable, store.Retryable, "takes no changes now"},
		{"org.apache.hadoop.hdfs.protocol.UnresolvedPathException", "/l", errors.ErrUnsupported, store.Permanent, "symbolic links are not followed"},
		{"org.apache.hadoop.security.token.SecretManager$InvalidToken", "token can't be found in cache", namenode.ErrCredentials, store.Permanent, "get a new token"},
		{"org.apache.hadoop.fs.InvalidPathException", "", store.ErrName, store.Permanent, ""},
		{"java.lang.NullPointerException", "", nil, store.ClassUnknown, "NullPointerException"},
	} {
		class, message = x.class, x.message
		for _, prefix := range []string{"", x.class + ": "} {
			message = prefix + x.message
			_, err := length(t.Context(), c)
			if x.is != nil && !errors.Is(err, x.is) || store.ClassOf(err) != x.want || !strings.Contains(err.Error(), x.text) {
				t.Errorf("%s: %v: class %v, want %v, %v, %q", x.class, err, store.ClassOf(err), x.is, x.want, x.text)
			}
			var remote *namenode.RemoteError
			if !errors.As(err, &remote) || remote.Class != x.class || remote.Message != x.message || remote.Method != "getFileInfo" || remote.NameNode != f.addr() {
				t.Errorf("%s: %+v", x.class, remote)
			}
			if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "Some.java") {
				t.Errorf("%s: the stack shows: %q", x.class, err)
			}
		}
	}
}

// An exception that carries another one means what that says.
func TestCarried(t *testing.T) {
	f := newFake(t, func(c *call) {
		c.throw(hproto.RpcResponseHeader_ERROR, retriable, retriable+": "+safeMode+": Zero blocklocations for /f.")
	})
	o := options(f)
	o.BusyRetries = 1
	_, err := length(t.Context(), newClient(t, o))
	var remote *namenode.RemoteError
	if !errors.As(err, &remote) || remote.Cause != safeMode || remote.Message != "Zero blocklocations for /f." {
		t.Fatalf("%+v", remote)
	}
	if store.ClassOf(err) != store.Retryable || !strings.Contains(err.Error(), "RetriableException of SafeModeException") || len(f.seen()) != 2 {
		t.Errorf("%v after %d attempts", err, len(f.seen()))
	}
}

// Two clients in the same microsecond: one is taken for a replay, and tries again.
func TestReplay(t *testing.T) {
	f := newFake(t, func(c *call) {
		if c.nth == 1 {
			c.throw(hproto.RpcResponseHeader_FATAL, "javax.security.sasl.SaslException",
				"GSS initiate failed [Caused by GSSException: Failure unspecified at GSS-API level (Mechanism level: Request is a replay (34))]")
			return
		}
		c.info(1)
	})
	wantLength(t, newClient(t, options(f)), 1)
}

// Servers that speak something else, or lie about lengths: a clear error, at once, and little memory.
func TestGarbage(t *testing.T) {
	for name, c := range map[string]struct{ answer, want string }{
		"web server":  {"HTTP/1.1 400 Bad Request\r\n\r\n", "a web server answers on this port"},
		"tls":         {"\x15\x03\x03\x00\x02\x02\x32", "a TLS server answers"},
		"old":         {"\xff\xff\xff\xff", "older than Hadoop 2.1"},
		"empty":       {"\x00\x00\x00\x00", "an answer of 0 bytes"},
		"huge":        {"\x7f\xff\xff\xff", "an answer of 2147483647 bytes, want 1 to 134217728"},
		"cut header":  {"\x00\x00\x00\x02\x05\x08", "a message in a frame is cut"},
		"no header":   {"\x00\x00\x00\x01\x00", "RpcResponseHeader"},
		"long varint": {"\x00\x00\x00\x0b\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "is cut"},
	} {
		f := newFake(t, func(one *call) { one.raw([]byte(c.answer)) })
		_, err := length(t.Context(), newClient(t, options(f)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if n := len(f.seen()); n != 1 {
			t.Errorf("%s: sent %d times", name, n)
		}
	}
	more := newFake(t, func(c *call) {
		c.raw(framed(c.header(hproto.RpcResponseHeader_SUCCESS), &hproto.GetFileInfoResponse{}, &hproto.GetFileInfoResponse{Fs: status(1)}))
	})
	if _, err := length(t.Context(), newClient(t, options(more))); err == nil || !strings.Contains(err.Error(), "after an answer") {
		t.Errorf("two messages in an answer: %v", err)
	}
	other := newFake(t, func(c *call) {
		c.answer(&hproto.GetFileInfoResponse{Fs: &hproto.FileStatus{Path: []byte("x")}})
	})
	other.serve = func(c *call) {
		c.raw(framed(c.header(hproto.RpcResponseHeader_SUCCESS), &hproto.RequestHeader{
			MethodName: proto.String("x"), DeclaringClassProtocolName: proto.String("y"), ClientProtocolVersion: proto.Uint64(1)}))
	}
	if _, err := length(t.Context(), newClient(t, options(other))); err == nil || !strings.Contains(err.Error(), "GetFileInfoResponse") {
		t.Errorf("another message: %v", err)
	}
}

// A length costs no memory before its bytes are there, and the limit is exact.
func TestAnswerLimit(t *testing.T) {
	big := status(1)
	big.Path = make([]byte, 300<<10)
	waiting := make(chan *call, 2)
	f := newFake(t, func(c *call) {
		if c.method.GetMethodName() == "msync" {
			waiting <- c
			return
		}
		c.answer(&hproto.GetFileInfoResponse{Fs: big})
	})
	o := options(f)
	info, err := newClient(t, o).GetFileInfo(t.Context(), "/f")
	if err != nil || len(info.GetPath()) != len(big.Path) {
		t.Fatalf("%d bytes, %v", len(info.GetPath()), err)
	}
	o.MaxAnswer = 300 << 10
	c := newClient(t, o)
	other := make(chan error, 1)
	go func() { other <- c.Msync(t.Context()) }()
	hung := <-waiting
	if _, err := length(t.Context(), c); err == nil || !strings.Contains(err.Error(), "want 1 to 307200") {
		t.Errorf("an answer above the limit: %v", err)
	}
	hung.close()
	(<-waiting).answer(new(hproto.MsyncResponse))
	if err := <-other; err != nil {
		t.Errorf("another call on the connection: %v", err)
	}
}

const jmx = `{"beans":[{"name":"Hadoop:service=NameNode,name=NameNodeInfo","LiveNodes":"{\"dn1.example:9866\":{\"infoAddr\":\"10.0.0.1:9864\",\"infoSecureAddr\":\"10.0.0.1:0\",\"xferaddr\":\"10.0.0.1:9866\",\"location\":\"/r1\",\"uuid\":\"u1\",\"lastContact\":0,\"usedSpace\":7,\"adminState\":\"Decommissioned\",\"nonDfsUsedSpace\":1,\"capacity\":100,\"numBlocks\":3,\"version\":\"3.5.0\",\"used\":7,\"remaining\":90,\"blockScheduled\":0,\"blockPoolUsed\":7,\"blockPoolUsedPercent\":7.0E-6,\"volfails\":0,\"lastBlockReport\":2}}"}]}`

// Whoever may not ask for the report reads the web service.
func TestLiveNodes(t *testing.T) {
	denied := func(c *call) {
		c.throw(hproto.RpcResponseHeader_ERROR, "org.apache.hadoop.security.AccessControlException", "Access denied for user ada. Superuser privilege is required")
	}
	page := jmx
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/jmx" || r.URL.Query().Get("qry") != "Hadoop:service=NameNode,name=NameNodeInfo" {
			t.Errorf("asked for %s", r.URL)
		}
		w.Write([]byte(page))
	}))
	defer web.Close()
	o := options(newFake(t, denied))
	o.Cluster.NameNodes[0].Web = web.URL
	c := newClient(t, o)
	nodes, err := c.LiveNodes(t.Context())
	must(t, err)
	if len(nodes) != 1 {
		t.Fatalf("%v", nodes)
	}
	n := nodes[0]
	if n.GetId().GetIpAddr() != "10.0.0.1" || n.GetId().GetXferPort() != 9866 || n.GetId().GetHostName() != "dn1.example" || n.GetLocation() != "/r1" ||
		n.GetCapacity() != 100 || n.GetRemaining() != 90 || n.GetAdminState() != hproto.DatanodeInfo_DECOMMISSIONED || n.GetId().GetDatanodeUuid() != "u1" {
		t.Errorf("%v", n)
	}
	for _, page = range []string{"", "{}", `{"beans":[{"LiveNodes":"["}]}`, `{"beans":[{"LiveNodes":"{\"x\":{\"xferaddr\":\"y\"}}"}]}`} {
		if _, err := c.LiveNodes(t.Context()); err == nil || !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "JMX") {
			t.Errorf("page %q: %v", page, err)
		}
	}
	super := newClient(t, options(newFake(t, func(c *call) { c.answer(&hproto.GetDatanodeReportResponse{Di: nodes}) })))
	got, err := super.LiveNodes(t.Context())
	if err != nil || len(got) != 1 || !proto.Equal(got[0], nodes[0]) {
		t.Errorf("a superuser: %v, %v", got, err)
	}
}
