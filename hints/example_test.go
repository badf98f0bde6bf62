package hints_test

import (
	"fmt"
	"time"

	"github.com/stepahead-io/stepahead/hints"
)

func ExampleLedger() {
	var ledger hints.Ledger
	ledger.Hit("dn1", 300*time.Millisecond)
	ledger.Hit("dn2", 900*time.Millisecond)
	ledger.Late("dn1")
	ledger.Miss("dn2", "cpu")

	s := ledger.Snapshot()
	fmt.Printf("%.0f%% prepared, lead time at most %s, fallbacks %v\n", 100*s.HitRate(), s.Lead.Quantile(0.5), s.Fallbacks)
	// Output: 75% prepared, lead time at most 512ms, fallbacks map[cpu:1]
}

func ExampleHint_Validate() {
	h := hints.Hint{ID: hints.NewID(), Job: "job", Run: "run", TTL: time.Minute, Progress: &hints.Progress{Step: -1}}
	fmt.Println(h.Validate())
	// Output: hints.Validate: hint is not valid: confidence: 0 is not in (0, 1]; progress.step: -1 is negative
}
