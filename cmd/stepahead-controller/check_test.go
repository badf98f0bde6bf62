package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/controller/policy"
)

// TestCheck: the examples are right; what is wrong is said with its place, also where a configuration file names the files.
func TestCheck(t *testing.T) {
	const examples = "../../examples/controller/"
	files := []string{"--policy", examples + "policy.yaml", "--budgets", examples + "budgets.yaml", "--prices", examples + "prices.yaml"}
	code, out, stderr := output(append([]string{"config", "check"}, files...)...)
	if code != 0 || !strings.HasPrefix(out, "ok: 7 rules, 3 sites, 2 links; switches: wan on, replicas on, storage on; the budgets change next at 2") {
		t.Errorf("%d %q %q", code, out, stderr)
	}
	config := filepath.Join(t.TempDir(), "c.yaml")
	wrong := filepath.Join(t.TempDir(), "wrong.yaml")
	must(t, os.WriteFile(wrong, []byte("accelerator-hour: much\n"), 0o600))
	must(t, os.WriteFile(config, []byte("policy: "+examples+"policy.yaml\nbudgets: "+examples+"budgets.yaml\nprices: "+wrong+"\n"), 0o600))
	for name, row := range map[string]struct {
		args []string
		want string
		code int
	}{
		"wrong prices":  {[]string{"--config", config}, wrong + `:1: accelerator-hour: "much": write a number`, 2},
		"not all given": {files[:4], "give --policy, --budgets and --prices", 2},
		"no file":       {append(files[:4:4], "--prices", "/nonexistent"), "/nonexistent", 3},
	} {
		if code, _, stderr := output(append([]string{"config", "check"}, row.args...)...); code != row.code || !strings.Contains(stderr, row.want) {
			t.Errorf("%s: %d %q, want %d %q", name, code, stderr, row.code, row.want)
		}
	}
}

// TestDescribeRules says by name what is switched off.
func TestDescribeRules(t *testing.T) {
	w := newWorld(t)
	w.write("budgets.yaml", "wan: {on: false}\nreplicas: {on: true, held: 1 GiB, byte-hours-per-day: 1 TiB*h}\nstorage: {on: false}\n")
	s, err := policy.Load(policy.Files{Rules: w.file("policy.yaml"), Budgets: w.file("budgets.yaml"), Prices: w.file("prices.yaml")})
	must(t, err)
	var b strings.Builder
	must(t, describeRules(&b, s, time.Unix(0, 0)))
	if !strings.Contains(b.String(), "switches: wan off, replicas on, storage off; the budgets are the same at all hours") {
		t.Error(b.String())
	}
}
