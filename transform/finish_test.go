package transform

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"
)

// Between two neighbouring halves every float32 goes to the nearer one, and the middle to the even one. The values are
// computed by math, not by the conversions under test.
func TestHalvesRoundToTheNearest(t *testing.T) {
	value := func(h int) float64 { // of a finite, positive half
		exp, frac := h>>10, float64(h&0x3ff)
		if exp == 0 {
			return math.Ldexp(frac, -24)
		}
		return math.Ldexp(1024+frac, exp-25)
	}
	check := func(x float64, want int) {
		t.Helper()
		for sign, s := range []float64{1, -1} {
			if got := toHalf(float32(s * x)); int(got) != want|sign<<15 {
				t.Errorf("half of %v is %#x, want %#x", s*x, got, want|sign<<15)
			}
		}
	}
	for h := range 0x7c00 {
		lo, hi := value(h), value(h+1) // the one after the largest is where infinity begins
		if got := fromHalf(uint16(h)); float64(got) != lo {
			t.Fatalf("value of half %#x is %v, want %v", h, got, lo)
		}
		middle := (lo + hi) / 2
		check(lo, h)
		check(middle, h+h&1)
		check(float64(math.Nextafter32(float32(middle), 0)), h)
		check(float64(math.Nextafter32(float32(middle), math.MaxFloat32)), h+1)
	}
	check(math.Inf(1), 0x7c00)
	if nan := toHalf(float32(math.NaN())); nan != 0x7e00 || !math.IsNaN(float64(fromHalf(nan))) || !math.IsInf(float64(fromHalf(0xfc00)), -1) {
		t.Errorf("NaN is %#x", nan)
	}
}

func TestBFloatsRoundToTheNearest(t *testing.T) {
	for h := uint32(0); h < 0x7f80; h++ {
		lo := math.Float32frombits(h << 16)
		for low, want := range map[uint32]uint32{0: h, 0x7fff: h, 0x8000: h + h&1, 0x8001: h + 1, 0xffff: h + 1} {
			x := math.Float32frombits(h<<16 | low)
			if got := uint32(toBFloat(x)); got != want {
				t.Fatalf("bfloat16 of %v (%v + %#x) is %#x, want %#x", x, lo, low, got, want)
			}
			if got := uint32(toBFloat(-x)); got != want|0x8000 {
				t.Fatalf("bfloat16 of %v is %#x", -x, got)
			}
		}
	}
	if got := toBFloat(float32(math.NaN())); got != 0x7fc0 {
		t.Errorf("NaN is %#x", got)
	}
}

func TestAnEmptyTailCopies(t *testing.T) {
	_, rest := mustParse(t, `{"op":"DecodeImage"}`).Cut()
	f, err := NewFinisher(rest, 3)
	if err != nil {
		t.Fatal(err)
	}
	src := []byte{1, 2, 3, 250, 251, 252}
	dst := make([]byte, 6)
	f.Apply(dst, src)
	if spec := f.Spec(TensorSpec{Dtype: Uint8, Shape: []int{1, 2, 3}}); !bytes.Equal(dst, src) || spec.Dtype != Uint8 || spec.Bytes() != 6 {
		t.Errorf("%v becomes %v of %+v", src, dst, spec)
	}
}

// The loops for other than three channels give what the loop for three gives.
func TestChannelsAreIndependent(t *testing.T) {
	for _, dtype := range []string{"float32", "float16"} {
		_, rest := mustParse(t, `{"op":"DecodeImage"},{"op":"Normalize","mean":[0.3],"std":[0.2]},{"op":"ToDtype","dtype":"`+dtype+`"}`).Cut()
		src := []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 254, 255}
		var want []byte
		for channels := 1; channels <= 4; channels++ {
			f, err := NewFinisher(rest, channels)
			if err != nil {
				t.Fatal(err)
			}
			dst := make([]byte, f.Spec(TensorSpec{Shape: []int{12}}).Bytes())
			f.Apply(dst, src)
			if want == nil {
				want = dst
			}
			if !bytes.Equal(dst, want) {
				t.Errorf("%s: %d channels give %x, one gives %x", dtype, channels, dst, want)
			}
		}
	}
}

func TestFinisherRefusesWhatDoesNotFit(t *testing.T) {
	whole := mustParse(t, trainOps)
	_, rest := whole.Cut()
	for _, c := range []struct {
		plan     *Plan
		channels int
		says     string
	}{{whole, 3, "Cut"}, {rest, 0, "0 channels"}, {rest, 5, "5 channels"}, {rest, 4, "3 numbers for 4 channels"}} {
		if _, err := NewFinisher(c.plan, c.channels); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v does not say %q", err, c.says)
		}
	}
	f, err := NewFinisher(rest, 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, sizes := range [][2]int{{11, 3}, {13, 3}, {16, 4}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%d bytes into %d pass", sizes[1], sizes[0])
				}
			}()
			f.Apply(make([]byte, sizes[0]), make([]byte, sizes[1]))
		}()
	}
}

