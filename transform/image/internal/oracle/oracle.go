// Package oracle knows what must hold of the image pipeline for every input, whatever its bytes are, and which plans to
// try them with. It serves tests and the fuzzer alone.
package oracle

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/png"
	"slices"
	"strings"
	"unicode"

	"github.com/stepahead-io/stepahead/transform"
)

// Func runs a plan on an encoded image, as image.Run does.
type Func func(plan *transform.Plan, key transform.Key, in, out []byte) (transform.TensorSpec, error)

// Pipeline is the code under test.
type Pipeline struct {
	// Run is the way that workers take.
	Run Func
	// Same are other ways that must give the same: other kernels, several samples a call.
	Same []Way
	// Alloc gives buffers whose ends are watched, and Free takes them back; nil: Go's.
	Alloc func(n int) []byte
	Free  func([]byte)
	// MaxOutput is the most bytes that Run may write; what it makes of a larger output is an error.
	MaxOutput int
}

// Way is a way to run a plan, with its name.
type Way struct {
	Name string
	Run  Func
}

// outcome is what one way makes of an input.
type outcome struct {
	spec transform.TensorSpec
	out  []byte
	err  error
}

// Check runs an input as [Split] understands it and returns what is wrong, nil if nothing is.
func (p Pipeline) Check(data []byte) error {
	c, in := Split(data)
	if err := p.check(c, in); err != nil {
		return fmt.Errorf("%s, key %+v, %d bytes: %w", c.whole(), c.Key, len(in), err)
	}
	return nil
}

func (p Pipeline) check(c Case, in []byte) error {
	plan, err := parse(c.whole())
	if err != nil {
		return err
	}
	before := bytes.Clone(in)
	got, room := p.first(plan, c.Key, in)
	for _, way := range p.Same {
		if diff := differs(got, p.run(way.Run, plan, c.Key, in, room)); diff != "" {
			return fmt.Errorf("%s and Run: %s", way.Name, diff)
		}
	}
	if !bytes.Equal(before, in) {
		return errors.New("the input was written to")
	}
	if err := named(got.err); err != nil || c.Scaled || kind(got.err) == transform.KindPlan {
		return err // a scaled picture has pixels of its own, and a plan that does not fit says nothing of the picture
	}
	return p.checkRegion(c, in, got)
}

// first runs the ordinary way when nobody knows yet how large the result is. It returns also the room in which other ways
// must come to the same.
func (p Pipeline) first(plan *transform.Plan, key transform.Key, in []byte) (o outcome, room int) {
	if spec, ok := plan.Fixed(); ok && spec.Bytes() <= int64(p.MaxOutput) {
		room = int(spec.Bytes())
		return p.run(p.Run, plan, key, in, room), room
	}
	o = result(p.Run, plan, key, in, make([]byte, p.MaxOutput))
	if o.err != nil {
		return o, p.MaxOutput
	}
	return o, len(o.out)
}

// run gives a way a buffer of room bytes and takes a copy of what it leaves there.
func (p Pipeline) run(way Func, plan *transform.Plan, key transform.Key, in []byte, room int) outcome {
	buf := p.alloc(room)
	defer p.free(buf)
	return result(way, plan, key, in, buf)
}

func result(way Func, plan *transform.Plan, key transform.Key, in, buf []byte) outcome {
	spec, err := way(plan, key, in, buf)
	if err != nil {
		return outcome{err: err}
	}
	return outcome{spec: spec, out: bytes.Clone(buf[:spec.Bytes()])}
}

func (p Pipeline) alloc(n int) []byte {
	if p.Alloc == nil {
		return make([]byte, n)
	}
	return p.Alloc(n)
}

func (p Pipeline) free(b []byte) {
	if p.Free != nil {
		p.Free(b)
	}
}

// checkRegion compares an outcome with decoding everything first and executing the steps on the finished picture, which
// travels as an uncompressed PNG. Only the whole picture shows a fault below a region.
func (p Pipeline) checkRegion(c Case, in []byte, got outcome) error {
	decode, err := parse(c.decode())
	if err != nil {
		return err
	}
	picture, _ := p.first(decode, c.Key, in)
	if picture.err != nil {
		return nil
	}
	rest, err := parse(c.rest())
	if err != nil {
		return err
	}
	finished, err := encodePNG(picture)
	if err != nil {
		return err
	}
	want, _ := p.first(rest, c.Key, finished)
	if got.err != nil && want.err != nil && kind(got.err) == kind(want.err) {
		return nil
	}
	if diff := differs(got, want); diff != "" {
		return fmt.Errorf("a region decoded, and cut out of the decoded %v: %s", picture.spec.Shape, diff)
	}
	return nil
}

func kind(err error) transform.ErrorKind {
	var e *transform.Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

func parse(text string) (*transform.Plan, error) {
	plan, err := transform.ParsePlan([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("the drawn plan %s: %w", text, err)
	}
	return plan, nil
}

// differs says how two outcomes differ, "" if they do not.
func differs(a, b outcome) string {
	switch {
	case fmt.Sprint(a.err) != fmt.Sprint(b.err):
		return fmt.Sprintf("error %v, error %v", a.err, b.err)
	case a.err != nil:
		return ""
	case !slices.Equal(a.spec.Shape, b.spec.Shape):
		return fmt.Sprintf("shape %v, shape %v", a.spec.Shape, b.spec.Shape)
	}
	for i := range a.out {
		if a.out[i] != b.out[i] {
			return fmt.Sprintf("byte %d of %v is %d, is %d", i, a.spec.Shape, a.out[i], b.out[i])
		}
	}
	return ""
}

// named reports whether an error is nil or says what is wrong with the content, or that the plan does not fit it, in text
// that can be shown. It returns what is wrong with it.
func named(err error) error {
	if err == nil {
		return nil
	}
	var e *transform.Error
	switch {
	case !errors.As(err, &e):
		return fmt.Errorf("%q is no named error", err)
	case !e.Content() && e.Kind != transform.KindPlan:
		return fmt.Errorf("%w: kind %q says nothing about the content", err, e.Kind)
	case e.Op == "" || e.Detail == "":
		return fmt.Errorf("%w: it names no operator or no facts", err)
	case strings.ContainsFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("%q cannot be shown", err)
	}
	return nil
}

func encodePNG(o outcome) ([]byte, error) {
	h, w := o.spec.Shape[0], o.spec.Shape[1]
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	for i := range w * h {
		copy(m.Pix[4*i:], o.out[3*i:3*i+3])
		m.Pix[4*i+3] = 255
	}
	var b bytes.Buffer
	err := (&png.Encoder{CompressionLevel: png.NoCompression}).Encode(&b, m)
	return b.Bytes(), err
}
