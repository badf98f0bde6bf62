package service

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/stepahead-io/stepahead/controller/audit"
	"github.com/stepahead-io/stepahead/controller/control"
	"github.com/stepahead-io/stepahead/controller/controllerpb"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/internal/auth"
)

// mint is a token of a job that ends.
func (w *world) mint(job, rights string, expires time.Time) string {
	w.t.Helper()
	token, err := auth.Mint(w.key, auth.Claims{Job: job, User: "user-of-" + job, Roots: []string{"/"}, Rights: strings.Split(rights, ","), Expires: expires})
	must(w.t, err)
	return token
}

// raw is a client without any care.
func (w *world) raw(token string) (controllerpb.ControlClient, context.Context) {
	w.t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+w.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(w.t, err)
	w.t.Cleanup(func() { must(w.t, conn.Close()) })
	return controllerpb.NewControlClient(conn), metadata.AppendToOutgoingContext(w.t.Context(), "authorization", "Bearer "+token)
}

// TestReadersOfTheAuditLog: one caller may have some at once, who reads them or not, and keeps no other from reading.
func TestReadersOfTheAuditLog(t *testing.T) {
	w := newWorld(t)
	w.s.Record(audit.Entry{At: time.Now(), What: "make", Path: "/runs/a/1", Job: "a"})
	client, ctx := w.raw(w.mint("a", "hint", time.Now().Add(time.Hour)))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	open := func() error {
		stream, err := client.Audit(ctx, &controllerpb.AuditRequest{Follow: true})
		must(t, err)
		_, err = stream.Recv()
		return err
	}
	for i := range mostReaders {
		if err := open(); err != nil {
			t.Fatalf("reader %d: %v", i, err)
		}
	}
	if err := open(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one more: %v", err)
	}
	other := w.client("ops", "view", "/")
	must(t, other.Audit(t.Context(), control.AuditQuery{}, func(audit.Line) error { return nil }))
	cancel()
	again, ctx := w.raw(w.mint("a", "hint", time.Now().Add(time.Hour)))
	for { // until the calls that were ended have ended there too
		stream, err := again.Audit(ctx, &controllerpb.AuditRequest{})
		must(t, err)
		if _, err = stream.Recv(); err == nil {
			break
		}
		if status.Code(err) != codes.ResourceExhausted {
			t.Fatalf("when all have gone: %v", err)
		}
	}
}

// TestRevocationsOfOneJob: a job cannot fill the audit log, nor the journal with its reasons; who operates can take back as much as he likes.
func TestRevocationsOfOneJob(t *testing.T) {
	w := newWorld(t)
	job, ops := w.client("a", "hint", "/"), w.client("ops", "operate", "/")
	revoke := func(c *control.Client, dry bool, why string) error {
		_, err := c.Revoke(t.Context(), control.Revocation{All: true, DryRun: dry, Why: why})
		return err
	}
	if err := revoke(ops, false, strings.Repeat("x", mostWhy+1)); !errors.Is(err, control.ErrInvalid) {
		t.Errorf("a long reason: %v", err)
	}
	for range 2 * mostRevocations {
		must(t, revoke(ops, false, strings.Repeat("x", mostWhy)))
		must(t, revoke(job, true, ""))
	}
	w.engine.Took()
	refused := 0
	for range 2 * mostRevocations {
		if err := revoke(job, false, ""); err != nil {
			refused++
		}
	}
	if told := len(w.engine.Took()); refused != mostRevocations || told != mostRevocations {
		t.Errorf("%d were refused and %d done, want %d of each", refused, told, mostRevocations)
	}
	must(t, revoke(w.client("b", "hint", "/"), false, ""))
}

// TestFullDiskKeepsNobodyFromTakingBack: what cannot be remembered over a restart is done, and that is said; only what would come back is not.
func TestFullDiskKeepsNobodyFromTakingBack(t *testing.T) {
	w := newWorld(t)
	full := errors.New("no space left on device")
	a := *w.s.now()
	a.Revoked, a.Drained = func([]plan.Standing) error { return full }, func(bool) error { return full }
	w.s.Activate(a)
	c := w.client("ops", "operate", "/")
	said := func(what string, err error, words string) {
		if err == nil || !strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), full.Error()) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := c.Revoke(t.Context(), control.Revocation{ID: 1})
	said("revoke", err, "it is done")
	_, err = c.Drain(t.Context(), true, false)
	said("drain", err, "it is done")
	_, err = c.Sweep(t.Context(), true, false)
	said("sweep", err, "it is done")
	_, err = c.Drain(t.Context(), false, false)
	said("drain --off", err, "it was not done")
	told := strings.Join(w.engine.Took(), "\n")
	for _, want := range []string{"{ID:1 ", "{On:true}", "Why:sweep --all", "sweep true false"} {
		if !strings.Contains(told, want) {
			t.Errorf("%q is not done:\n%s", want, told)
		}
	}
	if strings.Contains(told, "{On:false}") {
		t.Errorf("done:\n%s", told)
	}
}
