package sites

import (
	"context"
	"errors"
	"testing"

	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/plan"
)

// TestSiteThatHangs: while the store of one site is being opened, those of others are there, and nobody waits for it longer than he wants to.
func TestSiteThatHangs(t *testing.T) {
	s, err := Open(t.Context(), t.TempDir(), map[string]string{"east": t.TempDir(), "hangs": t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s.sites["hangs"].turn <- struct{}{} // somebody is opening it
	first, err := s.Site(t.Context(), "east")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.Site(t.Context(), "east"); err != nil || again != first {
		t.Errorf("opened twice: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, want := range map[string]error{"hangs": context.Canceled, "west": nil} {
		_, err = s.Site(ctx, name)
		var reason *controller.Error
		if !errors.As(err, &reason) || reason.Reason != plan.ReasonSite || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
