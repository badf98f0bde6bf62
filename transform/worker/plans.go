package worker

import (
	"slices"

	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/worker/protocol"
)

// planSlots mirrors which plans one worker remembers, so that a plan's text travels once.
type planSlots struct {
	digests []([32]byte)
	next    int
}

// place returns the slot of plan, and its text when the worker does not have it yet.
func (s *planSlots) place(plan *transform.Plan) (slot uint8, text []byte) {
	d := plan.Digest()
	if i := slices.Index(s.digests, d); i >= 0 {
		return uint8(i), nil
	}
	if len(s.digests) < protocol.PlanSlots {
		s.digests = append(s.digests, d)
		return uint8(len(s.digests) - 1), plan.Canonical()
	}
	i := s.next
	s.next = (s.next + 1) % protocol.PlanSlots
	s.digests[i] = d
	return uint8(i), plan.Canonical()
}

// forget is called when the worker may not have taken a plan over.
func (s *planSlots) forget(slot uint8) { s.digests[slot] = [32]byte{} }
