package relay

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

var (
	// ErrDamaged is a ledger with a line that its checksum does not fit, or that is no record.
	ErrDamaged = errors.New("the ledger is damaged")
	// ErrVersion is a record that a newer program wrote.
	ErrVersion = errors.New("a newer program wrote it")
)

// maxLine bounds a record, in bytes: a hint has at most 4 MiB.
const maxLine = 32 << 20

// sumDigits are the hexadecimal digits of a CRC32C; a space follows them.
const sumDigits = 8

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode returns a record's line: its CRC32C as eight hexadecimal digits, a space, one JSON object, a line feed.
func encode(r Record) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("00000000 ")
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return nil, err
	}
	line := b.Bytes()
	if len(line) > maxLine {
		return nil, fmt.Errorf("a record of %d bytes, at most %d", len(line), maxLine)
	}
	sum := crc32.Checksum(line[sumDigits+1:len(line)-1], castagnoli)
	hex.Encode(line, []byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
	return line, nil
}

// decode reads a line without its line feed.
func decode(line []byte) (Record, error) {
	var r Record
	var sum [4]byte
	if len(line) < sumDigits+1 || line[sumDigits] != ' ' {
		return r, fmt.Errorf("%w: no checksum before a record", ErrDamaged)
	}
	body := line[sumDigits+1:]
	if _, err := hex.Decode(sum[:], line[:sumDigits]); err != nil {
		return r, fmt.Errorf("%w: no checksum before a record", ErrDamaged)
	}
	if want := uint32(sum[0])<<24 | uint32(sum[1])<<16 | uint32(sum[2])<<8 | uint32(sum[3]); want != crc32.Checksum(body, castagnoli) {
		return r, fmt.Errorf("%w: the checksum of a record is wrong", ErrDamaged)
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return r, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if r.Version != Version {
		return r, fmt.Errorf("%w: a record of version %d, this program reads %d", ErrVersion, r.Version, Version)
	}
	return r, nil
}

// scan calls each with every whole line's record and the offset behind it. What follows the last line feed is being written, or was
// when its writer was killed: it is left out. rest is its offset.
func scan(r io.Reader, each func(Record, int64) error) (rest int64, err error) {
	lines := newLines(r)
	for {
		line, err := lines.next()
		if err == io.EOF {
			return lines.off, nil
		}
		if err != nil {
			return lines.off, err
		}
		record, err := decode(line)
		if err != nil {
			return lines.off, fmt.Errorf("at byte %d: %w", lines.off, err)
		}
		lines.off += int64(len(line)) + 1
		if err := each(record, lines.off); err != nil {
			return lines.off, err
		}
	}
}
