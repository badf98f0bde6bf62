package transform

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// All or none: what a RandomApply draws is nothing, or what its operators draw one after the other, whatever stands
// around it; and it acts for a share p of the samples.
func TestRandomApplyIsAllOrNone(t *testing.T) {
	pool := []string{`{"op":"ColorJitter","brightness":0.4,"hue":0.2}`, `{"op":"GaussianBlur","kernel_size":3}`, `{"op":"RandAugment"}`,
		`{"op":"RandomGrayscale","p":1}`, `{"op":"RandomHorizontalFlip","p":1}`, `{"op":"RandomVerticalFlip","p":0.5}`}
	rapid.Check(t, func(t *rapid.T) {
		ops := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pool), 1, 5).Draw(t, "operators"), ",")
		before := strings.Repeat(`{"op":"Pad","padding":0},`, rapid.IntRange(0, 3).Draw(t, "place"))
		apply := func(p float64) string {
			return fmt.Sprintf(`%s{"op":"RandomApply","p":%v,"transforms":[%s]}`, before, p, ops)
		}
		sample, p := rapid.Uint64().Draw(t, "sample"), rapid.Float64Range(0, 1).Draw(t, "p")
		steps := func(ops string) []Step {
			plan, err := ParsePlan([]byte(`{"plan":1,"ops":[{"op":"DecodeImage"},` + ops + `]}`))
			if err != nil {
				t.Fatal(err)
			}
			r, err := plan.Resolve(50, 40, Key{Seed: 7, Sample: sample})
			if err != nil {
				t.Fatal(err)
			}
			return r.Steps
		}
		if none := steps(apply(0)); len(none) > 0 {
			t.Fatalf("with p = 0: %v", none)
		}
		all, got := steps(apply(1)), steps(apply(p))
		if len(got) > 0 && !reflect.DeepEqual(got, all) {
			t.Fatalf("%v, want nothing or %v", got, all)
		}
		if u := newStream(Key{Seed: 7, Sample: sample}.Op(uint32(1 + strings.Count(before, "Pad")))).uniform(); u < p != (len(got) > 0) && len(all) > 0 {
			t.Fatalf("%d steps for %v < %v", len(got), u, p)
		}
	})
}

// The limit of operators holds for those within others too.
func TestOperatorsWithinOthersCount(t *testing.T) {
	flips := strings.TrimSuffix(strings.Repeat(`{"op":"RandomVerticalFlip"},`, maxOps-2), ",")
	if _, err := ParsePlan([]byte(`{"plan":1,"ops":[{"op":"DecodeImage"},{"op":"RandomApply","transforms":[` + flips + `]}]}`)); err != nil {
		t.Error(err)
	}
	wantPlanError(t, `{"plan":1,"ops":[{"op":"DecodeImage"},{"op":"RandomVerticalFlip"},{"op":"RandomApply","transforms":[`+flips+`]}]}`, "65 operators RandomApply 64")
}
