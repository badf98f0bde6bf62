package policy

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // zones by name, also where the system has none

	"github.com/stepahead-io/stepahead/controller/plan"
)

const (
	// mostTransfers and mostMakes bound what is made at once; mostWindows the windows of one link.
	mostTransfers = 1024
	mostMakes     = 1024
	mostWindows   = 100
)

// ParseBudgets reads the text of a budgets file. Errors name it by its name, and are [Mistake]s, joined.
func ParseBudgets(name string, data []byte) (*Budgets, error) {
	d, top, err := open(name, data)
	if err != nil {
		return nil, err
	}
	b := &Budgets{file: name, zone: time.UTC, windows: make(map[string][]window)}
	top.mapping(map[string]func(value){
		"time-zone": b.readZone,
		"wan!":      b.readWAN,
		"replicas!": b.readReplicas,
		"storage!":  b.readStorage,
		"jobs":      b.readJobs,
	})
	b.settings = d.settings
	if err := d.err(); err != nil {
		return nil, err
	}
	return b, nil
}

func (b *Budgets) readZone(v value) {
	s := v.scalar()
	zone, err := time.LoadLocation(s)
	if err != nil || s == "" || s == "Local" {
		v.wrong("%q is not a time zone: write one such as Europe/Berlin or UTC", s)
		return
	}
	b.zone = zone
}

// switched reads a section with a switch: what it must have besides is needed only where it is on.
func (v value) switched(on *bool, must, may map[string]func(value)) {
	known := map[string]func(value){"on!": func(v value) { *on = v.flag() }}
	required := false
	for _, f := range v.quietly() {
		if s, ok := text(f.value.node); f.name == "on" && ok && s != "false" {
			required = true
		}
	}
	for name, read := range must {
		if required {
			name += "!"
		}
		known[name] = read
	}
	maps.Copy(known, may)
	v.mapping(known)
}

// quietly are the fields, without a word about what is wrong with them.
func (v value) quietly() []field {
	v.doc = &document{}
	return v.fields()
}

func (b *Budgets) readWAN(v value) {
	w := &b.always.WAN
	w.Links = make(map[string]plan.Link)
	v.switched(&w.On, map[string]func(value){"links": func(v value) {
		for _, f := range v.fields() {
			b.readLink(f.name, f.value)
		}
	}}, nil)
}

func (b *Budgets) readLink(site string, v value) {
	l := plan.Link{Transfers: 1}
	var emergencyRate, emergencyHeld bool
	var schedule value
	v.mapping(map[string]func(value){
		"rate!":               func(v value) { l.Rate = v.bytes("/s") },
		"emergency-rate":      func(v value) { emergencyRate, l.EmergencyRate = true, v.bytes("/s") },
		"transfers":           func(v value) { l.Transfers = v.count(mostTransfers) },
		"held!":               func(v value) { l.Held = v.bytes("") },
		"emergency-held":      func(v value) { emergencyHeld, l.EmergencyHeld = true, v.bytes("") },
		"byte-hours-per-day!": func(v value) { l.ByteHoursPerDay = v.amount("*h") },
		"schedule":            func(v value) { schedule = v },
	})
	if !emergencyRate {
		l.EmergencyRate = l.Rate
	}
	if !emergencyHeld {
		l.EmergencyHeld = l.Held
	}
	if l.EmergencyRate < l.Rate || l.EmergencyHeld < l.Held {
		v.wrong("what emergencies may take includes what ordinary copies may: make emergency-rate and emergency-held no smaller than rate and held")
	}
	b.always.WAN.Links[site] = l
	if schedule.doc != nil {
		b.windows[site] = readSchedule(schedule, l, emergencyRate)
	}
}

