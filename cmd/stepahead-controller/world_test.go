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
	go func() { ended <- p.publishKey(ctx, key) }()
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
		if keys, _, err := catalogue.TrustedKeys(t.Context(), st); err != nil || len(keys) != 1 {
			t.Errorf("site %q trusts %v, %v", site, keys, err)
		}
	}
	cancel()
	must(t, <-ended)
}
