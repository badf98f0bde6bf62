package policy

import "github.com/stepahead-io/stepahead/controller/plan"

// Prices are the price list.
type Prices struct {
	file     string
	list     plan.Prices
	settings []Setting
}

// List is what the file says.
func (p *Prices) List() plan.Prices { return p.list }

// ParsePrices reads the text of a price list. Errors name it by its name, and are [Mistake]s, joined.
func ParsePrices(name string, data []byte) (*Prices, error) {
	d, top, err := open(name, data)
	if err != nil {
		return nil, err
	}
	p := &Prices{file: name}
	known := make(map[string]func(value))
	for key, to := range map[string]*float64{
		"accelerator-hour!": &p.list.AcceleratorHour,
		"wan-gib!":          &p.list.WANGiB,
		"remote-tib-hour!":  &p.list.RemoteTiBHour,
		"replica-tib-hour!": &p.list.ReplicaTiBHour,
		"storage-gib!":      &p.list.StorageGiB,
		"entry!":            &p.list.Entry,
	} {
		known[key] = func(v value) { *to = v.number(1e9) }
	}
	known["accelerator-hour!"] = func(v value) {
		if p.list.AcceleratorHour = v.number(1e9); p.list.AcceleratorHour == 0 {
			v.wrong("nothing would be worth anything: write what an hour of an accelerator costs; to have nothing done, switch the budgets off")
		}
	}
	top.mapping(known)
	p.settings = d.settings
	if err := d.err(); err != nil {
		return nil, err
	}
	return p, nil
}
