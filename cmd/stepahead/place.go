package main

import (
	"context"
	"os"

	"github.com/stepahead-io/stepahead/store/address"
)

// openPlace opens the store of a command's URL.
func openPlace(ctx context.Context, url string) (*address.Place, error) {
	return address.Open(ctx, url, address.Options{Getenv: os.Getenv})
}
