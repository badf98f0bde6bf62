package intake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/store"
)

// mute is a store that answers nobody until it may, whatever he does.
type mute struct {
	store.Store
	speak chan struct{}
}

func (m mute) Stat(ctx context.Context, name string) (store.Info, error) {
	<-m.speak
	return m.Store.Stat(ctx, name)
}

// List is for those who look at the cluster and at what is damaged.
func (m mute) List(ctx context.Context, name string) ([]store.Info, error) {
	<-m.speak
	return m.Store.List(ctx, name)
}

// TestMuteSites: a store that does not answer, be it that of a site or the home store, holds up neither the others nor the start; the site counts as one that does not answer
// until it does.
func TestMuteSites(t *testing.T) {
	home, _ := folder(t, nil)
	east, _ := folder(t, nil)
	for _, homeIsMute := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			speak := make(chan struct{})
			st := home
			if homeIsMute {
				st = mute{home, speak}
			}
			k := &keeper{}
			all := stores{home: st, sites: map[string]store.Store{"a-deaf": mute{east, speak}, "east": east}}
			f, err := NewFacts(FactsOptions{
				Engine: k, Clock: bubble{time.Now()}, Stores: all, Looker: NewLooker(LookerOptions{Stores: all}), Controller: "ctl", ReadOnly: true,
				Sites: []Site{{Name: "a-deaf", RemoteRate: 1}, {Name: "east", RemoteRate: 1}},
			})
			must(t, err)
			sites := func() (told []string) {
				k.mu.Lock()
				defer k.mu.Unlock()
				for _, ev := range k.take() {
					if s, ok := ev.(plan.SiteChanged); ok {
						told = append(told, fmt.Sprint(s.Site.Name, " ", s.Site.Up))
					}
				}
				slices.Sort(told)
				return told
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			began := time.Now()
			go func() { ended <- f.Run(ctx) }()
			<-f.Ready()
			if waited := time.Since(began); waited != firstAnswer {
				t.Errorf("it waited for %v", waited)
			}
			if got := sites(); !slices.Equal(got, []string{"a-deaf false", "east true"}) {
				t.Errorf("told %q", got)
			}
			close(speak)
			synctest.Wait()
			if got := sites(); !slices.Equal(got, []string{"a-deaf true"}) {
				t.Errorf("when it answers: told %q", got)
			}
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
}

// bubble is the clock of a test in a bubble.
type bubble struct{ began time.Time }

func (b bubble) Now() time.Duration                   { return time.Since(b.began) }
func (bubble) After(d time.Duration) <-chan time.Time { return time.After(d) }
