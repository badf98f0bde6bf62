package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/cmd/daemon"
	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/hints/relay"
	"github.com/stepahead-io/stepahead/internal/localfile"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/address"
)

// noRelay is the --relay of an agent that keeps nothing for the controller.
const noRelay = "none"

// openPlace opens the store of --store, as read on the node of --node.
func openPlace(ctx context.Context, s *settings) (*address.Place, error) {
	place, err := address.Open(ctx, s.store, address.Options{Getenv: os.Getenv, Node: s.node})
	if errors.Is(err, store.ErrName) {
		return nil, exit.Usage(fmt.Errorf("--store: %w", err))
	}
	return place, err
}

// cacheFolder is where copies of indexes, and the ledger, are unless another place is given.
func (s *settings) cacheFolder() string {
	if s.cache != "" {
		return s.cache
	}
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	return filepath.Join(base, "stepahead")
}

// ledgerFile is the file of the ledger of what is relayed; "" for none. Where none is given it is named for the store and the node in it, however both are written.
func (s *settings) ledgerFile(p *address.Place) string {
	switch s.relay {
	case noRelay:
		return ""
	case "":
		sum := sha256.Sum256([]byte(p.Root())) // agents of one host have the same node's name in stores that are simulated
		return filepath.Join(s.cacheFolder(), "relay", url.PathEscape(p.Node)+"-"+hex.EncodeToString(sum[:4])+".ledger")
	}
	return s.relay
}

// openLedger opens the ledger of what is relayed; nil for none. Nobody asked for the one in the cache folder: without it an agent works on.
func openLedger(s settings, p *address.Place, log *zap.Logger) (*relay.Ledger, error) {
	file := s.ledgerFile(p)
	if file == "" {
		return nil, nil
	}
	l, err := relay.Open(relay.Options{File: file, Warn: func(err error) { log.Warn("ledger", zap.Error(err)) }})
	if err != nil && s.relay == "" {
		log.Warn("nothing is kept for the controller: give a file with --relay, or none", zap.Error(err))
		return nil, nil
	}
	if errors.Is(err, relay.ErrInUse) {
		return nil, fmt.Errorf("--relay: %w: give each agent of a host a file of its own", err)
	}
	if errors.Is(err, localfile.ErrNotRegular) {
		return nil, exit.Usage(fmt.Errorf("--relay: %w", err))
	}
	if err != nil {
		return nil, fmt.Errorf("--relay: %w", err)
	}
	return l, nil
}

func newRelay(s *settings) *cobra.Command {
	c := &cobra.Command{
		Use:   "relay",
		Short: "Look at what jobs have foretold of checkpoints and starts",
		Args:  daemon.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			return exit.Usage(errors.New("relay: say what to do: print"))
		},
	}
	var after uint64
	show := &cobra.Command{
		Use:   "print",
		Short: "Print what an agent keeps for the controller, a JSON object a line",
		Long: `Print what an agent keeps for the controller, a JSON object a line, the oldest first, while the agent runs or not. The file is that of
--relay, or of --node, --store and --cache, of which the store is looked at.`,
		Args: daemon.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.config != "" {
				if err := daemon.Read(s.config, cmd.Flags()); err != nil {
					return err
				}
			}
			return printRelayed(cmd.Context(), cmd.OutOrStdout(), s, after)
		},
	}
	show.Flags().Uint64Var(&after, "after", 0, "leave out records up to this number")
	c.AddCommand(show)
	return c
}

func printRelayed(ctx context.Context, out io.Writer, s *settings, after uint64) error {
	if s.relay == noRelay || s.relay == "" && (s.node == "" || s.store == "") {
		return exit.Usage(errors.New("relay print: give the ledger's file with --relay, or the agent's --node and --store"))
	}
	var place *address.Place
	if s.relay == "" {
		var err error
		if place, err = openPlace(ctx, s); err != nil {
			return err
		}
		defer place.Close()
	}
	file := s.ledgerFile(place)
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	err := relay.Read(file, after, func(r relay.Record) error { return e.Encode(r) })
	switch {
	case errors.Is(err, relay.ErrDamaged):
		return exit.Finding(err)
	case errors.Is(err, localfile.ErrNotRegular):
		return exit.Usage(err)
	}
	return err
}
