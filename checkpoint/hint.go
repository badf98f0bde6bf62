package checkpoint

import (
	"encoding/hex"
	"path"

	"github.com/stepahead-io/stepahead/hints"
)

// Foretell fills in, of a hint about the checkpoint, what it is: identity, layout, save id, step, and its files where a hint has room for
// them. Their sums are not known.
func (c *Checkpoint) Foretell(h *hints.Hint) {
	c.Bind(h)
	h.Checkpoint.Layout, h.Checkpoint.SaveID = string(c.Layout), c.SaveID
	if h.Checkpoint.Step < 0 {
		h.Checkpoint.Step = c.Step
	}
	h.Checkpoint.Files = nil
	if len(c.Files) > hints.MaxFiles {
		return
	}
	for _, f := range c.Files {
		h.Checkpoint.Files = append(h.Checkpoint.Files, hints.CheckpointFile{Name: f.Name, Size: f.Size})
	}
}

// Bind binds a hint to the version of the checkpoint.
func (c *Checkpoint) Bind(h *hints.Hint) {
	if sum, err := hex.DecodeString(c.Identity()); err == nil { // 64 hexadecimal digits, always
		copy(h.Identity[:], sum)
	}
}

// HotFiles are the files that several ranks of a job read when it loads the checkpoint, as Readers says, those that most is asked of first;
// url gives each name in the store as others write it. More than a hint has room for are left out.
func (c *Checkpoint) HotFiles(p Parallel, url func(name string) string) ([]hints.HotFile, error) {
	readers, err := c.Readers(p)
	if err != nil {
		return nil, err
	}
	hot := c.hottest(readers)
	var files []hints.HotFile
	for _, r := range hot[:min(len(hot), hints.MaxFiles)] {
		files = append(files, hints.HotFile{Path: url(path.Join(c.dir, c.Files[r.File].Name)), Readers: uint32(r.Readers)})
	}
	return files, nil
}
