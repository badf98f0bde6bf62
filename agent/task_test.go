package agent

import (
	"errors"
	"slices"
	"testing"

	"github.com/stepahead-io/stepahead/agent/fetch"
	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/transform"
)

func compared(t *testing.T, plan string, theirs map[string]string) *fieldTask {
	t.Helper()
	p, err := transform.ParsePlan([]byte(plan))
	must(t, err)
	ours := map[string]string{}
	for _, id := range p.Identities() {
		ours[id] = "a"
		if theirs[id] == "" {
			theirs[id] = "a"
		}
	}
	f := &fieldTask{name: "image", plan: p, digest: p.Digest()}
	f.compare(theirs, ours)
	return f
}

// TestOperatorsAreComparedOneByOne: what differs keeps raw what needs it, and nothing else.
func TestOperatorsAreComparedOneByOne(t *testing.T) {
	const decode, resize = `{"plan":1,"ops":[{"op":"DecodeImage"}]}`, `{"plan":1,"ops":[{"op":"DecodeImage"},{"op":"Resize","size":9}]}`
	const scaled = `{"plan":1,"ops":[{"op":"DecodeImage","jpeg":"dct-scaled","truncated":"fill"}]}`
	for name, c := range map[string]struct {
		plan   string
		theirs map[string]string
		refuse fetch.Reason
		raw    []string // media types
	}{
		"all the same":       {resize, map[string]string{}, "", nil},
		"a decoder":          {resize, map[string]string{"webp/libwebp@1": "b"}, "", []string{"image/webp"}},
		"two decoders":       {decode, map[string]string{"png/libpng@1": "b", "gif/go@1": "b"}, "", []string{"image/gif", "image/png"}},
		"not of the plan":    {scaled, map[string]string{"jpeg/islow-fancy@1": "b", "resize/pil-bilinear@2": "b"}, "", nil},
		"of the plan":        {scaled, map[string]string{"jpeg/dct-scaled@1": "b"}, "", []string{"image/jpeg"}},
		"a way of decoding":  {scaled, map[string]string{"truncated/pil-fill@1": "b"}, fetch.ReasonUnknownPlan, nil},
		"another operator":   {resize, map[string]string{"resize/pil-bilinear@2": "b"}, fetch.ReasonUnknownPlan, nil},
		"what is not needed": {decode, map[string]string{"resize/pil-bilinear@2": "b"}, "", nil},
		"every decoder": {decode, map[string]string{"jpeg/islow-fancy@1": "b", "png/libpng@1": "b", "webp/libwebp@1": "b", "gif/go@1": "b"},
			fetch.ReasonUnknownPlan, []string{"image/gif", "image/jpeg", "image/png", "image/webp"}},
	} {
		f := compared(t, c.plan, c.theirs)
		var raw []string
		for _, media := range transform.MediaTypes() {
			if !f.offers(media) {
				raw = append(raw, media)
			}
		}
		slices.Sort(raw)
		if f.refused != c.refuse || !slices.Equal(raw, c.raw) {
			t.Errorf("%s: refused %q, raw %q; want %q, %q", name, f.refused, raw, c.refuse, c.raw)
		}
		if !f.offers("") { // the worker says what is wrong with it
			t.Errorf("%s: content that is no image is not tried", name)
		}
	}
	var none fieldTask
	none.plan = compared(t, decode, map[string]string{}).plan
	none.compare(map[string]string{}, map[string]string{})
	if none.refused == "" {
		t.Error("digests that both sides lack count as the same")
	}
}

// TestContentDecidesWhichDecoderItNeeds: an index that calls a WebP a JPEG does not get it through.
func TestContentDecidesWhichDecoderItNeeds(t *testing.T) {
	f := compared(t, `{"plan":1,"ops":[{"op":"DecodeImage"},{"op":"CenterCrop","size":2}]}`, map[string]string{"webp/libwebp@1": "b"})
	it := item{key: key{field: "image"}, media: "image/jpeg", task: &task{fields: []fieldTask{*f}}}
	_, err := (&Agent{}).transform(t.Context(), it, []byte("RIFF\x00\x00\x00\x00WEBPVP8 "))
	if !errors.Is(err, errForeign) || failureOf(t.Context(), err) != foreign || foreign.reason() != fetch.ReasonUnknownPlan {
		t.Errorf("error is %v", err)
	}
}

// TestJobsWithOtherOperatorsShareNothing: what was made for a job whose operators are the agent's is not for one whose are not.
func TestJobsWithOtherOperatorsShareNothing(t *testing.T) {
	const plan = `{"plan":1,"ops":[{"op":"DecodeImage"},{"op":"CenterCrop","size":2}]}`
	empty := &dataset{Dataset: binfmt.NewDataset(&binfmt.Manifest{Format: binfmt.Format}, nil)}
	job := &task{data: newUnion([]string{""}, []*dataset{empty}), sources: []string{""}}
	agrees := job.key(1, 0, compared(t, plan, map[string]string{}))
	if other := job.key(1, 0, compared(t, plan, map[string]string{"webp/libwebp@1": "b"})); other == agrees {
		t.Error("a job with another WebP decoder has the key of one that agrees")
	}
	if same := job.key(1, 0, compared(t, plan, map[string]string{"unknown@9": "b"})); same != agrees {
		t.Error("an operator that the plan does not use changes the key")
	}
}
