package plan

import "time"

// queue holds the placements that wait, the best first.
type queue struct{ list chunks[*placement] }

// before is the order of ranks: emergencies, then what returns most for its price, then the older.
func (x *placement) before(y *placement) bool {
	switch {
	case x.want.emergency != y.want.emergency:
		return x.want.emergency
	case x.want.rank != y.want.rank:
		return x.want.rank > y.want.rank
	}
	return x.id < y.id
}

func (q *queue) first() *placement {
	if q.list.len == 0 {
		return nil
	}
	return *q.list.at(0)
}

func (q *queue) push(x *placement) {
	x.index = int32(q.list.len)
	q.list.push(x)
	q.up(int(x.index))
}

// remove takes x out, if it is in.
func (q *queue) remove(x *placement) {
	i := int(x.index)
	if i < 0 {
		return
	}
	last := q.list.len - 1
	q.swap(i, last)
	q.list.pop()
	x.index = -1
	if i < last {
		q.fix(i)
	}
}

// fix puts the placement at i where its rank belongs.
func (q *queue) fix(i int) {
	q.down(i)
	q.up(i)
}

func (q *queue) swap(i, j int) {
	a, b := q.list.at(i), q.list.at(j)
	*a, *b = *b, *a
	(*a).index, (*b).index = int32(i), int32(j)
}

func (q *queue) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !(*q.list.at(i)).before(*q.list.at(parent)) {
			return
		}
		q.swap(i, parent)
		i = parent
	}
}

func (q *queue) down(i int) {
	for {
		best := i
		for child := 2*i + 1; child <= 2*i+2 && child < q.list.len; child++ {
			if (*q.list.at(child)).before(*q.list.at(best)) {
				best = child
			}
		}
		if best == i {
			return
		}
		q.swap(i, best)
		i = best
	}
}

// alarm is a moment at which something is to be looked at again.
type alarm struct {
	at time.Duration
	n  uint64 // the order in which alarms were set
	of subject
}

// alarms holds them, the earliest first.
type alarms struct {
	list chunks[alarm]
	n    uint64
}

func (a *alarms) set(at time.Duration, of subject) {
	a.n++
	a.list.push(alarm{at, a.n, of})
	i := a.list.len - 1
	for i > 0 && a.less(i, (i-1)/2) {
		a.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (a *alarms) swap(i, j int) {
	x, y := a.list.at(i), a.list.at(j)
	*x, *y = *y, *x
}

func (a *alarms) less(i, j int) bool {
	x, y := a.list.at(i), a.list.at(j)
	if x.at != y.at {
		return x.at < y.at
	}
	return x.n < y.n
}

// next returns and removes the earliest that is not after now.
func (a *alarms) next(now time.Duration) (alarm, bool) {
	if a.list.len == 0 || a.list.at(0).at > now {
		return alarm{}, false
	}
	first := *a.list.at(0)
	last := a.list.len - 1
	a.swap(0, last)
	a.list.pop()
	for i := 0; ; {
		best := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if a.less(child, best) {
				best = child
			}
		}
		if best == i {
			return first, true
		}
		a.swap(i, best)
		i = best
	}
}
