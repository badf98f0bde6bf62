package service

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/controller/audit"
	"github.com/stepahead-io/stepahead/controller/control"
	"github.com/stepahead-io/stepahead/internal/auth"
)

// TestAudit: who sees which lines, which are chosen, and that who follows gets what comes, until the controller ends.
func TestAudit(t *testing.T) {
	w := newWorld(t)
	at := func(s int64) time.Time { return time.Unix(s, 0).UTC() }
	for _, e := range []audit.Entry{
		{At: at(1), What: "make", Placement: 1, Path: "/runs/a/1", Job: "a", Until: at(100)},
		{At: at(2), What: "make", Placement: 3, Path: "/runs/b/1", Job: "b", Err: "site: full"},
		{At: at(3), Who: "ada", What: "drain"},
		{At: at(4), What: "remove", Placement: 1, Path: "/runs/a/1", Job: "a"},
	} {
		w.s.Record(e)
	}
	lines := func(c *control.Client, q control.AuditQuery) (got string) {
		must(t, c.Audit(t.Context(), q, func(l audit.Line) error {
			got += fmt.Sprintf("%d %s,", l.Number, l.What)
			return nil
		}))
		return got
	}
	ops := w.client("ops", "view", "/")
	for _, c := range []struct {
		client *control.Client
		q      control.AuditQuery
		want   string
	}{
		{ops, control.AuditQuery{}, "1 make,2 make,3 drain,4 remove,"},
		{ops, control.AuditQuery{After: 2}, "3 drain,4 remove,"},
		{ops, control.AuditQuery{SinceMS: 2000}, "2 make,3 drain,4 remove,"},
		{ops, control.AuditQuery{Job: "b"}, "2 make,"},
		{ops, control.AuditQuery{Path: "/runs"}, "1 make,2 make,4 remove,"},
		{ops, control.AuditQuery{Path: "/runs/a/1"}, "1 make,4 remove,"},
		{ops, control.AuditQuery{Path: "/run"}, ""},
		{w.client("a", "hint", "/"), control.AuditQuery{}, "1 make,4 remove,"},
		{w.client("a", "hint", "/x"), control.AuditQuery{}, ""},
		{w.client("ops", "operate", "/runs/b"), control.AuditQuery{}, "2 make,"},
	} {
		if got := lines(c.client, c.q); got != c.want {
			t.Errorf("%+v: %q, want %q", c.q, got, c.want)
		}
	}
	got := make(chan audit.Line)
	ended := make(chan error, 1)
	go func() {
		ended <- ops.Audit(t.Context(), control.AuditQuery{After: 3, Follow: true}, func(l audit.Line) error {
			got <- l
			return nil
		})
	}()
	if l := <-got; l.Number != 4 || l.Until != (time.Time{}) {
		t.Errorf("first %+v", l)
	}
	w.s.Record(audit.Entry{At: at(5), What: "sweep", Bytes: 9})
	if l := <-got; l.Number != 5 || l.Bytes != 9 || l.At != at(5) {
		t.Errorf("then %+v", l)
	}
	w.s.end() // as Run does
	must(t, <-ended)
}

// TestFollowsWhileTheTokenCounts: who follows the audit log is told nothing more when his token has expired.
func TestFollowsWhileTheTokenCounts(t *testing.T) {
	w := newWorld(t)
	token, err := auth.Mint(w.key, auth.Claims{Job: "ops", User: "ada", Roots: []string{"/"}, Rights: []string{auth.RightView}, Expires: time.Now().Add(3 * time.Second)})
	must(t, err)
	c := control.NewClient(w.addr, control.ClientOptions{Token: token})
	defer c.Close()
	err = c.Audit(t.Context(), control.AuditQuery{Follow: true}, func(audit.Line) error { return nil })
	if !errors.Is(err, control.ErrDenied) || !strings.Contains(err.Error(), "expired") {
		t.Error(err)
	}
}
