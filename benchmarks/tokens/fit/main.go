// Command fit plans best-fit packs of the sequence lengths in a file, int32 little-endian, and prints what each
// round cost and how full the packs are, as JSON. benchmarks/tokens compares it with NumPy.
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stepahead-io/stepahead/sampler/tokens"
)

// lengths are those of the file.
type lengths []int32

func (l lengths) Sequences() int64     { return int64(len(l)) }
func (l lengths) Length(i int64) int64 { return int64(l[i]) }

type result struct {
	Milliseconds []float64 `json:"ms"` // CPU time of a plan, by round
	Packs        int64     `json:"packs"`
	Efficiency   float64   `json:"efficiency"` // share of the inputs that hold a token
}

func main() {
	length := flag.Int64("length", 4096, "tokens a pack")
	rounds := flag.Int("rounds", 3, "plans to make")
	flag.Parse()
	if err := run(flag.Arg(0), *length, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "fit:", err)
		os.Exit(3)
	}
}

func run(path string, length int64, rounds int) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	all, sum := make(lengths, len(data)/4), int64(0)
	for i := range all {
		all[i] = int32(binary.LittleEndian.Uint32(data[4*i:]))
		sum += int64(all[i])
	}
	runtime.GOMAXPROCS(1) // the collector's time counts
	var r result
	for range rounds {
		start := processCPU()
		order, err := tokens.New(context.Background(), all, tokens.Options{SequenceLength: length, Packing: tokens.BestFit, Shuffle: true})
		if err != nil {
			return err
		}
		r.Milliseconds = append(r.Milliseconds, (processCPU()-start).Seconds()*1000)
		r.Packs = order.Samples()
	}
	r.Efficiency = float64(sum) / float64(r.Packs*length)
	return json.NewEncoder(os.Stdout).Encode(r)
}

// processCPU is the CPU time of all threads: what others do on the machine does not count.
func processCPU() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}