func BenchmarkFinisher(b *testing.B) {
	_, rest := mustParse(b, trainOps).Cut()
	f, err := NewFinisher(rest, 3)
	if err != nil {
		b.Fatal(err)
	}
	src := make([]byte, 224*224*3)
	for i := range src {
		src[i] = byte(i * 7)
	}
	dst := make([]byte, 4*len(src))
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		f.Apply(dst, src)
	}
	if binary.LittleEndian.Uint32(dst) == 0 {
		b.Fatal("nothing written")
	}
}

func BenchmarkResolve(b *testing.B) {
	p := mustParse(b, trainOps)
	var n uint64
	b.ReportAllocs()
	for b.Loop() {
		n++
		if _, err := p.Resolve(500, 375, Key{Sample: n}); err != nil {
			b.Fatal(err)
		}
	}
}

// A RandomErasing behind Normalize erases the box that its place in the whole plan draws, with its value as the operators
// behind it make it; everything else is what the plan without it gives.
func TestEraseAtTheConsumer(t *testing.T) {
	const width, height = 31, 17
	crop := `{"op":"DecodeImage"},{"op":"CenterCrop","size":[17,31]},{"op":"Normalize","mean":[0.5,0.4,0.3],"std":[0.2,0.3,0.4]},`
	erase := `{"op":"RandomErasing","p":0.8,"scale":[0.1,0.5],"value":[0.25,-1.5,3]}`
	cast := `{"op":"ToDtype","dtype":"bfloat16"}`
	src := make([]byte, width*height*3)
	for i := range src {
		src[i] = byte(i * 11)
	}
	run := func(ops string, key Key) []byte {
		_, rest := mustParse(t, ops).Cut()
		f, err := NewFinisher(rest, 3)
		if err != nil {
			t.Fatal(err)
		}
		dst := make([]byte, 2*len(src))
		f.Apply(dst, src)
		f.Erase(dst, height, width, key)
		return dst
	}
	op := mustParse(t, `{"op":"DecodeImage"},`+strings.ReplaceAll(erase, "[0.25,-1.5,3]", "7")).ops[1].(RandomErasing)
	pixel := []byte{0x80, 0x3e, 0xc0, 0xbf, 0x40, 0x40} // 0.25, -1.5 and 3 as bfloat16
	erased := 0
	for sample := range uint64(40) {
		key := Key{Seed: 5, Epoch: 1, Sample: sample}
		want := run(crop+cast, key)
		if b, ok := op.draw(width, height, newStream(key.Op(3))); ok {
			erased++
			for y := b.Y; y < b.Y+b.H; y++ {
				for x := b.X; x < b.X+b.W; x++ {
					copy(want[(y*width+x)*6:], pixel)
				}
			}
		}
		if got := run(crop+erase+`,`+cast, key); !bytes.Equal(got, want) {
			t.Fatalf("sample %d: other bytes", sample)
		}
	}
	if erased < 20 || erased == 40 {
		t.Errorf("%d of 40 samples have a box", erased)
	}
}

// What is erased before a Normalize of the tail is normalized with the rest; a value is rounded to the dtype that it meets.
func TestErasedPixelsGoThroughTheTail(t *testing.T) {
	everywhere := `{"op":"RandomErasing","p":1,"scale":[0.4,0.6],"value":0.3}`
	_, rest := mustParse(t, `{"op":"DecodeImage"},{"op":"Grayscale"},{"op":"ToDtype","dtype":"float16","scale":true},`+everywhere+
		`,{"op":"Normalize","mean":[0.5],"std":[0.25]},{"op":"ToDtype","dtype":"float32"}`).Cut()
	f, err := NewFinisher(rest, 1)
	if err != nil {
		t.Fatal(err)
	}
	src, dst := make([]byte, 100), make([]byte, 400)
	f.Apply(dst, src)
	f.Erase(dst, 10, 10, Key{})
	// 0.3 in float16 is 0x34cd = 0.300048828125; less 0.5, times 4, each exact in float16.
	want, seen := float32(4*(0.300048828125-0.5)), 0
	for i := 0; i < len(dst); i += 4 {
		switch v := math.Float32frombits(binary.LittleEndian.Uint32(dst[i:])); v {
		case want:
			seen++
		case -2:
		default:
			t.Fatalf("element %d is %v", i/4, v)
		}
	}
	if seen < 30 || seen > 70 {
		t.Errorf("%d of 100 pixels are erased", seen)
	}
	defer func() {
		if recover() == nil {
			t.Error("a tensor of another size passes")
		}
	}()
	f.Erase(dst, 10, 11, Key{})
}
