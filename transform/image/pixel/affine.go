package pixel

import (
	"math"

	"github.com/stepahead-io/stepahead/transform"
)

// affine is Pillow's Image.transform(size, AFFINE, matrix, filter, fillcolor=fill). Pillow has one way for bilinear
// and three for nearest, of which each rounds differently: for matrices that only scale and move, for those whose
// result stays within +-32768 pixels (16.16 fixed point), and for the rest.
func affine(s transform.Step, im Image, alloc func(n int) []byte) (Image, error) {
	m := s.Matrix
	for _, v := range m {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return Image{}, refuse(s, "the matrix %v; its numbers must be finite", m)
		}
	}
	if s.Filter != transform.Nearest && s.Filter != transform.Bilinear {
		return Image{}, refuse(s, "filter %q; it must be nearest or bilinear", s.Filter)
	}
	out, err := newImage(s, s.Width, s.Height, alloc)
	if err != nil {
		return Image{}, err
	}
	fillRow(out.Pix, s.Fill)
	switch {
	case s.Filter == transform.Bilinear:
		affineBilinear(out, im, m)
	case m[1] == 0 && m[3] == 0:
		scaleNearest(out, im, m)
	case fitsFixed(m, out.W, out.H):
		fixedNearest(out, im, m)
	default:
		floatNearest(out, im, m)
	}
	return out, nil
}

// linear returns a*x + b*y + c in Pillow's order of rounding.
func linear(a, x, b, y, c float64) float64 { return float64(a*x) + float64(b*y) + c }

// inside says whether v, rounded down, is a position below n. It is false for what no int holds.
func inside(v float64, n int) bool { return v >= 0 && v < float64(n) }

// scaleNearest adds the step column by column and row by row, rounding errors included.
func scaleNearest(out, im Image, m [6]float64) {
	y := m[5] + float64(m[4]*0.5)
	for i := range out.H {
		if inside(y, im.H) {
			from, to := im.row(int(y)), out.row(i)
			x := m[2] + float64(m[0]*0.5)
			for j := 0; j < len(to); j += channels {
				if inside(x, im.W) {
					copyPixel(to, j, from, channels*int(x))
				}
				x += m[0]
			}
		}
		y += m[4]
	}
}

// copyPixel copies three bytes.
func copyPixel(to []byte, i int, from []byte, j int) {
	t, f := to[i:i+channels:i+channels], from[j:j+channels:j+channels]
	t[0], t[1], t[2] = f[0], f[1], f[2]
}

// fitsFixed says whether all four corners of the result lie where 16.16 fixed point can say so.
func fitsFixed(m [6]float64, w, h int) bool {
	for _, corner := range [4][2]float64{{0, 0}, {float64(w), float64(h)}, {0, float64(h)}, {float64(w), 0}} {
		x := linear(m[0], corner[0], m[1], corner[1], m[2])
		y := linear(m[3], corner[0], m[4], corner[1], m[5])
		if math.Abs(x) >= 32768 || math.Abs(y) >= 32768 {
			return false
		}
	}
	return true
}

// fixed rounds to 16 fractional bits. What an int32 cannot hold, at the very edge of the range, becomes its least
// value, as in Pillow on x86-64.
func fixed(v float64) int32 {
	v = math.Floor(float64(v*65536) + 0.5)
	if v < math.MinInt32 || v > math.MaxInt32 {
		return math.MinInt32
	}
	return int32(v)
}

func fixedNearest(out, im Image, m [6]float64) {
	a0, a1, a3, a4 := fixed(m[0]), fixed(m[1]), fixed(m[3]), fixed(m[4])
	x0 := fixed(m[2] + float64(m[0]*0.5) + float64(m[1]*0.5))
	y0 := fixed(m[5] + float64(m[3]*0.5) + float64(m[4]*0.5))
	for i := range out.H {
		to := out.row(i)
		x, y := x0, y0
		for j := 0; j < len(to); j += channels {
			if c, r := int(x>>16), int(y>>16); uint(c) < uint(im.W) && uint(r) < uint(im.H) {
				copyPixel(to, j, im.Pix, channels*(r*im.W+c))
			}
			x, y = x+a0, y+a3
		}
		x0, y0 = x0+a1, y0+a4
	}
}

func floatNearest(out, im Image, m [6]float64) {
	x0 := m[2] + float64(m[1]*0.5) + float64(m[0]*0.5)
	y0 := m[5] + float64(m[4]*0.5) + float64(m[3]*0.5)
	for i := range out.H {
		to := out.row(i)
		x, y := x0, y0
		for j := 0; j < len(to); j += channels {
			if inside(x, im.W) && inside(y, im.H) {
				copyPixel(to, j, im.Pix, channels*(int(y)*im.W+int(x)))
			}
			x, y = x+m[0], y+m[3]
		}
		x0, y0 = x0+m[1], y0+m[4]
	}
}

// affineBilinear interpolates between the four pixels around each point in float64 and truncates. Beyond the outermost
// pixel centres, but inside the picture, the border pixel goes on.
func affineBilinear(out, im Image, m [6]float64) {
	for i := range out.H {
		to := out.row(i)
		yy := float64(i) + 0.5
		xRow, yRow := float64(m[1]*yy), float64(m[4]*yy)
		for j := 0; len(to) >= channels; j, to = j+1, to[channels:] {
			xx := float64(j) + 0.5
			x, y := float64(m[0]*xx)+xRow+m[2], float64(m[3]*xx)+yRow+m[5]
			if inside(x, im.W) && inside(y, im.H) {
				*(*[channels]byte)(to) = interpolate(im, x-0.5, y-0.5)
			}
		}
	}
}

// interpolate returns the colour of the point (x, y), where pixel centres are whole and (-0.5, -0.5) is the outermost corner.
func interpolate(im Image, x, y float64) (p [channels]byte) {
	left, right, dx := neighbours(x, im.W)
	top, bottom, dy := neighbours(y, im.H)
	top, bottom = top*im.W, bottom*im.W
	a, b := (*[channels]byte)(im.Pix[channels*(top+left):]), (*[channels]byte)(im.Pix[channels*(top+right):])
	c, d := (*[channels]byte)(im.Pix[channels*(bottom+left):]), (*[channels]byte)(im.Pix[channels*(bottom+right):])
	for i := range p {
		up, down := mixFloat(a[i], b[i], dx), mixFloat(c[i], d[i], dx)
		p[i] = uint8(int32(up + float64((down-up)*dy)))
	}
	return p
}

// neighbours returns the positions below and above v, at most the outermost, and the way from the lower to v.
func neighbours(v float64, n int) (below, above int, part float64) {
	if v < 0 {
		return 0, 0, v + 1
	}
	below = int(v)
	return below, min(below+1, n-1), v - float64(below)
}

func mixFloat(a, b uint8, part float64) float64 {
	return float64(a) + float64(float64(int32(b)-int32(a))*part)
}
