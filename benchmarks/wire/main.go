// Command wire measures how fast tensors travel from an agent to a loader, against protobuf `bytes` over
// the same gRPC, in turn on the same machine. README.md says what it claims.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"

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
const roundBytes = 64 << 20

// partSizes are a 224 x 224 crop, the claim's size and a large sample.
var partSizes = []int{224 * 224 * 3, claimPart, 1 << 20}

func main() {
	rounds := flag.Int("rounds", 20, "measurements of each wire and size, taken in turn")
	flag.Parse()
	met, err := report(*rounds)
	if err != nil {
		fmt.Fprintln(os.Stderr, "wire:", err)
		os.Exit(3)
	}
	if !met {
		os.Exit(1)
	}
}

func report(rounds int) (met bool, err error) {
	fmt.Printf("%s %s/%s, %d CPUs, grpc %s; one connection over loopback, both ends in one process, median of %d (quartiles)\n\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), grpc.Version, rounds)
	fmt.Println("| part, bytes | ours, GB/s | protobuf bytes, GB/s | ratio | ours, CPU s/GB | protobuf, CPU s/GB |")
	fmt.Println("|---|---|---|---|---|---|")
	for _, size := range partSizes {
		pair, err := newPair(size)
		if err != nil {
			return false, err
		}
		for range rounds + 1 {
			if err := pair.round(); err != nil {
				return false, err
			}
		}
		pair.stop()
		own, other := pair.ours[1:], pair.peer[1:] // the first is warm-up
		m, o := median(own), median(other)
		fmt.Printf("| %d | %s | %s | %.2f | %.2f | %.2f |\n", size, spread(own), spread(other), m.GBps/o.GBps, m.CPUPerGB, o.CPUPerGB)
		if size == claimPart {
			met = m.GBps >= claimGBps && m.GBps/o.GBps >= claimRatio
		}
	}
	verdict := map[bool]string{true: "met", false: "missed"}[met]
	fmt.Printf("\nwire at %d bytes, >= %.1f GB/s and >= %.1fx protobuf bytes: %s\n", claimPart, claimGBps, claimRatio, verdict)
	return met, nil
}

// pair is both wires, ready to be measured in turn.
type pair struct {
	wires      [2]run
	stops      []func()
	parts      int
	ours, peer []sample
}

func newPair(size int) (*pair, error) {
	p := &pair{parts: roundBytes / size}
	for i, wire := range []func([]byte) (run, func(), error){ours, peer} {
		f, stop, err := wire(pattern(size))
		if err != nil {
			p.stop()
			return nil, err
		}
		p.wires[i] = f
		p.stops = append(p.stops, stop)
	}
	return p, nil
}

func (p *pair) stop() {
	for _, f := range p.stops {
		f()
	}
}

// round measures each wire once.
func (p *pair) round() error {
	own, err := measure(p.wires[0], p.parts)
	if err != nil {
		return err
	}
	other, err := measure(p.wires[1], p.parts)
	if err != nil {
		return err
	}
	p.ours, p.peer = append(p.ours, own), append(p.peer, other)
	return nil
}

// median takes the median of each column.
func median(s []sample) sample {
	return sample{GBps: quantile(s, 0.5, speed), CPUPerGB: quantile(s, 0.5, cost)}
}

func spread(s []sample) string {
	return fmt.Sprintf("%.2f (%.2f-%.2f)", quantile(s, 0.5, speed), quantile(s, 0.25, speed), quantile(s, 0.75, speed))
}

func speed(s sample) float64 { return s.GBps }
func cost(s sample) float64  { return s.CPUPerGB }

func quantile(s []sample, q float64, column func(sample) float64) float64 {
	values := make([]float64, len(s))
	for i, v := range s {
		values[i] = column(v)
	}
	slices.Sort(values)
	return values[int(q*float64(len(values)-1)+0.5)]
}

// pattern is bytes that do not compress to nothing.
func pattern(size int) []byte {
	b := make([]byte, size)
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}
