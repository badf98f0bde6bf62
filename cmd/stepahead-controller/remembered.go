package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/internal/localfile"
)

// What operators said is remembered over a restart in files beside the journal: one is there while nothing new is to begin, the other has a line for each
// placement that was revoked.
const (
	drainedSuffix = ".drained"
	revokedSuffix = ".revoked"
)

// rememberDrained keeps over a restart that nothing new is to begin.
func (p *program) rememberDrained(on bool) error {
	file := p.s.journal + drainedSuffix
	var err error
	if on {
		err = localfile.Write(file, []byte("stepahead ctl drain was called: stepahead ctl drain --off removes this file\n"))
	} else {
		err = localfile.Remove(file)
	}
	return err
}

// revocation is a line of what was revoked.
type revocation struct {
	At   time.Time `json:"at"`
	Path string    `json:"path"`
	Site string    `json:"site,omitempty"`
}

// left is how long it counts: as long as any hint can that asks for it.
func (r revocation) left(now time.Time) time.Duration {
	return min(r.At.Add(hints.MaxTTL).Sub(now), hints.MaxTTL)
}

// revocations keep what was revoked. They are safe for concurrent use.
type revocations struct {
	file string

	mu    sync.Mutex
	lines []revocation // of the file
}

// add remembers placements, with those that load has returned; one that was remembered before counts from now on.
func (r *revocations) add(list []plan.Standing) error {
	if len(list) == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	again := make(map[revocation]bool, len(list))
	for _, s := range list {
		again[revocation{Path: s.Path, Site: s.Site}] = true
	}
	lines := slices.DeleteFunc(slices.Clone(r.lines), func(l revocation) bool { return l.left(now) <= 0 || again[revocation{Path: l.Path, Site: l.Site}] })
	for _, s := range list {
		lines = append(lines, revocation{now.UTC(), s.Path, s.Site})
	}
	if err := localfile.Write(r.file, encode(lines)); err != nil {
		return err
	}
	r.lines = lines
	return nil
}

func encode(lines []revocation) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	for _, l := range lines {
		_ = e.Encode(l) // plain values
	}
	return b.Bytes()
}

// load returns what still counts, and forgets the rest. A line that cannot be read, as one that a crash cut, says nothing.
func (r *revocations) load(now time.Time) (counting []revocation, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := localfile.Open(r.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var l revocation
		if json.Unmarshal(lines.Bytes(), &l) == nil && l.left(now) > 0 {
			counting = append(counting, l)
		}
	}
	if err := errors.Join(lines.Err(), f.Close()); err != nil {
		return nil, err
	}
	r.lines = counting
	_ = localfile.Write(r.file, encode(counting)) // on a disk that is full the longer file says no less
	return counting, nil
}

// remembered are the settings that operators have made.
func (p *program) remembered(r *revocations) ([]plan.Event, error) {
	var events []plan.Event
	if _, err := os.Stat(p.s.journal + drainedSuffix); err == nil {
		p.log.Warn("drained: nothing new begins until stepahead ctl drain --off")
		events = append(events, plan.Drain{On: true})
	}
	now := time.Now()
	revoked, err := r.load(now)
	if err != nil {
		return nil, fmt.Errorf("what was revoked: %w", err)
	}
	for _, l := range revoked {
		events = append(events, plan.Revoked{Path: l.Path, Site: l.Site, Left: l.left(now)})
	}
	if len(revoked) > 0 {
		p.log.Info("what was revoked stays so for a day", zap.Int("placements", len(revoked)))
	}
	return events, nil
}
