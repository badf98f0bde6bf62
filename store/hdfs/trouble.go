package hdfs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stepahead-io/stepahead/store/hdfs/datanode"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

const (
	// maxBroken is how many failures in turn are gone around while no DataNode takes a byte more: about ten seconds, where
	// they come at once.
	maxBroken = 16
	// longest is how many times as long as for one silent DataNode a writer waits, after a failure, for any to take a byte
	// more: five minutes. By then a handful was tried that say nothing.
	longest = 4
)

// trouble is what a writer has met since DataNodes last took a byte more.
type trouble struct {
	broke   int           // failures
	held    time.Duration // how long the attempts after the first failure took
	back    time.Time     // when a DataNode that said that it restarts should be back at the latest
	refused string        // the UUID of the DataNode that refused a token or key last
	failed  []string      // DataNodes, for people
}

// add notes a failed attempt. How long the first one was without a byte is not known: some may have come at its beginning.
func (t *trouble) add(took time.Duration) {
	if t.broke++; t.broke > 1 {
		t.held += took
	}
}

// over tells whether it is enough. A DataNode that restarts is waited for.
func (t *trouble) over(now time.Time, most time.Duration) bool {
	return t.held >= most || t.broke > maxBroken && !now.Before(t.back)
}

// pause is how long to wait before the next attempt.
func (t *trouble) pause() time.Duration {
	return min(time.Duration(t.broke-1)*100*time.Millisecond, time.Second)
}

// error says what was tried in vain.
func (t *trouble) error(have int64, last error) error {
	at := ""
	if len(t.failed) > 0 {
		at = ", at " + strings.Join(t.failed, ", ")
	}
	return fmt.Errorf("%d failures in turn, %v after the first one, and no DataNode has more than %d bytes of the file%s; the last: %w",
		t.broke, t.held.Round(time.Millisecond), have, at, last)
}

// shunned is a DataNode that gets no block of a file: for good, or until it should have restarted.
type shunned struct {
	node  *hproto.DatanodeInfo
	until time.Time // zero: for good
}

// blame leaves the DataNode that failed, if any, out of the block and of the next ones.
func (o *output) blame(cause error) {
	var broken *datanode.PipelineError
	if !errors.As(cause, &broken) || broken.Bad < 0 {
		return
	}
	target := o.now.targets[broken.Bad]
	if name := target.Node.String(); !slices.Contains(o.trouble.failed, name) {
		o.trouble.failed = append(o.trouble.failed, name)
	}
	var until time.Time
	switch uuid := target.Info.GetId().GetDatanodeUuid(); {
	case errors.Is(cause, datanode.ErrRestarting):
		until = time.Now().Add(o.w.restart)
		o.trouble.back = until
	case (errors.Is(cause, datanode.ErrToken) || errors.Is(cause, datanode.ErrKey)) && o.trouble.refused != uuid:
		o.trouble.refused = uuid // another token or key may do
		return
	}
	o.shun(shunned{target.Info, until})
	o.now.without(broken.Bad)
}

// shun keeps a DataNode from getting blocks.
func (o *output) shun(n shunned) {
	o.shunned = slices.DeleteFunc(o.shunned, func(known shunned) bool {
		return known.node.GetId().GetDatanodeUuid() == n.node.GetId().GetDatanodeUuid()
	})
	o.shunned = append(o.shunned, n)
}

// excluded are the DataNodes that get no block now.
func (o *output) excluded(now time.Time) (nodes []*hproto.DatanodeInfo) {
	o.shunned = slices.DeleteFunc(o.shunned, func(n shunned) bool { return !n.until.IsZero() && !now.Before(n.until) })
	for _, n := range o.shunned {
		nodes = append(nodes, n.node)
	}
	return nodes
}
