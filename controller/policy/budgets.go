package policy

import (
	"maps"
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
)

// Budgets are what may be spent, by the time of day. They do not change, and are safe for concurrent use.
type Budgets struct {
	file     string
	zone     *time.Location
	always   plan.Budgets // with the rates of links outside of their windows
	windows  map[string][]window
	settings []Setting
}

// window is a part of the week in which a link has other rates.
type window struct {
	days     [7]bool // on which it begins, Sunday first
	from, to int     // minutes of the day, from < 24 h; to <= from lies on the next day
	rates    rates
}

// rates are those of a link.
type rates struct{ ordinary, emergency int64 }

// At returns the budgets as they are at a moment of the wall clock. The result is the caller's.
func (b *Budgets) At(wall time.Time) plan.Budgets {
	now := b.always
	now.Shares = maps.Clone(b.always.Shares)
	now.WAN.Links = make(map[string]plan.Link, len(b.always.WAN.Links))
	for site, link := range b.always.WAN.Links {
		r := b.rates(site, wall)
		link.Rate, link.EmergencyRate = r.ordinary, r.emergency
		now.WAN.Links[site] = link
	}
	return now
}

// rates are those of one link: of the first window that a moment is in, else those that it has always.
func (b *Budgets) rates(site string, wall time.Time) rates {
	local := wall.In(b.zone)
	for _, w := range b.windows[site] {
		if w.has(local) {
			return w.rates
		}
	}
	l := b.always.WAN.Links[site]
	return rates{l.Rate, l.EmergencyRate}
}

// has tells whether the local time is in the window.
func (w window) has(local time.Time) bool {
	minute := local.Hour()*60 + local.Minute()
	today := int(local.Weekday())
	if w.from < w.to {
		return w.days[today] && w.from <= minute && minute < w.to
	}
	yesterday := (today + 6) % 7
	return w.days[today] && minute >= w.from || w.days[yesterday] && minute < w.to
}

// Next returns the moment after a moment at which the budgets are others for the first time; false if they stay. Clocks that are put forward or back
// count: a window has the hours that the local clock shows.
func (b *Budgets) Next(wall time.Time) (time.Time, bool) {
	const horizon = 60 * 24 * time.Hour // a week without a change of clocks is in it, whatever the zone
	marks := b.marks()
	if len(marks) == 0 {
		return time.Time{}, false
	}
	for at := wall; at.Sub(wall) < horizon; {
		at = b.step(at, marks)
		for site := range b.windows {
			if b.rates(site, at) != b.rates(site, wall) {
				return at, true
			}
		}
	}
	return time.Time{}, false
}

const day = 24 * time.Hour

// marks are the times of the day at which windows begin or end.
func (b *Budgets) marks() map[time.Duration]bool {
	marks := make(map[time.Duration]bool)
	for _, windows := range b.windows {
		for _, w := range windows {
			marks[time.Duration(w.from)*time.Minute] = true
			marks[time.Duration(w.to)*time.Minute%day] = true
		}
	}
	if len(marks) > 0 {
		marks[0] = true // the day of the week changes
	}
	return marks
}

// step is the next moment at which the local clock shows a mark, or is put forward or back.
func (b *Budgets) step(at time.Time, marks map[time.Duration]bool) time.Time {
	local := at.In(b.zone)
	shown := time.Duration(local.Hour())*time.Hour + time.Duration(local.Minute())*time.Minute + time.Duration(local.Second())*time.Second +
		time.Duration(local.Nanosecond())
	next := day
	for m := range marks {
		ahead := (m - shown + day) % day
		if ahead == 0 {
			ahead = day
		}
		next = min(next, ahead)
	}
	to := at.Add(next)
	if _, end := local.ZoneBounds(); !end.IsZero() && end.After(at) && end.Before(to) {
		return end
	}
	return to
}
