package oracle

import (
	"fmt"
	"strings"
	"sync"

	"github.com/stepahead-io/stepahead/transform"
)

// Control is the number of bytes before the encoded image in an input: they choose the plan and the key.
const Control = 48

// Case is a plan in three pieces and a key.
type Case struct {
	Decode string   // parameters of DecodeImage
	Ops    []string // the operators after it
	Scaled bool     // DecodeImage may scale on the way
	Key    transform.Key
}

func (c Case) whole() string  { return planOf(c.Decode, c.Ops) }
func (c Case) decode() string { return planOf(c.Decode, nil) }
func (c Case) rest() string   { return planOf("", c.Ops) }

func planOf(decode string, ops []string) string {
	all := append([]string{`{"op":"DecodeImage"` + decode + `}`}, ops...)
	return `{"plan":1,"ops":[` + strings.Join(all, ",") + `]}`
}

// Split reads an input: the case that its first bytes choose, and the encoded image. Any bytes are an input.
func Split(data []byte) (Case, []byte) {
	var control [Control]byte
	n := copy(control[:], data)
	d := draw(control[:])
	c := Case{Key: transform.Key{Seed: uint64(d.upTo(3)), Sample: uint64(d.upTo(255))}}
	c.decodeFrom(&d)
	ops := offered().ops
	for range d.upTo(4) {
		c.Ops = append(c.Ops, ops[d.upTo(len(ops)-1)](&d))
	}
	if d.upTo(7) == 7 {
		c.Ops = append(c.Ops, `{"op":"Grayscale"}`) // to one channel, which no fill of three may follow
	}
	return c, data[n:]
}

func (c *Case) decodeFrom(d *draw) {
	for _, o := range offered().decode {
		if d.upTo(3) == 3 {
			c.Decode += o
			c.Scaled = c.Scaled || strings.Contains(o, "scaled")
		}
	}
}

// draw is the choices that are left; when they end, every further one is 0.
type draw []byte

func (d *draw) upTo(most int) int {
	if len(*d) == 0 {
		return 0
	}
	b := (*d)[0]
	*d = (*d)[1:]
	return int(b) % (most + 1)
}

// side draws the side of a result: mostly small, sometimes larger than small pictures.
func (d *draw) side() int { return 1 + d.upTo(63)*(1+d.upTo(3)*d.upTo(3)/3) }

func (d *draw) one(of ...string) string { return of[d.upTo(len(of)-1)] }

func (d *draw) part() float64 { return float64(d.upTo(255)) / 255 }

func (d *draw) filter() string {
	return `"interpolation":"` + d.one("bilinear", "bicubic", "lanczos", "box", "nearest") + `"`
}

func (d *draw) fill() string {
	return fmt.Sprintf(`"fill":[%d,%d,%d]`, d.upTo(255), d.upTo(255), d.upTo(255))
}

func (d *draw) padMode() string {
	return `"padding_mode":"` + d.one("constant", "edge", "reflect", "symmetric") + `"`
}

// operators write one operator each, in every way that its parameters can stand.
func operators() []func(*draw) string {
	return []func(*draw) string{
		func(d *draw) string {
			return fmt.Sprintf(`{"op":"RandomResizedCrop","size":[%d,%d],%s,"scale":[%g,1],"version":%d}`, d.side(), d.side(), d.filter(), 0.01+d.part()/2, 1+d.upTo(1))
		},
		func(d *draw) string {
			return fmt.Sprintf(`{"op":"Resize","size":[%d,%d],%s}`, d.side(), d.side(), d.filter())
		},
		func(d *draw) string {
			short := d.side()
			return fmt.Sprintf(`{"op":"Resize","size":%d,"max_size":%d,%s}`, short, short+1+d.side(), d.filter())
		},
		func(d *draw) string { return fmt.Sprintf(`{"op":"CenterCrop","size":[%d,%d]}`, d.side(), d.side()) },
		func(d *draw) string {
			return fmt.Sprintf(`{"op":"RandomCrop","size":[%d,%d],"padding":[%d,%d,%d,%d],"pad_if_needed":true,%s,%s}`,
				d.side(), d.side(), d.upTo(9), d.upTo(9), d.upTo(9), d.upTo(9), d.fill(), d.padMode())
		},
		func(d *draw) string {
			return fmt.Sprintf(`{"op":"Pad","padding":[%d,%d,%d,%d],%s,%s}`, d.upTo(40), d.upTo(40), d.upTo(40), d.upTo(40), d.fill(), d.padMode())
		},
		func(d *draw) string { return fmt.Sprintf(`{"op":"RandomHorizontalFlip","p":%g}`, d.part()) },
		func(d *draw) string { return fmt.Sprintf(`{"op":"RandomVerticalFlip","p":%g}`, d.part()) },
		func(d *draw) string { return `{"op":"Grayscale","num_output_channels":3}` },
		func(d *draw) string { return fmt.Sprintf(`{"op":"RandomGrayscale","p":%g}`, d.part()) },
		func(d *draw) string {
			return fmt.Sprintf(`{"op":"ColorJitter","brightness":%g,"contrast":%g,"saturation":%g,"hue":%g}`, d.part(), d.part(), d.part(), d.part()/2)
		},
		func(d *draw) string {
			return fmt.Sprintf(`{"op":"GaussianBlur","kernel_size":[%d,%d],"sigma":[0.1,%g]}`, 1+2*d.upTo(9), 1+2*d.upTo(9), 0.1+3*d.part())
		},
		func(d *draw) string {
			return fmt.Sprintf(`{"op":"RandAugment","num_ops":%d,"magnitude":%d,"num_magnitude_bins":31,"interpolation":"%s",%s}`,
				d.upTo(3), d.upTo(30), d.one("nearest", "bilinear"), d.fill())
		},
	}
}

// offer is what this build's plans take before the pixels leave the worker.
type offer struct {
	decode []string
	ops    []func(*draw) string
}

var offered = sync.OnceValue(func() (o offer) {
	for _, option := range []string{`,"orientation":"apply"`, `,"truncated":"fill"`, `,"jpeg":"dct-scaled"`} {
		if isAgents(planOf(option, nil)) {
			o.decode = append(o.decode, option)
		}
	}
	for _, write := range operators() {
		d := draw(make([]byte, Control))
		if isAgents(planOf("", []string{write(&d)})) {
			o.ops = append(o.ops, write)
		}
	}
	return o
})

// isAgents reports whether a plan is one, all of which runs in the worker.
func isAgents(text string) bool {
	plan, err := transform.ParsePlan([]byte(text))
	if err != nil {
		return false
	}
	_, rest := plan.Cut()
	return rest.Len() == 0
}
