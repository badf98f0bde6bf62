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
	// Run executes one agent half and writes its pixels to the front of out, as image.Run does. An output that does
	// not fit is an error of kind limit.
	Run func(plan *transform.Plan, key transform.Key, in, out []byte, lim Limits) (transform.TensorSpec, error)
}

// Serve answers jobs on the inherited descriptors until the pool closes its end. Jobs run one after the other on the
// calling goroutine. It must be called once a process.
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
	if err := send(Welcome{Protocol: Version, Isolation: s.Isolation, Golden: s.Golden()}.Append(nil)); err != nil {
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
		reply := c.answer(req)
		reply.PeakRSS = peakRSS()
		answer = reply.Append(answer[:0])
		if err := send(answer); err != nil {
			return err
		}
	}
}

func (c *conversation) answer(req Request) Reply {
	if req.Input > int64(len(c.in)) {
		return failed(&transform.Error{Kind: transform.KindLimit, Op: "input", Detail: fmt.Sprintf("%d bytes are more than the limit of %d", req.Input, len(c.in))})
	}
	if len(req.Plan) > 0 {
		plan, err := transform.ParsePlan(req.Plan)
		if err != nil {
			return failed(err)
		}
		c.plans[req.Slot] = plan
	}
	plan := c.plans[req.Slot]
	if plan == nil {
		return failed(&transform.Error{Kind: transform.KindPlan, Op: "plan", Detail: fmt.Sprintf("slot %d holds no plan", req.Slot)})
	}
	return c.run(plan, req)
}

// run gives the job all of the output memory, not only what the caller has room for: too little room is the
// caller's mistake and must not look like a fault of the sample.
func (c *conversation) run(plan *transform.Plan, req Request) Reply {
	if spec, ok := plan.Fixed(); ok && spec.Bytes() > req.Output && spec.Bytes() <= int64(len(c.out)) {
		return shaped(Short, spec)
	}
	spec, err := c.server.Run(plan, req.Key, c.in[:req.Input:req.Input], c.out, c.limits)
	switch {
	case err != nil:
		return failed(err)
	case spec.Bytes() > req.Output:
		return shaped(Short, spec)
	}
	return shaped(Done, spec)
}

func shaped(s Status, spec transform.TensorSpec) Reply {
	r := Reply{Status: s}
	for i, d := range spec.Shape {
		r.Shape[i] = int64(d)
	}
	return r
}

func failed(err error) Reply {
	var e *transform.Error
	if !errors.As(err, &e) {
		// Not a fact about the sample but a fault of this program, so it must never substitute the sample.
		e = &transform.Error{Kind: transform.KindCrash, Op: "worker", Detail: err.Error()}
	}
	return Reply{Status: Failed, Error: e}
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

func peakRSS() int64 {
	var ru unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &ru) != nil {
		return 0
	}
	return ru.Maxrss << 10
}

// Connected reports whether this process was started by a pool, that is, whether its control descriptor
// is a socket.
func Connected() bool {
	var st unix.Stat_t
	return unix.Fstat(ControlFD, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK
}
