package agent

import "time"

const (
	// poisonTime is how long a part is not tried again.
	poisonTime = time.Hour
	// maxPoison bounds the list; beyond it the entry that expires first goes.
	maxPoison = 65536
)

// poisonKey names a part under one version of the operators: a new version clears its entries.
type poisonKey struct {
	extent    extent
	operators string
}

// poison lists parts that killed a worker or cannot be decoded. Entries expire in the order in which
// they were added.
type poison struct {
	until map[poisonKey]time.Duration
	order []poisonKey
}

func (p *poison) add(k poisonKey, now time.Duration) {
	if p.until == nil {
		p.until = make(map[poisonKey]time.Duration)
	}
	if _, known := p.until[k]; known {
		return
	}
	p.until[k] = now + poisonTime
	p.order = append(p.order, k)
	for len(p.order) > 0 && (len(p.order) > maxPoison || p.until[p.order[0]] <= now) {
		delete(p.until, p.order[0])
		p.order = p.order[1:]
	}
}

func (p *poison) has(k poisonKey, now time.Duration) bool {
	until, known := p.until[k]
	return known && now < until
}
