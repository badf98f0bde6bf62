package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/worker"
)

// transformFlags say what to do with which file.
type transformFlags struct {
	plan, output, worker string
	key                  transform.Key
	deadline             time.Duration
	json                 bool
}

func newTransformCommand() *cobra.Command {
	var f transformFlags
	c := &cobra.Command{
		Use:   "transform --plan PLAN.json FILE -o OUT.npy",
		Short: "Put one image file through a plan and write the tensor",
		Long: `Put one image file through a plan, with the worker program that training uses, and write the tensor as a
NumPy file of shape (height, width, channels). Random operators draw what they draw for that seed, source, epoch and
sample in training. NumPy has no bfloat16: such a tensor is written as the uint16 numbers of its bits; read it with
torch.from_numpy(numpy.load(f)).view(torch.bfloat16).

Exit codes: 0 written; 1 the file's content is bad; 2 the command line or the plan is wrong; 3 anything else, such as a
missing file or worker program. The output appears whole or not at all. With --json, what the plan or the file's content
is refused for is printed as {"error": {"kind", "op", "detail", "file"}} too.`,
		Example: "  stepahead transform --plan plan.json --seed 7 --sample 12 cat.jpg -o cat.npy",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := runTransform(cmd.Context(), f, args[0], cmd.OutOrStdout())
			if f.json && err != nil {
				printFailure(cmd.OutOrStdout(), args[0], err)
			}
			return err
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.plan, "plan", "", "plan JSON file (required)")
	flags.StringVarP(&f.output, "output", "o", "", "NumPy file to write; an existing one is replaced (required)")
	flags.Uint64Var(&f.key.Seed, "seed", 0, "seed of the job")
	flags.StringVar(&f.key.Source, "source", "", "name of the source in a mixture; empty for a single dataset")
	flags.Uint64Var(&f.key.Epoch, "epoch", 0, "epoch")
	flags.Uint64Var(&f.key.Sample, "sample", 0, "sample id")
	flags.StringVar(&f.worker, "worker", os.Getenv("STEPAHEAD_WORKER"), "worker program (default: $STEPAHEAD_WORKER, beside this program, on PATH)")
	flags.DurationVar(&f.deadline, "deadline", 60*time.Second, "time after which the worker is killed")
	flags.BoolVar(&f.json, "json", false, "print a JSON object that describes the tensor, or the error")
	return c
}

// description is what the command prints about a tensor.
type description struct {
	Output   string          `json:"output"`
	Dtype    transform.Dtype `json:"dtype"`
	Shape    []int           `json:"shape"`
	StoredAs string          `json:"stored_as"` // the file's dtype, in NumPy's words
	SHA256   string          `json:"sha256"`    // of the elements, height x width x channels, little-endian
	Plan     string          `json:"plan_digest"`
	CPU      float64         `json:"worker_cpu_seconds"`
}

func runTransform(ctx context.Context, f transformFlags, input string, stdout io.Writer) error {
	switch {
	case f.plan == "":
		return exit.Usage(errors.New("transform: --plan PLAN.json is missing"))
	case f.output == "":
		return exit.Usage(errors.New("transform: -o OUT.npy is missing"))
	}
	text, err := readPlan(f.plan)
	if err != nil {
		return fmt.Errorf("transform: reading the plan: %w", err)
	}
	plan, err := transform.ParsePlan(text)
	if err != nil {
		return exit.Usage(fmt.Errorf("%s: %w", f.plan, err))
	}
	data, err := readInput(input)
	if err != nil {
		return err
	}
	d := description{Output: f.output, Plan: hexDigest(plan.Digest())}
	tensor, err := transformOne(ctx, f, plan, worker.Part{Name: input, Data: data}, &d)
	if err != nil {
		return codeOfTransform(err)
	}
	if d.StoredAs, err = writeNPY(f.output, d.Dtype, d.Shape, tensor); err != nil {
		return err
	}
	d.SHA256 = hexDigest(sha256.Sum256(tensor))
	return printDescription(stdout, d, f.json)
}

// printFailure prints a failed transform as JSON; of other errors, such as a missing file, it prints nothing.
func printFailure(w io.Writer, input string, err error) {
	var e *transform.Error
	if !errors.As(err, &e) {
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"error": map[string]any{"kind": e.Kind, "op": e.Op, "detail": e.Detail, "file": input},
	}) // standard error has it in any case
}

// readPlan reads a plan, which may come through a pipe, and one byte more than a plan may have, which the
// parser refuses.
func readPlan(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, transform.MaxPlanBytes+1))
}

func hexDigest(d [32]byte) string { return hex.EncodeToString(d[:]) }

// maxInputFile is the largest file read whole; it is the pool's own default limit.
const maxInputFile = 256 << 20

func readInput(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("transform: %w", err)
	case !info.Mode().IsRegular():
		return nil, exit.Usage(fmt.Errorf("transform: %s is not a file", path))
	case info.Size() > maxInputFile:
		return nil, exit.Finding(fmt.Errorf("transform: %s has %d bytes, the limit is %d", path, info.Size(), maxInputFile))
	}
	return os.ReadFile(path)
}

