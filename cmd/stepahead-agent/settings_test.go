package main

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func TestSize(t *testing.T) {
	for text, want := range map[string]size{"0": 0, "1": 1, "4KiB": 4096, "1GiB": 1 << 30, "2 TiB": 2 << 40} {
		var s size
		if err := s.Set(text); err != nil || s != want {
			t.Errorf("%q is %d, %v, want %d", text, s, err, want)
		}
	}
	for _, text := range []string{"", "-1", "1KB", "KiB", "1.5GiB", "99999999999TiB", "1 KiB KiB"} {
		var s size
		if err := s.Set(text); err == nil {
			t.Errorf("%q is taken as %d", text, s)
		}
	}
}

// FuzzSize: what is accepted is not negative, and its text means the same.
func FuzzSize(f *testing.F) {
	for _, text := range []string{"0", "17", "4KiB", "1GiB", "8191TiB", "1.5GiB", "-1", "KiB"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var s, again size
		if s.Set(text) != nil {
			return
		}
		if err := again.Set(s.String()); err != nil || s != again || s < 0 {
			t.Errorf("%q is %d, printed %s and read again %d, %v", text, s, s.String(), again, err)
		}
	})
}

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

// FuzzConfig: no key or value of a file makes a flag panic, and none but flags are taken.
func FuzzConfig(f *testing.F) {
	f.Add("node", "dn1")
	f.Add("memory", "1GiB")
	f.Add("dwell", "-1s")
	f.Add("config", "x")
	f.Add("window", "many")
	f.Fuzz(func(t *testing.T, name, value string) {
		var s settings
		flags := pflag.NewFlagSet("agent", pflag.ContinueOnError)
		s.flags(flags)
		if err := setFlag(flags, name, value); err == nil && flags.Lookup(name) == nil {
			t.Errorf("key %q was taken", name)
		}
	})
}

// TestConfigIsBounded: a file whose size says nothing is read up to the limit only.
func TestConfigIsBounded(t *testing.T) {
	if data, err := readBounded("/dev/zero", maxConfig); err == nil || !strings.Contains(err.Error(), "/dev/zero: more than") {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}
