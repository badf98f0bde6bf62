package hints

import (
	"sync"
	"time"
)

// otherNode takes the counts of nodes beyond ledgerNodes, so that an account stays bounded.
const (
	ledgerNodes = 1 << 10
	otherNode   = "other"
)

// Ledger is the account of one job and mechanism: what was foretold in time, what came late, what it
// cost and what for. It is safe for concurrent use; the zero value is ready.
type Ledger struct {
	mu sync.Mutex
	s  LedgerSnapshot
}

// Hit counts a prepared answer of a node that had lain ready for lead when it was asked for.
func (l *Ledger) Hit(node string, lead time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.s.Hits++
	l.s.Lead.observe(lead)
	l.node(node).Hits++
}

// Late counts a prepared answer of a node that had to be waited for.
func (l *Ledger) Late(node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.s.Late++
	l.node(node).Late++
}

// Miss counts an answer that was not prepared, with the reason, and the node that gave it or failed to.
func (l *Ledger) Miss(node, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.s.Misses++
	l.s.Fallbacks = count(l.s.Fallbacks, reason, 1)
	n := l.node(node)
	n.Fallbacks = count(n.Fallbacks, reason, 1)
}

// Prepared counts work done ahead: the bytes it made and the CPU time it took.
func (l *Ledger) Prepared(bytes int64, cpu time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.s.Prepared.add(Work{Count: 1, Bytes: bytes, CPUSeconds: cpu.Seconds()})
}

// Unused counts work done ahead that was thrown away before anyone asked for it.
func (l *Ledger) Unused(bytes int64, cpu time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.s.Unused.add(Work{Count: 1, Bytes: bytes, CPUSeconds: cpu.Seconds()})
}

// Snapshot returns the account so far. It shares nothing with the ledger.
func (l *Ledger) Snapshot() LedgerSnapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	return LedgerSnapshot{}.Merge(l.s)
}

func (l *Ledger) node(name string) *NodeAccount {
	if l.s.Nodes == nil {
		l.s.Nodes = make(map[string]*NodeAccount)
	}
	if _, ok := l.s.Nodes[name]; !ok && len(l.s.Nodes) >= ledgerNodes {
		name = otherNode
	}
	n, ok := l.s.Nodes[name]
	if !ok {
		n = &NodeAccount{}
		l.s.Nodes[name] = n
	}
	return n
}
