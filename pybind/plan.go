package pybind

import (
	"encoding/hex"
	"encoding/json"

	"github.com/stepahead-io/stepahead/transform"
)

// Plan checks a transform plan and returns {"canonical": ..., "digest": hex}.
func Plan(plan string) (out string, err error) {
	defer caught("Plan", &err)
	p, err := transform.ParsePlan([]byte(plan))
	if err != nil {
		return "", encode(err)
	}
	digest := p.Digest()
	answer, err := json.Marshal(map[string]string{"canonical": string(p.Canonical()), "digest": hex.EncodeToString(digest[:])})
	return string(answer), err
}
