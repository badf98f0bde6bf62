package mutate

import (
	"bytes"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

// vectors are whole files of every format; those with other names are cut, or no images.
func vectors(t *testing.T) map[string][]byte {
	names, err := filepath.Glob("../../vectors/[gjpw]*-*")
	if err != nil || len(names) == 0 {
		t.Fatal("no vectors", err)
	}
	all := map[string][]byte{}
	for _, name := range names {
		if all[name], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	all["a GIF"] = []byte("GIF89a\x02\x00\x02\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff" + "!\xf9\x04\x01\x00\x00\x00\x00" + ",\x00\x00\x00\x00\x02\x00\x02\x00\x00\x02\x02\x84Q\x00;")
	all["a WebP"] = []byte("RIFF\x18\x00\x00\x00WEBPVP8L\x0b\x00\x00\x00\x2f\x01\x40\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	return all
}

// A file that nothing was done to comes back as it was.
func TestPartsMakeTheWhole(t *testing.T) {
	for name, in := range vectors(t) {
		c := containerOf(in)
		parts := c.split(bytes.Clone(in))
		if len(parts) < 2 {
			t.Errorf("%s: only %d parts", name, len(parts))
		}
		if out := c.join(parts); !bytes.Equal(out, in) {
			t.Errorf("%s: %d bytes became %d", name, len(in), len(out))
		}
	}
}

// Taking apart and putting together any bytes ends, and the outcome can be taken apart again.
func TestAnyBytesComeApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		magic := rapid.SampledFrom([]string{"\xff\xd8", pngMagic, "RIFF", "GIF89a", ""}).Draw(t, "magic")
		in := append([]byte(magic), rapid.SliceOf(rapid.Byte()).Draw(t, "rest")...)
		c := containerOf(in)
		once := c.join(c.split(bytes.Clone(in)))
		if twice := c.join(containerOf(once).split(bytes.Clone(once))); !bytes.Equal(once, twice) {
			t.Fatalf("%q becomes %q, then %q", in, once, twice)
		}
	})
}

// Changes stay within the size and leave the input alone; most leave a PNG with sums that are right.
func TestChangesPassTheOutermostChecks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	m := Mutator{Bytes: func(in []byte, most int) []byte {
		if len(in) > 0 {
			in[r.IntN(len(in))]++
		}
		return in
	}}
	all := vectors(t)
	changed, right := 0, 0
	for name, in := range all {
		for range 200 {
			before := bytes.Clone(in)
			out := m.Image(in, all["../../vectors/png-rgba.png"], 4096, r)
			if !bytes.Equal(before, in) || len(out) > 4096 {
				t.Fatalf("%s: the input changed, or %d bytes came", name, len(out))
			}
			if !bytes.Equal(out, in) {
				changed++
			}
			if bytes.HasPrefix(out, []byte(pngMagic)) && sumsAreRight(out) {
				right++
			}
		}
	}
	if total := 200 * len(all); changed < total*3/4 {
		t.Errorf("%d of %d changes changed something", changed, total)
	}
	if right < 500 {
		t.Errorf("only %d changed PNGs have the right sums", right)
	}
}

func sumsAreRight(in []byte) bool {
	for in = in[8:]; len(in) >= 12; {
		n := int(in[0])<<24 | int(in[1])<<16 | int(in[2])<<8 | int(in[3])
		if n > len(in)-12 {
			return false
		}
		sum := in[8+n : 12+n]
		if crc := crc32.ChecksumIEEE(in[4 : 8+n]); !bytes.Equal(sum, []byte{byte(crc >> 24), byte(crc >> 16), byte(crc >> 8), byte(crc)}) {
			return false
		}
		in = in[12+n:]
	}
	return true
}
