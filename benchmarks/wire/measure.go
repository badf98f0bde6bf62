package main

import (
	"context"
	"slices"
	"syscall"
	"time"
)

// sample is one measurement.
type sample struct {
	GBps     float64 // 10^9 bytes a second
	CPUPerGB float64 // CPU seconds of both ends, user and system, for 10^9 bytes
}

// measure moves parts over a wire once.
func (w *wire) measure(parts int) (sample, error) {
	begin, cpu := time.Now(), cpuTime()
	n, err := w.move(context.Background(), parts)
	if err != nil {
		return sample{}, err
	}
	gb := float64(n) / 1e9
	return sample{GBps: gb / time.Since(begin).Seconds(), CPUPerGB: (cpuTime() - cpu).Seconds() / gb}, nil
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
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
