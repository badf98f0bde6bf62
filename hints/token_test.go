package hints

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/internal/auth"
)

func TestTokenJob(t *testing.T) {
	key, err := auth.NewKey("k1", bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	expired := auth.Claims{Job: "resnet-7", User: "ada", Roots: []string{"/data"}, Rights: []string{auth.RightHint}, Expires: time.Now().Add(-time.Hour)}
	token, err := auth.Mint(key, expired)
	if err != nil {
		t.Fatal(err)
	}
	if job, err := TokenJob(token); job != "resnet-7" || err != nil {
		t.Errorf("%q, %v: want the job, whether or not the token is still good", job, err)
	}
	for _, bad := range []string{"", "sesame-open", "sesame.open", "x" + token, strings.Repeat("a", 1<<14)} {
		job, err := TokenJob(bad)
		if job != "" || err == nil || len(bad) > 1 && strings.Contains(err.Error(), bad) {
			t.Errorf("of %.40q: %q, %v", bad, job, err)
		}
	}
}
