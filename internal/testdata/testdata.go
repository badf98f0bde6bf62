// Package testdata knows where the real files are that tests read, and which tests are long.
package testdata

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// Env names the folder of real files. The Makefile sets it; a test run by hand may too.
const Env = "STEPAHEAD_TESTDATA"

// SoakEnv, when not empty, lets the long tests run: `make soak` sets it.
const SoakEnv = "STEPAHEAD_SOAK"

// Path returns the path of a file or folder of real test data, given its slash-separated name
// inside the folder that Env names. A missing file skips the test and says so; in CI, where CI is
// "true", it fails it: a test that silently skips proves nothing.
func Path(t testing.TB, name string) string {
	t.Helper()
	root := os.Getenv(Env)
	if root == "" {
		Missing(t, "real test data: %s is not set: set it to the folder that holds them", Env)
		return ""
	}
	path := filepath.Join(root, filepath.FromSlash(name))
	if _, err := os.Stat(path); err != nil {
		Missing(t, "real test data: %v: set %s to the folder that holds them", err, Env)
	}
	return path
}

// Read returns the content of a file of real test data. A missing file is treated as by Path.
func Read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(Path(t, name))
	if err != nil {
		t.Fatalf("testdata.Read: %v", err)
	}
	return data
}

// Soak skips the test unless the long tests were asked for.
func Soak(t testing.TB) {
	t.Helper()
	if os.Getenv(SoakEnv) == "" {
		t.Skipf("long test: runs in `make soak` (or with %s=1)", SoakEnv)
	}
}

// Missing skips the test because something that it needs is not on this machine, and says what. In CI,
// where CI is "true", it fails it: what CI needs, the set-up installs.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("missing, and CI=true: "+format, args...)
	}
	t.Skipf("SKIPPED, missing: "+format, args...)
}

// ReadJSON reads a JSON file of the package that is tested, such as its golden values.
func ReadJSON[T any](t testing.TB, path string) T {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return v
}
