package energon

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/stepahead-io/stepahead/store"
)

// index is an open index.sqlite.
type index struct {
	db    *sql.DB
	copy  string // a local copy to be removed, or ""
	parts bool   // it knows the members of samples
	media bool   // it knows sizes of media
}

// openIndex opens the file where it is, or a local copy of it: SQLite reads local files only. It is opened read-only
// and immutable, so that nothing is written beside it.
func openIndex(ctx context.Context, st store.Store, name string) (*index, error) {
	x := &index{}
	local, err := x.local(ctx, st, name)
	if err != nil {
		return x, err
	}
	dsn := (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: local}).EscapedPath(), RawQuery: "mode=ro&immutable=1"}).String()
	if x.db, err = sql.Open("sqlite", dsn); err != nil {
		return x, err
	}
	tables := make(map[string]bool)
	rows, err := x.db.QueryContext(ctx, `SELECT name FROM sqlite_master WHERE type IN ('table', 'view')`)
	if err != nil {
		return x, err
	}
	defer rows.Close()
	for rows.Next() {
		var t string
		if err := rows.Scan(&t); err != nil {
			return x, err
		}
		tables[t] = true
	}
	if !tables["samples"] {
		return x, errors.Join(errors.New("it has no table samples"), rows.Err())
	}
	x.parts, x.media = tables["sample_parts"], tables["media_metadata"]
	return x, rows.Err()
}

// Close closes the file and removes a copy.
func (x *index) Close() error {
	var errs []error
	if x.db != nil {
		errs = append(errs, x.db.Close())
	}
	if x.copy != "" {
		errs = append(errs, os.Remove(x.copy))
	}
	return errors.Join(errs...)
}

// local returns the file's path on this machine.
func (x *index) local(ctx context.Context, st store.Store, name string) (string, error) {
	if l, ok := st.(store.Localizer); ok {
		if p, ok := l.LocalPath(name); ok {
			return p, nil
		}
	}
	f, err := st.Open(ctx, name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	tmp, err := os.CreateTemp("", "stepahead-energon-")
	if err != nil {
		return "", err
	}
	x.copy = tmp.Name()
	buf := make([]byte, min(f.Size(), 8<<20))
	for off := int64(0); off < f.Size(); off += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), f.Size()-off)]
		err := f.ReadRanges(ctx, []store.Range{{Off: off, Buf: buf}})
		if err == nil {
			_, err = tmp.Write(buf)
		}
		if err != nil {
			return "", errors.Join(err, tmp.Close())
		}
	}
	return tmp.Name(), tmp.Close()
}

// member is one row of sample_parts.
type member struct {
	key    string
	sample int64
	part   string
	off    int64
	size   int64
	width  uint32
	height uint32
}

// members gives the members of a shard, sample by sample, in the order of the shard.
func (x *index) members(ctx context.Context, shard int64, each func(member) error) error {
	extra, join := "NULL", ""
	if x.media {
		extra, join = "m.metadata_json", "LEFT JOIN media_metadata m ON m.entry_key = s.sample_key || '.' || p.part_name"
	}
	rows, err := x.db.QueryContext(ctx, `SELECT s.sample_key, s.sample_index, p.part_name, p.content_byte_offset, p.content_byte_size, `+extra+`
		FROM samples s JOIN sample_parts p ON p.tar_file_id = s.tar_file_id AND p.sample_index = s.sample_index `+join+`
		WHERE s.tar_file_id = ? ORDER BY s.sample_index, p.content_byte_offset`, shard)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var m member
		var meta sql.NullString
		if err := rows.Scan(&m.key, &m.sample, &m.part, &m.off, &m.size, &meta); err != nil {
			return fmt.Errorf("index.sqlite: %w", err)
		}
		m.sizes(meta.String)
		if err := each(m); err != nil {
			return err
		}
	}
	return rows.Err()
}

// sizes takes width and height from the metadata of a picture or video. Without them nothing is lost.
func (m *member) sizes(text string) {
	var meta struct{ Width, Height uint32 }
	if text != "" && json.Unmarshal([]byte(text), &meta) == nil && meta.Width > 0 && meta.Height > 0 {
		m.width, m.height = meta.Width, meta.Height
	}
}
