package image

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"hash"
	"io/fs"

	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/image/pixel"
)

// vectors are small encoded images of every shape that decoders treat differently. Their names begin with
// the format. TestVectors writes them anew with -rewrite.
//
//go:embed vectors
var vectors embed.FS

// Golden returns, for every pixel operator identity that this build offers, the SHA-256 (hex) over what it
// makes of small built-in vectors. Two builds may use each other's pixels for an operator exactly
// when these agree, and those of [transform.Golden]. A vector that fails contributes its error instead of pixels.
func Golden() map[string]string {
	j := job{lim: Limits{}.withDefaults(), variant: bestVariant()}
	golden := pixel.Golden()
	for id, write := range j.operators() {
		h := sha256.New()
		write(h)
		golden[id] = hex.EncodeToString(h.Sum(nil))
	}
	return golden
}

// operators says how each identity is put to the test.
func (j job) operators() map[string]func(h hash.Hash) {
	all := j.decoders()
	all["resize/pil-nearest@1"] = func(h hash.Hash) { j.hashResized(h, transform.Nearest, 1) }
	all["blur/fixed-point@1"] = j.hashBlurred
	all["placement/ours@1"] = j.hashPlaced
	for _, filter := range []transform.Filter{transform.BoxFilter, transform.Bilinear, transform.Bicubic, transform.Lanczos} {
		for version := 1; version <= 2; version++ {
			all[fmt.Sprintf("resize/pil-%s@%d", filter, version)] = func(h hash.Hash) { j.hashResized(h, filter, version) }
		}
	}
	return all
}

// hashDecoded hashes each vector whole, and a part of it that needs the neighbourhood to be exact.
func (j job) hashDecoded(h hash.Hash, pattern string, d transform.DecodeImage) {
	hashVectors(h, pattern, func(in []byte) {
		j.hashSteps(h, in, d)
		j.hashSteps(h, in, d, transform.Step{Kind: transform.StepCrop, Box: transform.Box{X: 16, Y: 3, W: 6, H: 9}})
	})
}

// hashVectors hashes the names of vectors, and what is done with each.
func hashVectors(h hash.Hash, pattern string, do func(in []byte)) {
	names, err := fs.Glob(vectors, pattern)
	fmt.Fprintln(h, names, err)
	for _, name := range names {
		in, err := vectors.ReadFile(name)
		fmt.Fprintln(h, name, err)
		do(in)
	}
}

// hashScaled hashes JPEG vectors as they are where no resize makes them smaller, then decoded at each scale, whole, in a
// box and turned.
func (j job) hashScaled(h hash.Hash) {
	smaller := transform.DecodeImage{JPEG: "dct-scaled"}
	j.hashDecoded(h, "vectors/jpeg-*", smaller)
	hashVectors(h, "vectors/jpeg-*", func(in []byte) {
		for _, size := range [][2]int{{17, 12}, {9, 6}, {4, 3}} {
			resize := transform.Step{Kind: transform.StepResize, Width: size[0], Height: size[1], Version: 2, Filter: transform.Bilinear}
			j.hashSteps(h, in, smaller, resize)
			j.hashSteps(h, in, smaller, transform.Step{Kind: transform.StepCrop, Box: transform.Box{X: 3, Y: 2, W: 34, H: 25}}, resize)
		}
	})
	hashVectors(h, "vectors/exif-*", func(in []byte) {
		turned := transform.DecodeImage{JPEG: "dct-scaled", Orientation: "apply"}
		j.hashSteps(h, in, turned, transform.Step{Kind: transform.StepResize, Width: 9, Height: 6, Version: 2, Filter: transform.Bilinear})
	})
}

// hashFilled hashes files that end early as they are, decoded smaller, and turned.
func (j job) hashFilled(h hash.Hash) {
	fill := transform.DecodeImage{Truncated: "fill"}
	j.hashDecoded(h, "vectors/fill-*", fill)
	smaller := transform.Step{Kind: transform.StepResize, Width: 9, Height: 6, Version: 2, Filter: transform.Bilinear}
	scaled := fill
	scaled.JPEG = "dct-scaled"
	hashVectors(h, "vectors/fill-jpeg-*", func(in []byte) { j.hashSteps(h, in, scaled, smaller) })
	turned := fill
	turned.Orientation = "apply"
	both := scaled
	both.Orientation = "apply"
	hashVectors(h, "vectors/exif-[23678]", func(in []byte) { // what the others are, WebP, is never filled
		cut := in[:len(in)*7/10]
		j.hashSteps(h, cut, turned)
		j.hashSteps(h, cut, both, smaller)
	})
}

