package plan

import (
	"fmt"
	"math"
	"time"
)

// demand is who reads a hot file, all starts together.
type demand struct {
	readers int
	// weight is the accelerators that wait for the last reader, times the probability that they do.
	weight float64
	lease  time.Duration
	// soon is the time until the first reads; below 0 they read already.
	soon time.Duration
}

// choice is a way to give a file more sources, and what it brings.
type choice struct {
	means          Means
	sources, extra int
	saved          time.Duration // for the last reader
	value, cost    float64       // in the currency of the prices
}

// target is ceil(readers / C_load), the number of sources that a file should have.
func target(readers int, perSource float64) int {
	if perSource <= 0 {
		return 0
	}
	return int(min(math.Ceil(float64(readers)/perSource), 1<<20))
}

// present is how many nodes serve a file now: a file of several blocks lies on more nodes than it has replicas.
func (c Cluster) present(f File) int {
	return max(min(f.Replicas*max(f.Blocks, 1), c.Nodes), 1)
}

// lastReader is how long it takes until all have read the file, from so many sources. With an even choice the busiest source has ceil(m/s) readers;
// with a random one it has about m/s + sqrt(m/s ln s) (measured: 24 readers, 3, 5 and 9 sources, within a reader or two).
func (c Cluster) lastReader(readers, sources int, size int64, even bool) time.Duration {
	if c.NodeRate <= 0 || readers == 0 {
		return 0
	}
	mean := float64(readers) / float64(sources)
	busiest := math.Ceil(mean)
	if !even {
		busiest = min(mean+math.Sqrt(float64(mean*math.Log(float64(sources)))), float64(readers))
		busiest = max(busiest, math.Ceil(mean))
	}
	return span(float64(busiest*float64(size)) / float64(c.NodeRate))
}

// span is a length of time in seconds: at most 36 years, so that some of them together are one too.
func span(seconds float64) time.Duration {
	return time.Duration(min(seconds*float64(time.Second), 1<<60))
}

// extras is how many sources a means may add to so many, and why not more. Load is not looked at.
func (c Cluster) extras(m Means, f File, want int) (n int, why string) {
	have := c.present(f)
	n, why = want-have, "the file has as many sources as its readers need"
	bound := func(most int, reason string) {
		if most < n {
			n, why = most, reason
		}
	}
	bound(c.Nodes-have, "all nodes that are live have it")
	if f.Size > 0 {
		bound(int(min(c.Free/f.Size, 1<<20)), "too little space is free")
	}
	switch {
	case m == Sibling:
	case f.ErasureCoded:
		bound(0, "the file is erasure-coded")
	case m == StorageType:
		bound(c.Tagged-3, "too few nodes have a directory of the other storage type")
		bound(c.MaxReplication-f.Replicas, "the store takes no larger factor")
		if f.OwnPolicy {
			bound(0, "the file's own storage policy names the type")
		}
	case m == Raise:
		// Lowering concentrates the file: at most N/16 and N/8 (measured, see docs/controller-decisions.md).
		most := min(max(4, c.Nodes/16), c.Nodes/8)
		bound(most-f.Replicas, fmt.Sprintf("a plain raise is bounded by %d of %d nodes", most, c.Nodes))
		bound(c.MaxReplication-f.Replicas, "the store takes no larger factor")
	}
	return max(n, 0), why
}

// calm is the part of a target that a cluster of some load may be asked for: all of it up to half loaded, nothing from 90 % on.
func calm(load float64) float64 {
	const free, full = 0.5, 0.9
	return min(max((full-load)/(full-free), 0), 1)
}

// ready is how long it takes until extra sources of a file serve.
func (p *Planner) ready(m Means, f File) time.Duration {
	if m == Even {
		return 0
	}
	const rounds = 6 * time.Second // of calls and heartbeats (measured: 3 to 12 s for small files)
	return rounds + span(float64(f.Size)/makeRate)
}

// choose picks the means that brings most for its price among those allowed, in their order where two bring the same. The reason says why none does.
func (p *Planner) choose(f File, d demand, allowed []Means) (choice, Reason, string) {
	c := p.cluster
	want := target(d.readers, c.ReadersPerSource)
	have := c.present(f)
	even := has(allowed, Even) || has(allowed, Sibling)
	before := c.lastReader(d.readers, have, f.Size, false)
	best, found := choice{}, false
	reason, detail := ReasonMeans, "no means is allowed"
	for _, m := range allowed {
		ch := choice{means: m, sources: have}
		if m != Even {
			n, why := c.extras(m, f, want)
			if n == 0 {
				detail = string(m) + ": " + why
				continue
			}
			if p.ready(m, f) >= d.soon+c.lastReader(d.readers, have, f.Size, even) {
				reason, detail = ReasonLate, string(m)+": it would be ready when the last has read"
				continue
			}
			ch.extra, ch.sources = n, have+n
		}
		ch.saved = before - c.lastReader(d.readers, ch.sources, f.Size, even)
		ch.value = p.prices.worth(float64(d.weight * ch.saved.Seconds()))
		ch.cost = p.prices.ofSources(int64(ch.extra)*f.Size, d.lease)
		if m.row() {
			ch.cost += p.prices.Entry
		}
		if ch.saved <= 0 || ch.value < ch.cost {
			reason = ReasonWorth
			detail = fmt.Sprintf("%s saves %v, worth %.4g, and costs %.4g", m, ch.saved.Round(time.Millisecond), ch.value, ch.cost)
			continue
		}
		if !found || ch.value-ch.cost > best.value-best.cost {
			best, found = ch, true
		}
	}
	if !found {
		return choice{}, reason, detail
	}
	return best, "", ""
}

func has(list []Means, m Means) bool {
	for _, one := range list {
		if one == m {
			return true
		}
	}
	return false
}
