package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/stepahead-io/stepahead/transform/worker/protocol"
)

// greet opens the conversation with a new worker and puts it into its scheduling class.
func (p *Pool) greet(ctx context.Context, w *process) error {
	kill := w.begin()
	defer w.end()
	defer time.AfterFunc(startTimeout, func() { kill(reasonStart) }).Stop()
	defer context.AfterFunc(ctx, func() { kill(reasonCancel) })()

	hello := protocol.Hello{Protocol: protocol.Version, Limits: p.o.limits()}
	if _, err := w.conn.Write(hello.Append(nil)); err != nil {
		return fmt.Errorf("it did not listen: %w", err)
	}
	packet, err := w.hear()
	if err != nil {
		return fmt.Errorf("it did not answer: %w", err)
	}
	welcome, err := protocol.ParseWelcome(packet)
	if err != nil {
		return err
	}
	if welcome.Protocol != protocol.Version {
		return fmt.Errorf("it speaks protocol version %d, this program %d: install both from one release", welcome.Protocol, protocol.Version)
	}
	if err := limitFiles(w.cmd.Process.Pid); err != nil {
		return err
	}
	isolation := slices.Concat([]string{"process", "rlimits"}, welcome.Isolation)
	if p.o.Idle {
		if err := makeIdle(w.cmd.Process.Pid); err != nil {
			return err
		}
		isolation = append(isolation, "sched_idle")
	}
	if err := p.o.enough(isolation, welcome.Refused); err != nil {
		return err
	}
	return p.learn(welcome.Golden, isolation)
}

// enough compares the protections in force with those that are required.
func (o Options) enough(inForce []string, refused map[string]string) error {
	var missing []string
	for _, name := range o.RequireIsolation {
		if slices.Contains(inForce, name) {
			continue
		}
		why := refused[name]
		if why == "" {
			why = "the program does not offer it; it has " + strings.Join(inForce, ", ")
		}
		missing = append(missing, fmt.Sprintf("%s (%s)", name, printable(why)))
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("isolation that is required is not in force: %s; run it on a kernel and in a container that offer it, or require less", strings.Join(missing, "; "))
}

func (o Options) limits() protocol.Limits {
	return protocol.Limits{
		MaxPixels: o.MaxPixels, MaxInput: o.MaxInput, MaxOutput: o.MaxOutput,
		MaxMemory: o.MemoryLimit - o.reserve(),
	}
}

// hear reads one packet; it is valid until the next call.
func (w *process) hear() ([]byte, error) {
	n, err := w.conn.Read(w.buf)
	if err != nil {
		return nil, err
	}
	if n > protocol.MaxPacket {
		return nil, fmt.Errorf("a message of more than %d bytes", protocol.MaxPacket)
	}
	return w.buf[:n], nil
}

// disconnected reports whether err means that the other side is gone, not that it said something wrong.
func disconnected(err error) bool {
	return errors.Is(err, errNotSent) || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}
