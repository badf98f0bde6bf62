package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/controller/service"
)

// recorder remembers what is registered.
type recorder struct {
	prometheus.Registerer
	all []prometheus.Collector
}

func (c *recorder) Register(one prometheus.Collector) error {
	c.all = append(c.all, one)
	return nil
}

// metricNames are the names of all metrics of the controller, without their beginning.
func metricNames(t *testing.T) map[string]bool {
	t.Helper()
	c := &recorder{all: []prometheus.Collector{heard{}}}
	_, err := service.New(service.Options{Log: zap.NewNop(), Metrics: c})
	must(t, err)
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		for _, one := range c.all {
			one.Describe(descs)
		}
	}()
	name := regexp.MustCompile(`fqName: "stepahead_controller_([a-z_]+)"`)
	names := make(map[string]bool)
	for d := range descs {
		found := name.FindStringSubmatch(d.String())
		if found == nil {
			t.Fatalf("not a name of the controller's: %s", d)
		}
		names[found[1]] = true
	}
	return names
}

// TestDocs: what docs/controller.md says of metrics is of those that there are, and it speaks of all of them; no other page names one that is not there.
func TestDocs(t *testing.T) {
	there := metricNames(t)
	is := func(name string) bool {
		for _, part := range []string{"_bucket", "_sum", "_count"} { // of a histogram
			if base, ok := strings.CutSuffix(name, part); ok && there[base] {
				return true
			}
		}
		return there[name]
	}
	page, err := os.ReadFile("../../docs/controller.md")
	must(t, err)
	_, alerts, _ := strings.Cut(string(page), "**Alerts.**")
	alerts, _, found := strings.Cut(alerts, "\n## ")
	if !found {
		t.Fatal("docs/controller.md has no alerts")
	}
	said := make(map[string]bool)
	for _, code := range regexp.MustCompile("`[^`]+`").FindAllString(alerts, -1) {
		for _, name := range regexp.MustCompile(`[a-z]+(_[a-z]+)+`).FindAllString(code, -1) {
			said[name] = true
			if name = strings.TrimPrefix(name, "stepahead_controller_"); !is(name) && name != "histogram_quantile" && name != "stepahead_controller" {
				t.Errorf("docs/controller.md: %s in %s is no metric", name, code)
			}
		}
	}
	for name := range there {
		if !said[name] && !said[name+"_bucket"] {
			t.Errorf("docs/controller.md says nothing of %s", name)
		}
	}
	pages, err := filepath.Glob("../../docs/*.md")
	must(t, err)
	for _, file := range append(pages, "../../README.md", "../../CHANGELOG.md") {
		text, err := os.ReadFile(file)
		must(t, err)
		for _, found := range regexp.MustCompile(`stepahead_controller_([a-z_]+)`).FindAllStringSubmatch(string(text), -1) {
			if !is(found[1]) {
				t.Errorf("%s: there is no %s", file, found[0])
			}
		}
	}
}
