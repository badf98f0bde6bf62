package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/internal/localfile"
)

// TestRevokedOnAFullDisk: what was revoked counts although the file that says so cannot be written anew, and once however often it was said.
func TestRevokedOnAFullDisk(t *testing.T) {
	w := newWorld(t)
	r := &revocations{file: w.file("journal" + revokedSuffix)}
	for range 100 {
		must(t, r.add([]plan.Standing{{Path: "/runs/a/1", Site: "east"}}))
	}
	text, err := os.ReadFile(r.file)
	must(t, err)
	if lines := strings.Count(string(text), "\n"); lines != 1 {
		t.Errorf("%d lines of one placement", lines)
	}
	must(t, os.Mkdir(r.file+".new", 0o700)) // nothing can be written
	if err := localfile.Write(r.file, nil); err == nil {
		t.Fatal("it can be written")
	}
	again := &revocations{file: r.file}
	found, err := again.load(time.Now())
	if err != nil || len(found) != 1 || found[0].Path != "/runs/a/1" || found[0].Site != "east" {
		t.Errorf("%+v, %v", found, err)
	}
}
