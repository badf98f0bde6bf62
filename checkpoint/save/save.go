// Package save knows how a checkpoint is written into a store: while its bytes are staged in bounded memory their caller goes on, large
// files travel as parts at the same time, and the marker that makes the save complete is written last.
//
// One rank begins a save and commits it, the others join it in between:
//
//	w, err := save.Begin(ctx, st, "/runs/7b/step-100", save.Options{Layout: save.TorchDCP(), Overwrite: true}) // rank 0; then a barrier
//	w, err := save.Join(ctx, st, "/runs/7b/step-100", save.Options{Layout: save.TorchDCP()})                   // every other rank
//
//	f, err := w.Create("__0_0.distcp") // every rank
//	f.Write(...)                       // copies; waits only where staging memory is full
//	f.End()                            // does not wait
//	files, err := w.Wait(ctx)          // all files are stored; then a barrier
//
//	err = w.Commit(ctx, ".metadata", metadata, filesOfOtherRanks...) // rank 0
//
// Create and Replace write one file that belongs to no save.
//
// What a save promises:
//   - Until Commit has returned nil, or was killed while it gave the marker its name, no reader finds a complete checkpoint: Begin removes the
//     markers of an earlier save before anything else, and files and marker appear whole or not at all.
//   - A full disk, a quota, a lost store: whatever keeps a byte from being stored is an error of Wait and Commit, and no marker is written.
//   - Two writers of one path are noticed. Begin holds the path where the store can (store.Claimer), and another Begin is ErrInFlight. No file is ever written over
//     one that is there, so ranks of a save that was thought dead make the later save fail, or fail themselves: fs.ErrExist. Commit finds out
//     whether the files that were written are still there.
//   - What a killed save left is removed by the next Begin of the same path, see Layout.
package save

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/stepahead-io/stepahead/store"
)

var (
	// ErrInFlight: another process is saving into the same path, or was killed less than a minute ago.
	ErrInFlight = errors.New("another save into the same path is under way")
	// ErrAborted: the save or the file was given up.
	ErrAborted = errors.New("the save was given up")
)

// Layout names the files of a save, by patterns of path.Match that are held against the names in the save's folder (not in folders below
// it). Other files in the folder are somebody else's: they stay.
type Layout struct {
	// Markers are those that make a save complete.
	Markers []string
	// Files are all others.
	Files []string
}

// TorchDCP is the layout of torch's distributed checkpoints.
func TorchDCP() Layout {
	return Layout{Markers: []string{".metadata", "__*.metadata"}, Files: []string{".metadata.tmp", "__*_*.distcp"}}
}

// Limits bound what the files of one save take together. The zero value is usable.
type Limits struct {
	// Memory is how many bytes are staged at most: written by the caller and not yet stored. Default 512 MiB. It is taken when it is needed and
	// kept until the save's end.
	Memory int64
	// Parts is how many parts and small files are under way at a time. Default 8.
	Parts int
	// PartSize is the length of a part of a large file. Default 32 MiB, at most the store's block. Parts are shorter where memory is short. A file that is not longer is
	// one part and is written in one piece.
	PartSize int64
}

// chunk is the piece in which memory is handed out.
const chunk = 256 << 10

func (l Limits) withDefaults(st store.Store) Limits {
	l.Memory, l.Parts = cmp.Or(l.Memory, 512<<20), cmp.Or(l.Parts, 8)
	if l.PartSize == 0 {
		l.PartSize = min(32<<20, l.Memory)
		if b, ok := st.(store.BlockSizer); ok && b.BlockSize() > 0 {
			l.PartSize = min(l.PartSize, max(b.BlockSize(), chunk))
		}
	}
	return l
}

// Validate returns all that is wrong with l; 0 stands for a default.
func (l Limits) Validate() error {
	var errs []error
	if l.Memory < 0 || l.Memory > 0 && l.Memory < chunk {
		errs = append(errs, fmt.Errorf("save.Limits: Memory: %d: give at least %d", l.Memory, chunk))
	}
	if l.Parts < 0 {
		errs = append(errs, fmt.Errorf("save.Limits: Parts: %d: give at least 1", l.Parts))
	}
	if l.PartSize < 0 || l.PartSize > 0 && l.PartSize < chunk {
		errs = append(errs, fmt.Errorf("save.Limits: PartSize: %d: give at least %d", l.PartSize, chunk))
	}
	return errors.Join(errs...)
}

// Options say how to save.
type Options struct {
	// Layout says what an earlier save into the same path may have left, and which names Commit takes.
	Layout Layout
	// Overwrite lets Begin remove an earlier save that is complete. Without it that is fs.ErrExist.
	Overwrite bool
	// Patience is how long Begin waits for another process that holds the path. A process that was killed holds it for up to a minute
	// (store/hdfs). Default 90 s; negative: not at all.
	Patience time.Duration
	Limits
}

// Validate returns all that is wrong with o.
func (o Options) Validate() error {
	errs := []error{o.Limits.Validate()}
	for _, patterns := range [][]string{o.Layout.Markers, o.Layout.Files} {
		for _, p := range patterns {
			if _, err := path.Match(p, ""); err != nil {
				errs = append(errs, fmt.Errorf("save.Options: Layout: %q: %w", p, err))
			}
		}
	}
	if len(o.Layout.Markers) == 0 {
		errs = append(errs, errors.New("save.Options: Layout: Markers: name the file that is written last"))
	}
	return errors.Join(errs...)
}

func matches(patterns []string, name string) bool {
	for _, p := range patterns {
		if ok, err := path.Match(p, name); ok && err == nil {
			return true
		}
	}
	return false
}

// Saved is a file of a save that is stored.
type Saved struct {
	// Name is relative to the save's path.
	Name string `json:"name"`
	Size int64  `json:"size"`
	// Identity is the version that was written; "" is not compared by Commit.
	Identity store.Identity `json:"identity"`
}
