package proof

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// readBuffer is what every run keeps in memory, in bytes. A thousand runs take 32 MiB.
const readBuffer = 1 << 15

// maxRuns bounds the runs of a digest. A run starts with every file and wherever a file steps back,
// which happens once at every resume; more than this is no file of ours.
const maxRuns = 1 << 13

// A run is a part of a file in which records are in order.
type run struct {
	lines *lineReader
	head  Record // the record to merge next
}

// lineReader reads the lines of a part of a file.
type lineReader struct {
	r    *bufio.Reader
	at   Place // of the line last read
	cut  bool  // the file ended in a line without newline
	used int64 // bytes of the lines read so far
}

func newLineReader(f *os.File, name string, from, size, line int64) *lineReader {
	r := bufio.NewReaderSize(io.NewSectionReader(f, from, size), readBuffer)
	return &lineReader{r: r, at: Place{File: name, Line: line - 1}}
}

// next returns a line, valid until the next call, or io.EOF.
func (l *lineReader) next() ([]byte, error) {
	text, err := l.r.ReadSlice('\n')
	var long []byte
	for errors.Is(err, bufio.ErrBufferFull) && len(long) <= maxLine {
		long = append(long, text...)
		text, err = l.r.ReadSlice('\n')
	}
	if long != nil {
		text = append(long, text...)
	}
	l.at.Line++
	switch {
	case len(text) > maxLine:
		return nil, &Finding{Malformed, fmt.Sprintf("the line exceeds %d bytes", maxLine), []Place{l.at}}
	case errors.Is(err, io.EOF):
		l.cut = len(text) > 0
		return nil, io.EOF
	case err != nil:
		return nil, fmt.Errorf("%s: %w", l.at, err)
	}
	l.used += int64(len(text))
	return text, nil
}

// advance reads the next record into head; io.EOF says that the run is over.
func (r *run) advance() error {
	text, err := r.lines.next()
	if err != nil {
		return err
	}
	r.head, err = ParseRecord(text)
	if err != nil {
		return &Finding{Malformed, err.Error(), []Place{r.lines.at}}
	}
	return nil
}

// span is where a run lies in its file.
type span struct{ from, size, line int64 }

// findRuns cuts a file into runs and tells whether its last line is cut.
func findRuns(f *os.File, name string, most int) (spans []span, cut bool, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	lines := newLineReader(f, name, 0, info.Size(), 1)
	last := key{-1, 0}
	for {
		from := lines.used
		text, err := lines.next()
		if errors.Is(err, io.EOF) {
			return spans, lines.cut, nil
		}
		if err != nil {
			return nil, false, err
		}
		k, err := readKey(text)
		if err != nil {
			return nil, false, &Finding{Malformed, err.Error(), []Place{lines.at}}
		}
		if k.before(last) || len(spans) == 0 {
			spans = append(spans, span{from: from, line: lines.at.Line})
		}
		if len(spans) > most {
			return nil, false, &Finding{Malformed, fmt.Sprintf("the records step back more than %d times: sort the file by step and position", most), []Place{lines.at}}
		}
		spans[len(spans)-1].size = lines.used - spans[len(spans)-1].from
		last = k
	}
}

// key is what records are ordered by.
type key struct{ step, position int64 }

func (k key) before(other key) bool {
	return k.step < other.step || k.step == other.step && k.position < other.position
}

// readKey reads only as much of a record as its order needs; ParseRecord checks the rest later.
func readKey(text []byte) (key, error) {
	var k struct{ Step, Position int64 }
	if err := json.Unmarshal(text, &k); err != nil {
		return key{}, fmt.Errorf("not a record: %w", err)
	}
	return key{k.Step, k.Position}, nil
}
