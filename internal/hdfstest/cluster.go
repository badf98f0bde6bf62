// Package hdfstest knows how to run a real HDFS for tests: Hadoop's own NameNode and DataNodes, on ports of this
// machine, with a command for each fault that a client must survive.
//
// The servers run in a JVM that our program in java/hdfstest drives; it takes commands on its standard input and ends,
// with all it stored, when that ends. Hadoop comes from Maven at the first use (see Prepare).
package hdfstest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stepahead-io/stepahead/internal/testdata"
)

// Bounds of what takes seconds on an idle machine: a start with all that is prepared for it, and a command.
const (
	prepareTime = 20 * time.Minute
	commandTime = 3 * time.Minute
)

// A Cluster is a cluster as one test sees it: what fails ends the test.
type Cluster struct {
	*Server
	t testing.TB
}

// Start starts a cluster that ends with the test. The test is skipped where there is no Java and it cannot be
// downloaded.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	if o.DiskBytes > 0 && os.Geteuid() != 0 {
		testdata.Missing(t, "root, for disks of a given size")
	}
	server, err := launch(o)
	if o.DiskBytes > 0 && errors.Is(err, syscall.EPERM) {
		testdata.Missing(t, "the right to mount file systems: %v", err)
	}
	check(t, err)
	c := &Cluster{server, t}
	t.Cleanup(func() {
		c.logFailure()
		if err := server.Close(); err != nil {
			t.Errorf("hdfstest: the cluster's end: %v", err)
		}
	})
	return c
}

// launch is Launch within a time that a download on a busy machine may take.
func launch(o Options) (*Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), prepareTime)
	defer cancel()
	return Launch(ctx, o)
}

func check(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, ErrNoJava) {
		testdata.Missing(t, "a real HDFS: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (c *Cluster) logFailure() {
	if c.t.Failed() {
		c.t.Logf("the cluster's log ends with:\n%s", c.Log())
	}
}

// shared is the cluster of a test program: starting one costs seconds, and tests live in folders of their own.
var shared struct {
	start  sync.Once
	server *Server
	err    error
}

// Shared returns the one cluster of default options that the tests of a package share; it starts at the first call.
// Tests that use it leave it as it was: they put back what they kill. The package's TestMain must call Main.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	shared.start.Do(func() {
		shared.server, shared.err = launch(Options{})
	})
	check(t, shared.err)
	c := &Cluster{shared.server, t}
	t.Cleanup(c.logFailure)
	return c
}

// Main runs the tests of a package, ends their shared cluster and fails if goroutines are left. It does not return.
func Main(m *testing.M, options ...goleak.Option) {
	goleak.VerifyTestMain(tests{m}, append(options, ignoreProxies...)...)
}

// ignoreProxies: of a connection that ends with bytes on their way through a proxy, toxiproxy leaves goroutines behind.
var ignoreProxies = []goleak.Option{
	goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"),
	goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"),
	goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).write"),
}

type tests struct{ m *testing.M }

func (t tests) Run() int {
	code := t.m.Run()
	if shared.server == nil {
		return code
	}
	if err := shared.server.Close(); err != nil {
		fmt.Fprintf(os.Stderr, "hdfstest: the shared cluster's end: %v\n", err)
		return max(code, 1)
	}
	return code
}

// do runs a command that must succeed.
func (c *Cluster) do(op string, args, result any) {
	c.t.Helper()
	if err := c.try(op, args, result); err != nil {
		c.t.Fatalf("hdfstest: %v", err)
	}
}

func (c *Cluster) try(op string, args, result any) error {
	ctx, cancel := context.WithTimeout(context.Background(), commandTime)
	defer cancel()
	return c.Do(ctx, op, args, result)
}

// args are the arguments of a command by name.
type args map[string]any

var folders atomic.Int64

// Dir makes a folder that belongs to User, for one test, and returns its path.
func (c *Cluster) Dir(t testing.TB) string {
	t.Helper()
	name := strings.Map(func(r rune) rune {
		if r == '/' || r == ':' || r <= ' ' {
			return '_'
		}
		return r
	}, t.Name())
	path := fmt.Sprintf("/t/%s-%d", name, folders.Add(1))
	c.Mkdir(path)
	return path
}

// local returns the path of a file of this machine that ends with the test.
func (c *Cluster) local(name string) string {
	return filepath.Join(c.t.TempDir(), name)
}
