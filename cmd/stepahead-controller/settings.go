package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/stepahead-io/stepahead/cmd/daemon"
	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/cmd/sites"
	"github.com/stepahead-io/stepahead/controller/intake"
	"github.com/stepahead-io/stepahead/controller/policy"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/discovery"
	"github.com/stepahead-io/stepahead/store"
)

// settings are the flags, which are the keys of the configuration file too.
type settings struct {
	config string

	store, homeSite, journal, audit, catalogueKey, logLevel string
	rules                                                   policy.Files

	sites, siteRates, agents, watch, ledgers []string
	registry, agentCA, agentCert, agentKey   string

	at                 daemon.Address
	reconcile, grace   time.Duration
	dryRun, hostsShare bool

	nodeRate         daemon.Size
	readersPerSource float64
}

// noAgents is the --agents of a controller that hears of nothing but what it watches.
const noAgents = "none"

func (s *settings) flags(f *pflag.FlagSet) {
	f.StringVar(&s.config, "config", "", "YAML file with any of the other flags as keys; flags on the command line win")
	f.StringVar(&s.store, "store", "", "home store of the files: a path, or a URL such as hdfs://nameservice/ (required)")
	f.StringVar(&s.homeSite, "home-site", "home", "name of the home store's site: evaluations there need no copy")
	f.StringArrayVar(&s.sites, "site", nil, "name=URL of the store of another datacenter; repeatable")
	f.StringArrayVar(&s.siteRates, "site-rate", nil, "name=SIZE: bytes a second at which an evaluation at a site reads what is not there; repeatable\n(default: what reading from there is measured to be, now and then; a dry run measures nothing)")
	f.StringVar(&s.journal, "journal", "", "file in which is kept what was begun; it must survive a restart (required, but for --dry-run)")
	f.StringVar(&s.audit, "audit", "", "audit log: a JSON line for each thing done, rotated (default: the journal's name with .audit behind it; with --dry-run none)")
	f.StringVar(&s.rules.Rules, "policy", "", "file that says what may be where; without the three files nothing is done")
	f.StringVar(&s.rules.Budgets, "budgets", "", "file that says what may be spent")
	f.StringVar(&s.rules.Prices, "prices", "", "file that says what it is worth and what it costs")
	f.StringVar(&s.catalogueKey, "catalogue-key", "", "file with the key that signs what readers are told (stepahead token keygen --catalogue; required, but for --dry-run)")
	f.StringSliceVar(&s.agents, "agents", []string{"auto"}, "agents that hand over what jobs foretell: auto (those that the registry lists), addresses, or none")
	f.StringArrayVar(&s.ledgers, "ledger", nil, "file in which an agent of this host keeps what jobs foretell (its --relay), read without asking it; repeatable")
	f.StringVar(&s.registry, "registry", hints.DefaultRegistry, "folder of the home store in which agents say where they are")
	f.StringVar(&s.agentCA, "agent-ca", "", "PEM file with the authorities that sign the agents' certificates")
	f.StringVar(&s.agentCert, "agent-cert", "", "PEM file with the certificate that is shown to agents that ask for one")
	f.StringVar(&s.agentKey, "agent-key", "", "PEM file with that certificate's private key")
	f.StringArrayVar(&s.watch, "watch", nil, "job=FOLDER: a folder of the home store whose checkpoints are noticed without a hint, and the job that they are of; repeatable")
	s.nodeRate = 100e6
	f.Var(&s.nodeRate, "node-rate", "bytes a second that one storage node serves; what starts show replaces it")
	f.Float64Var(&s.readersPerSource, "readers-per-source", 4, "readers of one source from which on the last one waits longer; what starts show replaces it")
	f.BoolVar(&s.hostsShare, "hosts-share", false, "the ranks of a host share what they read of a file, so that a host is one reader")
	f.DurationVar(&s.reconcile, "reconcile", time.Minute, "how often the stores are compared with what should be there")
	f.DurationVar(&s.grace, "grace", time.Minute, "how long what was withdrawn stays for readers that have it open")
	f.BoolVar(&s.dryRun, "dry-run", false, "plan and act on nothing: the log says what would be done. It takes no lease and may run beside the active controller")
	f.StringVar(&s.at.Listen, "listen", "127.0.0.1:0", "address to listen on for stepahead ctl; other than loopback needs --tls-cert, --tls-key and --key")
	f.StringVar(&s.at.Cert, "tls-cert", "", "PEM file with the certificate, and its chain, that the controller shows; read again when it changes")
	f.StringVar(&s.at.Key, "tls-key", "", "PEM file with the certificate's private key")
	f.StringVar(&s.at.ClientCA, "tls-client-ca", "", "PEM file with the authorities that sign the certificates of those who ask; with it they must show one")
	f.StringVar(&s.at.Keys, "key", "", "file with the keys that sign tokens; without it everybody on this host may see and change everything")
	f.StringVar(&s.at.Pages, "metrics", "", "address of /metrics and /healthz; loopback only; none if empty")
	f.StringVar(&s.logLevel, "log-level", "info", "debug, info, warn or error")
}

