package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/relay"
	"github.com/stepahead-io/stepahead/internal/auth"
)

// A Relay keeps what jobs foretell of checkpoints and starts for the controller: a *relay.Ledger. It is safe for concurrent use.
type Relay interface {
	// Append returns when the record will not be lost any more.
	Append(ctx context.Context, r relay.Record) (number uint64, err error)
}

// mostFolders bounds the folders of a start's files: of each is asked whether the token's user may read it.
const mostFolders = 256

// relayed takes a hint about a checkpoint or a start: it is kept for the controller, and a save stops the job's clock. One at a time,
// so that a hint that comes twice at once is kept once.
func (a *Agent) relayed(ctx context.Context, h hints.Hint, c auth.Claims) (hints.Reply, error) {
	if a.o.Relay == nil {
		return hints.Refuse(hints.ReasonUnsupported, "this agent relays nothing to a controller: start it with --cache FOLDER, or --relay FILE; where it has one, the first lines of its log say why it cannot be used"), nil
	}
	names, refused := a.mayForetell(ctx, h, c)
	if refused != nil {
		return *refused, nil
	}
	select {
	case a.relaying <- struct{}{}:
	case <-ctx.Done():
		return hints.Reply{}, ctx.Err()
	}
	defer func() { <-a.relaying }()
	if r, handle := a.inbox.Admit(h); !handle {
		return r, nil
	}
	r := relay.RecordOf(h, c.User, time.Now(), func(url string) string { return names[url] })
	if _, err := a.o.Relay.Append(ctx, r); err != nil {
		a.metrics.relayFailures.Inc()
		return hints.Refuse(hints.ReasonUnavailable, "it cannot be kept for the controller: "+err.Error()), nil
	}
	a.metrics.relayed.Inc()
	if h.Checkpoint != nil {
		name := names[h.Checkpoint.Path]
		switch h.Checkpoint.State {
		case hints.Saving:
			return a.tell(ctx, envelope{hint: &h, ev: savingEvent{job: h.Job, run: h.Run, path: name, ttl: h.TTL}})
		case hints.Committed, hints.Deleted:
			return a.tell(ctx, envelope{hint: &h, ev: savedEvent{job: h.Job, run: h.Run, path: name}})
		}
	}
	a.inbox.Done(h, hints.Accept())
	return hints.Accept(), nil
}

// closed takes the end of a run: what was prepared for it is freed, and the controller is told. That it cannot be is no reason to keep anything.
func (a *Agent) closed(ctx context.Context, h hints.Hint, c auth.Claims) (hints.Reply, error) {
	r, err := a.tell(ctx, envelope{hint: &h, ev: closeEvent{job: h.Job, run: h.Run}})
	if err != nil || !r.Accepted || a.o.Relay == nil {
		return r, err
	}
	if _, err := a.o.Relay.Append(ctx, relay.RecordOf(h, c.User, time.Now(), nil)); err != nil {
		a.metrics.relayFailures.Inc()
		return r, nil
	}
	a.metrics.relayed.Inc()
	return r, nil
}

// mayForetell returns the names in the store of all paths of a hint, or the refusal: a path that is not in the store or not below the token's
// roots, or that its user may not read. What does not exist yet he may.
func (a *Agent) mayForetell(ctx context.Context, h hints.Hint, c auth.Claims) (map[string]string, *hints.Reply) {
	refuse := func(reason hints.Reason, err error) (map[string]string, *hints.Reply) {
		r := hints.Refuse(reason, err.Error())
		return nil, &r
	}
	names := map[string]string{}
	asked := map[string]bool{} // files or folders whose reading is a question of rights
	add := func(url string) (string, error) {
		name, err := a.o.Resolve(url)
		if err != nil {
			return "", fmt.Errorf("the path is not in this agent's store: %w", err)
		}
		names[url] = name
		return name, c.Allows(auth.RightHint, name)
	}
	if h.Checkpoint != nil {
		name, err := add(h.Checkpoint.Path)
		if err != nil {
			return refuse(hints.ReasonDenied, err)
		}
		asked[name] = true
	} else {
		for _, f := range h.Start.Files {
			name, err := add(f.Path)
			if err != nil {
				return refuse(hints.ReasonDenied, err)
			}
			asked[path.Dir(name)] = true
		}
	}
	if len(asked) > mostFolders {
		return refuse(hints.ReasonBusy, fmt.Errorf("the files lie in %d folders, at most %d are looked at", len(asked), mostFolders))
	}
	for name := range asked {
		err := a.rights.mayRead(ctx, c.User, name)
		switch {
		case errors.Is(err, fs.ErrPermission):
			return refuse(hints.ReasonDenied, err)
		case err != nil:
			return refuse(hints.ReasonUnavailable, err) // asked again later
		}
	}
	return names, nil
}
