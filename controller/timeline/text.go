package timeline

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
)

// Clocks says whose clock the times are by, for people.
const Clocks = "Times are by the controller's clock; what jobs said is dated back by what their hosts and the agents measured, but for two transmissions (at most 2 s, commonly milliseconds)."

// phaseOrder are the phases as they follow each other.
var phaseOrder = []PhaseName{Queue, CopyLate, Reading, Computing, Running, Deciding}

// Write writes timelines for people, with bars of a width, and what they come to. wall is the wall clock's time at a moment of the controller's clock.
func Write(w io.Writer, all []Timeline, width int, wall func(time.Duration) time.Time) error {
	var b strings.Builder
	if len(all) == 0 {
		_, err := io.WriteString(w, "nothing is known: no job has said anything of it, or not to this controller\n")
		return err
	}
	for _, t := range all {
		t.write(&b, width, wall)
	}
	Sum(all).write(&b, width)
	b.WriteString(Clocks + "\n")
	_, err := io.WriteString(w, strings.Map(printable, b.String()))
	return err
}

// printable keeps what jobs named things from speaking to a terminal.
func printable(r rune) rune {
	if r == '\n' || unicode.IsPrint(r) {
		return r
	}
	return '?'
}

func (t Timeline) write(b *strings.Builder, width int, wall func(time.Duration) time.Time) {
	b.WriteString(t.Path)
	if t.Step >= 0 {
		fmt.Fprintf(b, ", step %d", t.Step)
	}
	if t.Job != "" {
		b.WriteString(", of job " + t.Job)
	}
	b.WriteString(": ")
	if t.Committed == nil {
		b.WriteString("nobody said when it was committed; times are from the first that is known\n")
	} else {
		fmt.Fprintf(b, "committed %s\n", wall(*t.Committed).Format(time.RFC3339))
	}
	if len(t.Evaluations) == 0 {
		b.WriteString("  no evaluation\n")
	}
	for _, e := range t.Evaluations {
		e.write(b, width)
	}
}

func (e Evaluation) write(b *strings.Builder, width int) {
	b.WriteString("  evaluation")
	if e.Name != "" {
		b.WriteString(" " + e.Name)
	}
	if e.Site != "" {
		b.WriteString(" at " + e.Site)
	}
	fmt.Fprintf(b, " by job %s: %s\n", e.Job, e.sentence())
	longest := time.Duration(1)
	for _, p := range e.Phases {
		longest = max(longest, p.To-p.From)
	}
	for _, p := range e.Phases {
		bar(b, p.Name, p.To-p.From, longest, width)
	}
	for _, r := range e.Results {
		b.WriteString("    result")
		if r.Metric != "" {
			b.WriteString(" " + r.Metric)
		}
		if r.Value != nil {
			fmt.Fprintf(b, " %g", *r.Value)
		}
		if r.Regression {
			b.WriteString(", a regression")
		}
		fmt.Fprintf(b, ": after %s\n", short(r.At))
	}
	if e.Regression != nil {
		fmt.Fprintf(b, "    the checkpoint was %s old when a regression was declared\n", short(*e.Regression))
	}
	if e.Decided != nil {
		fmt.Fprintf(b, "    decision %s: after %s\n", e.Decision, short(*e.Decided))
	}
}

// sentence says where it stands, and where the bytes were.
func (e Evaluation) sentence() string {
	switch {
	case e.Opened == nil && e.Cancelled != nil:
		return fmt.Sprintf("cancelled after %s", short(*e.Cancelled))
	case e.Opened == nil && e.Expected != nil:
		return fmt.Sprintf("to be opened after %s, not opened yet%s", short(*e.Expected), e.copyStands())
	case e.Opened == nil:
		return "nobody said when it was opened"
	}
	s := fmt.Sprintf("opened after %s, ", short(*e.Opened))
	switch e.Read {
	case AtHome:
		return s + "where the checkpoint is"
	case ACopy:
		return s + fmt.Sprintf("a copy was there for %s", short(*e.Opened-*e.CopyReady))
	case Late:
		return s + fmt.Sprintf("the copy was there %s later", short(*e.CopyReady-*e.Opened))
	}
	return s + "without a copy"
}

func (e Evaluation) copyStands() string {
	switch {
	case e.CopyReady != nil:
		return fmt.Sprintf(", copied after %s", short(*e.CopyReady))
	case e.CopyBegun != nil:
		return ", being copied"
	}
	return ""
}

func bar(b *strings.Builder, name PhaseName, took, longest time.Duration, width int) {
	n := 0
	if room := width - 34; room > 0 {
		n = int((int64(took)*int64(room) + int64(longest) - 1) / int64(longest))
	}
	mark := "#"
	if name.Storage() {
		mark = "="
	}
	line := fmt.Sprintf("    %-21s %7s %s", name, short(took), strings.Repeat(mark, n))
	b.WriteString(strings.TrimRight(line, " ") + "\n")
}

func (s Summary) write(b *strings.Builder, width int) {
	if s.Evaluations == 0 {
		return
	}
	var total, storage, longest time.Duration
	for name, took := range s.Phases {
		total += took
		longest = max(longest, took)
		if name.Storage() {
			storage += took
		}
	}
	fmt.Fprintf(b, "Evaluations: %d, of them from a copy or at home: %d; in all %s", s.Evaluations, s.Local, short(total))
	if total > 0 {
		least := ""
		if s.Phases[Running] > 0 {
			least = "at least "
		}
		fmt.Fprintf(b, ", of which storage (=) %s%s, %.1f %%", least, short(storage), 100*storage.Seconds()/total.Seconds())
	}
	b.WriteString("\n")
	for _, name := range phaseOrder {
		if took := s.Phases[name]; took > 0 && s.Evaluations > 1 {
			bar(b, name, took, longest, width)
		}
	}
	if s.Phases[Running] > 0 {
		b.WriteString("Reading and computing are told apart where evaluations say when they have read (lifecycle.evaluation_loaded).\n")
	}
	if s.Regressions > 0 {
		fmt.Fprintf(b, "Regressions: %d, declared at an age of %s on average, %s at most\n", s.Regressions, short(s.MeanAge), short(s.LargestAge))
	}
}

// short rounds for people.
func short(d time.Duration) string {
	unit := time.Millisecond
	switch {
	case d.Abs() >= time.Minute:
		unit = time.Second
	case d.Abs() >= time.Second:
		unit = 100 * time.Millisecond
	}
	s := d.Round(unit).String()
	for _, nothing := range []string{"0s", "0m"} {
		if cut, ok := strings.CutSuffix(s, nothing); ok && cut != "" && strings.HasSuffix(cut, map[string]string{"0s": "m", "0m": "h"}[nothing]) {
			s = cut
		}
	}
	return s
}
