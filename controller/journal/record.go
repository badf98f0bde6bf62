// Package journal keeps what the controller is about to do, and what came of it, in a file: each record is durable before its action begins.
package journal

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"time"
)

// Version is that of records and of the file's layout.
const Version = 1

var (
	// ErrInUse: another process has the journal open.
	ErrInUse = errors.New("another process has the journal open")
	// ErrDamaged: the file is cut, or not what was written.
	ErrDamaged = errors.New("the journal is damaged")
	// ErrVersion: a newer program wrote it.
	ErrVersion = errors.New("a newer program wrote the journal")
)

// Kind says what a record is of its action.
type Kind string

// The kinds. They are only added to.
const (
	// Intent comes before an action is begun: it may have been done in part, or not at all.
	Intent Kind = "intent"
	// Fact is what has to be known to undo the action: placement, replication and storage policy as they were. It comes before the action, too.
	Fact Kind = "fact"
	// Done says that the action was done, Failed that it was given up.
	Done   Kind = "done"
	Failed Kind = "failed"
)

// Record is one line of the journal.
type Record struct {
	// Number is the record's place, from 1 on; Append gives it. Numbers grow without gaps, but for what was compacted.
	Number uint64 `json:"-"`
	// At is when it was written, by the clock of the controller's host.
	At time.Time `json:"at"`
	// Placement is what the record is about.
	Placement uint64 `json:"placement"`
	Kind      Kind   `json:"kind"`
	// Action is its name: "make", "publish", "extend", "withdraw" or "remove".
	Action string `json:"action"`
	// Body is the action, fact or result as its writer encoded it.
	Body json.RawMessage `json:"body,omitempty"`
}

// maxRecord bounds a record, in bytes.
const maxRecord = 16 << 20

// head is the version of a record and the CRC32C of its number and body, big-endian.
const head = 1 + 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func keyOf(number uint64) []byte { return binary.BigEndian.AppendUint64(nil, number) }

func encode(r Record) ([]byte, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("a record of placement %d: %w", r.Placement, err)
	}
	if len(body) > maxRecord {
		return nil, fmt.Errorf("a record of placement %d has %d bytes, at most %d", r.Placement, len(body), maxRecord)
	}
	b := make([]byte, head, head+len(body))
	b[0] = Version
	binary.BigEndian.PutUint32(b[1:], sum(keyOf(r.Number), body))
	return append(b, body...), nil
}

func sum(key, body []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, body)
}

// decode reads a record; key and value stay the file's.
func decode(key, value []byte) (Record, error) {
	if len(key) != 8 || len(value) < head {
		return Record{}, fmt.Errorf("%w: a record with a key of %d bytes and %d bytes of content", ErrDamaged, len(key), len(value))
	}
	number := binary.BigEndian.Uint64(key)
	if v := value[0]; v > Version {
		return Record{}, fmt.Errorf("%w: record %d has version %d, this program reads %d: use a newer stepahead-controller", ErrVersion, number, v, Version)
	}
	if binary.BigEndian.Uint32(value[1:]) != sum(key, value[head:]) {
		return Record{}, fmt.Errorf("%w: the checksum of record %d is wrong", ErrDamaged, number)
	}
	r := Record{}
	if err := json.Unmarshal(value[head:], &r); err != nil {
		return Record{}, fmt.Errorf("%w: record %d: %w", ErrDamaged, number, err)
	}
	r.Number = number
	return r, nil
}
