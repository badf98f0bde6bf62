package main

import (
	"testing"
	"time"
)

// FuzzLoad: a load that is accepted holds shares from 0 to 1.
func FuzzLoad(f *testing.F) {
	for _, text := range []string{"", "real", "25%", "25%, 95%", "120%", "NaN%", "5", "%", ","} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		series, err := parseLoad(text)
		if err != nil || series == nil {
			return
		}
		for i, want := range series.Samples {
			got, err := series.Sample(time.Duration(i) * time.Second)
			if err != nil || got != want || !(got.CPU >= 0 && got.CPU <= 1) {
				t.Errorf("%q: sample %d is %+v, %v", text, i, got, err)
			}
		}
	})
}
