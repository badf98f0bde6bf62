package worker

import (
	"bytes"
	"os"
	"strconv"
)

// peak reads the most memory that a process has held. It looks from outside: what getrusage tells a process about itself
// begins with the size of the process that started it.
type peak struct {
	status *os.File // nil: it cannot be read
	last   int64
}

// watchPeak opens the kernel's account of a process, which stays that process's when the number is given to another.
func watchPeak(pid int) *peak {
	f, err := os.Open(procPath(pid, "status"))
	if err != nil {
		return &peak{}
	}
	return &peak{status: f}
}

// bytes returns the peak so far.
func (p *peak) bytes() int64 {
	if p.status == nil {
		return 0
	}
	var buf [4096]byte
	n, _ := p.status.ReadAt(buf[:], 0)
	_, line, found := bytes.Cut(buf[:n], []byte("\nVmHWM:"))
	if !found {
		return p.last // the process is gone
	}
	line, _, _ = bytes.Cut(line, []byte(" kB\n"))
	if kib, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 64); err == nil {
		p.last = kib << 10
	}
	return p.last
}

func (p *peak) close() {
	if p.status != nil {
		p.status.Close()
	}
}
