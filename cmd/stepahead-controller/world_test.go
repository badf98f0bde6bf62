package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/cmd/sites"
	"github.com/stepahead-io/stepahead/store"
)

// TestPublishKey: stores that answer have the key, and one that does not is said and tried again.
func TestPublishKey(t *testing.T) {
	w := newWorld(t)
	stores, err := sites.Open(t.Context(), w.home, map[string]string{"east": w.east, "gone": filepath.Join(w.dir, "gone")})
	must(t, err)
	defer stores.Close()
	key, err := catalogue.LoadKey(w.file("catalogue.key"))
	must(t, err)
	p := &program{stores: stores, problems: newProblems(), log: zap.NewNop(), clock: clock{time.Now()}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.publishKey(ctx, stores, stores.Names(), key) }()
	w.until("the site that is gone is said", func() bool {
		all := p.problems.all()
		return len(all) == 1 && strings.HasPrefix(all[0], "catalogue key at gone: ")
	})
	for _, site := range []string{"", "east"} {
		st := stores.Home()
		if site != "" {
			st, err = stores.Site(t.Context(), site)
			must(t, err)
		}
		w.until("the key is at site "+site, func() bool { // all are told at once
			keys, _, err := catalogue.TrustedKeys(t.Context(), st)
			return err == nil && len(keys) == 1
		})
	}
	cancel()
	must(t, <-ended)
}

// muteStores are stores of which one, the first by its name, answers nobody before it may.
type muteStores struct {
	*sites.Sites
	speak chan struct{}
}

func (m muteStores) Site(ctx context.Context, name string) (store.Store, error) {
	if name == "a-mute" {
		<-m.speak
	}
	return m.Sites.Site(ctx, name)
}

// TestPublishKeyBesideAMuteSite: a site that does not answer does not keep the key from another.
func TestPublishKeyBesideAMuteSite(t *testing.T) {
	w := newWorld(t)
	stores, err := sites.Open(t.Context(), w.home, map[string]string{"a-mute": t.TempDir(), "east": w.east})
	must(t, err)
	defer stores.Close()
	key, err := catalogue.LoadKey(w.file("catalogue.key"))
	must(t, err)
	p := &program{problems: newProblems(), log: zap.NewNop(), clock: clock{time.Now()}}
	speak, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- p.publishKey(t.Context(), muteStores{stores, speak}, stores.Names(), key) }()
	trusts := func(name string) func() bool {
		st, err := stores.Site(t.Context(), name)
		must(t, err)
		return func() bool {
			keys, _, err := catalogue.TrustedKeys(t.Context(), st)
			return err == nil && len(keys) == 1
		}
	}
	w.until("the site that answers has the key", trusts("east"))
	if trusts("a-mute")() {
		t.Error("the other one has it too")
	}
	close(speak)
	must(t, <-ended)
	if !trusts("a-mute")() {
		t.Error("the other one has no key when it answers")
	}
}
