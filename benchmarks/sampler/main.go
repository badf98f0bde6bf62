// Command sampler measures what a look-up in the order costs, what a resume costs and how large a
// state is, against the shuffles of other loaders, in turn on the same machine. README.md says what
// it claims.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

func main() {
	rounds := flag.Int("rounds", 10, "measurements of each case, taken in turn")
	python := flag.String("python", "", "a Python with numpy, torch or grain: measures those too (peers.py)")
	flag.Parse()
	met, err := report(*rounds, *python)
	if err != nil {
		fmt.Fprintln(os.Stderr, "sampler:", err)
		os.Exit(3)
	}
	if !met {
		os.Exit(1)
	}
}

func report(rounds int, python string) (bool, error) {
	if rounds < 1 {
		return false, errors.New("-rounds: at least 1 is needed")
	}
	fmt.Printf("# %s %s/%s, %d CPUs; CPU time of one thread; every call is a seek\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	cases, err := allCases()
	if err != nil {
		return false, err
	}
	if err := checkBijective(1<<20 + 1); err != nil {
		return false, err
	}
	for range rounds {
		for i := range cases {
			fmt.Println(cases[i].measure())
		}
		if err := peers(python); err != nil {
			return false, err
		}
	}
	met := true
	fmt.Println()
	for _, c := range cases {
		met = c.verdict() && met
	}
	return met, nil
}

// peers runs each peer once and passes on its lines.
func peers(python string) error {
	if python == "" {
		return nil
	}
	cmd := exec.Command(python, "benchmarks/sampler/peers.py")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("benchmarks/sampler/peers.py (run this from the repository's root): %w", err)
	}
	fmt.Println(strings.TrimSpace(string(out)))
	return nil
}
