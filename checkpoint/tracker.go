package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/stepahead-io/stepahead/store"
)

// Tracker is a file beside checkpoints in which a trainer says which one is the latest. It is not believed: see Candidates. What it
// names is what a restart would load, so a tracker that names what cannot be loaded is worth knowing.
type Tracker struct {
	// File is the tracker's own name in the store.
	File string
	// Names is the folder that it names; "" where Problem says that it names none.
	Names string
	// Problem is what is wrong with the text itself; nil if it names a folder.
	Problem *Problem
}

// maxTracker bounds a tracker's text, in bytes.
const maxTracker = 4096

// trackerFile is a name that trackers have, and what a text in it means.
type trackerFile struct {
	name   string
	folder func(text string) string
}

const universalTracker = "latest_universal"

// trackerFiles are those of DeepSpeed, of its conversion, and of Megatron.
func trackerFiles() []trackerFile {
	return []trackerFile{{"latest", plainFolder}, {universalTracker, plainFolder}, {"latest_checkpointed_iteration.txt", megatronFolder}}
}

// plainFolder is the folder that a text names by its name; "" for a text that names none.
func plainFolder(text string) string {
	if text == "" || text == "." || text == ".." || strings.ContainsAny(text, "/\x00\n") {
		return ""
	}
	return text
}

// megatronFolder is the folder of an iteration, whose number Megatron writes, or of its word for what was converted.
func megatronFolder(text string) string {
	if text == "release" {
		return text
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("iter_%07d", n)
}

// Trackers reads the trackers in a folder of checkpoints.
func Trackers(ctx context.Context, st store.Store, root string) ([]Tracker, error) {
	var found []Tracker
	for _, f := range trackerFiles() {
		t, err := f.read(ctx, st, root)
		if err != nil {
			return nil, fmt.Errorf("checkpoint.Trackers: %w", err)
		}
		if t != nil {
			found = append(found, *t)
		}
	}
	return found, nil
}

// read reads the tracker in a folder; nil if it has none.
func (f trackerFile) read(ctx context.Context, st store.Store, root string) (*Tracker, error) {
	t := &Tracker{File: path.Join(root, f.name)}
	fail := func(format string, args ...any) (*Tracker, error) {
		t.Problem = &Problem{Kind: "tracker-text", File: f.name, Detail: fmt.Sprintf(format, args...)}
		return t, nil
	}
	info, err := st.Stat(ctx, t.File)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Dir {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if info.Size > maxTracker {
		return fail("it has %d bytes: more than any name of a checkpoint", info.Size)
	}
	data, err := store.ReadFile(ctx, st, t.File, maxTracker)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text := strings.TrimSpace(string(data))
	folder := f.folder(text)
	if folder == "" {
		return fail("its text %.60q names no checkpoint beside it", text)
	}
	t.Names = path.Join(root, folder)
	return t, nil
}

// Judge says what is wrong with what a tracker names, given what Open gave for Names; nil if it is a complete checkpoint, or if err says
// only that the store does not answer.
func (t Tracker) Judge(c *Checkpoint, err error) *Problem {
	if t.Problem != nil {
		return t.Problem
	}
	if err == nil {
		err = c.Complete()
	}
	problem := func(kind, format string, args ...any) *Problem {
		return &Problem{Kind: kind, File: path.Base(t.File), Detail: fmt.Sprintf(format, args...)}
	}
	switch named := path.Base(t.Names); {
	case err == nil, !passable(err):
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return problem("tracker-missing", "it names %s, which is not there: a restart that believes it fails", named)
	default:
		return problem("tracker-incomplete", "it names %s, which cannot be loaded: %v", named, err)
	}
}
