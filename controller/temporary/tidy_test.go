package temporary

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/storetest"
)

// aged is a store in which files with "old" in their names were written long ago.
type aged struct {
	*disk
	ago time.Duration
}

func (a aged) List(ctx context.Context, name string) ([]store.Info, error) {
	infos, err := a.disk.List(ctx, name)
	for i := range infos {
		if strings.Contains(infos[i].Name, "old") {
			infos[i].ModTime = infos[i].ModTime.Add(-a.ago)
		}
	}
	return infos, err
}

// TestTidy: files by which a store was asked something are removed once nobody waits for the answer, whether or not there is anything else; all else stays.
func TestTidy(t *testing.T) {
	t.Parallel()
	d, before := prepared(t)
	must(t, Tidy(t.Context(), d))
	if got := d.tree(t); got != before {
		t.Errorf("of nothing: %s", got)
	}
	for _, name := range []string{"clock-old", "clock-NEW", "probe-old", "probe-new", "clock-old.json", "c1-1-old.json.new", "README-old"} {
		storetest.Put(t, d, Folder+"/"+name, nil)
	}
	must(t, Tidy(t.Context(), aged{d, askedAge - 10*time.Second}))
	lies(t, d, "README-old c1-1-old.json.new clock-NEW clock-old clock-old.json probe-new probe-old")
	must(t, Tidy(t.Context(), aged{d, askedAge + time.Second}))
	lies(t, d, "README-old c1-1-old.json.new clock-NEW clock-old.json probe-new")
}

func lies(t *testing.T, d *disk, want string) {
	t.Helper()
	infos, err := d.List(t.Context(), Folder)
	must(t, err)
	var names []string
	for _, i := range infos {
		names = append(names, filepath.Base(i.Name))
	}
	if got := strings.Join(names, " "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// ending ends its caller's context while it is asked for a file.
type ending struct {
	*disk
	end context.CancelFunc
}

func (e ending) Stat(ctx context.Context, name string) (store.Info, error) {
	e.end()
	return store.Info{}, ctx.Err()
}

func (e ending) Remove(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return e.disk.Remove(ctx, name)
}

// TestNowGivenUp: who is not waited for any more leaves nothing either.
func TestNowGivenUp(t *testing.T) {
	t.Parallel()
	d, before := prepared(t)
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := Now(ctx, ending{d, cancel}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if got := d.tree(t); got != before {
		t.Errorf("there is %s", got)
	}
}
