package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/address"
)

// openPlace opens the store of a command's URL. One that leads to no store is usage.
func openPlace(ctx context.Context, url string) (*address.Place, error) {
	return openAddress(ctx, url, address.Options{Getenv: os.Getenv})
}

// openNamed is openPlace for a folder whose own name says something, and its neighbours, and in which links may lead elsewhere.
func openNamed(ctx context.Context, url string) (*address.Place, error) {
	return openAddress(ctx, url, address.Options{Getenv: os.Getenv, Whole: true})
}

func openAddress(ctx context.Context, url string, o address.Options) (*address.Place, error) {
	p, err := address.Open(ctx, url, o)
	if errors.Is(err, store.ErrName) {
		err = exit.Usage(err)
	}
	return p, err
}

// catalogueVariable names the store whose catalogue says where copies of files are that lie elsewhere. catalogueOff is no store.
const (
	catalogueVariable = "STEPAHEAD_CATALOGUE"
	catalogueOff      = "off"
)

// reading is a place whose files are read from temporary copies where a catalogue has some.
type reading struct {
	*address.Place
	site io.Closer // nil: there is none
}

func (r reading) Close() error {
	err := r.Place.Close()
	if r.site != nil {
		err = errors.Join(err, r.site.Close())
	}
	return err
}

// readThrough makes a place one that is read so, if the environment says where the catalogue is. A site that cannot be opened costs a line for people.
func readThrough(ctx context.Context, p *address.Place, errOut io.Writer) (reading, error) {
	url := os.Getenv(catalogueVariable)
	if url == "" || url == catalogueOff {
		return reading{Place: p}, nil
	}
	site, err := openPlace(ctx, url)
	switch {
	case errors.Is(err, store.ErrName):
		return reading{}, errors.Join(fmt.Errorf("%s: %w", catalogueVariable, err), p.Close())
	case err != nil:
		fmt.Fprintf(errOut, "the site's catalogue cannot be read (%s), the original is: %v\n", catalogueVariable, err)
		return reading{Place: p}, nil
	}
	p.Store = catalogue.Wrap(p.Store, catalogue.Options{Site: site.Store})
	return reading{p, site}, nil
}
