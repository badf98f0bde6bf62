package policy

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/controller/plan"
)

func exampleBudgets(t testing.TB) *Budgets {
	t.Helper()
	b, err := ParseBudgets("budgets.yaml", example(t, "budgets.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestExampleOfBudgets(t *testing.T) {
	b := exampleBudgets(t)
	got := b.At(time.Date(2026, 3, 4, 11, 0, 0, 0, time.UTC)) // a Wednesday, 12:00 there
	const gib, tib = 1 << 30, 1 << 40
	want := plan.Budgets{
		WAN: plan.WAN{On: true, Links: map[string]plan.Link{
			"frankfurt": {Rate: 400e6, EmergencyRate: 1250e6, Transfers: 4, Held: 200 * tib, EmergencyHeld: 250 * tib, ByteHoursPerDay: 2000 * tib},
			"dublin":    {Rate: 200e6, EmergencyRate: 200e6, Transfers: 1, Held: 50 * tib, EmergencyHeld: 50 * tib, ByteHoursPerDay: 400 * tib},
		}},
		Replicas: plan.Replicas{On: true, Held: 2 * tib, ByteHoursPerDay: 20 * tib, Makes: 8},
		Storage:  plan.Storage{On: true, Egress: 2e9, Cores: 32, Memory: 64 * gib},
		JobShare: 0.5, Shares: map[string]float64{"pretrain-70b": 1, "scratch": 0},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	got.Shares["x"], got.WAN.Links["x"] = 1, plan.Link{}
	if again := b.At(time.Date(2026, 3, 4, 11, 0, 0, 0, time.UTC)); !reflect.DeepEqual(again, want) {
		t.Error("the result is not the caller's own")
	}
}

// schedule is a link with windows, as YAML.
func schedule(zone string, windows ...string) string {
	text := "time-zone: " + zone + "\nreplicas: {on: false}\nstorage: {on: false}\nwan:\n  on: true\n  links:\n    a:\n      {rate: 1 B/s, held: 0, byte-hours-per-day: 0"
	if len(windows) > 0 {
		text += ", schedule: [" + strings.Join(windows, ", ") + "]"
	}
	return text + "}\n"
}

func TestSchedule(t *testing.T) {
	night := "{hours: '22:00-06:00', rate: 2 B/s}"
	for _, c := range []struct {
		name, text, at string
		rate           int64
		next           string // "": never
	}{
		{"without one", schedule("UTC"), "2026-03-04T12:00:00Z", 1, ""},
		{"all the time", schedule("UTC", "{hours: '00:00-24:00', rate: 2 B/s}"), "2026-03-04T12:00:00Z", 2, ""},
		{"the same rate", schedule("UTC", "{hours: '01:00-02:00', rate: 1 B/s}"), "2026-03-04T12:00:00Z", 1, ""},
		{"by day", schedule("Europe/Berlin", night), "2026-03-04T12:00:00Z", 1, "2026-03-04T21:00:00Z"},
		{"by night", schedule("Europe/Berlin", night), "2026-03-04T21:00:00Z", 2, "2026-03-05T05:00:00Z"},
		{"just before", schedule("Europe/Berlin", night), "2026-03-05T04:59:59.999Z", 2, "2026-03-05T05:00:00Z"},
		{"after midnight", schedule("Europe/Berlin", night), "2026-03-04T23:30:00Z", 2, "2026-03-05T05:00:00Z"},
		{"clocks are put forward in it", schedule("Europe/Berlin", night), "2026-03-28T21:00:00Z", 2, "2026-03-29T04:00:00Z"},
		{"clocks are put back in it", schedule("Europe/Berlin", night), "2026-10-24T20:00:00Z", 2, "2026-10-25T05:00:00Z"},
		{"an hour that there is not", schedule("Europe/Berlin", "{days: sun, hours: '02:00-03:00', rate: 2 B/s}"), "2026-03-28T12:00:00Z", 1, "2026-04-05T00:00:00Z"},
		{"an hour that comes twice, first", schedule("Europe/Berlin", "{days: sun, hours: '02:00-02:30', rate: 2 B/s}"), "2026-10-25T00:00:00Z", 2, "2026-10-25T00:30:00Z"},
		{"an hour that comes twice, between", schedule("Europe/Berlin", "{days: sun, hours: '02:00-02:30', rate: 2 B/s}"), "2026-10-25T00:45:00Z", 1, "2026-10-25T01:00:00Z"},
		{"an hour that comes twice, again", schedule("Europe/Berlin", "{days: sun, hours: '02:00-02:30', rate: 2 B/s}"), "2026-10-25T01:00:00Z", 2, "2026-10-25T01:30:00Z"},
		{"it begins in the hour that there is not", schedule("Europe/Berlin", "{hours: '02:30-04:00', rate: 2 B/s}"), "2026-03-29T00:30:00Z", 1, "2026-03-29T01:00:00Z"},
		{"the next day counts to the one before", schedule("UTC", "{days: fri, hours: '22:00-06:00', rate: 2 B/s}"), "2026-03-07T05:00:00Z", 2, "2026-03-07T06:00:00Z"},
		{"and no other", schedule("UTC", "{days: fri, hours: '22:00-06:00', rate: 2 B/s}"), "2026-03-06T05:00:00Z", 1, "2026-03-06T22:00:00Z"},
		{"over the end of the week", schedule("UTC", "{days: sat-mon, hours: '00:00-24:00', rate: 2 B/s}"), "2026-03-07T00:00:00Z", 2, "2026-03-10T00:00:00Z"},
		{"the first that fits", schedule("UTC", "{hours: '01:00-02:00', rate: 3 B/s}", "{hours: '00:00-04:00', rate: 2 B/s}"), "2026-03-07T01:00:00Z", 3, "2026-03-07T02:00:00Z"},
		{"an offset of half an hour", schedule("Asia/Kolkata", "{hours: '09:00-10:00', rate: 2 B/s}"), "2026-03-07T03:00:00Z", 1, "2026-03-07T03:30:00Z"},
		{"midnight does not come", schedule("Africa/Cairo", "{days: fri, hours: '00:00-24:00', rate: 2 B/s}"), "2026-04-23T20:00:00Z", 1, "2026-04-23T22:00:00Z"},
	} {
		b, err := ParseBudgets("b", []byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, c.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := b.At(at).WAN.Links["a"].Rate; got != c.rate {
			t.Errorf("%s: the rate is %d, want %d", c.name, got, c.rate)
		}
		next, changes := b.Next(at)
		got := ""
		if changes {
			got = next.UTC().Format(time.RFC3339Nano)
		}
		if got != c.next {
			t.Errorf("%s: next is %q, want %q", c.name, got, c.next)
		}
	}
}

// TestNext holds Next against a look at every minute.
func TestNext(t *testing.T) {
	zones := []string{"UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Africa/Casablanca", "America/Sao_Paulo", "Asia/Kathmandu"}
	moments := []time.Time{ // around changes of clocks, and not
		time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC), time.Date(2026, 10, 25, 0, 0, 0, 0, time.UTC), time.Date(2026, 4, 4, 14, 0, 0, 0, time.UTC),
		time.Date(2026, 11, 1, 4, 0, 0, 0, time.UTC), time.Date(2026, 2, 15, 2, 0, 0, 0, time.UTC), time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC),
	}
	rapid.Check(t, func(t *rapid.T) {
		var windows []string
		for range rapid.IntRange(1, 3).Draw(t, "windows") {
			from, to := rapid.IntRange(0, 95).Draw(t, "from")*15, rapid.IntRange(0, 96).Draw(t, "to")*15
			if from == to {
				continue
			}
			days := rapid.SampledFrom([]string{"mon-sun", "sun", "sat-mon", "[wed, sun]", "mon-fri"}).Draw(t, "days")
			windows = append(windows, fmt.Sprintf("{days: %s, hours: '%02d:%02d-%02d:%02d', rate: %d B/s}", days, from/60, from%60, to/60, to%60, rapid.IntRange(1, 3).Draw(t, "rate")))
		}
		b, err := ParseBudgets("b", []byte(schedule(rapid.SampledFrom(zones).Draw(t, "zone"), windows...)))
		if err != nil {
			t.Fatal(err)
		}
		at := rapid.SampledFrom(moments).Draw(t, "around").Add(time.Duration(rapid.IntRange(-36*60, 36*60).Draw(t, "minutes")) * time.Minute)
		rate := func(at time.Time) int64 { return b.At(at).WAN.Links["a"].Rate }
		next, changes := b.Next(at)
		for m := at.Add(time.Minute); m.Sub(at) < 9*24*time.Hour; m = m.Add(time.Minute) {
			if rate(m) != rate(at) {
				if !changes || !next.Equal(m) {
					t.Fatalf("it changes at %v, Next says %v, %v", m, next, changes)
				}
				return
			}
		}
		if changes && next.Sub(at) < 9*24*time.Hour {
			t.Fatalf("nothing changes within 9 days, Next says %v", next)
		}
	})
}

func TestBudgetsMistakes(t *testing.T) {
	const off = "replicas: {on: false}\nstorage: {on: false}\n"
	link := func(s string) string { return off + "wan: {on: true, links: {a: {" + s + "}}}" }
	const whole = "rate: 1 MB/s, held: 1 GiB, byte-hours-per-day: 1 TiB*h"
	for _, c := range []struct{ text, want string }{
		{"wan: {on: false}\nreplicas: {on: false}", "b.yaml:1: storage is missing"},
		{off + "wan: {}", "b.yaml:3: wan: on is missing"},
		{off + "wan: {on: yes}", `b.yaml:3: wan.on: "yes": write true or false`},
		{off + "wan: {on: true}", "b.yaml:3: wan: links is missing"},
		{"wan: {on: false}\nstorage: {on: false}\nreplicas: {on: true, held: 1 TiB}", "b.yaml:3: replicas: byte-hours-per-day is missing"},
		{"wan: {on: false}\nreplicas: {on: false}\nstorage: {on: true, egress: 1 GB/s, memory: 1 GiB}", "b.yaml:3: storage: cores is missing"},
		{off + "wan: {on: false}\ntime-zone: Europe/Nowhere", `b.yaml:4: time-zone: "Europe/Nowhere" is not a time zone`},
		{off + "wan: {on: false}\ntime-zone: Local", `"Local" is not a time zone`},
		{off + "wan: {on: false}\njobs: {share: 0.5}", `b.yaml:4: jobs.share: "0.5": write a part from 0% to 100%`},
		{off + "wan: {on: false}\njobs: {share: 0%}", `0% would let no job do anything`},
		{off + "wan: {on: false}\njobs: {shares: {x: 101%}}", `jobs.shares.x: "101%"`},
		{link("rate: 1 MB/s, held: 1 GiB"), "wan.links.a: byte-hours-per-day is missing"},
		{link(whole + ", speed: 1"), "wan.links.a.speed: unknown key: the keys here are byte-hours-per-day, emergency-held, emergency-rate, held, rate, schedule, transfers"},
		{link("rate: 1 MB, held: 1 GiB, byte-hours-per-day: 1 TiB*h"), `wan.links.a.rate: "1 MB": write a number and a unit, as 100 GiB/s`},
		{link("rate: 10 Gbit/s, held: 1 GiB, byte-hours-per-day: 1 TiB*h"), "bytes are counted here, not bits"},
		{link("rate: 100, held: 1 GiB, byte-hours-per-day: 1 TiB*h"), `"100" has no unit`},
		{link("rate: -1 MB/s, held: 1 GiB, byte-hours-per-day: 1 TiB*h"), `"-1 MB/s": write a number and a unit`},
		{link("rate: 1e3 MB/s, held: 1 GiB, byte-hours-per-day: 1 TiB*h"), `"1e3 MB/s": write a number and a unit`},
		{link("rate: 1 MB/s, held: 2000000 TiB, byte-hours-per-day: 1 TiB*h"), "is more than 1024 PiB"},
		{link(whole + ", transfers: 0"), `"0": write a whole number from 1 to 1024`},
		{link(whole + ", emergency-rate: 1 KB/s"), "make emergency-rate and emergency-held no smaller"},
		{link(whole + ", schedule: [{rate: 1 MB/s}]"), "wan.links.a.schedule[0]: hours is missing"},
		{link(whole + ", schedule: [{hours: 22-06, rate: 1 MB/s}]"), `"22-06": write hours of the local clock as 22:00-06:00`},
		{link(whole + ", schedule: [{hours: '24:00-06:00', rate: 1 MB/s}]"), "write hours of the local clock"},
		{link(whole + ", schedule: [{hours: '12:60-13:00', rate: 1 MB/s}]"), "write hours of the local clock"},
		{link(whole + ", schedule: [{hours: '06:00-06:00', rate: 1 MB/s}]"), "is no time at all"},
		{link(whole + ", schedule: [{days: monday, hours: '06:00-07:00', rate: 1 MB/s}]"), `"monday": write days as mon`},
		{link(whole + ", schedule: [{hours: '06:00-07:00', rate: 1 MB/s, emergency-rate: 0}]"), "emergency-rate is smaller than rate"},
	} {
		b, err := ParseBudgets("b.yaml", []byte(c.text))
		if err == nil || b != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q\n got: %v\nwant: %s", c.text, err, c.want)
		}
	}
}

func TestAllMistakesAreSaid(t *testing.T) {
	_, err := ParseBudgets("b.yaml", []byte("wan: {on: maybe}\nreplicas: {on: true, held: 1}\nstorge: 1\n"))
	if err == nil {
		t.Fatal("no error")
	}
	var lines []string
	for _, l := range strings.Split(err.Error(), "\n") {
		lines = append(lines, strings.SplitN(l, ": ", 3)[0])
	}
	if got := strings.Join(lines, " "); got != "b.yaml:1 b.yaml:1 b.yaml:1 b.yaml:2 b.yaml:2 b.yaml:3" {
		t.Errorf("%s\n%v", got, err)
	}
}

func TestExampleOfPrices(t *testing.T) {
	p, err := ParsePrices("prices.yaml", example(t, "prices.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := plan.Prices{AcceleratorHour: 2, WANGiB: 0.02, RemoteTiBHour: 0.05, ReplicaTiBHour: 0.1, StorageGiB: 0.001, Entry: 0.0001}
	if p.List() != want {
		t.Errorf("got %+v, want %+v", p.List(), want)
	}
	for _, c := range []struct{ text, want string }{
		{"accelerator-hour: 0", "p.yaml:1: accelerator-hour: nothing would be worth anything"},
		{"accelerator-hour: 1", "p.yaml:1: entry is missing"},
		{"accelerator-hour: -1", `"-1": write a number from 0`},
		{"accelerator-hour: .inf", `want one value`},
		{"accelerator-hour: 1\nwan: 2", "p.yaml:2: wan: unknown key"},
	} {
		if _, err := ParsePrices("p.yaml", []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q\n got: %v\nwant: %s", c.text, err, c.want)
		}
	}
}
