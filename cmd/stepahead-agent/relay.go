package main

import (
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
)

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

// ledgerFile is the file of the ledger of what is relayed; "" for none.
func (s *settings) ledgerFile() string {
	switch s.relay {
	case "none":
		return ""
	case "":
		sum := sha256.Sum256([]byte(s.store)) // agents of one host have the same node's name in stores that are simulated
		return filepath.Join(s.cacheFolder(), "relay", url.PathEscape(s.node)+"-"+hex.EncodeToString(sum[:4])+".ledger")
	}
	return s.relay
}

// openLedger opens the ledger of what is relayed; nil for none. Nobody asked for the one in the cache folder: without it an agent works on.
func openLedger(s settings, log *zap.Logger) (*relay.Ledger, error) {
	file := s.ledgerFile()
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
--relay, or of --node, --store and --cache.`,
		Args: daemon.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.config != "" {
				if err := daemon.Read(s.config, cmd.Flags()); err != nil {
					return err
				}
			}
			return printRelayed(cmd.OutOrStdout(), s, after)
		},
	}
	show.Flags().Uint64Var(&after, "after", 0, "leave out records up to this number")
	c.AddCommand(show)
	return c
}

func printRelayed(out io.Writer, s *settings, after uint64) error {
	file := s.ledgerFile()
	if file == "" || s.relay == "" && (s.node == "" || s.store == "") {
		return exit.Usage(errors.New("relay print: give the ledger's file with --relay, or the agent's --node and --store"))
	}
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	err := relay.Read(file, after, func(r relay.Record) error { return e.Encode(r) })
	if errors.Is(err, relay.ErrDamaged) {
		return exit.Finding(err)
	}
	return err
}