// complete takes the configuration file for what the command line did not give, fills in what depends on other settings, and checks all.
func (s *settings) complete(f *pflag.FlagSet) error {
	if s.config != "" {
		if err := daemon.Read(s.config, f); err != nil {
			return err
		}
	}
	if s.audit == "" && !s.dryRun && s.journal != "" {
		s.audit = s.journal + ".audit"
	}
	return exit.Usage(s.validate())
}

func (s *settings) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if s.store == "" {
		bad("--store is missing: give the path or URL of the home store")
	}
	if s.journal == "" && !s.dryRun {
		bad("--journal is missing: give a file on a disk of this host")
	}
	if s.journal != "" && s.dryRun {
		bad("--journal %s: a dry run begins nothing, and must not touch the journal of a controller that does: leave it out", s.journal)
	}
	if s.catalogueKey == "" && !s.dryRun {
		bad("--catalogue-key is missing: make one with stepahead token keygen --catalogue --key FILE")
	}
	if given := s.rules.Rules != "" || s.rules.Budgets != "" || s.rules.Prices != ""; given && (s.rules.Rules == "" || s.rules.Budgets == "" || s.rules.Prices == "") {
		bad("--policy, --budgets and --prices go together: give all three or none")
	}
	urls, err := sites.Parse(s.sites)
	errs = append(errs, err)
	if err := policy.CheckSite(s.homeSite); err != nil {
		bad("--home-site: %w", err)
	}
	if urls[s.homeSite] != "" {
		bad("--site %s: that is the name of the home site: give it another, or --home-site", s.homeSite)
	}
	if (s.agentCert == "") != (s.agentKey == "") || s.agentCert != "" && s.agentCA == "" {
		bad("--agent-cert and --agent-key go together, and with --agent-ca")
	}
	if slices.Contains(s.agents, noAgents) && len(s.agents) > 1 {
		bad("--agents %s: with %s there are no others", strings.Join(s.agents, ","), noAgents)
	}
	if s.reconcile <= 0 || s.grace <= 0 {
		bad("--reconcile and --grace must be more than 0")
	}
	if _, err := s.others(urls); err != nil {
		errs = append(errs, err)
	}
	if s.nodeRate == 0 || s.readersPerSource <= 0 {
		bad("--node-rate and --readers-per-source must be more than 0")
	}
	if _, err := s.watched(); err != nil {
		errs = append(errs, err)
	}
	for _, a := range s.heard() {
		if _, _, err := discovery.Split(a); err != nil && a != discovery.Auto {
			bad("--%w", err)
		}
	}
	if err := store.CheckName(s.registry); err != nil {
		bad("--registry: %w", err)
	}
	return errors.Join(append(errs, s.at.Check()...)...)
}

// watched reads --watch.
func (s *settings) watched() ([]intake.Watched, error) {
	var list []intake.Watched
	for _, word := range s.watch {
		job, folder, ok := strings.Cut(word, "=")
		if !ok || job == "" || store.CheckName(folder) != nil {
			return nil, fmt.Errorf("--watch %q: write job=FOLDER, the folder as a path inside the home store such as 7b=/runs/7b", word)
		}
		if err := hints.CheckName(job); err != nil {
			return nil, fmt.Errorf("--watch %q: the job: %w", word, err)
		}
		list = append(list, intake.Watched{Folder: folder, Job: job})
	}
	return list, nil
}

// heard are the agents that are listened to.
func (s *settings) heard() []string {
	if slices.Contains(s.agents, noAgents) {
		return []string{}
	}
	return s.agents
}

// others are the sites of --site, with what --site-rate says of them.
func (s *settings) others(urls map[string]string) ([]intake.Site, error) {
	rates := make(map[string]int64)
	for _, word := range s.siteRates {
		name, text, _ := strings.Cut(word, "=")
		var rate daemon.Size
		if err := rate.Set(text); err != nil || rate == 0 || urls[name] == "" {
			return nil, fmt.Errorf("--site-rate %q: write name=SIZE with the name of a --site, such as east=100MiB", word)
		}
		rates[name] = int64(rate)
	}
	var list []intake.Site
	for _, name := range slices.Sorted(maps.Keys(urls)) {
		list = append(list, intake.Site{Name: name, RemoteRate: rates[name]})
	}
	return list, nil
}
