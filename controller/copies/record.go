package copies

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/stepahead-io/stepahead/store"
)

// What lies in the place of a placement, /.stepahead/data/<controller>-<placement>, which nobody but the controller may enter before all is there:
//
//	new-<random>/.stepahead-copy.json     the record of what is whole in a making
//	new-<random>/data/<name>/...          the checkpoint, without the file that is its marker
//	new-<random>/last/...                 the marker
//	copy/...                              the same, when all is there; the marker is renamed into data then
//
// Then the readers of the original may enter data. They cannot change the record, whoever owns data.
const (
	recordName = ".stepahead-copy.json"
	dataFolder = "data"
	lastFolder = "last"
	whole      = "copy"
	newPrefix  = "new-"
)

// recordVersion is that of records.
const recordVersion = 1

// maxRecord bounds a record's file in bytes.
const maxRecord = 256 << 20

// record is the file that says what is whole: each file of it was read back after it was written.
type record struct {
	Version int    `json:"v"`
	Path    string `json:"path"`
	// Layout, SaveID and Identity are those of the original, Digest that of the content, "" before all is there.
	Layout   string `json:"layout"`
	SaveID   string `json:"save_id,omitempty"`
	Identity string `json:"identity"`
	Digest   string `json:"digest,omitempty"`
	// Readers is who may read the copy, as far as was known when its making began; nil where nobody could tell.
	Readers *store.Access `json:"readers,omitempty"`
	// Data is the folder of Files, in that of the record.
	Data  string `json:"data"`
	Files []sum  `json:"files"`
}

// reused is how many bytes of the copy lay at the site already.
func (r record) reused() (bytes int64) {
	for _, s := range r.Files {
		if s.Reused {
			bytes += s.Size
		}
	}
	return bytes
}

// readRecord returns what a making wrote down. One that is not there, or is no record, says nothing.
func readRecord(ctx context.Context, st store.Store, folder string) (record, error) {
	var r record
	name := path.Join(folder, recordName)
	data, err := store.Files{Store: st}.ReadFile(ctx, name, maxRecord)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		return record{}, nil
	}
	if err != nil {
		return record{}, err
	}
	if json.Unmarshal(data, &r) != nil || r.Version != recordVersion || r.Data != dataFolder && path.Dir(r.Data) != dataFolder {
		return record{}, nil // what it says is not worth more than sending it again
	}
	return r, nil
}

func writeRecord(ctx context.Context, st store.Store, folder string, r record) error {
	r.Version = recordVersion
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if len(data) > maxRecord {
		return fmt.Errorf("the record of %d files has %d bytes, at most %d: %w", len(r.Files), len(data), maxRecord, fs.ErrInvalid)
	}
	return store.ReplaceFile(ctx, st, path.Join(folder, recordName), data)
}
