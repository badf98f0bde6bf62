package checkpoint

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/hints"
)

// TestForetell: a hint about a checkpoint, and one about a start from it, keep the rules of the protocol and say what is there.
func TestForetell(t *testing.T) {
	f := newFolder(t)
	f.writeAll("runs/global_step7", deepSpeed(2, 2))
	c := f.open("/runs/global_step7", Options{WorldSize: 4})
	h := hints.Hint{ID: "i", Job: "j", Run: "r", TTL: time.Hour, Confidence: 1, Checkpoint: &hints.Checkpoint{State: hints.Committed, Path: c.Path, Step: -1}}
	c.Foretell(&h)
	if hex.EncodeToString(h.Identity[:]) != c.Identity() || h.Checkpoint.Layout != "deepspeed" || h.Checkpoint.Step != 7 || len(h.Checkpoint.Files) != 6 {
		t.Errorf("%+v", h.Checkpoint)
	}
	must(t, h.Validate())
	h.Checkpoint.Step = 3 // the caller knows better than the folder's name
	if c.Foretell(&h); h.Checkpoint.Step != 3 {
		t.Error("the step was replaced")
	}
	files, err := c.HotFiles(Parallel{Ranks: 4, Tensor: 2}, func(name string) string { return "dir://" + name })
	must(t, err)
	want := hints.HotFile{Path: "dir:///runs/global_step7/mp_rank_00_model_states.pt", Readers: 2}
	if len(files) != 2 || files[0] != want {
		t.Errorf("%+v", files)
	}
	if _, err := c.HotFiles(Parallel{}, nil); err == nil {
		t.Error("no ranks")
	}
}
