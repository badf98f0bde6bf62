// Command wire measures how fast tensors travel from an agent to a loader, against protobuf `bytes` over
// the same gRPC and against TCP alone, in turn on the same machine. README.md says what it claims.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"

	"google.golang.org/grpc"
)

// The claim, at parts of claimPart bytes.
const (
	claimPart  = 256 << 10
	claimGBps  = 2.5
	claimRatio = 2.0
)

// roundBytes is what one measurement moves: long enough to be past the start of a stream, short enough to
// alternate often.
const roundBytes = 32 << 20

// partSizes are a 224 x 224 crop, the claim's size and a large sample.
var partSizes = []int{224 * 224 * 3, claimPart, 1 << 20}

// result is one wire at one part size: medians and quartiles.
type result struct {
	Wire     string     `json:"wire"`
	Part     int        `json:"part"`
	GBps     [3]float64 `json:"gb_per_s"`     // first quartile, median, third
	CPUPerGB [3]float64 `json:"cpu_s_per_gb"` // likewise
}

func main() {
	rounds := flag.Int("rounds", 40, "measurements of each wire and size, taken in turn")
	part := flag.Int("part", 0, "only this part size, in bytes")
	asJSON := flag.Bool("json", false, "one JSON object a wire and size instead of the table, and nothing judged")
	one := flag.String("wire", "", "only measure this wire, once for every line of standard input")
	flag.Parse()
	if *one != "" {
		exit(race(*one, max(1, *part), os.Stdin, os.Stdout))
		return
	}
	sizes := partSizes
	if *part > 0 {
		sizes = []int{min(*part, roundBytes)}
	}
	met, err := report(sizes, max(1, *rounds), *asJSON)
	exit(err)
	if !met && !*asJSON {
		os.Exit(1)
	}
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "wire:", err)
		os.Exit(3)
	}
}

// report prints what it measures and says whether the claim holds, if its size was measured.
func report(sizes []int, rounds int, asJSON bool) (met bool, err error) {
	first := map[bool]string{true: "before", false: "among"}[inFront()]
	if !asJSON {
		fmt.Printf("%s %s/%s, %d CPUs, grpc %s; one connection over loopback, both ends in one process, which ran %s others; median of %d (quartiles)\n\n",
			runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), grpc.Version, first, rounds)
		fmt.Println("| part, bytes | wire | GB/s | CPU s/GB | GB/s of ours / of this |")
		fmt.Println("|---|---|---|---|---|")
	}
	met = true
	for _, size := range sizes {
		results, err := contestOf(size, rounds)
		if err != nil {
			return false, err
		}
		for _, r := range results {
			r.print(asJSON, results[0])
		}
		if size == claimPart {
			met = claim(results)
		}
	}
	if !asJSON {
		verdict := map[bool]string{true: "met", false: "missed"}[met]
		fmt.Printf("\nwire at %d bytes, >= %.1f GB/s and >= %.1fx protobuf bytes: %s\n", claimPart, claimGBps, claimRatio, verdict)
	}
	return met, nil
}

func contestOf(size, rounds int) ([]result, error) {
	c, err := newContest(size)
	if err != nil {
		return nil, err
	}
	for i := range rounds + 2 {
		if err := c.round(i >= 2); err != nil { // the first two are warm-up
			return nil, errors.Join(err, c.stop())
		}
	}
	results := make([]result, len(c.racers))
	for i, r := range c.racers {
		results[i] = result{r.name, size, quartiles(c.samples[i], speed), quartiles(c.samples[i], cost)}
	}
	return results, c.stop()
}

func quartiles(s []sample, column func(sample) float64) [3]float64 {
	return [3]float64{quantile(s, 0.25, column), quantile(s, 0.5, column), quantile(s, 0.75, column)}
}

// claim judges ours, the first, against protobuf that does the same, the second.
func claim(results []result) bool {
	own, other := results[0].GBps[1], results[1].GBps[1]
	return own >= claimGBps && own >= claimRatio*other
}

func (r result) print(asJSON bool, own result) {
	if asJSON {
		line, err := json.Marshal(r)
		if err != nil {
			panic(err) // numbers and strings
		}
		fmt.Println(string(line))
		return
	}
	fmt.Printf("| %d | %s | %s | %s | %.2f |\n", r.Part, r.Wire, spread(r.GBps), spread(r.CPUPerGB), own.GBps[1]/r.GBps[1])
}

func spread(q [3]float64) string { return fmt.Sprintf("%.2f (%.2f-%.2f)", q[1], q[0], q[2]) }
