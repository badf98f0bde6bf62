package intake

import (
	"math"
	"slices"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/store"
)

// survey turns a list of nodes into what the planner knows of a cluster; what the nodes do not tell is as configured.
type survey struct {
	configured plan.Cluster
	tagged     string // the type of storage that replicas are raised on
}

func (s survey) of(nodes []store.Node) plan.Cluster {
	c := s.configured
	c.Nodes, c.Tagged = 0, 0
	free, load, telling := 0.0, 0.0, 0
	for _, n := range nodes {
		if !n.InService {
			continue
		}
		c.Nodes++
		free += float64(n.Free)
		if slices.Contains(n.Types, s.tagged) {
			c.Tagged++
		}
		if n.Load >= 0 {
			telling++
			load += min(float64(n.Load)/busyTransfers, 1)
		}
	}
	c.Free = int64(min(float64(free*freeShare), 1<<62))
	if telling > 0 {
		c.Load = load / float64(telling)
	}
	return c
}

// differs tells whether a cluster changed so much that it matters: another number of nodes, a load that is 5 points away, or a tenth more or less of anything.
func differs(a, b plan.Cluster) bool {
	return a.Nodes != b.Nodes || a.Tagged != b.Tagged || a.MaxReplication != b.MaxReplication || math.Abs(a.Load-b.Load) >= 0.05 ||
		apart(float64(a.Free), float64(b.Free)) || apart(float64(a.NodeRate), float64(b.NodeRate)) || apart(a.ReadersPerSource, b.ReadersPerSource)
}

// siteDiffers is the same of a site.
func siteDiffers(a, b plan.Site) bool {
	return a.Up != b.Up || a.Writable != b.Writable || apart(float64(a.Free), float64(b.Free)) ||
		apart(float64(a.RemoteRate), float64(b.RemoteRate)) || apart(float64(a.LocalRate), float64(b.LocalRate))
}

func apart(a, b float64) bool { return math.Abs(a-b) > 0.1*max(math.Abs(a), math.Abs(b)) }
