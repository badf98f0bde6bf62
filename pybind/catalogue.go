package pybind

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/address"
)

// catalogueOff is what turns off all catalogues.
const catalogueOff = "off"

// through makes readers of a place read copies and hot files' sources where rows of catalogues say so. The site's store, which may be nil, is to be closed after the place's.
func (o storeOptions) through(ctx context.Context, place *address.Place) (site *address.Place, err error) {
	if o.Catalogue == catalogueOff {
		return nil, nil
	}
	log, err := newLog("")
	if err != nil {
		return nil, err
	}
	c := catalogue.Options{Log: log}
	if o.World > 1 && (place.Remote || place.Simulated) { // files of this machine have no replicas
		c.Index, c.Of = o.Rank, o.World
	}
	if o.Catalogue != "" {
		site, err = address.Open(ctx, o.Catalogue, address.Options{Getenv: o.Environment.get, Rank: o.Rank})
		if errors.Is(err, store.ErrName) {
			return nil, &optionError{fmt.Errorf("catalogue: %w", err)}
		}
		if err == nil {
			c.Site = site.Store
		} else {
			log.Warn("the site's catalogue cannot be read, originals are", zap.String("catalogue", o.Catalogue), zap.Error(err))
		}
	}
	if c.Site != nil || c.Of > 0 {
		place.Store = catalogue.Wrap(place.Store, c)
	}
	return site, nil
}

// sources are what was read from where, as far as rows of catalogues say something of it.
func (s *openStore) sources(context.Context, struct{}) (any, error) {
	if c, ok := s.place.Store.(*catalogue.Store); ok {
		return c.Stats(), nil
	}
	return catalogue.Stats{}, nil
}
