package pybind

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stepahead-io/stepahead/hints/lifecycle"
)

// TestTellersAreBounded: a process that saves into ever new folders keeps as many tellers as there may be, and counts what all have told.
func TestTellersAreBounded(t *testing.T) {
	t.Cleanup(func() {
		if err := Untell(); err != nil {
			t.Error(err)
		}
	})
	const folders = 3 * mostTellers
	for i := range folders {
		options := fmt.Sprintf(`{"store": %q, "job": "j", "run": "r%d"}`, t.TempDir(), i)
		if err := Tell(options, `{"what": "committed", "path": "relative"}`); err != nil { // which is lost at once: no store has such a path
			t.Fatal(err)
		}
		told(t)
		if n := len(tellers.all); n > mostTellers {
			t.Fatalf("%d tellers, at most %d", n, mostTellers)
		}
	}
	if got := told(t); got != (lifecycle.Stats{Lost: folders}) {
		t.Errorf("%+v, want %d lost", got, folders)
	}
	if err := Tell(`{"store": "/x", "job": "j", "run": "r"}`, `{"what": "saving", "pat": "/x"}`); err == nil {
		t.Error("a field that there is not is taken")
	}
}

// told waits until nothing is to be told, and says what became of it.
func told(t *testing.T) lifecycle.Stats {
	t.Helper()
	text, err := Told(30_000)
	var answer struct {
		Done bool `json:"done"`
		lifecycle.Stats
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &answer)
	}
	if err != nil || !answer.Done {
		t.Fatalf("%s, %v", text, err)
	}
	return answer.Stats
}
