package pixel

// flip mirrors left and right.
func flip(im Image) {
	for y := range im.H {
		row := im.row(y)
		for i, j := 0, len(row)-channels; i < j; i, j = i+channels, j-channels {
			left, right := (*[channels]byte)(row[i:]), (*[channels]byte)(row[j:])
			*left, *right = *right, *left
		}
	}
}

// flipVertical mirrors top and bottom.
func flipVertical(im Image) {
	var buf [4 << 10]byte
	for i, j := 0, im.H-1; i < j; i, j = i+1, j-1 {
		for up, down := im.row(i), im.row(j); len(up) > 0; {
			n := copy(buf[:], up)
			copy(up, down[:n])
			copy(down, buf[:n])
			up, down = up[n:], down[n:]
		}
	}
}
