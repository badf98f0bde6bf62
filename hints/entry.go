package hints

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Limits of a registry entry.
const (
	maxEntry    = 4 << 10 // bytes of the file
	maxVersions = 16
	minEntryTTL = time.Second
	maxEntryTTL = 10 * time.Minute
)

// ErrEntry is a registry file that is not an agent's entry.
var ErrEntry = errors.New("not a registry entry")

// Entry is what an agent says about itself in <registry>/<node>.json.
type Entry struct {
	Node string
	Addr string // host:port
	// Versions maps the name of a protocol ("fetch", "hints") to the version the agent speaks.
	Versions map[string]int
	// TTL is how long the file counts after it was written, between 1 s and 10 min. Writers renew it
	// three times as often.
	TTL time.Duration
}

// entryFile is the JSON form of an Entry.
type entryFile struct {
	Version  int            `json:"agent"`
	Node     string         `json:"node"`
	Addr     string         `json:"addr"`
	Versions map[string]int `json:"versions"`
	TTLMs    int64          `json:"ttl_ms"`
}

// encodeEntry returns the JSON of an entry.
func encodeEntry(e Entry) ([]byte, error) {
	if err := e.validate(); err != nil {
		return nil, err
	}
	data, err := json.Marshal(entryFile{Version: 1, Node: e.Node, Addr: e.Addr, Versions: e.Versions, TTLMs: e.TTL.Milliseconds()})
	return append(data, '\n'), err
}

// decodeEntry parses an entry: one JSON object of version 1 with no unknown key. name is the file's, and
// appears in errors, which match [ErrEntry].
func decodeEntry(name string, data []byte) (Entry, error) {
	fail := func(err error) (Entry, error) {
		return Entry{}, fmt.Errorf("hints.List %s: %w: %w", name, ErrEntry, err)
	}
	if len(data) > maxEntry {
		return fail(fmt.Errorf("%d bytes, at most %d", len(data), maxEntry))
	}
	var f entryFile
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return fail(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fail(fmt.Errorf("bytes after the object, at %d", d.InputOffset()))
	}
	if f.Version != 1 {
		return fail(fmt.Errorf("agent: version %d, this program reads 1", f.Version))
	}
	e := Entry{Node: f.Node, Addr: f.Addr, Versions: f.Versions, TTL: span(f.TTLMs, time.Millisecond)}
	if err := e.validate(); err != nil {
		return fail(err)
	}
	return e, nil
}

func (e Entry) validate() error {
	var p problems
	p.name("node", e.Node)
	p.when(strings.ContainsAny(e.Node, `/\`) || strings.HasPrefix(e.Node, "."), "node: %.40q cannot name a file", e.Node)
	p.addr("addr", e.Addr)
	p.when(e.TTL < minEntryTTL || e.TTL > maxEntryTTL, "ttl: %s is not in [%s, %s]", e.TTL, minEntryTTL, maxEntryTTL)
	p.when(len(e.Versions) > maxVersions, "versions: %d, at most %d", len(e.Versions), maxVersions)
	for name, v := range e.Versions {
		p.name("versions", name)
		p.when(v < 1, "versions[%.40q]: %d is not positive", name, v)
	}
	return p.joined()
}
