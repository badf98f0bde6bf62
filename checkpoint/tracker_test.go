package checkpoint

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// TestTrackers holds what trackers name against what is there.
func TestTrackers(t *testing.T) {
	const megatron, deepspeed = "latest_checkpointed_iteration.txt", "latest"
	for _, c := range []struct {
		name, file, text string
		names, kind      string
	}{
		{"a whole one", megatron, "10\n", "/iter_0000010", ""},
		{"converted", megatron, "release", "/release", "tracker-missing"},
		{"missing", megatron, "20", "/iter_0000020", "tracker-missing"},
		{"incomplete", megatron, "30", "/iter_0000030", "tracker-incomplete"},
		{"a number that is none", megatron, "-1", "", "tracker-text"},
		{"empty", megatron, "", "", "tracker-text"},
		{"cut within a number", megatron, "1", "/iter_0000001", "tracker-missing"},
		{"no checkpoint", deepspeed, "logs", "/logs", "tracker-incomplete"},
		{"outside", deepspeed, "../x", "", "tracker-text"},
		{"absolute", deepspeed, "/x", "", "tracker-text"},
		{"two lines", deepspeed, "a\nb", "", "tracker-text"},
		{"itself", deepspeed, ".", "", "tracker-text"},
		{"long", deepspeed, strings.Repeat("x", maxTracker+1), "", "tracker-text"},
		{"universal", universalTracker, "iter_0000010", "/iter_0000010", ""},
	} {
		f := newFolder(t)
		f.write("iter_0000010/model.pt", torchZip(1))
		f.write("iter_0000030/model.pt", torchZip(9)[:20])
		f.write("logs/x", nil)
		f.write(c.file, []byte(c.text))
		all, err := Trackers(t.Context(), f, "/")
		must(t, err)
		if len(all) != 1 || all[0].File != "/"+c.file || all[0].Names != c.names {
			t.Errorf("%s: %+v", c.name, all)
			continue
		}
		var opened *Checkpoint
		if c.names != "" {
			opened, err = Open(t.Context(), f, c.names, Options{})
		}
		kind := ""
		if p := all[0].Judge(opened, err); p != nil {
			kind = p.Kind
		}
		if kind != c.kind {
			t.Errorf("%s: %q, want %q", c.name, kind, c.kind)
		}
	}
}

// TestTrackersOfOthers: neither a folder of that name nor a store that does not answer is a finding.
func TestTrackersOfOthers(t *testing.T) {
	f := newFolder(t)
	f.write("latest/model.pt", torchZip(1))
	if all, err := Trackers(t.Context(), f, "/"); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	if p := (Tracker{File: "/latest", Names: "/a"}).Judge(nil, context.DeadlineExceeded); p != nil {
		t.Errorf("%v", p)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Trackers(ctx, f, "/"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestUniversalNamed: a universal checkpoint that the conversion's last file names is whole without waiting.
func TestUniversalNamed(t *testing.T) {
	f := newFolder(t)
	f.writeAll("runs/step1_universal", universal(2, 2))
	f.write("runs/latest_universal", []byte("step1_universal"))
	if c := f.open("/runs/step1_universal", Options{}); len(c.Problems)+len(c.Doubts) != 0 {
		t.Errorf("%v, %v", c.Problems, c.Doubts)
	}
	f.write("runs/latest_universal", []byte("step0_universal"))
	if c := f.open("/runs/step1_universal", Options{}); kinds(c.Problems) != "ranks-unknown" {
		t.Errorf("%v", c.Problems)
	}
}
