// Package version knows which version of stepahead a program is.
package version

import (
	_ "embed"
	"fmt"
	"runtime/debug"
	"strings"
)

// number is what the Python package has for a version too: pyproject.toml reads the same file.
//
//go:embed version.txt
var number string

// Text is what a program says of itself: the version and, as far as the build knows them, revision and Go.
func Text() string {
	built, _ := debug.ReadBuildInfo()
	return describe(strings.TrimSpace(number), built)
}

func describe(number string, built *debug.BuildInfo) string {
	if built == nil {
		return number
	}
	said := []string{}
	for _, s := range built.Settings {
		switch {
		case s.Key == "vcs.revision":
			said = append(said, s.Value)
		case s.Key == "vcs.modified" && s.Value == "true":
			said = append(said, "modified")
		}
	}
	return fmt.Sprintf("%s (%s)", number, strings.Join(append(said, built.GoVersion), ", "))
}
