package protocol

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/stepahead-io/stepahead/transform"
)

// Server is what a worker program brings to the conversation.
type Server struct {
	// Golden returns the golden digest (hex) of every operator identity.
	Golden func() map[string]string
	// Isolation names what this process has locked down by itself.
	Isolation []string
	// Refused says why protections are not in force, by their names.
	Refused map[string]string
	// Run executes the agent halves of up to MaxBatch samples, one after the other, and writes the pixels of each to the
	// front of its Out, as image.RunBatch does. An output that does not fit is an error of kind limit.
	Run func(samples []Sample, lim Limits, results []Result)
	// Rest is called after each reply, when nobody waits. Optional.
	Rest func()
}

// Sample is what to run: the agent half of a plan on the encoded bytes In.
type Sample struct {
	Plan    *transform.Plan
	Key     transform.Key
	In, Out []byte
}

// Result is what became of a sample.
type Result struct {
	Spec transform.TensorSpec
	Err  error
}

// Serve answers jobs on the inherited descriptors until the pool closes its end. Jobs run on the calling goroutine. It must be called once a process.
func Serve(s Server) error {
	buf := make([]byte, MaxPacket+1)
	packet, err := receive(buf)
	if err != nil || packet == nil {
		return err
	}
	hello, err := ParseHello(packet)
	if err != nil {
		return err
	}
	if err := send(Welcome{Protocol: Version, Isolation: s.Isolation, Refused: s.Refused, Golden: s.Golden()}.Append(nil)); err != nil {
		return err
	}
	if hello.Protocol != Version {
		return fmt.Errorf("protocol: the caller speaks version %d, this program %d: install them from one release", hello.Protocol, Version)
	}
	c := conversation{server: s, limits: hello.Limits}
	if c.in, err = mapMemory(InputFD, hello.Limits.MaxInput, unix.PROT_READ); err != nil {
		return err
	}
	if c.out, err = mapMemory(OutputFD, hello.Limits.MaxOutput, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return err
	}
	return c.loop(buf)
}

type conversation struct {
	server  Server
	limits  Limits
	in, out []byte
	plans   [PlanSlots]*transform.Plan
	// Of the request at work: its samples that are to run, which of its jobs they are, and what came out.
	samples []Sample
	jobs    []int
	results [MaxBatch]Result
}

func (c *conversation) loop(buf []byte) error {
	var answer []byte
	for {
		packet, err := receive(buf)
		if err != nil || packet == nil {
			return err
		}
		req, err := ParseRequest(packet)
		if err != nil {
			return err
		}
		answer = c.answer(req).Append(answer[:0])
		if err := send(answer); err != nil {
			return err
		}
		if c.server.Rest != nil {
			c.server.Rest()
		}
	}
}

func (c *conversation) answer(req Request) Reply {
	reply := make(Reply, len(req))
	c.samples, c.jobs = c.samples[:0], c.jobs[:0]
	var in, out int64 // bytes used so far
	for i, j := range req {
		var inAt, outAt int64
		inAt, in = Place(in, j.Input)
		outAt, out = Place(out, j.Output)
		s, o := c.accept(j, inAt, outAt, len(req) == 1)
		if s.Plan == nil {
			reply[i] = o
			continue
		}
		c.samples, c.jobs = append(c.samples, s), append(c.jobs, i)
	}
	c.server.Run(c.samples, c.limits, c.results[:len(c.samples)])
	for k, i := range c.jobs {
		reply[i] = outcomeOf(c.results[k], req[i].Output)
	}
	return reply
}

// accept finds the plan and the memory of a job. A sample without a plan is not to run, and has its outcome already.
//
// A job that is alone gets all of the output memory, not only what the caller has room for: too little room is
// the caller's mistake and must not look like a fault of the sample. In a batch it does; the pool then tries the sample alone.
func (c *conversation) accept(j Job, in, out int64, alone bool) (Sample, Outcome) {
	if j.Input > int64(len(c.in))-in || j.Output > int64(len(c.out))-out && !alone {
		return Sample{}, failed(&transform.Error{Kind: transform.KindLimit, Op: "input", Detail: fmt.Sprintf("%d bytes at %d for %d bytes at %d are more than the limits of %d and %d", j.Input, in, j.Output, out, len(c.in), len(c.out))})
	}
	plan, err := c.plan(j)
	if err != nil {
		return Sample{}, failed(err)
	}
	if spec, ok := plan.Fixed(); ok && spec.Bytes() > j.Output && spec.Bytes() <= int64(len(c.out)) {
		return Sample{}, shaped(Short, spec)
	}
	s := Sample{Plan: plan, Key: j.Key, In: c.in[in:][:j.Input:j.Input], Out: c.out}
	if !alone {
		s.Out = c.out[out:][:j.Output:j.Output]
	}
	return s, Outcome{}
}

// plan returns a job's plan, which is remembered first if the job brings it.
func (c *conversation) plan(j Job) (*transform.Plan, error) {
	if len(j.Plan) > 0 {
		plan, err := transform.ParsePlan(j.Plan)
		c.plans[j.Slot] = plan // nothing if it cannot be read: a later job must not find an older one there
		if err != nil {
			return nil, err
		}
	}
	if c.plans[j.Slot] == nil {
		return nil, &transform.Error{Kind: transform.KindPlan, Op: "plan", Detail: fmt.Sprintf("slot %d holds no plan", j.Slot)}
	}
	return c.plans[j.Slot], nil
}

func outcomeOf(r Result, room int64) Outcome {
	switch {
	case r.Err != nil:
		return failed(r.Err)
	case r.Spec.Bytes() > room:
		return shaped(Short, r.Spec)
	}
	return shaped(Done, r.Spec)
}

func shaped(s Status, spec transform.TensorSpec) Outcome {
	o := Outcome{Status: s}
	for i, d := range spec.Shape {
		o.Shape[i] = int64(d)
	}
	return o
}

func failed(err error) Outcome {
	var e *transform.Error
	if !errors.As(err, &e) {
		// Not a fact about the sample but a fault of this program, so it must never substitute the sample.
		e = &transform.Error{Kind: transform.KindCrash, Op: "worker", Detail: err.Error()}
	}
	return Outcome{Status: Failed, Error: e}
}

func mapMemory(fd int, size int64, prot int) ([]byte, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("protocol: descriptor %d: %w", fd, err)
	}
	if size < 1 || st.Size < size {
		return nil, fmt.Errorf("protocol: descriptor %d has %d bytes, announced were %d", fd, st.Size, size)
	}
	b, err := unix.Mmap(fd, 0, int(size), prot, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("protocol: mapping %d bytes of descriptor %d: %w", size, fd, err)
	}
	return b, nil
}

// receive returns the next packet, or nil at the end of the conversation. It blocks in the system call: a
// worker has nothing else to do, and waking through the runtime's poller would cost more than the call.
func receive(buf []byte) ([]byte, error) {
	for {
		n, err := unix.Read(ControlFD, buf)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.ECONNRESET:
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("protocol: reading descriptor %d: %w", ControlFD, err)
		case n == 0:
			return nil, nil
		case n > MaxPacket:
			return nil, fmt.Errorf("protocol: a message of more than %d bytes", MaxPacket)
		}
		return buf[:n], nil
	}
}

func send(packet []byte) error {
	for {
		_, err := unix.Write(ControlFD, packet)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("protocol: writing descriptor %d: %w", ControlFD, err)
		}
		return nil
	}
}

// Connected reports whether this process was started by a pool, that is, whether its control descriptor
// is a socket.
func Connected() bool {
	var st unix.Stat_t
	return unix.Fstat(ControlFD, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK
}
