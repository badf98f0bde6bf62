package image

// buffers lends memory to the pictures between the parts of a plan. A picture and the one made of it never share
// memory; older ones do, so that a plan of any length needs room for two.
type buffers struct {
	out   []byte // of the result: lent to whatever fits
	spare [2][]byte
	last  int // which was lent last: 0 none, 1 out, 2 and 3 spare
}

// begin makes ready for another picture, whose result is to be written to out.
func (b *buffers) begin(out []byte) { b.out, b.last = out, 0 }

// take returns n bytes, of unknown content, that overlap none of the last call's.
func (b *buffers) take(n int64) []byte {
	if b.last != 1 && n <= int64(len(b.out)) {
		b.last = 1
		return b.out[:n]
	}
	i := 0
	if b.last == 2 {
		i = 1
	}
	b.last = 2 + i
	if int64(cap(b.spare[i])) < n {
		b.spare[i] = make([]byte, n)
	}
	return b.spare[i][:n]
}