// hashPlaced cuts, mirrors and lays on black: pixels as they are, and in one pass with resizes that weigh and that pick.
func (j job) hashPlaced(h hash.Hash) {
	crop := func(x, y, w, h int) transform.Step {
		return transform.Step{Kind: transform.StepCrop, Pad: transform.PadConstant, Box: transform.Box{X: x, Y: y, W: w, H: h}}
	}
	flip, flop := transform.Step{Kind: transform.StepFlip}, transform.Step{Kind: transform.StepFlipVertical}
	bilinear := transform.Step{Kind: transform.StepResize, Width: 41, Height: 19, Version: 2, Filter: transform.Bilinear}
	nearest := bilinear
	nearest.Filter = transform.Nearest
	hashVectors(h, "vectors/png-rgba.png", func(in []byte) {
		for _, steps := range [][]transform.Step{
			{flip}, {flop}, {crop(5, 3, 20, 11), flip}, {crop(-4, 7, 30, 40)}, {crop(9, -6, 41, 20), flip, flop}, {flip, crop(-3, -2, 50, 40)},
		} {
			j.hashSteps(h, in, transform.DecodeImage{}, steps...)
		}
		for _, resize := range []transform.Step{bilinear, nearest} {
			for _, steps := range [][]transform.Step{
				{resize, flip}, {resize, crop(5, 3, 21, 11), flip}, {resize, crop(-4, 7, 30, 40)}, {crop(9, 6, 21, 17), resize, crop(30, -3, 20, 15), flip}, {flip, resize, flop},
			} {
				j.hashSteps(h, in, transform.DecodeImage{}, steps...)
			}
		}
	})
}

// hashSteps runs steps on an encoded image and hashes the result.
func (j job) hashSteps(h hash.Hash, in []byte, d transform.DecodeImage, steps ...transform.Step) {
	out := make([]byte, 1<<14)
	alone := [1]errand{{in: in, out: out, decoding: d, resolve: func(int, int) (transform.Resolved, error) { return transform.Resolved{Steps: steps}, nil }}}
	j.run(alone[:])
	spec, err := alone[0].result.Spec, alone[0].result.Err
	fmt.Fprintln(h, spec, err)
	if err == nil {
		h.Write(out[:spec.Bytes()])
	}
}

// hashBlurred blurs a made-up picture with windows of several sizes, one of them as large as can be.
func (j job) hashBlurred(h hash.Hash) {
	const width, height = 61, 40
	in := madeUp(width, height)
	for _, b := range []transform.Blur{{KernelX: 23, KernelY: 23, SigmaX: 1.7, SigmaY: 1.7}, {KernelX: 3, KernelY: 1, SigmaX: 0.1, SigmaY: 1}, {KernelX: 121, KernelY: 79, SigmaX: 20, SigmaY: 13}} {
		s := newStage(width, height)
		err := s.smooth(transform.Step{Blur: b})
		out := make([]byte, s.bytes())
		if err == nil {
			err = j.runPixels(in, s, out)
		}
		fmt.Fprintln(h, b, err)
		h.Write(out)
	}
}

// madeUp returns pixels without any order.
func madeUp(width, height int) []byte {
	in := make([]byte, width*height*channels)
	for i, state := 0, uint32(1); i < len(in); i++ {
		state = state*1664525 + 1013904223
		in[i] = byte(state >> 24)
	}
	return in
}

// hashResized resizes a made-up picture through both orders of passes, up and down.
func (j job) hashResized(h hash.Hash, filter transform.Filter, version int) {
	const width, height = 61, 149
	in := madeUp(width, height)
	for _, size := range [][2]int{{32, 32}, {61, 20}, {17, 149}, {224, 224}, {60, 300}, {1, 1}} {
		if size[0] == 224 && filter != transform.Bilinear {
			continue // a worker makes all of these when it starts
		}
		s := newStage(width, height)
		err := s.scale(transform.Step{Width: size[0], Height: size[1], Version: version, Filter: filter})
		out := make([]byte, s.bytes())
		if err == nil {
			err = j.runPixels(in, s, out)
		}
		fmt.Fprintln(h, size, err)
		h.Write(out)
	}
}

func (j job) runPixels(in []byte, s *stage, out []byte) error {
	p := pixelsOf(in, s.crop.W, s.crop.H)
	runAll([]running{{p, s, out}}, j.variant, j.lim)
	return p.err
}
