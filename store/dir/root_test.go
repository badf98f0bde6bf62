package dir

import (
	"os"
	"path/filepath"
	"testing"
)

// A folder in which an agent registered is the root of what lies below it: the agent and a job that
// was given a dataset inside must find each other.
func TestRegisteredAgentsMarkTheRoot(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{".stepahead/agents", "photos"} {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s, name, err := Open(filepath.Join(root, "photos"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Root() != root || name != "/photos" {
		t.Errorf("root %s, name %s: want %s and /photos", s.Root(), name, root)
	}
	if p, ok := s.LocalPath("/photos"); !ok || p == "" {
		t.Error("a plain folder is a simulated store because an agent registered in it")
	}
}
