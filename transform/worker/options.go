package worker

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

// Program is the file name of the worker program for images.
const Program = "stepahead-worker"

// Options configure a Pool. The zero value is usable where [Find] finds the worker program.
type Options struct {
	// Path is the worker program. Default: what Find("") gives at the first job.
	Path string
	// Workers bounds the worker processes, and so the jobs that run at once. Default: the CPUs that this
	// process may use.
	Workers int
	// Idle runs workers in the kernel's SCHED_IDLE class, for hosts whose first duty is something else.
	Idle bool
	// MaxPixels bounds width x height of a decoded image. Default 178,956,970, where Pillow refuses.
	MaxPixels int64
	// MaxInput bounds one encoded input, in bytes. Default 256 MiB.
	MaxInput int64
	// MaxOutput bounds one output, in bytes. Default 1 GiB.
	MaxOutput int64
	// Deadline is the wall-clock time that a job may take before its worker is killed. Default 60 s.
	Deadline time.Duration
	// MemoryLimit bounds the address space of one worker, in bytes; it holds the input and the output too. Default:
	// 2.75 GiB more than those, which makes 4 GiB.
	MemoryLimit int64
	// RequireIsolation lists protections without which no worker may run, by their names in Stats.Isolation; see
	// docs/worker.md. A worker that lacks one is a failed start, whose error says what is missing and why. Default: none,
	// so that what a kernel or container does not offer is missing from Stats.Isolation and no more.
	RequireIsolation []string

	testing testKnobs
}

// testKnobs let tests put another program in the worker's place.
type testKnobs struct {
	args []string
}

// reserve is what a worker's address space needs beyond input, output and decoder: the program, its
// runtime's reservations and thread stacks.
const reserve = 768 << 20

// Validate reports every field that is out of range.
func (o Options) Validate() error {
	var errs []error
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"Workers", int64(o.Workers)}, {"MaxPixels", o.MaxPixels}, {"MaxInput", o.MaxInput},
		{"MaxOutput", o.MaxOutput}, {"Deadline", int64(o.Deadline)}, {"MemoryLimit", o.MemoryLimit},
	} {
		if f.value < 0 {
			errs = append(errs, fmt.Errorf("worker.Options: %s is %d: use a positive number, or 0 for the default", f.name, f.value))
		}
	}
	d := o.withDefaults()
	if need := d.MaxInput + d.MaxOutput + 2*reserve; len(errs) == 0 && d.MemoryLimit < need {
		errs = append(errs, fmt.Errorf("worker.Options: MemoryLimit is %d: MaxInput, MaxOutput and the program itself need at least %d; raise it or lower them", d.MemoryLimit, need))
	}
	return errors.Join(errs...)
}

func (o Options) withDefaults() Options {
	orDefault(&o.Workers, runtime.GOMAXPROCS(0))
	orDefault(&o.MaxPixels, 178_956_970)
	orDefault(&o.MaxInput, 256<<20)
	orDefault(&o.MaxOutput, 1<<30)
	orDefault(&o.Deadline, 60*time.Second)
	orDefault(&o.MemoryLimit, o.MaxInput+o.MaxOutput+2816<<20)
	return o
}

func orDefault[T int | int64 | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// Find returns the path of the worker program: explicit if it is not empty, else the file beside this
// executable, else the one on PATH. The error says where it looked.
func Find(explicit string) (string, error) {
	if explicit != "" {
		path, err := exec.LookPath(explicit)
		if err != nil {
			return "", fmt.Errorf("worker.Find %s: %w", explicit, err)
		}
		return filepath.Abs(path)
	}
	beside := "the executable's folder"
	if self, err := os.Executable(); err == nil {
		beside = filepath.Join(filepath.Dir(self), Program)
		if path, err := exec.LookPath(beside); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(Program)
	if err != nil {
		return "", fmt.Errorf("worker.Find: no %s at %s nor on PATH: install it there, or give its path: %w", Program, beside, err)
	}
	return filepath.Abs(path)
}
