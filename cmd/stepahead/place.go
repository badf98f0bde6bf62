package main

import (
	"context"
	"errors"
	"os"

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
