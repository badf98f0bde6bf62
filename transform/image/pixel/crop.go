package pixel

import "github.com/stepahead-io/stepahead/transform"

// crop takes s.Box. What lies outside the picture is s.Fill, or one of its own pixels as torchvision's pad has it
// (numpy's, on PIL images), however far outside it is.
func crop(s transform.Step, im Image, alloc func(n int) []byte) (Image, error) {
	across, along, err := axesOf(s, im)
	if err != nil {
		return Image{}, err
	}
	b := s.Box
	if min(b.X, b.Y) < -maxSide || max(b.X, b.Y) > maxSide {
		return Image{}, refuse(s, "a box at (%d, %d); positions must be within %d of the picture", b.X, b.Y, maxSide)
	}
	out, err := newImage(s, b.W, b.H, alloc)
	if err != nil {
		return Image{}, err
	}
	for y := range b.H {
		to := out.row(y)
		if from := along(b.Y + y); from >= 0 {
			cropRow(to, im.row(from), b.X, across, s.Fill)
		} else {
			fillRow(to, s.Fill)
		}
	}
	return out, nil
}

// An axis says which row or column of the picture stands at position i, anywhere; -1 is none.
type axis func(i int) int

// axesOf returns the axes of the columns and of the rows.
func axesOf(s transform.Step, im Image) (across, along axis, err error) {
	var of func(n int) axis
	switch s.Pad {
	case transform.PadConstant, "":
		of = constantAxis
	case transform.PadEdge:
		of = edgeAxis
	case transform.PadReflect:
		of = reflectAxis
	case transform.PadSymmetric:
		of = symmetricAxis
	default:
		return nil, nil, refuse(s, "pad %q; it must be constant, edge, reflect or symmetric", s.Pad)
	}
	return of(im.W), of(im.H), nil
}

func constantAxis(n int) axis {
	return func(i int) int {
		if i < 0 || i >= n {
			return -1
		}
		return i
	}
}

func edgeAxis(n int) axis {
	return func(i int) int { return min(max(i, 0), n-1) }
}

// reflectAxis runs back and forth without repeating the outermost: 2 1 | 0 1 2 | 1 0. A single pixel is repeated.
func reflectAxis(n int) axis {
	if n == 1 {
		return edgeAxis(n)
	}
	return mirroredAxis(n, 0)
}

// symmetricAxis runs back and forth and repeats the outermost: 1 0 | 0 1 2 | 2 1.
func symmetricAxis(n int) axis { return mirroredAxis(n, 1) }

// mirroredAxis runs back and forth; the outermost come again times more.
func mirroredAxis(n, again int) axis {
	period := 2 * (n - 1 + again)
	return func(i int) int {
		if i %= period; i < 0 {
			i += period
		}
		return min(i, period-again-i)
	}
}

// cropRow writes the columns from x on, as many as to holds.
func cropRow(to, from []byte, x int, across axis, fill [3]uint8) {
	w, n := len(to)/channels, len(from)/channels
	first := min(max(-x, 0), w) // of the columns of the result that lie inside the picture
	end := max(min(n-x, w), first)
	cropMargin(to[:channels*first], from, x, across, fill)
	if first < end {
		copy(to[channels*first:channels*end], from[channels*(x+first):])
	}
	cropMargin(to[channels*end:], from, x+end, across, fill)
}

// cropMargin writes columns that lie outside, one by one.
func cropMargin(to, from []byte, x int, across axis, fill [3]uint8) {
	for ; len(to) >= channels; x++ {
		p := fill
		if i := across(x); i >= 0 {
			p = [3]uint8(from[channels*i:])
		}
		to[0], to[1], to[2] = p[0], p[1], p[2]
		to = to[channels:]
	}
}

// fillRow makes all pixels the same.
func fillRow(to []byte, fill [3]uint8) {
	if len(to) == 0 {
		return
	}
	done := copy(to, fill[:])
	for done < len(to) {
		done += copy(to[done:], to[:done])
	}
}
