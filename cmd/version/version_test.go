package version

import (
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	if got, want := Text(), strings.TrimSpace(number)+" ("+runtime.Version()+")"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if !regexp.MustCompile(`^\d+\.\d+\.\d+\n$`).MatchString(number) {
		t.Errorf("version.txt holds %q", number)
	}
}

func TestRevision(t *testing.T) {
	built := &debug.BuildInfo{GoVersion: "go1.99", Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}, {Key: "CGO_ENABLED", Value: "1"}}}
	if got := describe("1.2.3", built); got != "1.2.3 (abc, modified, go1.99)" {
		t.Error(got)
	}
	if got := describe("1.2.3", nil); got != "1.2.3" {
		t.Error(got)
	}
}

// TestOneSource: the Python package has no version of its own.
func TestOneSource(t *testing.T) {
	data, err := os.ReadFile("../../pyproject.toml")
	if err != nil {
		t.Fatal(err)
	}
	if text := string(data); !strings.Contains(text, `version = { file = "cmd/version/version.txt" }`) || regexp.MustCompile(`(?m)^version = "`).MatchString(text) {
		t.Errorf("pyproject.toml does not take its version from cmd/version/version.txt")
	}
}
