package image

import (
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/transform"
)

// What a plan counts as decoded has a decoder here, and what is told to be undecoded is none of that.
func TestEveryMediaTypeHasADecoder(t *testing.T) {
	codes := map[int]string{}
	for _, media := range transform.MediaTypes() {
		f, decoded := formatOf(media)
		if !decoded || "image/"+f.name != media || codes[int(f.code)] != "" {
			t.Errorf("%s has the decoder %+v, %v", media, f, decoded)
		}
		codes[int(f.code)] = media
	}
	for _, s := range undecoded() {
		in := []byte(strings.Repeat("\x00", s.at) + s.magic + "\x00\x00")
		if _, err := sniff(in); kindOf(err) != transform.KindUnsupported || !strings.Contains(err.Error(), "does not decode "+s.name+";") {
			t.Errorf("%s: %v", s.name, err)
		}
	}
}
