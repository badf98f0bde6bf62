package hints

import "crypto/rand"

// NewID returns a name for a hint or a run that nothing else has.
func NewID() string { return rand.Text() }
