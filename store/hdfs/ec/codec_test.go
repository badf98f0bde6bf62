package ec

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestParityIsHadoops compares with testdata/Parity.java, which Hadoop 3.5.0's coders ran.
func TestParityIsHadoops(t *testing.T) {
	golden, err := os.ReadFile("testdata/parity.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(golden)) {
		var p Policy
		var want string
		if _, err := fmt.Sscan(line, &p.Codec, &p.Data, &p.Parity, &want); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		code, err := newDecoder(p)
		if err != nil {
			t.Fatal(err)
		}
		shards := make([][]byte, p.Data+p.Parity)
		for i := range shards {
			shards[i] = make([]byte, 4096)
			for j := range shards[i] {
				shards[i][j] = byte((j*(2*i+3) + j/256*37 + i) ^ j>>3)
			}
		}
		if err := code.Encode(shards); err != nil {
			t.Fatal(err)
		}
		sum := sha256.New()
		for _, parity := range shards[p.Data:] {
			sum.Write(parity)
		}
		if got := fmt.Sprintf("%x", sum.Sum(nil)); got != want {
			t.Errorf("%+v: parity digest %s, Hadoop's is %s", p, got, want)
		}
	}
}
