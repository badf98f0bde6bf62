package proof

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// A Writer appends lines of JSON to a file, such as the records of one rank, and keeps every line whole:
// the next one never stands behind half of one. One Writer at a time may have a file. It is not safe for
// concurrent use.
type Writer struct {
	file file
	end  int64 // of what was written whole; negative where the file has no places, as a pipe
}

type file interface {
	io.Writer
	Truncate(size int64) error
	Sync() error
	Close() error
}

// Open creates the file at path, or continues it: a last line that a killed process left unfinished
// is cut off first.
func Open(path string) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("proof.Open: %w", err)
	}
	w := &Writer{file: f, end: -1}
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() {
		if w.end, err = behindLastLine(f, info.Size()); err == nil {
			err = w.cut()
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("proof.Open %s: %w", path, err), f.Close())
	}
	return w, nil
}

// behindLastLine returns the place behind the last newline.
func behindLastLine(f io.ReaderAt, size int64) (int64, error) {
	tail := make([]byte, min(size, maxLine))
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil {
		return 0, err
	}
	whole := bytes.LastIndexByte(tail, '\n') + 1
	if whole == 0 && size > maxLine {
		return 0, errors.New("this is no file of records: its last line exceeds 1 MiB: choose another path")
	}
	return size - int64(len(tail)-whole), nil
}

// cut takes away what is behind the whole lines.
func (w *Writer) cut() error {
	if w.end < 0 {
		return nil
	}
	return w.file.Truncate(w.end)
}

// Append appends lines, such as those of Record.AppendLine, in one write to the file, so that what was
// delivered is on record even when the process is killed at the next instruction. After an error, as
// of a full disk, the file holds none of them.
func (w *Writer) Append(lines []byte) error {
	n, err := w.file.Write(lines)
	if err != nil {
		return fmt.Errorf("proof.Writer: %w", errors.Join(err, w.cut()))
	}
	if w.end >= 0 {
		w.end += int64(n)
	}
	return nil
}

// Close makes the file durable and closes it.
func (w *Writer) Close() error {
	var err error
	if w.end >= 0 { // pipes and terminals have nothing to sync
		err = w.file.Sync()
	}
	if err := errors.Join(err, w.file.Close()); err != nil {
		return fmt.Errorf("proof.Writer: %w", err)
	}
	return nil
}
