package plan

import "time"

// queue holds the placements that wait, the best first.
type queue struct{ list []*placement }

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
	if len(q.list) == 0 {
		return nil
	}
	return q.list[0]
}

func (q *queue) push(x *placement) {
	x.index = int32(len(q.list))
	q.list = append(q.list, x)
	q.up(int(x.index))
}

// remove takes x out, if it is in.
func (q *queue) remove(x *placement) {
	i := int(x.index)
	if i < 0 {
		return
	}
	last := len(q.list) - 1
	q.swap(i, last)
	q.list[last] = nil
	q.list = q.list[:last]
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
	q.list[i], q.list[j] = q.list[j], q.list[i]
	q.list[i].index, q.list[j].index = int32(i), int32(j)
}

func (q *queue) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !q.list[i].before(q.list[parent]) {
			return
		}
		q.swap(i, parent)
		i = parent
	}
}

func (q *queue) down(i int) {
	for {
		best := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(q.list); child++ {
			if q.list[child].before(q.list[best]) {
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
	list []alarm
	n    uint64
}

func (a *alarms) set(at time.Duration, of subject) {
	a.n++
	a.list = append(a.list, alarm{at, a.n, of})
	i := len(a.list) - 1
	for i > 0 && a.less(i, (i-1)/2) {
		a.list[i], a.list[(i-1)/2] = a.list[(i-1)/2], a.list[i]
		i = (i - 1) / 2
	}
}

func (a *alarms) less(i, j int) bool {
	if a.list[i].at != a.list[j].at {
		return a.list[i].at < a.list[j].at
	}
	return a.list[i].n < a.list[j].n
}

// next returns and removes the earliest that is not after now.
func (a *alarms) next(now time.Duration) (alarm, bool) {
	if len(a.list) == 0 || a.list[0].at > now {
		return alarm{}, false
	}
	first := a.list[0]
	last := len(a.list) - 1
	a.list[0], a.list[last] = a.list[last], alarm{}
	a.list = a.list[:last]
	if c := cap(a.list); c > 1<<12 && last < c/4 { // the memory of a rush goes back
		a.list = append(make([]alarm, 0, c/2), a.list...)
	}
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
		a.list[i], a.list[best] = a.list[best], a.list[i]
		i = best
	}
}
