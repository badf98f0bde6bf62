// Command stepahead-worker decodes and transforms images for the loader and the agent, which start it and talk to it
// over inherited descriptors. Run by hand it explains itself.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime/debug"

	"github.com/stepahead-io/stepahead/cmd/version"
	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/image"
	"github.com/stepahead-io/stepahead/transform/worker/protocol"
)

// The exit codes of every program here.
const (
	exitOK          = 0
	exitUsage       = 2
	exitEnvironment = 3
)

const explanation = `stepahead-worker decodes and transforms images. It is not run by hand: the loader and the agent start as
many as they need, give each one limits, shared memory and a socket, and kill what crashes or hangs.

To put one file through a plan, use
    stepahead transform --plan plan.json FILE -o out.npy

Usage:
    stepahead-worker --golden   print the operators of this build and their golden digests, as JSON
    stepahead-worker --version  print the version
    stepahead-worker --help     print this text
`

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("stepahead-worker", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	serve := flags.Bool(protocol.ServeFlag[2:], false, "")
	golden := flags.Bool("golden", false, "")
	said := flags.Bool("version", false, "")
	err := flags.Parse(args)
	switch {
	case err == flag.ErrHelp:
		fmt.Fprint(stdout, explanation)
		return exitOK
	case err != nil || flags.NArg() > 0:
		fmt.Fprintf(stderr, "stepahead-worker: unknown arguments %q\n\n%s", args, explanation)
		return exitUsage
	case *said:
		fmt.Fprintln(stdout, "stepahead-worker version", version.Text())
		return exitOK
	case *golden:
		return printGolden(stdout, stderr)
	case !*serve || !protocol.Connected():
		fmt.Fprint(stderr, explanation)
		return exitUsage
	}
	if err := confineAndServe(); err != nil {
		fmt.Fprintln(stderr, "stepahead-worker:", err)
		return exitEnvironment
	}
	return exitOK
}

func printGolden(stdout, stderr io.Writer) int {
	e := json.NewEncoder(stdout)
	e.SetIndent("", "  ")
	if err := e.Encode(goldenDigests()); err != nil {
		fmt.Fprintln(stderr, "stepahead-worker:", err)
		return exitEnvironment
	}
	return exitOK
}

// goldenDigests returns those of the pixel operators and those of what plans draw and measure.
func goldenDigests() map[string]string {
	// A collection would find little, and cost a tenth of a worker's start.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	all := transform.Golden()
	maps.Copy(all, image.Golden())
	return all
}

func confineAndServe() error {
	isolation, err := confine()
	if err != nil {
		return err
	}
	return protocol.Serve(protocol.Server{Golden: goldenDigests, Isolation: isolation.InForce, Refused: isolation.Refused, Run: runImages, Rest: giveBack})
}

func runImages(samples []protocol.Sample, lim protocol.Limits, results []protocol.Result) {
	items, made := make([]image.Item, len(samples)), make([]image.Result, len(samples))
	for i, s := range samples {
		items[i] = image.Item(s)
	}
	image.RunBatch(items, image.Limits{
		MaxPixels: lim.MaxPixels, MaxInput: lim.MaxInput, MaxOutput: lim.MaxOutput, MaxMemory: lim.MaxMemory,
	}, made)
	for i, r := range made {
		results[i] = protocol.Result(r)
	}
}
