package pack

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/stepahead-io/stepahead/binfmt/draft"
	"github.com/stepahead-io/stepahead/store"
)

// workDir is the folder inside a dataset's while it is packed.
const workDir = ".stepahead-pack"

// maxSegment bounds what is read of one file of the journal.
const maxSegment = 64 << 20

// journal remembers what was scanned, in one file for each chunk of entries: a store cannot append
// to a file, and a file that is visible is whole.
type journal struct {
	st  store.Store
	dir string
	old map[string]seen // read-only after openJournal
}

// openJournal reads what earlier runs left.
func openJournal(ctx context.Context, d draft.Draft) (*journal, error) {
	j := &journal{st: d.Store, dir: d.Scan(), old: make(map[string]seen)}
	infos, err := j.st.List(ctx, j.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return j, nil
	}
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	for _, info := range infos {
		if info.Dir || info.Size > maxSegment {
			continue
		}
		data, err := store.ReadFile(ctx, j.st, info.Name, maxSegment)
		if err != nil {
			return nil, fmt.Errorf("journal: %w", err)
		}
		j.load(data)
	}
	return j, nil
}

// load takes the lines that make sense. What does not is scanned again, which costs time only.
func (j *journal) load(data []byte) {
	in := bufio.NewScanner(bytes.NewReader(data))
	in.Buffer(nil, maxRecord)
	for in.Scan() {
		var k seen
		if json.Unmarshal(in.Bytes(), &k) == nil && k.Path != "" && k.Size >= 0 {
			j.old[k.Path] = k
		}
	}
}

func (j *journal) known(path string) (seen, bool) {
	k, ok := j.old[path]
	return k, ok
}

// put writes what is known of a chunk. It is durable when put returns.
func (j *journal) put(ctx context.Context, chunk int, all []seen) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, k := range all {
		if err := enc.Encode(k); err != nil {
			return fmt.Errorf("journal: %w", err)
		}
	}
	if err := draft.ReplaceFile(ctx, j.st, path.Join(j.dir, fmt.Sprintf("%08d.jsonl", chunk)), b.Bytes()); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// forget makes the next run scan everything again.
func (j *journal) forget(ctx context.Context) error { return draft.RemoveAll(ctx, j.st, j.dir) }