// transformOne runs both halves of the plan and fills in what d says of the tensor.
func transformOne(ctx context.Context, f transformFlags, plan *transform.Plan, in worker.Part, d *description) ([]byte, error) {
	agent, rest := plan.Cut()
	pool, err := worker.New(worker.Options{Path: f.worker, Workers: 1, Deadline: f.deadline})
	if err != nil {
		return nil, exit.Usage(err)
	}
	defer pool.Close()
	pixels, res, err := runAgentHalf(ctx, pool, worker.Job{Plan: agent, Key: f.key}, in)
	if err != nil {
		return nil, err
	}
	finisher, err := transform.NewFinisher(rest, res.Spec.Shape[2])
	if err != nil {
		return nil, err
	}
	spec := finisher.Spec(res.Spec)
	d.Dtype, d.Shape, d.CPU = spec.Dtype, spec.Shape, res.CPU.Seconds()
	tensor := make([]byte, spec.Bytes())
	finisher.Apply(tensor, pixels)
	finisher.Erase(tensor, spec.Shape[0], spec.Shape[1], f.key)
	return tensor, nil
}

// runAgentHalf runs a job whose output's size may be unknown until the file is decoded.
func runAgentHalf(ctx context.Context, pool *worker.Pool, job worker.Job, in worker.Part) ([]byte, worker.Result, error) {
	room := int64(16 << 20)
	if spec, ok := job.Plan.Fixed(); ok {
		room = spec.Bytes()
	}
	out := make([]byte, room)
	res, err := pool.Run(ctx, job, in, out)
	var short *worker.ShortBufferError
	if errors.As(err, &short) {
		out = make([]byte, short.Need)
		res, err = pool.Run(ctx, job, in, out)
	}
	return out[:res.Bytes], res, err
}

// codeOfTransform maps what went wrong to the exit code.
func codeOfTransform(err error) error {
	var e *transform.Error
	switch {
	case !errors.As(err, &e):
		return err
	case e.Content():
		return exit.Finding(err)
	case e.Kind == transform.KindPlan:
		return exit.Usage(err)
	case e.Kind == transform.KindIO:
		return fmt.Errorf("%w; name the program by --worker", err)
	}
	return err
}

func printDescription(w io.Writer, d description, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(d)
	}
	note := ""
	if d.StoredAs != string(d.Dtype) {
		note = " stored as " + d.StoredAs
	}
	_, err := fmt.Fprintf(w, "%s: %s%s %v, sha256 %s\n", d.Output, d.Dtype, note, d.Shape, d.SHA256)
	return err
}

// writeNPY writes a tensor as a NumPy file of format 1.0 and returns the dtype that the file names. It writes beside
// the target, syncs and renames, so that the target is the old file or the whole new one.
func writeNPY(path string, dtype transform.Dtype, shape []int, tensor []byte) (storedAs string, err error) {
	path, err = replaceable(path)
	if err != nil {
		return "", err
	}
	folder := filepath.Dir(path)
	f, err := os.CreateTemp(folder, ".stepahead-transform.*") // not the file's own name, which may be as long as one can be
	if err != nil {
		var cause *fs.PathError // names the temporary file, which nobody knows
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return "", fmt.Errorf("transform: -o %s: cannot write into the folder %s: %w", path, folder, err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
			err = fmt.Errorf("transform: writing %s: %w", path, err)
		}
	}()
	header, storedAs := npyHeader(dtype, shape)
	for _, step := range []func() error{
		func() error { _, err := f.Write(header); return err },
		func() error { _, err := f.Write(tensor); return err },
		func() error { return f.Chmod(0o644) },
		f.Sync,
		f.Close,
		func() error { return os.Rename(f.Name(), path) },
	} {
		if err := step(); err != nil {
			return "", err
		}
	}
	return storedAs, nil
}

// replaceable returns the file that path names, through links, and refuses what a rename would destroy: devices
// and pipes.
func replaceable(path string) (string, error) {
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return missing(path), nil
	}
	if err != nil {
		return "", fmt.Errorf("transform: %w", err)
	}
	info, err := os.Stat(target)
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		err = exit.Usage(fmt.Errorf("transform: -o %s is not a file (%s): name one", path, info.Mode().Type()))
	}
	return target, err
}

// maxLinks is how many links in a row are followed: as many as Linux follows.
const maxLinks = 40

// missing returns what a path that names no file names once it is written: the end of the links that begin there.
func missing(path string) string {
	for range maxLinks {
		link, err := os.Readlink(path)
		if err != nil {
			return path // no link
		}
		folder, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return path // whoever writes there says so
		}
		if !filepath.IsAbs(link) {
			link = filepath.Join(folder, link)
		}
		path = link
	}
	return path
}

// npyHeader returns the bytes before the elements: magic, version, length, and a Python dict padded to 64 bytes.
func npyHeader(dtype transform.Dtype, shape []int) (header []byte, storedAs string) {
	descr := map[transform.Dtype][2]string{
		transform.Uint8: {"|u1", "uint8"}, transform.Float32: {"<f4", "float32"},
		transform.Float16: {"<f2", "float16"}, transform.BFloat16: {"<u2", "uint16"},
	}[dtype]
	dims := strings.Trim(fmt.Sprint(shape), "[]")
	dict := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr[0], strings.ReplaceAll(dims, " ", ", "))
	const prefix = 10 // magic, version and length
	pad := 63 - (prefix+len(dict))%64
	dict += strings.Repeat(" ", pad) + "\n"
	header = append([]byte("\x93NUMPY\x01\x00"), byte(len(dict)), byte(len(dict)>>8))
	return append(header, dict...), descr[1]
}
