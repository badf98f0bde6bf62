package image

import (
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/transform"
)

// An agent tells by transform.MediaType which decoder a sample will go through, so the tables must agree.
func TestFormatsAndMediaTypesAgree(t *testing.T) {
	for _, f := range formats() {
		head := strings.Repeat("\x00", f.at) + f.magic + "\x00\x00"
		want := ""
		if f.code != 0 {
			want = "image/" + f.name
		}
		if got := transform.MediaType([]byte(head)); got != want {
			t.Errorf("%q is %q, want %q", head, got, want)
		}
	}
}
