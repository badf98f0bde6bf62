package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/stepahead-io/stepahead/agent/fetch"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/relay"
	"github.com/stepahead-io/stepahead/internal/auth/peer"
	"github.com/stepahead-io/stepahead/store"
)

// withdrawTime is how long the withdrawal of the registry entry may take when the agent stops.
const withdrawTime = 2 * time.Second

// errRan is a second Run.
var errRan = errors.New("it was run before: make a new one")

// Run serves hints and fetches on lis, which it closes, until ctx ends; then it withdraws its registry
// entry, ends the calls that run, frees everything and returns nil. Every goroutine it started has ended
// when it returns. An agent runs once.
func (a *Agent) Run(ctx context.Context, lis net.Listener) error {
	if !a.ran.CompareAndSwap(false, true) {
		return fmt.Errorf("agent.Run: %w", errors.Join(errRan, lis.Close()))
	}
	if err := peer.MayServe(lis.Addr(), a.o.TLS != nil, a.o.Keys); err != nil {
		return fmt.Errorf("agent.Run: %w", errors.Join(err, lis.Close()))
	}
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	srv := grpc.NewServer(slices.Concat(fetch.ServerOptions(), a.auditCalls(), a.security())...)
	fetch.Register(srv, a.o.Node, a, a.o.Keys)
	hints.Serve(srv, a, a.o.Keys)
	if s, ok := a.o.Relay.(relay.Source); ok {
		relay.Serve(srv, s, a.o.Keys, a.leaving)
	}
	l := a.newLoop(work)
	a.group.Go(l.run)
	a.group.Go(func() { a.watchLoad(work) })
	if a.o.Registry != "" {
		a.group.Go(func() { a.register(ctx, cmp.Or(a.o.Address, lis.Addr().String())) })
	}
	served := make(chan error, 1)
	a.group.Go(func() { served <- srv.Serve(fetch.Listener(lis)) })
	var err error
	select {
	case <-ctx.Done():
	case err = <-served:
		err = fmt.Errorf("agent.Run: serve %s: %w", lis.Addr(), err)
	}
	close(a.leaving)
	peer.Stop(srv)
	stop()
	a.group.Wait()
	return err
}

// security is the server's half of TLS.
func (a *Agent) security() []grpc.ServerOption {
	opts := []grpc.ServerOption{grpc.MaxRecvMsgSize(hints.MaxMessage)}
	if a.o.TLS != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(a.o.TLS)))
	}
	return opts
}

// watchLoad samples the load of others at equal intervals until ctx ends.
func (a *Agent) watchLoad(ctx context.Context) {
	ticker := time.NewTicker(a.o.Sample)
	defer ticker.Stop()
	for {
		a.sampleLoad()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (a *Agent) sampleLoad() {
	s, err := a.o.Load.Sample(a.now())
	if errors.Is(err, ErrNoSample) {
		return
	}
	if err != nil {
		a.metrics.loadFailures.Inc()
		a.o.Log.Warn("load not known: nothing new starts", zap.Error(err))
	}
	a.metrics.load.WithLabelValues("cpu").Set(s.CPU)
	a.metrics.load.WithLabelValues("delay").Set(s.Delay)
	a.metrics.load.WithLabelValues("memory").Set(s.Memory)
	a.metrics.load.WithLabelValues("io").Set(s.IO)
	a.mail.put(envelope{ev: loadEvent{load: s, known: err == nil}})
}

// register keeps the agent's registry entry fresh until ctx ends, and then withdraws it.
func (a *Agent) register(ctx context.Context, addr string) {
	p := hints.NewPublisher(store.Files{Store: a.o.RegistryStore}, a.o.Registry)
	entry := hints.Entry{
		Node: a.o.Node, Addr: addr, TTL: a.o.RegistryTTL,
		Versions: map[string]int{"fetch": fetch.ProtocolVersion, "hints": hints.ProtocolVersion},
	}
	ticker := time.NewTicker(a.o.RegistryTTL / 3)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if err := p.Publish(ctx, entry); err != nil && ctx.Err() == nil {
			a.metrics.registryFailures.Inc()
			a.o.Log.Warn("registry entry not renewed: new jobs do not find this agent", zap.Error(err))
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTime)
	defer cancel()
	if err := p.Withdraw(ctx, a.o.Node); err != nil {
		a.o.Log.Warn("registry entry not withdrawn: it expires by itself", zap.Error(err))
	}
}
