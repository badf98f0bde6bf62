package proof

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// A Writer appends the records of one rank to a file. It is not safe for concurrent use.
type Writer struct {
	file *os.File
	buf  []byte
}

// Open creates the file at path, or continues it: a last line that a killed process left unfinished
// is cut off first.
func Open(path string) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("proof.Open: %w", err)
	}
	if err := seekBehindLastLine(f); err != nil {
		return nil, errors.Join(fmt.Errorf("proof.Open %s: %w", path, err), f.Close())
	}
	return &Writer{file: f}, nil
}

// seekBehindLastLine cuts f behind its last newline and stands there.
func seekBehindLastLine(f *os.File) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	tail := make([]byte, min(size, maxLine))
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil {
		return err
	}
	whole := bytes.LastIndexByte(tail, '\n') + 1
	if whole == 0 && size > maxLine {
		return errors.New("this is no file of records: its last line exceeds 1 MiB: choose another path")
	}
	end := size - int64(len(tail)-whole)
	if err := f.Truncate(end); err != nil {
		return err
	}
	_, err = f.Seek(end, io.SeekStart)
	return err
}

// Write appends records in one write to the file, so that what was delivered is on record even when
// the process is killed at the next instruction.
func (w *Writer) Write(records ...Record) error {
	w.buf = w.buf[:0]
	for i := range records {
		w.buf = records[i].AppendLine(w.buf)
	}
	return w.WriteLines(w.buf)
}

// WriteLines appends lines made by Record.AppendLine, as Write does.
func (w *Writer) WriteLines(lines []byte) error {
	if _, err := w.file.Write(lines); err != nil {
		return fmt.Errorf("proof.Writer: %w", err)
	}
	return nil
}

// Close makes the file durable and closes it.
func (w *Writer) Close() error {
	if err := errors.Join(w.file.Sync(), w.file.Close()); err != nil {
		return fmt.Errorf("proof.Writer: %w", err)
	}
	return nil
}
