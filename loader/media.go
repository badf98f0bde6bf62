package loader

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/transform"
)

// mediaField is a field of parts that is delivered: its plan, cut in two, and how its pixels are
// finished; or, without a plan, the bytes as they are stored. It is safe for concurrent use.
type mediaField struct {
	name        string
	stored      bool // it has no plan; nothing below is set then
	agent, rest *transform.Plan
	digest      [32]byte // of agent
	contiguous  bool

	fixed   transform.TensorSpec // of agent's output, when isFixed
	isFixed bool

	mu        sync.Mutex
	finishers map[int]*transform.Finisher // by channels
}

func newMediaField(name string, plan *transform.Plan, layout string) *mediaField {
	if plan == nil {
		return &mediaField{name: name, stored: true}
	}
	f := &mediaField{name: name, contiguous: layout == Contiguous, finishers: map[int]*transform.Finisher{}}
	f.agent, f.rest = plan.Cut()
	f.digest = f.agent.Digest()
	f.fixed, f.isFixed = f.agent.Fixed()
	return f
}

// half returns what the agent's half of the plan gives for a part, if it can be told without decoding.
func (f *mediaField) half(p binfmt.Part, key transform.Key) (transform.TensorSpec, bool, error) {
	if f.isFixed {
		return f.fixed, true, nil
	}
	if p.Width == 0 || p.Height == 0 {
		return transform.TensorSpec{}, false, nil
	}
	return f.agent.OutputStored(int(p.Width), int(p.Height), key)
}

// finisher returns the table of the plan's rest for pixels of spec half.
func (f *mediaField) finisher(half transform.TensorSpec) (*transform.Finisher, error) {
	channels := half.Shape[len(half.Shape)-1]
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.finishers[channels]; t != nil {
		return t, nil
	}
	t, err := transform.NewFinisher(f.rest, channels)
	if err != nil {
		return nil, fmt.Errorf("field %q: %w", f.name, err)
	}
	f.finishers[channels] = t
	return t, nil
}

// inPlace tells whether the agent's half is already what is delivered.
func (f *mediaField) inPlace() bool { return f.rest.Len() == 0 && !f.contiguous }

// finish turns the output of the agent's half into dst, the sample's place in the batch. key is the sample's.
func (f *mediaField) finish(dst, half []byte, spec transform.TensorSpec, key transform.Key, buf *buffers) error {
	if f.inPlace() {
		return nil // half is dst
	}
	t, err := f.finisher(spec)
	if err != nil {
		return err
	}
	if !f.contiguous {
		t.Apply(dst, half)
		t.Erase(dst, spec.Shape[0], spec.Shape[1], key)
		return nil
	}
	out := t.Spec(spec)
	if f.rest.Len() == 0 {
		planes(dst, half, out)
		return nil
	}
	tmp := buf.get(len(dst))
	defer buf.put(tmp)
	t.Apply(tmp, half)
	t.Erase(tmp, spec.Shape[0], spec.Shape[1], key)
	planes(dst, tmp, out)
	return nil
}

// planes writes HWC elements of spec as CHW, frame by frame when there are more dimensions.
func planes(dst, src []byte, spec transform.TensorSpec) {
	d := len(spec.Shape)
	if d < 3 {
		copy(dst, src)
		return
	}
	pixels, c := spec.Shape[d-3]*spec.Shape[d-2], spec.Shape[d-1]
	frame := pixels * c * spec.Dtype.Size()
	for len(src) > 0 && frame > 0 {
		switch spec.Dtype.Size() {
		case 1:
			frameplanes(dst[:frame], src[:frame], c)
		case 2:
			frameplanes(elements[uint16](dst[:frame]), elements[uint16](src[:frame]), c)
		case 4:
			frameplanes(elements[uint32](dst[:frame]), elements[uint32](src[:frame]), c)
		}
		dst, src = dst[frame:], src[frame:]
	}
}

// frameplanes splits pixels of c channels into c planes.
func frameplanes[T uint8 | uint16 | uint32](dst, src []T, c int) {
	pixels := len(src) / c
	if c == 3 {
		threePlanes(dst[:pixels], dst[pixels:2*pixels], dst[2*pixels:], src)
		return
	}
	for ch := range c {
		plane := dst[ch*pixels : (ch+1)*pixels]
		for i := range plane {
			plane[i] = src[i*c+ch]
		}
	}
}

// threePlanes is frameplanes for three channels, which almost all pictures have. It goes over src once, eight
// pixels at a time, so that there are no bounds to check: a third of the time.
func threePlanes[T uint8 | uint16 | uint32](red, green, blue, src []T) {
	for len(red) >= 8 {
		r, g, b, s := (*[8]T)(red), (*[8]T)(green), (*[8]T)(blue), (*[24]T)(src)
		r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7] = s[0], s[3], s[6], s[9], s[12], s[15], s[18], s[21]
		g[0], g[1], g[2], g[3], g[4], g[5], g[6], g[7] = s[1], s[4], s[7], s[10], s[13], s[16], s[19], s[22]
		b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7] = s[2], s[5], s[8], s[11], s[14], s[17], s[20], s[23]
		red, green, blue, src = red[8:], green[8:], blue[8:], src[24:]
	}
	for i := range red {
		red[i], green[i], blue[i] = src[3*i], src[3*i+1], src[3*i+2]
	}
}

// elements views bytes as elements; batch memory and pooled buffers are aligned for every dtype.
func elements[T any](b []byte) []T {
	var t T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(t)))
}

// ShapeError says that two samples of one batch have different shapes, so that they cannot be stacked.
type ShapeError struct {
	Field               string
	Source, OtherSource string // names, "" where a single dataset has none
	Sample, Other       uint64
	Shape, OtherIs      []int // channels first
}

func (e *ShapeError) Error() string {
	return fmt.Sprintf("field %q: %s gives shape %v, %s gives %v: a batch needs equal shapes: end the plan with CenterCrop, RandomResizedCrop or Resize of a fixed height and width",
		e.Field, named(e.Source, e.Sample, ""), e.Shape, named(e.OtherSource, e.Other, ""), e.OtherIs)
}
