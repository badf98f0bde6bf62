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
	// MemoryLimit bounds the address space of one worker, in bytes; it holds the program, the input, the output, pictures
	// between two operators and the decoder. Default: what leaves 2 GiB to the decoder, which makes 6.6 GiB.
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

// program is the address space of a worker that has not seen a picture: its code, its runtime's reservations (1,260 MiB
// measured on amd64) and thread stacks.
const program = 1408 << 20

// leastDecoder and usualDecoder are the memory of decoder and resampler that a worker must have, and has by default.
const leastDecoder, usualDecoder = 64 << 20, 2 << 30

// pictures is the address space for what the worker's Go side holds of one picture at the same time: as it is stored and
// as it is turned, or a GIF's colours and their numbers; and before and after an operator.
func (o Options) pictures() int64 { return 4 * 3 * o.MaxPixels }

// reserve is what a worker's address space needs beyond the decoder.
func (o Options) reserve() int64 { return o.MaxInput + o.MaxOutput + o.pictures() + program }

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
	if need := d.reserve() + leastDecoder; len(errs) == 0 && d.MemoryLimit < need {
		errs = append(errs, fmt.Errorf("worker.Options: MemoryLimit is %d: MaxInput, MaxOutput, MaxPixels and the program itself need at least %d; raise it or lower them", d.MemoryLimit, need))
	}
	return errors.Join(errs...)
}

func (o Options) withDefaults() Options {
	orDefault(&o.Workers, runtime.GOMAXPROCS(0))
	orDefault(&o.MaxPixels, 178_956_970)
	orDefault(&o.MaxInput, 256<<20)
	orDefault(&o.MaxOutput, 1<<30)
	orDefault(&o.Deadline, 60*time.Second)
	orDefault(&o.MemoryLimit, o.reserve()+usualDecoder)
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
