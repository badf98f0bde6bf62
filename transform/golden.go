package transform

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
)

// Golden returns the golden digest (hex) of each identity that this package owns: of what random operators draw, and of
// the boxes and sizes that follow. Two programs that agree on them resolve every plan alike.
func Golden() map[string]string {
	golden := map[string]string{drawIdentity: goldenDraws(), geometryIdentity: goldenGeometry()}
	for id, ops := range goldenOps {
		golden[id] = goldenSteps(ops)
	}
	return golden
}

// goldenSizes are image sizes on both sides of every rule: square, wide, tall, thin, tiny, odd.
var goldenSizes = [][2]int{{500, 375}, {375, 500}, {1, 1}, {1, 500}, {4000, 3}, {224, 224}, {31, 17}, {65500, 65500}, {640, 427}}

// goldenOps are operators, as plan JSON, whose drawn steps are the golden vectors of an identity.
var goldenOps = map[string]string{
	drawRandomCrop: `{"op":"RandomCrop","size":[224,200],"padding":[3,0,5,7],"pad_if_needed":true}`,
	drawColorJitter: `{"op":"ColorJitter","brightness":0.4,"contrast":[0,3],"saturation":0.4,"hue":0.5},` +
		`{"op":"ColorJitter","brightness":2,"hue":[-0.1,0.2]}`,
	drawRandAugment: `{"op":"RandAugment","num_ops":8,"interpolation":"bilinear","fill":[1,2,3]},` +
		`{"op":"RandAugment","num_ops":8,"magnitude":5,"num_magnitude_bins":10}`,
	drawRandomApply: `{"op":"RandomApply","transforms":[{"op":"RandomHorizontalFlip"},{"op":"RandomGrayscale","p":0.9}]},` +
		`{"op":"RandomApply","p":0.8,"transforms":[{"op":"ColorJitter","brightness":0.4,"hue":0.1},{"op":"RandomVerticalFlip"}]}`,
	drawRandomErasing: `{"op":"RandomErasing","p":0.9,"value":[1,2,3]},` +
		`{"op":"RandomErasing","scale":[0,1],"ratio":[0.01,100],"value":"random"}`,
}

// vectors gathers what a golden digest is taken of: whole numbers as u64le.
type vectors []byte

func (v *vectors) add(numbers ...int) {
	for _, n := range numbers {
		*v = binary.LittleEndian.AppendUint64(*v, uint64(int64(n)))
	}
}

func (v *vectors) box(b Box) { v.add(b.X, b.Y, b.W, b.H) }

func (v *vectors) digest() string {
	sum := sha256.Sum256(*v)
	return hex.EncodeToString(sum[:])
}

func goldenDraws() string {
	var v vectors
	crops := []RandomResizedCrop{
		{Scale: [2]float64{0.08, 1}, Ratio: [2]float64{3. / 4, 4. / 3}},
		{Scale: [2]float64{0.9, 1}, Ratio: [2]float64{3, 4}},
		{Scale: [2]float64{0.5, 0.5}, Ratio: [2]float64{0.1, 10}},
	}
	for sample := range uint64(64) {
		key := Key{Seed: 7, Source: "golden", Epoch: sample >> 3, Sample: sample}
		for i, op := range crops {
			for _, s := range goldenSizes {
				v.box(op.draw(s[0], s[1], newStream(key.Op(uint32(i)))))
			}
		}
		v.add(int(newStream(key.Op(63)).word()))
	}
	return v.digest()
}

func goldenGeometry() string {
	var v vectors
	resizes := []Resize{{Size: []int{224}}, {Size: []int{256}, MaxSize: 300}, {Size: []int{7, 9}}}
	for _, s := range goldenSizes {
		for n := range 16 {
			v.box(CenterCrop{Height: 10 + n, Width: 230 + n}.box(s[0], s[1]))
		}
		for _, op := range resizes {
			w, h, allowed := op.size(s[0], s[1])
			if !allowed {
				w, h = -1, -1
			}
			v.box(Box{W: w, H: h})
		}
	}
	return v.digest()
}

// goldenSteps takes what the operators draw for a few samples of every golden size.
func goldenSteps(ops string) string {
	var v vectors
	plan, err := ParsePlan([]byte(`{"plan":1,"ops":[{"op":"DecodeImage"},` + ops + `]}`))
	for i := 0; err == nil && i < 4*len(goldenSizes); i++ {
		var r Resolved
		size := goldenSizes[i%len(goldenSizes)]
		r, err = plan.Resolve(size[0], size[1], Key{Seed: 7, Source: "golden", Epoch: 1, Sample: uint64(i)})
		for _, s := range r.Steps {
			v.step(s)
		}
	}
	if err != nil {
		v = append(v, err.Error()...)
	}
	return v.digest()
}

func (v *vectors) step(s Step) {
	*v = append(*v, s.Kind...)
	*v = append(*v, s.Filter...)
	*v = append(*v, s.Pad...)
	*v = append(*v, s.Fill[:]...)
	*v = append(*v, s.Key[:]...)
	v.add(s.Op, s.Level, int(math.Float64bits(s.Factor)))
	for _, m := range s.Matrix {
		v.add(int(math.Float64bits(m)))
	}
	if s.Noise {
		v.add(1)
	}
	v.box(s.Box)
}
