package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/cmd/sites"
	"github.com/stepahead-io/stepahead/controller/intake"
	"github.com/stepahead-io/stepahead/controller/policy"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/internal/auth"
	"github.com/stepahead-io/stepahead/internal/localfile"
)

// given is what flags, and the files that they name, say beside the rules and the key of the catalogue.
type given struct {
	urls    map[string]string // of the sites
	others  []intake.Site
	watched []intake.Watched
	keys    auth.Keyring
	tls     *tls.Config
	agents  hints.ClientOptions
}

// configure reads and checks all that is configured, so that no mistake shows only when this controller has become the active one.
func (p *program) configure() (err error) {
	if p.rules, err = readRules(p.s.rules, p.problems, p.log, p.strangers); err != nil {
		return codeOfFile(fmt.Errorf("--policy, --budgets, --prices: %w", err))
	}
	if p.given.urls, err = sites.Parse(p.s.sites); err != nil {
		return exit.Usage(err)
	}
	if p.given.others, err = p.s.others(p.given.urls); err != nil {
		return exit.Usage(err)
	}
	if p.given.watched, err = p.s.watched(); err != nil {
		return exit.Usage(err)
	}
	if !p.s.dryRun {
		key, err := catalogue.LoadKey(p.s.catalogueKey)
		if err != nil {
			return exit.OfFile(fmt.Errorf("--catalogue-key: %w", err))
		}
		p.key = &key
	}
	if p.given.keys, err = p.s.at.Keyring(p.log, "see and change everything that this controller does"); err != nil {
		return err
	}
	if p.given.tls, err = p.s.at.TLS(p.log); err != nil {
		return err
	}
	if p.given.agents, err = p.s.agentClient(p.given.keys); err != nil {
		return err
	}
	if err := p.s.checkFiles(); err != nil {
		return exit.Usage(err)
	}
	p.warn()
	return nil
}

// warn says in the log what is configured and may not be meant.
func (p *program) warn() {
	if p.rules == nil {
		p.log.Warn("no --policy, --budgets and --prices: nothing is allowed, and what is there already is undone")
		return
	}
	p.rules.warn()
}

// strangers says which sites are not named wherever they must be.
func (p *program) strangers(rules *policy.Settings) []string {
	return p.s.strangers(p.given.urls, rules)
}

// checkFiles refuses what is no file where one is kept, or will be: it is opened later, some of it by a controller that is the active one only.
func (s *settings) checkFiles() error {
	var errs []error
	check := func(flag, name string) {
		if err := localfile.Check(name); name != "" && err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", flag, err))
		}
	}
	check("--journal", s.journal)
	if s.journal != "" {
		check("--journal", s.journal+drainedSuffix)
		check("--journal", s.journal+revokedSuffix)
	}
	check("--audit", s.audit)
	for _, file := range s.ledgers {
		check("--ledger", file)
	}
	return errors.Join(errs...)
}

// codeOfFile: a file of rules that cannot be read is no mistake in what was given, one that is wrong is.
func codeOfFile(err error) error {
	var mistake *policy.Mistake
	if errors.As(err, &mistake) {
		return exit.Usage(err)
	}
	return err
}

// tokenTime is how long the token counts that this process gives itself. It is in no file, and ends with the key that signed it.
const tokenTime = 365 * 24 * time.Hour

// agentClient is how agents are reached: with a token that lets it read what they keep, and nothing else.
func (s *settings) agentClient(keys auth.Keyring) (hints.ClientOptions, error) {
	var o hints.ClientOptions
	var err error
	if s.agentCA != "" {
		if o.TLS, err = hints.ClientTLS(s.agentCA, s.agentCert, s.agentKey); err != nil {
			return o, exit.OfFile(fmt.Errorf("--agent-ca: %w", err))
		}
	}
	key, ok := keys.First()
	if !ok { // everybody is let in
		return o, nil
	}
	const who = "stepahead-controller"
	o.Token, err = auth.Mint(key, auth.Claims{Job: who, User: who, Roots: []string{"/"}, Rights: []string{auth.RightRelay}, Expires: time.Now().Add(tokenTime)})
	return o, err
}
