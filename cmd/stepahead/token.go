package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/internal/auth"
)

var errNoKeyFile = errors.New("token: --key FILE is missing")

func newTokenCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "token",
		Short: "Make keys, and tokens that let a job ask agents",
		Args:  onlyCommands,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return exit.Usage(fmt.Errorf("token: say what to do: mint or keygen (see %s --help)", cmd.CommandPath()))
		},
	}
	c.AddCommand(newTokenMintCommand(), newTokenKeygenCommand())
	return c
}

// mintFlags are what a token is made of.
type mintFlags struct {
	keyFile, keyID, job, user string
	roots, rights             []string
	ttl                       time.Duration
	json                      bool
}

func newTokenMintCommand() *cobra.Command {
	var f mintFlags
	c := &cobra.Command{
		Use:   "mint --key FILE --job J --user U --root R...",
		Short: "Print a token for one job",
		Long: `Print a token for one job, signed with the first key of the key file (or the one that --key-id names).
Hand it to the trainer as token= or STEPAHEAD_TOKEN. Who has it can do what it says until it expires.`,
		Example: "  stepahead token mint --key agent.key --job resnet-7 --user ada --root /datasets/photos",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return mint(cmd.OutOrStdout(), f, time.Now())
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.keyFile, "key", "", "key file, as the agents have it")
	flags.StringVar(&f.keyID, "key-id", "", "id of the key to sign with (default: the file's first)")
	flags.StringVar(&f.job, "job", "", "job id")
	flags.StringVar(&f.user, "user", "", "user on whose behalf agents read")
	flags.StringArrayVar(&f.roots, "root", nil, "path inside the store that the job may use, with all below it; repeatable")
	flags.StringSliceVar(&f.rights, "rights", []string{auth.RightFetch, auth.RightHint}, "what the job may do; relay, for a controller: read what jobs announced")
	flags.DurationVar(&f.ttl, "ttl", 24*time.Hour, "how long the token lives, from 1s")
	flags.BoolVar(&f.json, "json", false, "print a JSON object with the token and what it says")
	return c
}

func newTokenKeygenCommand() *cobra.Command {
	var file, id string
	var forCatalogue bool
	c := &cobra.Command{
		Use:   "keygen --key FILE",
		Short: "Write a new key file that only its owner can read",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return exit.Usage(errNoKeyFile)
			}
			generate, use := auth.GenerateKeyFile, "agents and controllers (--key)"
			if forCatalogue {
				generate, use = catalogue.GenerateKeyFile, "controllers (--catalogue-key)"
			}
			if err := generate(file, id); errors.Is(err, fs.ErrInvalid) {
				return exit.Usage(fmt.Errorf("token keygen: %w", err))
			} else if err != nil {
				return fmt.Errorf("token keygen: %w", err)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "wrote %s with the key %q: give it to %s and keep it from everybody else\n", file, id, use)
			return err
		},
	}
	c.Flags().StringVar(&file, "key", "", "key file to write; it must not exist")
	c.Flags().StringVar(&id, "key-id", "k1", "the key's id, which every token names")
	c.Flags().BoolVar(&forCatalogue, "catalogue", false, "a key with which a controller signs what it tells readers, in place of one for tokens")
	return c
}

func mint(out io.Writer, f mintFlags, now time.Time) error {
	if f.keyFile == "" {
		return exit.Usage(errNoKeyFile)
	}
	if f.ttl < time.Second {
		return exit.Usage(fmt.Errorf("token mint: --ttl %v: give at least 1s", f.ttl))
	}
	keys, err := auth.LoadKeyring(f.keyFile)
	if err != nil {
		return fmt.Errorf("token mint: %w", err)
	}
	key, ok := keys.First()
	if f.keyID != "" {
		key, ok = keys.Key(f.keyID)
	}
	if !ok {
		return exit.Usage(fmt.Errorf("token mint: %s has no key %q", f.keyFile, f.keyID))
	}
	c := auth.Claims{
		KeyID: key.ID, Job: f.job, User: f.user, Roots: cleanRoots(f.roots), Rights: f.rights,
		Expires: now.Add(f.ttl).Truncate(time.Second),
	}
	token, err := auth.Mint(key, c)
	if err != nil {
		return exit.Usage(fmt.Errorf("token mint: %w", err))
	}
	if !f.json {
		_, err = fmt.Fprintln(out, token)
		return err
	}
	return json.NewEncoder(out).Encode(struct {
		Token   string    `json:"token"`
		KeyID   string    `json:"key_id"`
		Job     string    `json:"job"`
		User    string    `json:"user"`
		Roots   []string  `json:"roots"`
		Rights  []string  `json:"rights"`
		Expires time.Time `json:"expires"`
	}{token, key.ID, c.Job, c.User, c.Roots, c.Rights, c.Expires.UTC()})
}

// cleanRoots takes off trailing and doubled slashes. A root with "..", which would name another folder than
// it seems to, is left for Mint to refuse.
func cleanRoots(roots []string) []string {
	clean := slices.Clone(roots)
	for i, r := range clean {
		if r != "" && !strings.Contains(r, "://") && !slices.Contains(strings.Split(r, "/"), "..") {
			clean[i] = path.Clean(r)
		}
	}
	return clean
}
