package main

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stepahead-io/stepahead/internal/testdata"
)

// goldenOf builds the program in its own way and asks it for its digests.
func goldenOf(t *testing.T, environment []string, flags ...string) map[string]string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stepahead-worker")
	build := exec.Command("go", append(append([]string{"build", "-o", path}, flags...), ".")...)
	build.Env = append(os.Environ(), environment...)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := exec.Command(path, "--golden").Output()
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	return got
}

// compiler is a C compiler that does as another one does, with a last word on how.
func compiler(t *testing.T, name, lastWord string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		testdata.Missing(t, "%v", err)
	}
	path := filepath.Join(t.TempDir(), "cc")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nexec "+name+` "$@" `+lastWord+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// The program gives the digests that this test's own build gives, which has the race detector in it.
func TestGoldenDigestsOfTheProgramAreThose(t *testing.T) {
	if want, got := goldenDigests(), goldenOf(t, nil); !maps.Equal(got, want) {
		t.Errorf("the program has %v, this build %v", got, want)
	}
}

// However the program is compiled, its digests are the same.
func TestGoldenDigestsDoNotDependOnTheBuild(t *testing.T) {
	testdata.Soak(t)
	builds := map[string]struct{ environment, flags []string }{
		"C unoptimised": {environment: []string{"CC=" + compiler(t, "gcc", "-O0")}},
		"C for size":    {environment: []string{"CC=" + compiler(t, "gcc", "-Os")}},
		"Clang":         {environment: []string{"CC=" + compiler(t, "clang", "-O2")}},
		"race":          {flags: []string{"-race"}},
		"unoptimised":   {flags: []string{"-gcflags=all=-N -l"}},
	}
	if runtime.GOARCH == "amd64" {
		builds["GOAMD64=v1"] = struct{ environment, flags []string }{environment: []string{"GOAMD64=v1"}}
		builds["GOAMD64=v3"] = struct{ environment, flags []string }{environment: []string{"GOAMD64=v3", "CC=" + compiler(t, "gcc", "-march=x86-64-v3")}}
	}
	want := goldenDigests()
	for name, b := range builds {
		t.Run(name, func(t *testing.T) {
			if got := goldenOf(t, b.environment, b.flags...); !maps.Equal(got, want) {
				t.Errorf("the digests are %v, those of this build %v", got, want)
			}
		})
	}
}
