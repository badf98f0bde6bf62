package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
)

// Rules say what may be where. They are a [plan.Policy]: of the rules that say something of a request, the first that matches it decides, and what no rule
// matches is denied. Rules do not change, and are safe for concurrent use.
type Rules struct {
	file     string
	sites    map[string]Site
	labels   []labelling
	rules    []*rule
	settings []Setting
}

// Site is what the file says of a site.
type Site struct {
	Region string
	// Encryption names the classes that hold for everything that lies there, such as at-rest.
	Encryption []string
}

// labelling gives labels to checkpoints by their path.
type labelling struct {
	paths globs
	set   map[string]string
}

// rule is one rule.
type rule struct {
	name string
	line int
	when condition
	// copies and spread are its verdicts; nil where it says nothing.
	copies *copies
	spread *spread
}

// condition is what a request must be for the rule to match: all that is given.
type condition struct {
	paths, jobs, users, layouts, sites, regions globs
	labels                                      []label
}

// label is a label that a checkpoint must have, with one of some values.
type label struct {
	key    string
	values globs
}

// copies is what a rule allows of copies. The zero value allows none.
type copies struct {
	allow          bool
	sites, regions globs
	encryption     string
	lease          time.Duration
	access         plan.Access
}

// spread is by which means a rule lets hot files have more sources: none denies.
type spread struct{ means []plan.Means }

// Copy implements [plan.Policy].
func (r *Rules) Copy(q plan.Request) plan.Verdict { return r.copy(q, nil) }

// Spread implements [plan.Policy].
func (r *Rules) Spread(q plan.Request) plan.Verdict { return r.spread(q, nil) }

func (r *Rules) copy(q plan.Request, tell func(*rule, string)) plan.Verdict {
	site, declared := r.sites[q.Site]
	if !declared {
		return plan.Verdict{Rule: fmt.Sprintf("%s declares no site %q", r.file, q.Site)}
	}
	labels := r.Labels(q.Path, q.Labels)
	for _, one := range r.rules {
		decides := one.copies != nil && one.when.matches(q, site, labels)
		switch {
		case tell == nil:
		case one.copies == nil:
			tell(one, "it says nothing of copies")
		default:
			tell(one, one.when.refuses(q, site, labels))
		}
		if decides {
			return one.copies.verdict(one, q.Site, site)
		}
	}
	return plan.Verdict{Rule: "no rule allows it"}
}

func (r *Rules) spread(q plan.Request, tell func(*rule, string)) plan.Verdict {
	for _, one := range r.rules {
		decides := one.spread != nil && one.when.matches(q, Site{}, nil)
		switch {
		case tell == nil:
		case one.spread == nil:
			tell(one, "it says nothing of spread")
		default:
			tell(one, one.when.refuses(q, Site{}, nil))
		}
		if decides {
			return plan.Verdict{Allowed: len(one.spread.means) > 0, Rule: one.name, Means: one.spread.means}
		}
	}
	return plan.Verdict{Rule: "no rule allows it"}
}

// Labels are those of the checkpoint at a path: those that it carries and those that the file gives to its path, which win.
func (r *Rules) Labels(path string, carried map[string]string) map[string]string {
	all := carried
	for _, l := range slices.Backward(r.labels) { // the first that names a label wins
		if !l.paths.match(path) {
			continue
		}
		all = maps.Clone(all)
		if all == nil {
			all = make(map[string]string)
		}
		maps.Copy(all, l.set)
	}
	return all
}

// matches tells whether a request is what the rule is for. It is asked for each of a million files: why not is for [condition.refuses] to say.
func (c *condition) matches(q plan.Request, site Site, labels map[string]string) bool {
	if !c.paths.match(q.Path) || !c.jobs.match(q.Job) || !c.users.match(q.User) || !c.layouts.match(q.Layout) || !c.sites.match(q.Site) || !c.regions.match(site.Region) {
		return false
	}
	for _, l := range c.labels {
		if has, labelled := labels[l.key]; !labelled || !l.values.match(has) {
			return false
		}
	}
	return true
}

// refuses says why a request does not match; "" if it does.
func (c *condition) refuses(q plan.Request, site Site, labels map[string]string) string {
	for _, one := range []struct {
		what    string
		globs   globs
		against string
	}{
		{"path", c.paths, q.Path}, {"job", c.jobs, q.Job}, {"user", c.users, q.User}, {"layout", c.layouts, q.Layout}, {"site", c.sites, q.Site},
		{"region", c.regions, site.Region},
	} {
		if len(one.globs) > 0 && !one.globs.match(one.against) {
			return fmt.Sprintf("the %s %q is not %s", one.what, one.against, one.globs)
		}
	}
	for _, l := range c.labels {
		switch has, labelled := labels[l.key]; {
		case !labelled:
			return "it has no label " + l.key
		case !l.values.match(has):
			return fmt.Sprintf("its label %s is %q, not %s", l.key, has, l.values)
		}
	}
	return ""
}

// empty tells whether the condition matches everything.
func (c *condition) empty() bool {
	return len(c.paths)+len(c.jobs)+len(c.users)+len(c.layouts)+len(c.sites)+len(c.regions)+len(c.labels) == 0
}

// verdict is what a rule that matches decides about a site.
func (c *copies) verdict(r *rule, name string, site Site) plan.Verdict {
	no := func(format string, args ...any) plan.Verdict {
		return plan.Verdict{Rule: r.name + ": " + fmt.Sprintf(format, args...)}
	}
	switch {
	case !c.allow:
		return plan.Verdict{Rule: r.name}
	case !c.sites.match(name):
		return no("the site %s is not %s", name, c.sites)
	case !c.regions.match(site.Region):
		return no("the site's region is %s, not %s", site.Region, c.regions)
	case c.encryption != "" && !slices.Contains(site.Encryption, c.encryption):
		return no("the site has the encryption classes [%s], not %s", strings.Join(site.Encryption, ", "), c.encryption)
	}
	return plan.Verdict{Allowed: true, Rule: r.name, Lease: c.lease, Access: c.access}
}

// Len is the number of rules.
func (r *Rules) Len() int { return len(r.rules) }

// Sites returns the sites that the file declares.
func (r *Rules) Sites() map[string]Site { return maps.Clone(r.sites) }
