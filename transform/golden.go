package transform

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
)

// Golden returns the golden digest (hex) of each identity that this package owns: of what random operators draw, and of
// the boxes and sizes that follow. Two programs that agree on them resolve every plan alike.
func Golden() map[string]string {
	return map[string]string{drawIdentity: goldenDraws(), geometryIdentity: goldenGeometry()}
}

// goldenSizes are image sizes on both sides of every rule: square, wide, tall, thin, tiny, odd.
var goldenSizes = [][2]int{{500, 375}, {375, 500}, {1, 1}, {1, 500}, {4000, 3}, {224, 224}, {31, 17}, {65500, 65500}, {640, 427}}

func goldenDraws() string {
	h := sha256.New()
	crops := []RandomResizedCrop{
		{Scale: [2]float64{0.08, 1}, Ratio: [2]float64{3. / 4, 4. / 3}},
		{Scale: [2]float64{0.9, 1}, Ratio: [2]float64{3, 4}},
		{Scale: [2]float64{0.5, 0.5}, Ratio: [2]float64{0.1, 10}},
	}
	for sample := range uint64(64) {
		key := Key{Seed: 7, Source: "golden", Epoch: sample >> 3, Sample: sample}
		for i, op := range crops {
			for _, s := range goldenSizes {
				hashBox(h, op.draw(s[0], s[1], newStream(key.Op(uint32(i)))))
			}
		}
		hashWord(h, newStream(key.Op(63)).word())
	}
	return hex.EncodeToString(h.Sum(nil))
}

func goldenGeometry() string {
	h := sha256.New()
	resizes := []Resize{{Size: []int{224}}, {Size: []int{256}, MaxSize: 300}, {Size: []int{7, 9}}}
	for _, s := range goldenSizes {
		for n := range 16 {
			hashBox(h, CenterCrop{Height: 10 + n, Width: 230 + n}.box(s[0], s[1]))
		}
		for _, op := range resizes {
			w, hh, err := op.size(s[0], s[1])
			if err != nil {
				w, hh = -1, -1
			}
			hashBox(h, Box{W: w, H: hh})
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

func hashBox(h hash.Hash, b Box) {
	for _, v := range [...]int{b.X, b.Y, b.W, b.H} {
		hashWord(h, uint64(int64(v)))
	}
}

func hashWord(h hash.Hash, v uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	h.Write(b[:])
}
