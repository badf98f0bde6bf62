package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stepahead-io/stepahead/checkpoint"
	"github.com/stepahead-io/stepahead/controller/plan"
)

// ParseRules reads the text of a policy file. Errors name it by its name, and are [Mistake]s, joined.
func ParseRules(name string, data []byte) (*Rules, error) {
	d, top, err := open(name, data)
	if err != nil {
		return nil, err
	}
	r := &Rules{file: name, sites: make(map[string]Site)}
	var rules value
	top.mapping(map[string]func(value){
		"sites!": r.readSites,
		"labels": r.readLabels,
		"rules!": func(v value) { rules = v },
	})
	if rules.doc != nil { // after the sites, wherever it stands
		r.readRules(rules)
	}
	r.settings = d.settings
	if err := d.err(); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Rules) readSites(v value) {
	for _, f := range v.fields() {
		if err := CheckSite(f.name); err != nil {
			f.value.wrong("%v", err)
		}
		var s Site
		f.value.mapping(map[string]func(value){
			"region!":    func(v value) { s.Region = v.scalar() },
			"encryption": func(v value) { s.Encryption = v.words() },
		})
		r.sites[f.name] = s
	}
}

func (r *Rules) readLabels(v value) {
	for _, item := range v.list() {
		var l labelling
		item.mapping(map[string]func(value){
			"paths!": func(v value) { l.paths = v.globs(true) },
			"set!": func(v value) {
				l.set = make(map[string]string)
				for _, f := range v.fields() {
					l.set[f.name] = f.value.scalar()
					if err := checkLabel(f.name, l.set[f.name]); err != nil {
						f.value.wrong("%v", err)
					}
				}
			},
		})
		r.labels = append(r.labels, l)
	}
}

func (r *Rules) readRules(v value) {
	var order []string
	for _, item := range v.list() {
		one := r.readRule(item)
		if one == nil {
			continue
		}
		order = append(order, one.name)
		r.rules = append(r.rules, one)
	}
	v.note(strings.Join(order, ", "))
}

// readRule reads one rule; nil if it has no name.
func (r *Rules) readRule(v value) *rule {
	one := &rule{line: v.line()}
	for _, f := range v.fields() { // the name first: messages use it
		if f.name == "name" {
			one.name = f.value.word()
		}
	}
	v.rule = one.name
	if one.name != "" {
		v.key = fmt.Sprintf("rules[%q]", one.name)
	}
	v.mapping(map[string]func(value){
		"name!":  func(value) {},
		"when":   func(v value) { r.readCondition(v, &one.when) },
		"copies": func(v value) { one.copies = r.readCopies(v) },
		"spread": func(v value) { one.spread = readSpread(v) },
	})
	switch w := one.when; {
	case one.name == "":
		return nil
	case slices.ContainsFunc(r.rules, func(before *rule) bool { return before.name == one.name }):
		v.wrong("another rule has this name")
	case one.copies == nil && one.spread == nil:
		v.wrong("it decides nothing: give it copies, spread or both")
	case one.spread != nil && len(w.layouts)+len(w.sites)+len(w.regions)+len(w.labels) > 0:
		v.wrong("layouts, labels, sites and regions are of copies, and hot files have none: make spread a rule of its own")
	}
	r.shadowed(v, one)
	return one
}

// shadowed finds a rule that can never decide, since one before it matches everything.
func (r *Rules) shadowed(v value, one *rule) {
	for _, before := range r.rules {
		if !before.when.empty() {
			continue
		}
		if (one.copies == nil || before.copies != nil) && (one.spread == nil || before.spread != nil) {
			v.wrong("it can never decide: %q in line %d matches everything before it", before.name, before.line)
			return
		}
	}
}

