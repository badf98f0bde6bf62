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
	"strings"

	"github.com/stepahead-io/stepahead/store"
)

// Names inside a dataset's folder while it is packed. Everything lies in one folder, which goes
// away at the end; after a kill the next run goes on from it.
const (
	workDir = ".stepahead-pack"
	scanDir = workDir + "/scan"
	dataDir = workDir + "/data"
)

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
func openJournal(ctx context.Context, st store.Store, dir string) (*journal, error) {
	j := &journal{st: st, dir: path.Join(dir, scanDir), old: make(map[string]seen)}
	infos, err := st.List(ctx, j.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return j, nil
	}
	if err != nil {
		return nil, fmt.Errorf("pack: journal: %w", err)
	}
	for _, info := range infos {
		if info.Dir || info.Size > maxSegment {
			continue
		}
		data, err := store.ReadFile(ctx, st, info.Name, maxSegment)
		if err != nil {
			return nil, fmt.Errorf("pack: journal: %w", err)
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
			return fmt.Errorf("pack: journal: %w", err)
		}
	}
	if err := replaceFile(ctx, j.st, path.Join(j.dir, fmt.Sprintf("%08d.jsonl", chunk)), b.Bytes()); err != nil {
		return fmt.Errorf("pack: journal: %w", err)
	}
	return nil
}

// forget makes the next run scan everything again.
func (j *journal) forget(ctx context.Context) error { return removeAll(ctx, j.st, j.dir) }

// replaceFile writes a small file in the working folder. It is not atomic: after a kill there may be
// no file, which is what the working folder's files may always be.
func replaceFile(ctx context.Context, st store.Store, name string, data []byte) error {
	if err := st.Remove(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	w, err := st.Create(ctx, name)
	if err != nil {
		return err
	}
	if _, err := w.Write(data); err != nil {
		return errors.Join(err, w.Abort())
	}
	return w.Close()
}

// removeAll removes a folder and what is in it. A folder that is not there is fine.
func removeAll(ctx context.Context, st store.Store, dir string) error {
	infos, err := st.List(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, info := range infos {
		if info.Dir {
			err = removeAll(ctx, st, info.Name)
		} else {
			err = st.Remove(ctx, info.Name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := st.Remove(ctx, dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// within says whether a name is a folder or lies in it.
func within(dir, name string) bool {
	return name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}
