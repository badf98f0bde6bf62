package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/stepahead-io/stepahead/internal/localfile"
)

// maxLine bounds a line when it is read, in bytes: texts are bounded, and each byte of theirs takes at most six.
const maxLine = 8 * 6 * mostText

// Read calls each with the lines that have a larger number, are not older than since and still kept, in their order, those included that wait for the disk. Lines
// that cannot be read are left out, and said to Options.Warn. An error of each ends it.
func (l *Log) Read(after uint64, since time.Time, each func(Line) error) error {
	all := each
	each = func(line Line) error {
		if line.At.Before(since) {
			return nil
		}
		return all(line)
	}
	if lines, all := l.remembered(after); all {
		return give(lines, after, each)
	}
	files, pending, err := l.openAll(since)
	defer func() {
		for _, f := range files {
			_ = f.Close() // only read
		}
	}()
	if err != nil {
		return fmt.Errorf("audit.Read: %w", err)
	}
	for _, f := range files {
		err := scan(f, l.o.Warn, func(line Line) error {
			if line.Number <= after {
				return nil
			}
			after = line.Number
			return each(line)
		})
		if err != nil {
			return err
		}
	}
	return give(pending, after, each)
}

func give(lines []Line, after uint64, each func(Line) error) error {
	for _, line := range lines {
		if line.Number <= after {
			continue
		}
		if err := each(line); err != nil {
			return err
		}
	}
	return nil
}

// remembered returns the lines that are in memory; all tells whether that are all with a larger number than after.
func (l *Log) remembered(after uint64) (lines []Line, all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.recent); n > 0 && l.recent[0].Number <= after+1 || l.next == after+1 {
		return append(lines, l.recent...), true
	}
	return nil, false
}

// openAll returns the lines that wait for the disk, and opens all files that were written to since a moment, the oldest first: what is written in between is in both.
// Whoever adds lines does not wait for that.
func (l *Log) openAll(since time.Time) (files []*os.File, pending []Line, err error) {
	l.names.Lock()
	defer l.names.Unlock()
	l.mu.Lock()
	pending = append(pending, l.pending...)
	l.mu.Unlock()
	for i := l.o.Keep; i >= 0; i-- {
		f, err := localfile.Open(l.name(i))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return files, pending, err
		}
		if info, err := f.Stat(); err == nil && info.ModTime().Before(since) {
			_ = f.Close() // only opened
			continue
		}
		files = append(files, f)
	}
	return files, pending, nil
}

// scan reads the lines of a file. A last one without a line break is being written, or was cut.
func scan(f *os.File, warn func(error), each func(Line) error) error {
	r := bufio.NewReaderSize(f, maxLine)
	for n := 1; ; n++ {
		text, err := r.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			warn(fmt.Errorf("audit: %s line %d is left out: it has more than %d bytes", f.Name(), n, maxLine))
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = r.ReadSlice('\n')
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		var line Line
		if err := json.Unmarshal(text, &line); err != nil {
			warn(fmt.Errorf("audit: %s line %d is left out: %w", f.Name(), n, err))
			continue
		}
		if err := each(line); err != nil {
			return err
		}
	}
}
