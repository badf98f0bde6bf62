package arrow_test

import (
	"context"
	"fmt"
	"log"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/stepahead-io/stepahead/loader"
	records "github.com/stepahead-io/stepahead/loader/arrow"
	"github.com/stepahead-io/stepahead/loader/loadertest"
	"github.com/stepahead-io/stepahead/sampler"
)

// batch is one of two samples, made by hand.
func batch(fields ...loader.FieldData) *loader.Batch {
	return &loader.Batch{Fields: fields, Samples: make([]sampler.SampleRef, 2)}
}

// TestColumns: types, values and shapes of every kind of field, over the batch's own memory.
func TestColumns(t *testing.T) {
	pixels := make([]byte, 2*2*3*3)
	for i := range pixels {
		pixels[i] = byte(i)
	}
	b := batch(
		loader.FieldData{Name: "image", Dtype: "uint8", Shape: []int{2, 3, 2, 3}, Strides: []int{18, 1, 9, 3}, Bytes: pixels},
		loader.FieldData{Name: "label", Dtype: "int64", Shape: []int{2}, Strides: []int{1}, Bytes: []byte{7, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0}},
		loader.FieldData{Name: "good", Dtype: "bool", Shape: []int{2}, Strides: []int{1}, Bytes: []byte{0, 1}},
		loader.FieldData{Name: "caption", Dtype: "str", Shape: []int{2}, Strides: []int{1}, Strings: []string{"a cat", ""}},
		loader.FieldData{Name: "mask", Dtype: "float32", Shape: []int{2, 2}, Strides: []int{2, 1}, Bytes: make([]byte, 16)},
		loader.FieldData{Name: "json", Dtype: "bytes", Shape: []int{2}, Strides: []int{1}, Bytes: []byte(`{"a": 1}`), Offsets: []int64{0, 8, 8}},
	)
	r, err := records.Record(b)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	if r.NumRows() != 2 || r.NumCols() != 6 {
		t.Fatalf("%d rows, %d columns", r.NumRows(), r.NumCols())
	}
	list := r.Column(0).(*array.FixedSizeList)
	values := list.ListValues().(*array.Uint8).Uint8Values()
	if list.DataType().(*arrow.FixedSizeListType).Len() != 18 || !slices.Equal(values, pixels) || unsafe.SliceData(values) != unsafe.SliceData(pixels) {
		t.Errorf("image: %v of %v", list.DataType(), values)
	}
	if got := r.Column(1).(*array.Int64).Int64Values(); !slices.Equal(got, []int64{7, 9}) || uintptr(unsafe.Pointer(&got[0])) != b.Fields[1].Addr() {
		t.Errorf("label: %v", got)
	}
	if got := r.Column(2).(*array.Int8).Int8Values(); !slices.Equal(got, []int8{0, 1}) {
		t.Errorf("good: %v", got)
	}
	if name, _ := r.Schema().Field(2).Metadata.GetValue("ARROW:extension:name"); name != "arrow.bool8" {
		t.Errorf("good is marked %q", name)
	}
	if text := r.Column(3).(*array.String); text.Value(0) != "a cat" || text.Value(1) != "" {
		t.Errorf("caption: %v", text)
	}
	stored := r.Column(5).(*array.LargeBinary)
	if string(stored.Value(0)) != `{"a": 1}` || len(stored.Value(1)) != 0 || uintptr(unsafe.Pointer(&stored.Value(0)[0])) != b.Fields[5].Addr() {
		t.Errorf("json: %v", stored)
	}
	want := map[string]string{"image": `{"shape":[2,3,3],"permutation":[2,0,1]}`, "mask": `{"shape":[2]}`}
	for _, f := range r.Schema().Fields() {
		if got, _ := f.Metadata.GetValue("ARROW:extension:metadata"); got != want[f.Name] {
			t.Errorf("%s is marked %q, want %q", f.Name, got, want[f.Name])
		}
	}
}

// TestWhatArrowDoesNotHave is refused by name, and the batch stays the caller's.
func TestWhatArrowDoesNotHave(t *testing.T) {
	b := batch(
		loader.FieldData{Name: "label", Dtype: "int64", Shape: []int{2}, Strides: []int{1}, Bytes: make([]byte, 16)},
		loader.FieldData{Name: "image", Dtype: "bfloat16", Shape: []int{2, 4}, Strides: []int{4, 1}, Bytes: make([]byte, 16)},
	)
	if _, err := records.Record(b); err == nil || !strings.Contains(err.Error(), `field "image": dtype bfloat16`) {
		t.Errorf("%v", err)
	}
}

// TestFieldWithoutARowForEachSample: a record has one length.
func TestFieldWithoutARowForEachSample(t *testing.T) {
	for _, n := range []int{1, 3} {
		b := batch(loader.FieldData{Name: "cu_seqlens", Dtype: "int32", Shape: []int{n}, Strides: []int{1}, Bytes: make([]byte, 4*n)})
		if _, err := records.Record(b); err == nil || !strings.Contains(err.Error(), fmt.Sprintf(`field "cu_seqlens": %d entries for 2 samples`, n)) {
			t.Errorf("%d entries: %v", n, err)
		}
	}
}

// TestTheLastReferenceReleases: the batch's memory is given back when nothing of the record refers to it any more, and
// no sooner.
func TestTheLastReferenceReleases(t *testing.T) {
	photos, remove := loadertest.Photographs()
	defer remove()
	l, err := loader.Open(t.Context(), loader.Options{
		Store: photos, Dir: "/photos", GlobalBatch: 6, Epochs: 1, Fields: []string{"label"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b, err := l.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r, err := records.Record(b)
	if err != nil {
		t.Fatal(err)
	}
	kept := r.Column(0)
	kept.Retain()
	r.Release()
	if n := l.Stats().Mappings; n != 1 {
		t.Errorf("%d pieces of memory in use while an array refers to one", n)
	}
	kept.Release()
	if n := l.Stats().Mappings; n != 0 {
		t.Errorf("%d pieces of memory in use when nothing refers to one", n)
	}
}

// A batch as an Arrow record; releasing the record releases the batch.
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
	record, err := records.Record(batch) // which owns the batch from here on
	check(err)
	fmt.Println(record.Schema().Field(0).Type, record.Column(0))
	record.Release()
	// Output:
	// int64 [0 0 0 1 1 1]
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
