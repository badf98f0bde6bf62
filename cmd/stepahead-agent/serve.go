package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/agent"
	"github.com/stepahead-io/stepahead/cmd/daemon"
	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/internal/localfile"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/address"
	"github.com/stepahead-io/stepahead/transform/worker"
)

const (
	// overhead is what the agent may use beyond the shelf before it collects garbage harder: raw bytes
	// on their way and indexes.
	overhead = 512 << 20
	// remoteTTL is how long a registry entry in a store elsewhere counts: an entry costs its service some calls each
	// time that it is written, and there is one for every storage node.
	remoteTTL = 3 * time.Minute
)

// serve runs an agent until ctx ends.
func serve(ctx context.Context, s settings, out io.Writer) error {
	log, err := daemon.NewLog(s.logLevel)
	if err != nil {
		return exit.Usage(err)
	}
	defer func() { _ = log.Sync() }() // standard error may not support it
	place, err := openPlace(ctx, &s)
	if err != nil {
		return err
	}
	defer place.Close()
	s.node = place.Node
	program, err := worker.Find(s.worker)
	if err != nil {
		return err
	}
	if s.workers == 0 {
		s.workers = max(1, runtime.NumCPU()/2)
	}
	pool, err := worker.New(worker.Options{
		Path: program, Workers: s.workers, Idle: true, Deadline: s.deadline,
		RequireIsolation: strings.FieldsFunc(s.isolation, func(r rune) bool { return r == ',' || r == ' ' }),
	})
	if err != nil {
		return err
	}
	defer pool.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), workerMetrics{pool})
	if c, ok := place.Store.(store.ReadCounter); ok {
		registry.MustRegister(readMetrics{c})
	}
	o, closeRegistry, err := options(ctx, s, place, pool, registry, log)
	if err != nil {
		return err
	}
	defer closeRegistry()
	ledger, err := openLedger(s, place, log)
	if err != nil {
		return err
	}
	if ledger != nil {
		defer ledger.Close()
		o.Relay = ledger
	}
	lis, err := net.Listen("tcp", s.at.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	defer lis.Close()
	if o.Address, err = s.advertised(lis.Addr(), os.Hostname); err != nil {
		return err
	}
	a, err := agent.New(o)
	if err != nil {
		return exit.Usage(err)
	}
	if _, err := pool.Golden(ctx); err != nil {
		return fmt.Errorf("the worker program %s does not work: %w: give another with --worker", program, err)
	}
	sweep, err := sweeping(s, place.Store, registry, log)
	if err != nil {
		return exit.Usage(err)
	}
	debug.SetMemoryLimit(int64(s.memory) + overhead)
	return run(ctx, a, lis, s, registry, sweep, out)
}

// run opens the pages' address, says in one line where the agent listens, and runs it, and sweep beside it if there is one.
func run(ctx context.Context, a *agent.Agent, lis net.Listener, s settings, registry *prometheus.Registry, sweep func(context.Context), out io.Writer) error {
	group, ctx := errgroup.WithContext(ctx)
	line := fmt.Sprintf("listening addr=%s node=%s", lis.Addr(), s.node)
	if s.at.Pages != "" {
		pages, err := net.Listen("tcp", s.at.Pages)
		if err != nil {
			return fmt.Errorf("--metrics: %w", err)
		}
		line += " metrics=" + pages.Addr().String()
		group.Go(func() error { return daemon.ServePages(ctx, pages, registry, a.Handler()) })
	}
	if sweep != nil {
		group.Go(func() error {
			sweep(ctx)
			return nil
		})
	}
	group.Go(func() error { return a.Run(ctx, lis) })
	_, err := fmt.Fprintln(out, line)
	return errors.Join(err, group.Wait())
}

// options turns the settings into the agent's. The function it returns closes what it opened.
func options(ctx context.Context, s settings, place *address.Place, pool *worker.Pool, registry *prometheus.Registry, log *zap.Logger) (agent.Options, func(), error) {
	o := agent.Options{
		Node: s.node, Store: place.Store, Pool: pool, CacheDir: s.cache, Workers: s.workers,
		Resolve: place.Resolve,
		Memory:  int64(s.memory), Window: s.window, Queue: s.queue, Egress: int64(s.egress), Jobs: s.jobs,
		CPUHigh: s.high, CPULow: s.low, Dwell: s.dwell, TTL: s.ttl, Sample: s.sample,
		Metrics: registry, Log: log, Registry: hints.DefaultRegistry,
	}
	o.Access, _ = place.Store.(agent.Access) // none where the store knows no users
	done := func() {}
	var err error
	if o.Keys, err = s.at.Keyring(log, "announce and fetch everything that this agent can read"); err != nil {
		return o, done, err
	}
	if o.TLS, err = s.at.TLS(log); err != nil {
		return o, done, err
	}
	if o.Load, err = loadOf(s, place.Simulated, pool); err != nil {
		return o, done, err
	}
	o.CacheDir = s.cacheFolder()
	remote := place.Remote
	switch s.registry {
	case "":
	case noRegistry:
		o.Registry = ""
	default:
		other, err := address.Open(ctx, s.registry, address.Options{Getenv: os.Getenv})
		if errors.Is(err, store.ErrName) {
			return o, done, exit.Usage(fmt.Errorf("--registry: %w", err))
		}
		if err != nil {
			return o, done, fmt.Errorf("--registry: %w", err)
		}
		o.RegistryStore, o.Registry, remote = other.Store, other.Name, other.Remote
		done = func() { _ = other.Close() } // it only reads and writes small files
	}
	if remote {
		o.RegistryTTL = remoteTTL
	}
	return o, done, nil
}

// loadOf returns the load signal. Simulated nodes share one /proc, so each has a scripted load.
func loadOf(s settings, simulated bool, pool *worker.Pool) (agent.Load, error) {
	series, err := parseLoad(s.load)
	if err != nil {
		return nil, exit.Usage(fmt.Errorf("--load: %w", err))
	}
	switch {
	case series != nil:
		return series, nil
	case simulated && s.load == "real":
		return nil, exit.Usage(errors.New("--load real: the store's nodes are simulated and share this machine's /proc: give a share such as 25%"))
	case simulated && s.datanodePID != "":
		return nil, exit.Usage(errors.New("--datanode-pid: the store's nodes are simulated and have no process: leave it out"))
	case simulated:
		return agent.Steady(0.25), nil
	}
	p := &agent.Proc{Workers: pool.CPU}
	if s.datanodePID != "" {
		p.DataNode = func() int { return readPID(s.datanodePID) }
	}
	return p, p.Check()
}

// readPID returns the process id in a file, 0 if there is none now.
func readPID(file string) int {
	data, err := localfile.Read(file, 64) // a number and a line break
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}
