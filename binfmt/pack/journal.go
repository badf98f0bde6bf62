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
	"sync"

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

// journal remembers what was scanned, in files that are written once: a store cannot append to a
// file, and a file that is visible is whole.
type journal struct {
	st  store.Store
	dir string
	old map[string]seen // read-only after openJournal

	mu   sync.Mutex
	next int
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
		var n int
		if _, err := fmt.Sscanf(path.Base(info.Name), "%d.jsonl", &n); err != nil || info.Size > maxSegment {
			continue
		}
		j.next = max(j.next, n+1)
		data, err := readFile(ctx, st, info.Name, maxSegment)
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

// add writes one file of the journal. It is durable when add returns.
func (j *journal) add(ctx context.Context, all []seen) error {
	if len(all) == 0 {
		return nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, k := range all {
		if err := enc.Encode(k); err != nil {
			return fmt.Errorf("pack: journal: %w", err)
		}
	}
	j.mu.Lock()
	name := path.Join(j.dir, fmt.Sprintf("%08d.jsonl", j.next))
	j.next++
	j.mu.Unlock()
	if err := writeFile(ctx, j.st, name, b.Bytes()); err != nil {
		return fmt.Errorf("pack: journal: %w", err)
	}
	return nil
}

// forget makes the next run scan everything again.
func (j *journal) forget(ctx context.Context) error { return removeAll(ctx, j.st, j.dir) }

func writeFile(ctx context.Context, st store.Store, name string, data []byte) error {
	w, err := st.Create(ctx, name)
	if err != nil {
		return err
	}
	if _, err := w.Write(data); err != nil {
		return errors.Join(err, w.Abort())
	}
	return w.Close()
}

// readFile reads a whole file of at most limit bytes.
func readFile(ctx context.Context, st store.Store, name string, limit int64) ([]byte, error) {
	f, err := st.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.Size() > limit {
		return nil, fmt.Errorf("%s has %d bytes, more than the limit of %d", name, f.Size(), limit)
	}
	data := make([]byte, f.Size())
	return data, f.ReadRanges(ctx, []store.Range{{Off: 0, Buf: data}})
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
	if err := st.Remove(ctx, dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// within says whether a name is a folder or lies in it.
func within(dir, name string) bool {
	return name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}
