package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/stepahead-io/stepahead/agent"
	"github.com/stepahead-io/stepahead/cmd/daemon"
	"github.com/stepahead-io/stepahead/cmd/exit"
)

// settings are the flags, which are the keys of the configuration file too.
type settings struct {
	config string

	store, node, advertise, registry, cache, relay, sweep, worker, isolation, load, datanodePID, logLevel string

	at daemon.Address

	workers, window, queue, jobs int
	memory, egress               daemon.Size
	high, low                    float64
	dwell, ttl, sample, deadline time.Duration
}

func (s *settings) flags(f *pflag.FlagSet) {
	s.memory = 1 << 30
	f.StringVar(&s.config, "config", "", "YAML file with any of the other flags as keys; flags on the command line win")
	f.StringVar(&s.store, "store", "", "store that holds the datasets: a path, or a URL such as hdfs://nameservice/ (required)")
	f.StringVar(&s.node, "node", "", "name of this node in the store's locations (required); on HDFS its DataNode's host name, address or UUID")
	f.StringVar(&s.at.Listen, "listen", "127.0.0.1:0", "address to listen on; other than loopback needs --tls-cert, --tls-key and --key")
	f.StringVar(&s.advertise, "advertise", "", "host or host:port that the registry tells trainers (default: that of --listen, or this host's name if that is a wildcard)")
	f.StringVar(&s.at.Cert, "tls-cert", "", "PEM file with the certificate, and its chain, that the agent shows to trainers; read again when it changes")
	f.StringVar(&s.at.Key, "tls-key", "", "PEM file with the certificate's private key")
	f.StringVar(&s.at.ClientCA, "tls-client-ca", "", "PEM file with the authorities that sign trainers' certificates; with it a trainer must show one")
	f.StringVar(&s.at.Pages, "metrics", "", "address of /metrics, /healthz, /jobs and /entries; loopback only; none if empty")
	f.StringVar(&s.registry, "registry", "", "folder in which agents say where they are, or \"none\" (default: .stepahead/agents in the store)")
	f.StringVar(&s.at.Keys, "key", "", "file with the keys that sign tokens; without it everybody on this host may ask for everything")
	f.StringVar(&s.cache, "cache", "", "folder for copies of dataset indexes (default: a folder of this user's cache)")
	f.StringVar(&s.relay, "relay", "", "file in which what jobs foretell of checkpoints and starts is kept for the controller, or \"none\": it is refused\n(default: one in the folder relay of the cache folder)")
	f.StringVar(&s.sweep, "sweep", "1m", "how often to look for what a controller left in the store and should have undone, while no controller lives, or \"off\":\none agent of a store does it")
	f.StringVar(&s.worker, "worker", "", "worker program (default: stepahead-worker beside this program or on PATH)")
	f.IntVar(&s.workers, "workers", 0, "worker processes, and preparations at once (default: half of the CPUs)")
	f.StringVar(&s.isolation, "require-isolation", "", "protections without which no worker may run, separated by commas, such as seccomp,landlock\n(default: none; what is in force is in the metrics)")
	f.StringVar(&s.load, "load", "", "load of others: \"real\", a share such as 25%, or shares that follow each other every second such as 25%,95%\n(default: 25% on a simulated node, else real)")
	f.StringVar(&s.datanodePID, "datanode-pid", "", "file with the DataNode's process id, whose run delay is watched")
	f.Var(&s.memory, "memory", "size of the shelf: tensors that are ready or being made")
	f.IntVar(&s.window, "window", 16, "steps to prepare ahead of what is fetched")
	f.IntVar(&s.queue, "queue", 4096, "preparations that may hold memory without being ready")
	f.IntVar(&s.jobs, "jobs", 64, "jobs at once")
	f.Var(&s.egress, "egress", "bytes of tensors to prepare a second at most; 0: no limit")
	f.Float64Var(&s.high, "cpu-high", 0.80, "share of the CPUs used by others at which nothing new starts")
	f.Float64Var(&s.low, "cpu-low", 0.70, "share below which work starts again")
	f.DurationVar(&s.dwell, "dwell", 10*time.Second, "how long it must have been below")
	f.DurationVar(&s.sample, "sample", 0, "interval between two samples of the load, at most --dwell (default: 1s, or --dwell if that is shorter)")
	f.DurationVar(&s.ttl, "ttl", 10*time.Minute, "how long a job's tensors stay without a sign of life")
	f.DurationVar(&s.deadline, "deadline", time.Minute, "time of one preparation before its worker is killed")
	f.StringVar(&s.logLevel, "log-level", "info", "debug, info, warn or error")
}

// complete takes the configuration file for what the command line did not give, fills in what depends on other settings, and checks all. A
// file that cannot be read is no mistake in what was given.
func (s *settings) complete(f *pflag.FlagSet) error {
	if s.config != "" {
		if err := daemon.Read(s.config, f); err != nil {
			return err
		}
	}
	if s.sample == 0 {
		s.sample = min(time.Second, s.dwell)
	}
	return exit.Usage(s.validate())
}

func (s *settings) validate() error {
	var errs []error
	if s.store == "" {
		errs = append(errs, errors.New("--store is missing: give the path or URL of the store"))
	}
	if s.node == "" {
		errs = append(errs, errors.New("--node is missing: give the name that the store's locations use"))
	}
	errs = append(errs, s.at.Check()...)
	if s.workers < 0 || s.deadline < 0 {
		errs = append(errs, errors.New("--workers and --deadline must not be negative"))
	}
	for _, f := range []struct {
		flag string
		zero bool
	}{
		{"memory", s.memory == 0}, {"window", s.window == 0}, {"queue", s.queue == 0}, {"jobs", s.jobs == 0}, {"cpu-high", s.high == 0},
		{"cpu-low", s.low == 0}, {"dwell", s.dwell == 0}, {"ttl", s.ttl == 0}, {"deadline", s.deadline == 0},
	} {
		if f.zero {
			errs = append(errs, fmt.Errorf("--%s 0: must be more than 0", f.flag))
		}
	}
	if s.sample > s.dwell {
		errs = append(errs, fmt.Errorf("--sample %v: --dwell is %v, in which no sample would be taken: give at most that", s.sample, s.dwell))
	}
	if series, err := parseLoad(s.load); err != nil {
		errs = append(errs, fmt.Errorf("--load: %w", err))
	} else if series != nil && s.datanodePID != "" {
		errs = append(errs, fmt.Errorf("--datanode-pid: --load %s says the load, and no process is watched: leave one out", s.load))
	}
	_, err := s.sweepEvery()
	errs = append(errs, err, s.checkAdvertise())
	return errors.Join(errs...)
}

// parseLoad reads a scripted load; nil for "real" and for the default.
func parseLoad(text string) (*agent.Series, error) {
	if text == "" || text == "real" {
		return nil, nil
	}
	series := &agent.Series{Period: time.Second}
	for _, word := range strings.Split(text, ",") {
		number, ok := strings.CutSuffix(strings.TrimSpace(word), "%")
		share, err := strconv.ParseFloat(number, 64)
		if !ok || err != nil || !(share >= 0 && share <= 100) {
			return nil, fmt.Errorf("%q: give \"real\" or shares from 0%% to 100%%, separated by commas", word)
		}
		series.Samples = append(series.Samples, agent.LoadSample{CPU: share / 100})
	}
	return series, nil
}