func (r *Rules) readCondition(v value, c *condition) {
	v.mapping(map[string]func(value){
		"paths":   func(v value) { c.paths = v.globs(true) },
		"jobs":    func(v value) { c.jobs = v.globs(false) },
		"users":   func(v value) { c.users = v.globs(false) },
		"layouts": func(v value) { c.layouts = layoutGlobs(v) },
		"sites":   func(v value) { c.sites = r.siteGlobs(v) },
		"regions": func(v value) { c.regions = r.regionGlobs(v) },
		"labels": func(v value) {
			for _, f := range v.fields() {
				c.labels = append(c.labels, label{f.name, f.value.globs(false)})
			}
		},
	})
}

func (r *Rules) readCopies(v value) *copies {
	c := &copies{}
	if !v.isMapping() {
		switch s := v.scalar(); s {
		case "allow":
			c.allow = true
		case "deny", "":
		default:
			v.wrong("%q: write deny, allow, or under what limits (sites, regions, encryption, lease, access)", s)
		}
		return c
	}
	if len(v.quietly()) == 0 {
		v.wrong("it has no limits: write allow, or under what limits (sites, regions, encryption, lease, access)")
	}
	c.allow = true
	v.mapping(map[string]func(value){
		"sites":   func(v value) { c.sites = r.siteGlobs(v) },
		"regions": func(v value) { c.regions = r.regionGlobs(v) },
		"encryption": func(v value) {
			c.encryption = v.scalar()
			if !r.anySite(func(s Site) bool { return slices.Contains(s.Encryption, c.encryption) }) {
				v.wrong("no site has the encryption class %q", c.encryption)
			}
		},
		"lease":  func(v value) { c.lease = v.span() },
		"access": func(v value) { c.access = readAccess(v) },
	})
	return c
}

func readAccess(v value) plan.Access {
	switch s := v.scalar(); s {
	case "as-original", "":
		return plan.AsOriginal
	case string(plan.OwnerOnly):
		return plan.OwnerOnly
	default:
		v.wrong("%q: write as-original or %s", s, plan.OwnerOnly)
	}
	return plan.OwnerOnly
}

func readSpread(v value) *spread {
	s := &spread{}
	if !v.isList() {
		if word := v.scalar(); word != "deny" && word != "" {
			v.wrong("%q: write deny, or a list of means, the preferred first", word)
		}
		return s
	}
	for _, word := range v.words() {
		switch m := plan.Means(word); m {
		case plan.Even, plan.Sibling, plan.StorageType, plan.Raise:
			s.means = append(s.means, m)
		default:
			v.wrong("%q: the means are %s, %s, %s and %s", word, plan.Even, plan.Sibling, plan.StorageType, plan.Raise)
		}
	}
	return s
}

// siteGlobs reads patterns of which each matches a site: one that matches none is a slip of the pen.
func (r *Rules) siteGlobs(v value) globs {
	all := v.globs(false)
	for _, g := range all {
		if !slices.ContainsFunc(slices.Collect(keys(r.sites)), g.match) {
			v.wrong("no site is %q", g.text)
		}
	}
	return all
}

func (r *Rules) regionGlobs(v value) globs {
	all := v.globs(false)
	for _, g := range all {
		if !r.anySite(func(s Site) bool { return g.match(s.Region) }) {
			v.wrong("no site is in the region %q", g.text)
		}
	}
	return all
}

var layouts = []checkpoint.Layout{
	checkpoint.Safetensors, checkpoint.HuggingFace, checkpoint.DCP, checkpoint.DCPSafetensors, checkpoint.TorchDist, checkpoint.DeepSpeed,
	checkpoint.DeepSpeedUniversal, checkpoint.TorchCheckpointing, checkpoint.Torch,
}

func layoutGlobs(v value) globs {
	all := v.globs(false)
	for _, g := range all {
		if !slices.ContainsFunc(layouts, func(l checkpoint.Layout) bool { return g.match(string(l)) }) {
			v.wrong("no layout is %q: they are %s", g.text, strings.Trim(fmt.Sprint(layouts), "[]"))
		}
	}
	return all
}

func (r *Rules) anySite(is func(Site) bool) bool {
	for _, s := range r.sites {
		if is(s) {
			return true
		}
	}
	return false
}
