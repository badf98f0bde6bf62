package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/store/dir"
	"github.com/stepahead-io/stepahead/store/storetest"
)

// left leaves what a controller made and did not undo. The function it returns waits until an agent has, and says so on its pages.
func (w world) left(t *testing.T) (swept func(pages string)) {
	t.Helper()
	st, _, err := dir.Open(w.root, dir.Options{})
	must(t, err)
	defer st.Close()
	m := temporary.Mark{Version: temporary.Version, Controller: "c", Placement: 1, Means: plan.Sibling, Path: "/photos/x", Place: temporary.PlaceOf("c", 1)}
	must(t, temporary.Write(t.Context(), st, m))
	storetest.Put(t, st, m.Place+"/part", []byte("x"))
	past := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(filepath.Join(w.root, m.Name()), past, past))
	return func(pages string) {
		t.Helper()
		for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			text := page(t, pages)
			if strings.Contains(text, "stepahead_agent_sweeper_undone_total 1\n") && strings.Contains(text, "stepahead_agent_sweeper_elected 1\n") {
				break
			}
			if time.Since(began) > 2*time.Minute {
				t.Fatal(text)
			}
		}
		for _, gone := range []string{m.Name(), m.Place} {
			if _, err := os.Stat(filepath.Join(w.root, gone)); err == nil {
				t.Errorf("%s is still there", gone)
			}
		}
	}
}

func page(t *testing.T, pages string) string {
	t.Helper()
	resp, err := http.Get("http://" + pages + "/metrics")
	must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	return string(text)
}

func TestSweepEvery(t *testing.T) {
	for text, want := range map[string]time.Duration{"off": 0, "1m": time.Minute, "1.5s": 1500 * time.Millisecond} {
		if got, err := (&settings{sweep: text}).sweepEvery(); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}
