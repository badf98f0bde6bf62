package pack

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"

	"github.com/stepahead-io/stepahead/binfmt"
)

// bounded fails when more than left bytes are read before left is set again.
type bounded struct {
	r    io.Reader
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("a record of more than %d bytes (a quote that is not closed?)", maxRecord)
	}
	n, err := b.r.Read(p)
	b.left -= n
	return n, err
}

func readCSV(r io.Reader, t *table) error {
	limit := &bounded{r: r, left: maxRecord}
	in := csv.NewReader(limit)
	header, err := in.Read()
	if errors.Is(err, io.EOF) {
		return errors.New("the list is empty: its first line names the columns")
	}
	if err != nil {
		return err
	}
	place, err := t.header(header)
	if err != nil {
		return fmt.Errorf("line 1: %w", err)
	}
	for {
		limit.left = maxRecord
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		line, _ := in.FieldPos(0)
		if err := t.csvRow(line, place, record); err != nil {
			return err
		}
	}
}

func (t *table) csvRow(line, place int, record []string) error {
	values := make([]binfmt.Value, 0, len(t.columns))
	for i, text := range record {
		if i == place {
			continue
		}
		c := t.columns[len(values)]
		v, err := parseCell(text, c.forced)
		if err != nil {
			return fmt.Errorf("line %d: column %q: %w", line, c.name, err)
		}
		values = append(values, v)
	}
	return t.row(line, record[place], values)
}
