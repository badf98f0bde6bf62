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
	l.mu.Lock()
	if n := len(l.recent); n > 0 && l.recent[0].Number <= after+1 || l.next == after+1 {
		lines := append([]Line(nil), l.recent...)
		l.mu.Unlock()
		return give(lines, after, each)
	}
	files, err := l.openAll(since)
	pending := append([]Line(nil), l.pending...)
	l.mu.Unlock()
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

// openAll opens all files that were written to since a moment, the oldest first.
func (l *Log) openAll(since time.Time) ([]*os.File, error) {
	var files []*os.File
	for i := l.o.Keep; i >= 0; i-- {
		f, err := localfile.Open(l.name(i))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return files, err
		}
		if info, err := f.Stat(); err == nil && info.ModTime().Before(since) {
			_ = f.Close() // only opened
			continue
		}
		files = append(files, f)
	}
	return files, nil
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
