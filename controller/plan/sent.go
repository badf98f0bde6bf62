package plan

import "time"

const (
	// keptSent is of how many transfers a rate is made. Copies that took less than leastSent, and readings that took less than leastRead, say more of calls and disks than
	// of the link.
	keptSent  = 8
	leastSent = 5 * time.Second
	leastRead = time.Second
	// leastReadings is of how many readings a rate is believed.
	leastReadings = 2
)

// sent are the last transfers of a kind: how many bytes each, and how long it took.
type sent []struct {
	bytes int64
	took  time.Duration
}

func (s *sent) add(bytes int64, took, least time.Duration) {
	if took < least || bytes <= 0 {
		return
	}
	*s = append(*s, struct {
		bytes int64
		took  time.Duration
	}{bytes, took})
	*s = (*s)[max(len(*s)-keptSent, 0):]
}

// rate is the bytes a second of all of them together, so that a large copy counts for more than a small one; 0 where none is known.
func (s sent) rate() int64 {
	var bytes, seconds float64
	for _, c := range s {
		bytes += float64(c.bytes)
		seconds += c.took.Seconds()
	}
	if seconds == 0 {
		return 0
	}
	return int64(bytes / seconds)
}

// expectedRate is the bytes a second that the next copy to a site is expected to get: what the last ones got, and never more than its part of the link's rate, which
// counts while nothing is known.
func (l *pool) expectedRate() int64 {
	rate, own := l.sent.rate(), l.limit.rate/int64(max(l.limit.slots, 1))
	if rate == 0 || rate > own && own > 0 {
		return own
	}
	return rate
}

// predicted is how long a copy of so many bytes takes to a site.
func (l *pool) predicted(bytes int64) time.Duration {
	rate := l.expectedRate()
	if rate <= 0 {
		return 0
	}
	return span(float64(bytes) / float64(rate))
}
