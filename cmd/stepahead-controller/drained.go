package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/stepahead-io/stepahead/controller/plan"
)

// drainedSuffix is behind the journal's name in that of a file that is there while nothing new is to begin.
const drainedSuffix = ".drained"

// remember keeps over a restart that nothing new is to begin.
func (p *program) remember(on bool) error {
	file := p.s.journal + drainedSuffix
	var err error
	if on {
		err = os.WriteFile(file, []byte("stepahead ctl drain was called: stepahead ctl drain --off removes this file\n"), 0o600)
	} else if err = os.Remove(file); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("it cannot be remembered over a restart: %w", err)
	}
	return nil
}

// remembered are the settings that are remembered.
func (p *program) remembered() []plan.Event {
	if _, err := os.Stat(p.s.journal + drainedSuffix); err != nil {
		return nil
	}
	p.log.Warn("drained: nothing new begins until stepahead ctl drain --off")
	return []plan.Event{plan.Drain{On: true}}
}
