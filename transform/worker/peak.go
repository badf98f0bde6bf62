package worker

import (
	"bytes"
	"os"
	"strconv"
)

// peak reads the most memory that a process has held, and its private address space. It looks from outside: what
// getrusage tells a process about itself begins with the size of the process that started it.
type peak struct {
	status        *os.File // nil: it cannot be read
	most, private int64    // as last seen
}

// watchPeak opens the kernel's account of a process, which stays that process's when the number is given to another.
func watchPeak(pid int) *peak {
	f, err := os.Open(procPath(pid, "status"))
	if err != nil {
		return &peak{}
	}
	return &peak{status: f}
}

// bytes returns the peak so far, and the private address space of now.
func (p *peak) bytes() (most, private int64) {
	if p.status == nil {
		return 0, 0
	}
	var buf [4096]byte
	n, _ := p.status.ReadAt(buf[:], 0)
	field(&p.most, buf[:n], "VmHWM")
	field(&p.private, buf[:n], "VmData")
	return p.most, p.private
}

// field sets to what an account says under a name; of a process that is gone it says nothing.
func field(to *int64, account []byte, name string) {
	_, line, _ := bytes.Cut(account, []byte("\n"+name+":"))
	line, _, _ = bytes.Cut(line, []byte(" kB\n"))
	if kib, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 64); err == nil {
		*to = kib << 10
	}
}

func (p *peak) close() {
	if p.status != nil {
		p.status.Close()
	}
}
