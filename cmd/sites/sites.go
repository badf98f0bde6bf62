// Package sites opens the stores that a controller works with: that of the files, and those of other datacenters, by their names.
package sites

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/policy"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/address"
)

// Parse reads words of the form name=URL.
func Parse(words []string) (map[string]string, error) {
	urls := make(map[string]string, len(words))
	var errs []error
	for _, word := range words {
		name, url, ok := strings.Cut(word, "=")
		switch {
		case !ok || url == "":
			errs = append(errs, fmt.Errorf("--site %q: write name=URL", word))
		case policy.CheckSite(name) != nil:
			errs = append(errs, fmt.Errorf("--site %q: %w", word, policy.CheckSite(name)))
		case urls[name] != "":
			errs = append(errs, fmt.Errorf("--site %s is given twice", name))
		}
		urls[name] = url
	}
	return urls, errors.Join(errs...)
}

// Sites are the home store, and those of other sites, each opened when it is first asked for. It is safe for concurrent use.
type Sites struct {
	home  *address.Place
	sites map[string]*site
}

// site is a store that is opened when it is asked for. Sites do not wait for each other: one that hangs must not keep what is in the others from being undone.
type site struct {
	name, url string

	turn  chan struct{}  // who holds it may use place
	place *address.Place // nil before it was opened
}

var _ controller.Stores = (*Sites)(nil)

// Open opens the home store. What is wrong with a URL is a mistake in what was given.
func Open(ctx context.Context, home string, urls map[string]string) (*Sites, error) {
	place, err := address.Open(ctx, home, address.Options{Getenv: os.Getenv})
	if errors.Is(err, store.ErrName) {
		return nil, exit.Usage(fmt.Errorf("--store: %w", err))
	}
	if err != nil {
		return nil, fmt.Errorf("--store: %w", err)
	}
	if place.Name != "/" {
		return nil, errors.Join(exit.Usage(fmt.Errorf("--store %s: %w", home, notRoot(ctx, place))), place.Close())
	}
	s := &Sites{home: place, sites: make(map[string]*site)}
	for name, url := range urls {
		s.sites[name] = &site{name: name, url: url, turn: make(chan struct{}, 1)}
	}
	return s, nil
}

// Place is the home store's.
func (s *Sites) Place() *address.Place { return s.home }

// Home implements controller.Stores.
func (s *Sites) Home() store.Store { return s.home.Store }

// Names are those of the sites, sorted.
func (s *Sites) Names() []string { return slices.Sorted(maps.Keys(s.sites)) }

// Site implements controller.Stores.
func (s *Sites) Site(ctx context.Context, name string) (store.Store, error) {
	one, known := s.sites[name]
	if !known {
		return nil, &controller.Error{Reason: plan.ReasonSite, Err: fmt.Errorf("no site %q is known: add --site %s=URL", name, name)}
	}
	st, err := one.store(ctx)
	if err != nil {
		return nil, &controller.Error{Reason: plan.ReasonSite, Err: fmt.Errorf("site %s: %w", name, err)}
	}
	return st, nil
}

func (s *site) store(ctx context.Context) (store.Store, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.turn }()
	if s.place != nil {
		return s.place.Store, nil
	}
	place, err := address.Open(ctx, s.url, address.Options{Getenv: os.Getenv})
	if err != nil {
		return nil, err
	}
	if place.Name != "/" {
		return nil, errors.Join(fmt.Errorf("--site %s=%s: %w", s.name, s.url, notRoot(ctx, place)), place.Close())
	}
	s.place = place
	return place.Store, nil
}

// notRoot says what is wrong with a place that is not the root of a store: for a folder that is not there, that it is not.
func notRoot(ctx context.Context, place *address.Place) error {
	if _, err := place.Store.Stat(ctx, place.Name); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no such folder: make it, or mount it (of its path only %s is there): %w", place.Store.Address("/"), err)
	}
	return fmt.Errorf("it lies in the store %s: give that, since placements are named from there", place.Store.Address("/"))
}

// Close closes all stores but one that a call that hangs is still opening. None may be asked for afterwards.
func (s *Sites) Close() error {
	errs := []error{s.home.Close()}
	for _, one := range s.sites {
		select {
		case one.turn <- struct{}{}:
			if one.place != nil {
				errs = append(errs, one.place.Close())
			}
			<-one.turn
		default:
		}
	}
	return errors.Join(errs...)
}