// readSchedule reads the windows of a link. One that names no rate for emergencies has the link's, or its own rate where that is larger.
func readSchedule(v value, l plan.Link, emergency bool) []window {
	items := v.list()
	if len(items) > mostWindows {
		v.wrong("more than %d windows", mostWindows)
		return nil
	}
	var all []window
	for _, item := range items {
		w := window{days: [7]bool{true, true, true, true, true, true, true}}
		own := false
		item.mapping(map[string]func(value){
			"days":           func(v value) { w.days = readDays(v) },
			"hours!":         func(v value) { w.from, w.to = readHours(v) },
			"rate!":          func(v value) { w.rates.ordinary = v.bytes("/s") },
			"emergency-rate": func(v value) { own, w.rates.emergency = true, v.bytes("/s") },
		})
		if !own {
			w.rates.emergency = w.rates.ordinary
			if emergency {
				w.rates.emergency = max(w.rates.ordinary, l.EmergencyRate)
			}
		}
		if w.rates.emergency < w.rates.ordinary {
			item.wrong("emergency-rate is smaller than rate")
		}
		all = append(all, w)
	}
	return all
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// readDays reads days of the week: names, and ranges such as mon-fri, which may go over the end of the week.
func readDays(v value) (days [7]bool) {
	for _, word := range v.words() {
		first, last, isRange := strings.Cut(word, "-")
		from, to := slices.Index(weekdays, first), slices.Index(weekdays, last)
		if !isRange {
			to = from
		}
		if from < 0 || to < 0 {
			v.wrong("%q: write days as mon, tue, wed, thu, fri, sat, sun or ranges such as mon-fri", word)
			return days
		}
		for d := from; ; d = (d + 1) % 7 {
			days[d] = true
			if d == to {
				break
			}
		}
	}
	return days
}

// readHours reads a part of the day, such as 22:00-06:00.
func readHours(v value) (from, to int) {
	s := v.scalar()
	first, last, ok := strings.Cut(s, "-")
	from, okFrom := clock(first)
	to, okTo := clock(last)
	switch {
	case s == "":
	case !ok || !okFrom || !okTo || from == 24*60:
		v.wrong("%q: write hours of the local clock as 22:00-06:00; the last may be 24:00", s)
	case from == to:
		v.wrong("%q is no time at all: the whole day is 00:00-24:00", s)
	}
	return from, to
}

// clock reads a time of the day, in minutes.
func clock(s string) (int, bool) {
	hours, minutes, ok := strings.Cut(s, ":")
	if !ok || len(hours) != 2 || len(minutes) != 2 || strings.Trim(hours+minutes, "0123456789") != "" {
		return 0, false
	}
	h, _ := strconv.Atoi(hours)
	m, _ := strconv.Atoi(minutes)
	return h*60 + m, m < 60 && h*60+m <= 24*60
}

func (b *Budgets) readReplicas(v value) {
	r := &b.always.Replicas
	r.Makes = 1
	v.switched(&r.On, map[string]func(value){
		"held":               func(v value) { r.Held = v.bytes("") },
		"byte-hours-per-day": func(v value) { r.ByteHoursPerDay = v.amount("*h") },
	}, map[string]func(value){"makes": func(v value) { r.Makes = v.count(mostMakes) }})
}

func (b *Budgets) readStorage(v value) {
	s := &b.always.Storage
	v.switched(&s.On, map[string]func(value){
		"egress": func(v value) { s.Egress = v.bytes("/s") },
		"cores":  func(v value) { s.Cores = v.number(1e6) },
		"memory": func(v value) { s.Memory = v.bytes("") },
	}, nil)
}

func (b *Budgets) readJobs(v value) {
	b.always.JobShare = 1
	v.mapping(map[string]func(value){
		"share": func(v value) {
			if b.always.JobShare = v.part(); b.always.JobShare == 0 {
				v.wrong("0%% would let no job do anything: switch the budgets off instead, or name jobs in shares")
			}
		},
		"shares": func(v value) {
			b.always.Shares = make(map[string]float64)
			for _, f := range v.fields() {
				b.always.Shares[f.name] = f.value.part()
			}
		},
	})
}
