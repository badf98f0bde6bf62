// Package namenode knows how to call HDFS's NameNodes: Hadoop's RPC over one shared connection a NameNode,
// which of them is active, when a call may be repeated, and what an answer means.
package namenode

import (
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

var errClosed = fmt.Errorf("the client is closed: %w", fs.ErrClosed)

// Client calls the NameNodes of one namespace as one user. It is safe for concurrent use: calls share a
// connection and do not wait for each other. A call ends with its context; it is repeated, at the same or
// another NameNode, where that is safe.
//
// Errors: what a NameNode said is a *RemoteError. No NameNode that answers is store.ErrUnavailable.
// ErrOutcomeUnknown marks calls that may have taken place.
type Client struct {
	options  Options
	protocol string // the Java interface that is called
	id       []byte // names this client to the NameNode's memory of calls
	nodes    []*node
	counters *counters
	lastCall atomic.Int32
	contact  atomic.Bool  // a NameNode has answered
	stateID  atomic.Int64 // the newest state of the namespace that was seen
	ctx      context.Context
	cancel   context.CancelFunc

	mu     sync.Mutex
	active int    // index of the NameNode to call first
	epoch  uint64 // counts changes of active
	closed bool
	router *hproto.RouterFederatedState // what routers want back, merged
	tasks  sync.WaitGroup
}

// New makes a Client. It does no I/O and starts nothing: connections are opened by calls, and closed when idle
// or by Close. Options that Validate refuses make it panic.
func New(o Options) *Client {
	if err := o.Validate(); err != nil {
		panic(err)
	}
	c := &Client{options: o.withDefaults(), protocol: clientProtocol, id: make([]byte, 16), counters: newCounters()}
	rand.Read(c.id)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	for _, at := range o.Cluster.NameNodes {
		c.nodes = append(c.nodes, &node{client: c, at: at, lacks: map[string]time.Time{}})
	}
	return c
}

// Close ends all calls, which fail with fs.ErrClosed, closes connections and waits for what they ran.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	for _, n := range c.nodes {
		n.close()
	}
	c.tasks.Wait()
	return nil
}

// start runs f in a goroutine that Close waits for; false once the client is closed.
func (c *Client) start(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.tasks.Go(f)
	return true
}

// current returns the NameNode to call, and when it became the one.
func (c *Client) current() (*node, uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[c.active], c.epoch
}

// failOver makes the next NameNode the one to call, unless another call has done so since epoch.
func (c *Client) failOver(epoch uint64) {
	c.mu.Lock()
	moved := c.epoch == epoch && len(c.nodes) > 1
	if moved {
		c.active = (c.active + 1) % len(c.nodes)
		c.epoch++
	}
	c.mu.Unlock()
	if moved {
		c.counters.count(func(s *Stats) { s.Failovers++ })
	}
}

// callID returns the number of a new call: 0 to 2^31-1, then again.
func (c *Client) callID() int32 { return c.lastCall.Add(1) & 0x7fffffff }

// saw remembers the state that an answer tells, so that later calls are answered from it or a newer one.
func (c *Client) saw(head *hproto.RpcResponseHeader) {
	c.contact.Store(true)
	for id := head.GetStateId(); ; {
		old := c.stateID.Load()
		if id <= old || c.stateID.CompareAndSwap(old, id) {
			break
		}
	}
	if len(head.GetRouterFederatedState()) > 0 {
		c.mergeRouterState(head.GetRouterFederatedState())
	}
}
