package hints

import "time"

// Limits of a hint. They are checked by the sender and by the receiver.
const (
	MaxMessage = 4 << 20        // bytes of an encoded hint
	MaxTTL     = 24 * time.Hour // "for ever" cannot be said
)
