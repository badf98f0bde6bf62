package foreign

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/draft"
	"github.com/stepahead-io/stepahead/store"
)

// journalVersion is part of the name of every file of the journal: another version's are not found.
const journalVersion = 1

// maxWarnings bounds what is kept of a shard's warnings.
const maxWarnings = 100

// A scanned shard is one file of the journal: a line for each sample, then one for the summary. The file is
// visible when it is whole, so one that is there is the outcome of a scan.
type journal struct{ draft draft.Draft }

// entry is a line of the journal: a sample, or at the end the summary.
type entry struct {
	Key     string                  `json:"k,omitempty"`
	Parts   []Part                  `json:"p,omitempty"`
	Scalars map[string]binfmt.Value `json:"s,omitempty"`
	End     *summary                `json:"end,omitempty"`
}

// summary is what a scan found out besides the samples.
type summary struct {
	Rows     int64    `json:"rows"`
	Warnings []string `json:"warnings,omitempty"`
	Read     int64    `json:"read"` // bytes
	// Unpacked is the length of what a compressed file unpacks to.
	Unpacked int64 `json:"unpacked,omitempty"`
}

// name of the file for a scan: what was scanned, and how.
func (j journal) name(how string, s Shard, identity store.Identity) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\x00%s\x00%s\x00%s", journalVersion, how, s.Name, identity))
	return path.Join(j.draft.Scan(), hex.EncodeToString(sum[:16])+".jsonl")
}

// journalWriter writes one file of the journal.
type journalWriter struct {
	out store.Writer
	buf *bufio.Writer
	enc *json.Encoder
}

func (j journal) create(ctx context.Context, name string) (*journalWriter, error) {
	if err := j.draft.Store.Remove(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	out, err := j.draft.Store.Create(ctx, name)
	if err != nil {
		return nil, err
	}
	buf := bufio.NewWriterSize(out, 1<<20)
	return &journalWriter{out: out, buf: buf, enc: json.NewEncoder(buf)}, nil
}

func (w *journalWriter) row(r Row) error {
	return w.enc.Encode(entry{Key: r.Key, Parts: r.Parts, Scalars: r.Scalars})
}

// finish makes the file visible.
func (w *journalWriter) finish(s *summary) error {
	err := w.enc.Encode(entry{End: s})
	if err == nil {
		err = w.buf.Flush()
	}
	if err != nil {
		return errors.Join(err, w.out.Abort())
	}
	return w.out.Close()
}

// errJournal: a file of the journal makes no sense.
var errJournal = errors.New("the journal is damaged")

// read gives the samples of a scan to each, and returns the summary.
func (j journal) read(ctx context.Context, name string, each func(Row) error) (*summary, error) {
	f, err := j.draft.Store.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	at := j.draft.Store.Address(name)
	dec := json.NewDecoder(bufio.NewReaderSize(&sequential{ctx: ctx, f: f}, 1<<20))
	for rows := int64(0); ; rows++ {
		var e entry
		switch err := dec.Decode(&e); {
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%s: it has no end: %w", at, errJournal)
		case err != nil:
			return nil, fmt.Errorf("%s: %w: %w", at, err, errJournal)
		}
		if e.End != nil {
			if e.End.Rows != rows {
				return nil, fmt.Errorf("%s: %d samples, its end says %d: %w", at, rows, e.End.Rows, errJournal)
			}
			return e.End, nil
		}
		if err := each(Row{Key: e.Key, Parts: e.Parts, Scalars: e.Scalars}); err != nil {
			return nil, err
		}
	}
}

// sequential reads a file of a store from its start to its end.
type sequential struct {
	ctx context.Context
	f   store.File
	off int64
}

func (s *sequential) Read(p []byte) (int, error) {
	if s.off == s.f.Size() {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), s.f.Size()-s.off)]
	if err := s.f.ReadRanges(s.ctx, []store.Range{{Off: s.off, Buf: p}}); err != nil {
		return 0, err
	}
	s.off += int64(len(p))
	return len(p), nil
}
