package transform

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"
)

// The plans of docs/plans.md are plans, and the first has the digest that the page names.
func TestPlansOfTheDocumentation(t *testing.T) {
	page, err := os.ReadFile("../docs/plans.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```json\n")[1:]
	if len(blocks) < 2 {
		t.Fatalf("%d plans", len(blocks))
	}
	for i, block := range blocks {
		text, _, _ := strings.Cut(block, "```")
		plan, err := ParsePlan([]byte(text))
		if err != nil {
			t.Fatalf("plan %d: %v", i, err)
		}
		digest := plan.Digest()
		if i == 0 && !strings.Contains(string(page), hex.EncodeToString(digest[:])) {
			t.Errorf("the page does not name the digest of its first plan, %x", digest)
		}
	}
}
