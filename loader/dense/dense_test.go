package dense_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"github.com/stepahead-io/stepahead/loader"
	"github.com/stepahead-io/stepahead/loader/dense"
	"github.com/stepahead-io/stepahead/loader/loadertest"
)

// images is a field of n images in either layout, whose bytes count up in memory.
func images(n, c, h, w int, contiguous bool) *loader.FieldData {
	f := &loader.FieldData{Name: "image", Dtype: "uint8", Shape: []int{n, c, h, w}, Strides: []int{c * h * w, h * w, w, 1}}
	if !contiguous {
		f.Strides = []int{c * h * w, 1, w * c, c}
	}
	f.Bytes = make([]byte, n*c*h*w)
	for i := range f.Bytes {
		f.Bytes[i] = byte(i)
	}
	return f
}

// TestViewIsTheMemory: every element is where shape and strides say, in both layouts, and what is written into the
// batch shows.
func TestViewIsTheMemory(t *testing.T) {
	for _, contiguous := range []bool{false, true} {
		f := images(2, 3, 4, 5, contiguous)
		v, err := dense.View(f)
		if err != nil {
			t.Fatal(err)
		}
		if !v.Shape().Eq(tensor.Shape(f.Shape)) {
			t.Fatalf("shape %v, want %v", v.Shape(), f.Shape)
		}
		for i := range len(f.Bytes) {
			at := []int{i / 60, i / 20 % 3, i / 5 % 4, i % 5}
			off := 0
			for d, n := range at {
				off += n * f.Strides[d]
			}
			f.Bytes[off] ^= 0x80 // after the view was made
			got, err := v.At(at...)
			if err != nil || got != f.Bytes[off] {
				t.Fatalf("contiguous %v, element %v: %v (%v), want %d", contiguous, at, got, err, f.Bytes[off])
			}
		}
	}
}

// TestEveryDtype: what gorgonia has is viewed, what it does not have is refused by name.
func TestEveryDtype(t *testing.T) {
	for dtype, want := range map[string]tensor.Dtype{
		"uint8": tensor.Uint8, "bool": tensor.Bool, "int32": tensor.Int32, "int64": tensor.Int64, "float32": tensor.Float32, "float64": tensor.Float64,
	} {
		v, err := dense.View(&loader.FieldData{Name: "x", Dtype: dtype, Shape: []int{2}, Strides: []int{1}, Bytes: make([]byte, 2*want.Size())})
		if err != nil || v.Dtype() != want || v.Size() != 2 {
			t.Errorf("%s: %v, %v", dtype, v, err)
		}
	}
	for _, dtype := range []string{"float16", "bfloat16", "str", "bytes"} {
		_, err := dense.View(&loader.FieldData{Name: "x", Dtype: dtype, Shape: []int{2}, Strides: []int{1}, Bytes: make([]byte, 4)})
		if err == nil || !strings.Contains(err.Error(), `field "x"`) {
			t.Errorf("%s: %v", dtype, err)
		}
	}
}

// The labels of a batch as a tensor over the batch's own memory.
func Example() {
	photos, remove := loadertest.Photographs()
	defer remove()
	ctx := context.Background()
	l, err := loader.Open(ctx, loader.Options{
		Store: photos, Dir: "/photos", GlobalBatch: 6, Shuffle: "none", Fields: []string{"label"},
	})
	check(err)
	defer l.Close()

	batch, err := l.Next(ctx)
	check(err)
	labels, err := dense.View(&batch.Fields[0])
	check(err)
	sum, err := labels.Sum()
	check(err)
	fmt.Println(labels, "sum", sum)
	batch.Release() // labels must not be used from here on
	// Output:
	// [0  0  0  1  1  1] sum 3
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
