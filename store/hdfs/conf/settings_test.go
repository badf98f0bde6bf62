package conf

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every key that Parse checks is read by somebody: a list that only grows would refuse files for nothing.
func TestSettingsAreRead(t *testing.T) {
	var source strings.Builder
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || d.Name() == "settings.go" {
			return err
		}
		text, err := os.ReadFile(path)
		source.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range settings {
		if !strings.Contains(source.String(), `"`+s.key+`"`) {
			t.Errorf("%s is checked, and nothing reads it", s.key)
		}
	}
}
