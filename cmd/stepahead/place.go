package main

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"

	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/address"
)

// openPlace opens the store of a command's URL. One that leads to no store is usage.
func openPlace(ctx context.Context, url string) (*address.Place, error) {
	p, err := address.Open(ctx, url, address.Options{Getenv: os.Getenv})
	if errors.Is(err, store.ErrName) {
		err = exit.Usage(err)
	}
	return p, err
}

// openNamed is openPlace for a folder whose own name says something, and its neighbours: a folder that would be the root of its
// store is opened in the one of its parent.
func openNamed(ctx context.Context, url string) (*address.Place, error) {
	p, err := openPlace(ctx, url)
	if err != nil || p.Name != "/" || p.Remote {
		return p, err
	}
	folder := p.Store.Address("/")
	if !filepath.IsAbs(folder) || folder == filepath.Dir(folder) {
		return p, nil
	}
	if err := p.Close(); err != nil {
		return nil, err
	}
	if p, err = openPlace(ctx, "dir://"+filepath.Dir(folder)); err == nil {
		p.Name = path.Join(p.Name, filepath.Base(folder))
	}
	return p, err
}
