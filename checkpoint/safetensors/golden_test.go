package safetensors

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/stepahead-io/stepahead/internal/testdata"
)

// golden is testdata/golden.json, which testdata/golden.py makes with the safetensors package.
type golden struct {
	Cases []struct {
		Name     string
		File     []byte
		Error    string
		Tensors  map[string]goldenTensor
		Metadata map[string]string
	}
	Sharded struct {
		Files map[string][]byte
		Index string
	}
}

// goldenTensor is [dtype, shape, SHA-256 of the bytes].
type goldenTensor struct {
	dtype, sum string
	shape      []int64
}

func (g *goldenTensor) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&g.dtype, &g.shape, &g.sum})
}

func readGolden(t testing.TB) golden {
	t.Helper()
	return testdata.ReadJSON[golden](t, "testdata/golden.json")
}

// stricter are the cases that the package accepts and we do not, with the rule.
var stricter = map[string]Rule{
	"same empty name twice":      RuleUnique,
	"same name in two spellings": RuleUnique,
	"metadata null":              RuleMetadata,
	`metadata {"a":"b","a":"c"}`: RuleMetadata,
}

func TestGolden(t *testing.T) {
	g := readGolden(t)
	if len(g.Cases) < 120 {
		t.Fatalf("%d cases", len(g.Cases))
	}
	accepted := 0
	for _, c := range g.Cases {
		h, err := Parse(c.File, int64(len(c.File)))
		if rule, ok := stricter[c.Name]; ok {
			if e, ok := err.(*Error); !ok || e.Rule != rule {
				t.Errorf("%s: %v, want rule %s", c.Name, err, rule)
			}
			if c.Error != "" {
				t.Errorf("%s: the package refuses it too: %s", c.Name, c.Error)
			}
			continue
		}
		if (err == nil) != (c.Error == "") {
			t.Errorf("%s: %v, the package says %q", c.Name, err, c.Error)
			continue
		}
		if err != nil {
			if _, ok := err.(*Error); !ok {
				t.Errorf("%s: %v is no *Error", c.Name, err)
			}
			continue
		}
		accepted++
		if len(h.Tensors) != len(c.Tensors) || !reflect.DeepEqual(h.Metadata, c.Metadata) && len(h.Metadata)+len(c.Metadata) > 0 {
			t.Errorf("%s: %d tensors %v, want %d %v", c.Name, len(h.Tensors), h.Metadata, len(c.Tensors), c.Metadata)
		}
		for name, want := range c.Tensors {
			got, ok := h.Lookup(name)
			if !ok {
				t.Errorf("%s: no tensor %q", c.Name, name)
				continue
			}
			sum := sha256.Sum256(c.File[got.Off : got.Off+got.Len])
			if got.Dtype.String() != want.dtype || !slices.Equal(got.Shape, want.shape) || hex.EncodeToString(sum[:]) != want.sum {
				t.Errorf("%s: %q is %v %v, want %v", c.Name, name, got, hex.EncodeToString(sum[:]), want)
			}
		}
	}
	if accepted < 20 {
		t.Errorf("only %d files accepted", accepted)
	}
}

func TestGoldenSharded(t *testing.T) {
	g := readGolden(t).Sharded
	x, err := ParseIndex([]byte(g.Index))
	if err != nil {
		t.Fatal(err)
	}
	headers := map[string]*Header{}
	for name, data := range g.Files {
		if headers[name], err = Parse(data, int64(len(data))); err != nil {
			t.Fatal(err)
		}
	}
	if len(x.Files) != 3 || x.Len() != 7 || x.TotalSize <= 0 {
		t.Errorf("%+v", x)
	}
	if found := x.Check(headers); found != nil {
		t.Errorf("%v", found)
	}
	if file, ok := x.File("layers.1.w"); !ok || file != "model-00002-of-00003.safetensors" {
		t.Errorf("layers.1.w in %q", file)
	}
}
