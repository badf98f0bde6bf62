// Package exit knows the exit codes of the programs, and which mistake gives which.
package exit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"unicode"

	"github.com/spf13/cobra"
)

// The exit codes.
const (
	OK          = 0
	Found       = 1 // the command worked and found something wrong in what it looked at
	Misused     = 2 // a mistake in the command line, or in a file given on it
	Environment = 3 // missing files, no permission, a full disk, a peer that does not answer
)

// codedError carries the exit code that an error asks for.
type codedError struct {
	code int
	err  error
}

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }

// Finding marks err as something wrong in the data looked at. Nil stays nil.
func Finding(err error) error { return coded(Found, err) }

// Usage marks err as a mistake in the command line or in a file given on it. Nil stays nil.
func Usage(err error) error { return coded(Misused, err) }

// OfFile marks what is wrong with a file that is given on the command line as a mistake, but for one that is not there, or cannot be read: that the environment has.
// Nil stays nil.
func OfFile(err error) error {
	var missing *fs.PathError
	var marked *codedError
	if err == nil || errors.As(err, &marked) || errors.As(err, &missing) || errors.Is(err, fs.ErrPermission) {
		return err
	}
	return Usage(err)
}

func coded(code int, err error) error {
	if err == nil {
		return nil
	}
	return &codedError{code: code, err: err}
}

// OnSignal returns a context that ends with SIGINT or SIGTERM, and what to call at the end. The first signal
// asks; the second one, however busy or stuck the program is, kills as if nobody had listened.
func OnSignal() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// Run runs a command with its arguments, says on its error output what went wrong, and returns the exit
// code. What fails before the command's own work begins is a mistake in the command line: an unknown flag
// or command, a missing flag, a wrong number of arguments; how the command is used is said too. root must not be run again.
func Run(ctx context.Context, root *cobra.Command, args []string) int {
	began := false
	watch(root, &began)
	root.SetArgs(args)
	ran, err := root.ExecuteContextC(ctx)
	if err == nil {
		return OK
	}
	fmt.Fprintf(root.ErrOrStderr(), "%s: %s\n", root.Name(), printable(err.Error()))
	var c *codedError
	switch {
	case errors.As(err, &c):
		return c.code
	case !began:
		if !ran.HasSubCommands() {
			fmt.Fprintf(root.ErrOrStderr(), "usage: %s (%s --help says more)\n", ran.UseLine(), ran.CommandPath())
		}
		return Misused
	}
	return Environment
}

// printable is a text in which nothing speaks to a terminal, as names in files and of files can.
func printable(text string) string {
	var out strings.Builder
	for _, r := range text {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			quoted := strconv.QuoteRune(r)
			out.WriteString(quoted[1 : len(quoted)-1])
			continue
		}
		out.WriteRune(r)
	}
	return out.String()
}

// watch sets began when the work of any command begins. What follows a command that has others is one of them, or a mistake.
func watch(c *cobra.Command, began *bool) {
	if c.HasSubCommands() && c.HasParent() && !c.Runnable() {
		c.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return Usage(fmt.Errorf("unknown command %q: `%s --help` lists those there are", args[0], cmd.CommandPath()))
			}
			return cmd.Help()
		}
	}
	if work := c.RunE; work != nil {
		c.RunE = func(cmd *cobra.Command, args []string) error {
			*began = true
			return work(cmd, args)
		}
	}
	for _, child := range c.Commands() {
		watch(child, began)
	}
}
