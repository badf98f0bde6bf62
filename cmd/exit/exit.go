// Package exit knows the exit codes of the programs, and which mistake gives which.
package exit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

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
	fmt.Fprintf(root.ErrOrStderr(), "%s: %v\n", root.Name(), err)
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

// watch sets began when the work of any command begins.
func watch(c *cobra.Command, began *bool) {
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
