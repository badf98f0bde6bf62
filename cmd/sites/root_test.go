package sites

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestNotRoot: a folder that is not there is told from one that is below a store's root, for the home store and for a site.
func TestNotRoot(t *testing.T) {
	home := t.TempDir()
	gone := filepath.Join(home, "gone")
	if s, err := Open(t.Context(), gone, nil); err == nil || !strings.Contains(err.Error(), "--store "+gone+": there is no such folder") {
		t.Errorf("a home store that is not there: %v, %v", s, err)
	}
	s, err := Open(t.Context(), home, map[string]string{"east": gone})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Site(t.Context(), "east"); err == nil || !strings.Contains(err.Error(), "--site east="+gone+": there is no such folder") {
		t.Errorf("a site that is not there: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
