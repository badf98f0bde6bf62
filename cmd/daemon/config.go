// Package daemon is what the programs that serve have in common: flags that may stand in a file, where they are reached and by whom, their log and their pages.
package daemon

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/internal/localfile"
)

// maxConfig bounds a configuration file, in bytes.
const maxConfig = 1 << 20

// Read sets the flags that a YAML file names and the command line does not: its keys are the flags. A file that cannot be read is no mistake in what was given.
func Read(file string, f *pflag.FlagSet) error {
	data, err := localfile.Read(file, maxConfig)
	if err != nil {
		return exit.OfFile(fmt.Errorf("--config: %w", err))
	}
	var keys yaml.MapSlice
	if err := yaml.Unmarshal(data, &keys); err != nil {
		return exit.Usage(fmt.Errorf("--config %s: %w", file, err))
	}
	var errs []error
	for _, k := range keys {
		if err := setFlag(f, fmt.Sprint(k.Key), k.Value); err != nil {
			errs = append(errs, fmt.Errorf("--config %s: %w", file, err))
		}
	}
	return exit.Usage(errors.Join(errs...))
}

// inFile tells the flags that may stand in a file.
func inFile(flag string) bool { return !slices.Contains([]string{"config", "help", "version"}, flag) }

func setFlag(f *pflag.FlagSet, name string, value any) error {
	flag := f.Lookup(name)
	if flag == nil || !inFile(name) {
		return fmt.Errorf("unknown key %q: the keys are the flags that --help lists", name)
	}
	if flag.Changed {
		return nil
	}
	values := []any{value}
	if list, ok := value.([]any); ok {
		if _, takes := flag.Value.(pflag.SliceValue); takes {
			values = list
		}
	}
	for _, v := range values {
		switch v.(type) {
		case string, bool, int, int64, uint64, float64:
		default:
			return fmt.Errorf("key %s: give one value, not %T", name, v)
		}
		if err := flag.Value.Set(fmt.Sprint(v)); err != nil {
			return fmt.Errorf("key %s: %w", name, err)
		}
	}
	return nil
}

// printConfig writes the flags in effect as such a file.
func printConfig(w io.Writer, f *pflag.FlagSet) error {
	var keys yaml.MapSlice
	f.VisitAll(func(flag *pflag.Flag) {
		if !inFile(flag.Name) {
			return
		}
		item := yaml.MapItem{Key: flag.Name, Value: flag.Value.String()}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			item.Value = list.GetSlice()
		}
		keys = append(keys, item)
	})
	data, err := yaml.Marshal(keys)
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

// ConfigCommand is `config print`; complete fills in what the command line did not give and checks all.
func ConfigCommand(complete func(*pflag.FlagSet) error) *cobra.Command {
	config := &cobra.Command{
		Use:   "config",
		Short: "Look at the configuration",
		Args:  NoArguments,
		RunE: func(*cobra.Command, []string) error {
			return exit.Usage(errors.New("config: say what to do: print"))
		},
	}
	config.AddCommand(&cobra.Command{
		Use:   "print",
		Short: "Print the configuration in effect as a file for --config",
		Args:  NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := complete(cmd.Flags()); err != nil {
				return err
			}
			return printConfig(cmd.OutOrStdout(), cmd.Flags())
		},
	})
	return config
}

// NoArguments are the arguments of a command that has flags alone.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%q is neither a flag nor a command: see %s --help", args[0], cmd.CommandPath())
	}
	return nil
}
