package proof

import (
	"container/heap"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
)

// A Summary says what a digest was taken over.
type Summary struct {
	// Records counts the places of the run; a place recorded several times counts once.
	Records int64 `json:"records"`
	// Steps counts the global batches, of Batch samples each, from FirstStep to LastStep.
	Steps     int64 `json:"steps"`
	Batch     int64 `json:"batch"`
	FirstStep int64 `json:"first_step"`
	LastStep  int64 `json:"last_step"`
	// Duplicates counts the records that repeat another, as steps done again after a resume do.
	Duplicates int64 `json:"duplicates"`
	// Cut counts files whose last line has no newline: a killed process left it, and it is ignored.
	Cut int64 `json:"cut"`
}

// Digest returns the SHA-256 over the records of all files together, in order of step and position.
// Files may be given in any order and may overlap. The records must be those of a whole run: the
// first step to the last without a gap, every step with the same positions from 0. Where they are
// not, the error is a *Finding; every other error is one of reading.
//
// It takes two passes over the files and 32 KiB of memory for each of them and for each place where
// a file steps back to an earlier record.
func Digest(files ...string) ([32]byte, Summary, error) {
	d := digester{hash: sha256.New()}
	err := d.merge(files)
	if err != nil {
		return [32]byte{}, d.sum, fmt.Errorf("proof.Digest: %w", err)
	}
	return [32]byte(d.hash.Sum(nil)), d.sum, nil
}

type digester struct {
	hash    hash.Hash
	scratch []byte
	sum     Summary
	prev    Record // the record hashed last
	prevAt  Place
}

func (d *digester) merge(files []string) (err error) {
	var runs runHeap
	for _, name := range files {
		f, openErr := os.Open(name)
		if openErr != nil {
			return openErr
		}
		defer f.Close()
		spans, cut, err := findRuns(f, name, maxRuns-len(runs))
		if err != nil {
			return err
		}
		if cut {
			d.sum.Cut++
		}
		for _, s := range spans {
			r := &run{lines: newLineReader(f, name, s.from, s.size, s.line)}
			if err := r.advance(); err != nil {
				return err
			}
			runs = append(runs, r)
		}
	}
	if len(runs) == 0 {
		return &Finding{Empty, fmt.Sprintf("no record in %d files", len(files)), nil}
	}
	return d.drain(runs)
}

func (d *digester) drain(runs runHeap) error {
	heap.Init(&runs)
	for len(runs) > 0 {
		r := runs[0]
		if err := d.take(&r.head, r.lines.at); err != nil {
			return err
		}
		err := r.advance()
		switch {
		case errors.Is(err, io.EOF):
			heap.Pop(&runs)
		case err != nil:
			return err
		default:
			heap.Fix(&runs, 0)
		}
	}
	return d.endStep()
}

// take adds the next record in order.
func (d *digester) take(r *Record, at Place) error {
	if d.sum.Records > 0 && r.key() == d.prev.key() {
		d.sum.Duplicates++
		if diff := d.prev.difference(r); diff != "" {
			what := fmt.Sprintf("step %d position %d was delivered twice and differs: %s", r.Step, r.Position, diff)
			return &Finding{Conflict, what, []Place{d.prevAt, at}}
		}
		return nil
	}
	if err := d.follow(r, at); err != nil {
		return err
	}
	d.scratch = r.hashInto(d.hash, d.scratch)
	d.prev, d.prevAt = *r, at
	d.sum.Records++
	d.sum.LastStep = r.Step
	return nil
}

// follow checks that r is the next place after the previous record.
func (d *digester) follow(r *Record, at Place) error {
	switch {
	case d.sum.Records == 0:
		d.sum.FirstStep, d.sum.Steps = r.Step, 1
		if r.Position == 0 {
			return nil
		}
		return &Finding{Gap, fmt.Sprintf("the first record is step %d position %d, not position 0", r.Step, r.Position), []Place{at}}
	case r.key() == key{d.prev.Step, d.prev.Position + 1}:
		return nil
	case r.key() == key{d.prev.Step + 1, 0}:
		d.sum.Steps++
		return d.endStep(at)
	}
	what := fmt.Sprintf("nothing between step %d position %d and step %d position %d", d.prev.Step, d.prev.Position, r.Step, r.Position)
	return &Finding{Gap, what, []Place{d.prevAt, at}}
}

// endStep checks that the step of the previous record has as many places as the first one had.
func (d *digester) endStep(next ...Place) error {
	got := d.prev.Position + 1
	if d.sum.Batch == 0 {
		d.sum.Batch = got
	}
	if got == d.sum.Batch {
		return nil
	}
	what := fmt.Sprintf("step %d ends at position %d, the steps before it at %d", d.prev.Step, d.prev.Position, d.sum.Batch-1)
	return &Finding{Gap, what, append([]Place{d.prevAt}, next...)}
}

func (r *Record) key() key { return key{r.Step, r.Position} }

// runHeap has the run with the earliest head on top; equal heads keep the order of their places, so
// that the same files give the same message.
type runHeap []*run

func (h runHeap) Len() int      { return len(h) }
func (h runHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *runHeap) Push(x any)   { *h = append(*h, x.(*run)) }

func (h runHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	if a.head.key() != b.head.key() {
		return a.head.key().before(b.head.key())
	}
	if a.lines.at.File != b.lines.at.File {
		return a.lines.at.File < b.lines.at.File
	}
	return a.lines.at.Line < b.lines.at.Line
}

func (h *runHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
