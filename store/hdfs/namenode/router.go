package namenode

import (
	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// maxNamespaces bounds what a router may make the client remember.
const maxNamespaces = 4096

// mergeRouterState remembers the newest state of each namespace behind a router. What cannot be parsed is
// left out: it serves freshness of reads from observers only.
func (c *Client) mergeRouterState(raw []byte) {
	var seen hproto.RouterFederatedState
	if proto.Unmarshal(raw, &seen) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	merged := map[string]int64{}
	for name, id := range c.router.GetNamespaceStateIds() {
		merged[name] = id
	}
	for name, id := range seen.GetNamespaceStateIds() {
		old, known := merged[name]
		if known && id > old || !known && len(merged) < maxNamespaces {
			merged[name] = id
		}
	}
	c.router = &hproto.RouterFederatedState{NamespaceStateIds: merged}
}

// routerState returns what a router wants back; nil where none has answered.
func (c *Client) routerState() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.router == nil {
		return nil
	}
	raw, err := proto.Marshal(c.router)
	if err != nil {
		return nil
	}
	return raw
}
