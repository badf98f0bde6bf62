// Package service lets operators and jobs see what the controller does, and take it back: over gRPC, each within the rights of its token, and as metrics.
package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/stepahead-io/stepahead/controller/audit"
	"github.com/stepahead-io/stepahead/controller/control"
	"github.com/stepahead-io/stepahead/controller/controllerpb"
	"github.com/stepahead-io/stepahead/controller/execute"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/timeline"
	"github.com/stepahead-io/stepahead/internal/auth"
	"github.com/stepahead-io/stepahead/internal/auth/peer"
)

// Engine is what acts: execute.Engine.
type Engine interface {
	// Tell gives an event to the planner for somebody, and returns when it was applied.
	Tell(ctx context.Context, who string, ev plan.Event) error
	// Ask runs f where the planner may be read.
	Ask(ctx context.Context, f func(p *plan.Planner, now time.Duration)) error
}

// Options configure a [Service]. Keys, Log and Metrics are required.
type Options struct {
	// Keys verify tokens. auth.Insecure lets everybody on this host do everything.
	Keys auth.Keyring
	// TLS secures the connections; without it only loopback addresses are served.
	TLS *tls.Config
	// Version is the program's.
	Version string
	Log     *zap.Logger
	Metrics prometheus.Registerer
}

// Active is what a controller has that holds the lease, or acts on nothing.
type Active struct {
	// Name is the controller's, as marks have it.
	Name   string
	Engine Engine
	// Audit, if not nil, is what calls of Audit read and [Service.Record] adds to.
	Audit *audit.Log
	// Held returns nil while the lease is held; nil where none is needed.
	Held func(ctx context.Context) error
	// Sweep undoes what lies in the stores and no placement of this controller's is: what is over, or all of it, in all stores that answer.
	Sweep func(ctx context.Context, all, dryRun bool) control.SweepResult
	// Drained, if not nil, remembers over a restart that nothing new is to begin. That it cannot keeps nobody from draining.
	Drained func(on bool) error
	// Revoked, if not nil, remembers over a restart what was revoked. That it cannot keeps nobody from revoking.
	Revoked func(list []plan.Standing) error
	// Stats, if not nil, is what the engine counts.
	Stats func() execute.Stats
	// DryRun says that nothing is acted on.
	DryRun bool
	// Progress, if not nil, is how far makings under way are.
	Progress func() map[plan.ID]plan.Progress
	// Ready, if not nil, says how many nodes serve a hot file now, by rack, that of a placement.
	Ready func(ctx context.Context, path string, id plan.ID) (map[string]int, error)
	// Timeline, if not nil, is what calls of Timeline read, and what evaluations are counted from.
	Timeline *timeline.Log
	// Resolve, if not nil, returns the name in the home store that a URL means.
	Resolve func(url string) (name string, err error)
	// Problems, if not nil, says what is not as it should be, each in a sentence.
	Problems func() []string
}

// Service answers for one controller. Before [Service.Activate] it is a standby: it answers Status alone.
type Service struct {
	controllerpb.UnimplementedControlServer
	o       Options
	began   time.Time
	metrics *metrics
	limits  limits
	life    context.Context // ends when Run does: those who follow end
	end     context.CancelFunc

	mu     sync.Mutex
	active *Active
}

// New returns a service on standby.
func New(o Options) (*Service, error) {
	s := &Service{o: o, began: time.Now()}
	s.life, s.end = context.WithCancel(context.Background())
	var err error
	s.metrics, err = newMetrics(s)
	if err != nil {
		return nil, fmt.Errorf("service.New: %w", err)
	}
	return s, nil
}

// Activate lets the service answer for a controller that acts.
func (s *Service) Activate(a Active) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active = &a
}

// Record adds an entry to the audit log, and counts it. What is known by its URL, as marks of copies know their original, is found by its name in the home store.
func (s *Service) Record(e audit.Entry) {
	s.metrics.count(e)
	a := s.now()
	if a == nil || a.Audit == nil {
		return
	}
	if name, err := a.named(e.Path); err == nil {
		e.Path = name
	}
	a.Audit.Add(e)
}

// now is what the controller has, nil on standby.
func (s *Service) now() *Active {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active
}

// far adds how far what is being made is.
func (a *Active) far(list []plan.Standing) {
	if a.Progress == nil {
		return
	}
	all := a.Progress()
	for i := range list {
		if p, ok := all[list[i].ID]; ok && list[i].UnderWay() {
			list[i].Progress = &p
		}
	}
}

// named is a path inside the home store, which callers may give as a URL.
func (a *Active) named(path string) (string, error) {
	if a.Resolve == nil || !strings.Contains(path, "://") {
		return path, nil
	}
	name, err := a.Resolve(path)
	if err != nil {
		return "", fmt.Errorf("%w: %.256s: %w", errInvalid, path, err)
	}
	return name, nil
}

// errStandby is what a standby answers.
var errStandby = errors.New("this controller is not the active one: it has only just started, or is a standby while another one holds the lease; ask again in a moment, or ask that one")

func (s *Service) acting() (*Active, error) {
	a := s.now()
	if a == nil {
		return nil, errStandby
	}
	return a, nil
}

// called returns who makes a call, if he may see anything, and what acts.
func (s *Service) called(ctx context.Context) (caller, *Active, error) {
	c, err := s.from(ctx)
	if err != nil {
		return c, nil, err
	}
	a, err := s.acting()
	return c, a, err
}

// maxMessage bounds a request, in bytes.
const maxMessage = 1 << 20

// Run serves on lis, which it closes, until ctx ends; then it ends the calls that run and returns nil.
func (s *Service) Run(ctx context.Context, lis net.Listener) error {
	if err := peer.MayServe(lis.Addr(), s.o.TLS != nil, s.o.Keys); err != nil {
		return fmt.Errorf("service.Run: %w", errors.Join(err, lis.Close()))
	}
	opts := append(peer.ServerOptions(), grpc.MaxRecvMsgSize(maxMessage), grpc.UnaryInterceptor(s.unary), grpc.StreamInterceptor(s.stream))
	if s.o.TLS != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(s.o.TLS)))
	}
	srv := grpc.NewServer(opts...)
	controllerpb.RegisterControlServer(srv, s)
	stopped := make(chan struct{})
	alone := context.AfterFunc(ctx, func() {
		defer close(stopped)
		s.end()
		peer.Stop(srv)
	})
	err := srv.Serve(lis)
	if alone() { // it failed by itself
		return fmt.Errorf("service.Run: serve %s: %w", lis.Addr(), err)
	}
	<-stopped
	return nil
}

// Handler serves GET /healthz: 200 while the controller answers, or waits for the lease.
func (s *Service) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		a := s.now()
		if a == nil {
			_, _ = w.Write([]byte("ok: standby\n"))
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), collectTime)
		defer cancel()
		if err := a.Engine.Ask(ctx, func(*plan.Planner, time.Duration) {}); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	return mux
}
