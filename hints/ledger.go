package hints

import "time"

// Ledger is the account of one job and mechanism: what was foretold right, what came late, what it
// cost. It is safe for concurrent use; the zero value is ready.
type Ledger struct{}

// Hit counts a prepared answer that had lain ready for lead.
func (l *Ledger) Hit(node string, lead time.Duration) {}

// Late counts a prepared answer that was waited for.
func (l *Ledger) Late(node string) {}

// Miss counts an answer that was not prepared, by its reason and the node that gave it.
func (l *Ledger) Miss(node, reason string) {}

// Prepared counts work done ahead.
func (l *Ledger) Prepared(bytes int64, cpu time.Duration) {}

// Unused counts work done ahead that nobody asked for before it was thrown away.
func (l *Ledger) Unused(bytes int64, cpu time.Duration) {}

// Snapshot returns the account so far.
func (l *Ledger) Snapshot() LedgerSnapshot { return LedgerSnapshot{} }

// LedgerSnapshot is an account at one moment. It has a JSON form.
type LedgerSnapshot struct{}
