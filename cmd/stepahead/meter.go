package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/stepahead-io/stepahead/binfmt/pack"
)

// meter shows progress on a terminal; elsewhere it shows nothing. Its methods must not run at the
// same time.
type meter struct {
	w     io.Writer // nil: nobody is watching
	bytes bool      // every phase counts bytes
	phase string
	bar   *progressbar.ProgressBar
}

func newMeter(w io.Writer) *meter {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return &meter{w: w}
	}
	return &meter{}
}

// show draws the bar, a new one for each phase.
func (m *meter) show(p pack.Progress) {
	if m.w == nil {
		return
	}
	if p.Phase != m.phase {
		m.done()
		m.phase, m.bar = p.Phase, newBar(m.w, p, m.bytes)
	}
	m.bar.Set64(p.Done) // an error would only mean that the bar is wrong
}

// ofBytes returns what draws the bar of a phase that reads total bytes.
func (m *meter) ofBytes(phase string, total int64) func(done int64) {
	return func(done int64) { m.show(pack.Progress{Phase: phase, Done: done, Total: total}) }
}

// clear makes room for a line of text; the next show draws the bar again.
func (m *meter) clear() {
	if m.bar != nil {
		m.bar.Clear()
	}
}

// done leaves the bar as it is and goes to the next line.
func (m *meter) done() {
	if m.bar != nil {
		m.bar.Exit()
		fmt.Fprintln(m.w)
		m.bar = nil
	}
}

// newBar counts files while scanning, unless bytes is set, else bytes.
func newBar(w io.Writer, p pack.Progress, bytes bool) *progressbar.ProgressBar {
	options := []progressbar.Option{
		progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(fmt.Sprintf("%-6s", p.Phase)), progressbar.OptionShowCount(),
		progressbar.OptionThrottle(100 * time.Millisecond), progressbar.OptionFullWidth(), progressbar.OptionSetPredictTime(true),
	}
	if !bytes && p.Phase == "scan" {
		options = append(options, progressbar.OptionShowIts(), progressbar.OptionSetItsString("files"))
	} else {
		options = append(options, progressbar.OptionShowBytes(true))
	}
	return progressbar.NewOptions64(p.Total, options...)
}
