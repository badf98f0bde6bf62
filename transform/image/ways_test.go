package image

import (
	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/image/internal/oracle"
)

// Ways returns the other ways to run a plan, which must give what [Run] does: each set of kernels, and a place in a
// batch behind others. `make fuzz-worker` compiles this file into the package as well.
func Ways(lim Limits) []oracle.Way {
	ways := []oracle.Way{{Name: "the last of a batch", Run: func(plan *transform.Plan, key transform.Key, in, out []byte) (transform.TensorSpec, error) {
		other, err := vectors.ReadFile("vectors/jpeg-420.jpg")
		if err != nil {
			return transform.TensorSpec{}, err
		}
		items := []Item{{plan, key, in, make([]byte, len(out))}, {plan, key, other, make([]byte, len(out))}, {plan, key, in, out}}
		results := make([]Result, len(items))
		RunBatch(items, lim, results)
		return results[2].Spec, results[2].Err
	}}}
	for _, v := range []variant{scalar, sse41, avx2, neon} {
		if v.available() {
			ways = append(ways, oracle.Way{Name: v.String(), Run: func(plan *transform.Plan, key transform.Key, in, out []byte) (transform.TensorSpec, error) {
				alone := []errand{{in: in, out: out, decoding: plan.Decode(), resolve: resolver(plan, key)}}
				job{lim: lim.withDefaults(), variant: v}.run(alone)
				return alone[0].result.Spec, alone[0].result.Err
			}})
		}
	}
	return ways
}
