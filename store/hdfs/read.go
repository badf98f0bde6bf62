package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/datanode"
)

// blockRead is the reading of one request, from one replica after the other until all of it is there.
type blockRead struct {
	s     *Store
	l     *layout
	b     *block
	parts []part // what is still missing
	only  string // read from this node (UUID) and no other; "" for any
	trial trial
	tried []*node // in this round
}

// errExhausted: every place was tried in this round.
var errExhausted = errors.New("every place was tried")

// run reads until all parts are filled or nothing more can be done. What is wrong with replicas is told to the NameNode.
func (r *blockRead) run(ctx context.Context) error {
	for {
		err := r.round(ctx)
		if err == nil || errors.Is(err, errExhausted) {
			r.s.reportCorrupt(ctx, r.b, r.trial.corrupt())
		}
		if !errors.Is(err, errExhausted) {
			return err
		}
		if r.only != "" && (r.trial.renewed || len(r.trial.failures) > 0) {
			return r.onlyError()
		}
		if r.only != "" { // the node may hold it since a while
			r.trial.renewed = true
			if err := r.renew(ctx, false); err != nil {
				return err
			}
			continue
		}
		pause, more := r.trial.next(rand.Float64())
		if !more || endsWithin(ctx, pause) {
			return r.trial.error(r.b)
		}
		if err := store.Sleep(ctx, pause); err != nil {
			return err
		}
		if err := r.renew(ctx, false); err != nil {
			return err
		}
		r.tried = r.tried[:0]
	}
}

// endsWithin tells whether ctx ends before d has passed: waiting so long would be of no use.
func endsWithin(ctx context.Context, d time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) <= d
}

// round tries the places that the block has, each once, the best first.
func (r *blockRead) round(ctx context.Context) error {
	var again *node // the place to try once more
	for {
		places := r.places(ctx)
		at := slices.IndexFunc(places, func(p place) bool { return p.node == again })
		if at < 0 {
			at = slices.IndexFunc(places, func(p place) bool { return !slices.Contains(r.tried, p.node) })
		}
		if at < 0 {
			return errExhausted
		}
		p := places[at]
		cause, err := r.try(ctx, p, places)
		if err == nil {
			return nil
		}
		if over := ctx.Err(); over != nil {
			return over
		}
		if errors.Is(err, datanode.ErrClosed) {
			return fmt.Errorf("%w: the store is closed", fs.ErrClosed)
		}
		if errors.Is(err, errTurnedBad) {
			continue
		}
		again = nil
		if again, err = r.follow(ctx, p, cause, err); err != nil {
			return err
		}
	}
}

// follow does what a failed attempt asks for. It returns the node to try once more, if any.
func (r *blockRead) follow(ctx context.Context, p place, c cause, failed error) (*node, error) {
	r.tried = append(r.tried, p.node)
	r.s.stats.retried(c)
	if c.blamesNode() {
		r.s.bad.nodeFailed(p.node, time.Now())
	}
	switch r.trial.after(p, c, failed) {
	case samePlace:
		return p.node, nil
	case renewAndSame:
		return p.node, r.renewSoon(ctx, true)
	case renewAndNext:
		err := r.renewSoon(ctx, false)
		r.s.bad.replicaFailed(r.b.id, p.node, time.Now())
		return nil, err
	}
	if c.blamesReplica() {
		r.s.bad.replicaFailed(r.b.id, p.node, time.Now())
	}
	return nil, nil
}

// try reads from a place, and keeps what came of it.
func (r *blockRead) try(ctx context.Context, p place, places []place) (cause, error) {
	a := attempt{s: r.s, b: r.b, at: p, parts: r.parts, badness: r.s.bad.badness(r.b.id, p.node, time.Now()), patient: r.only != "" || len(places) == 1 || r.trial.patient()}
	if r.only == "" {
		a.spare = r.spare(p, places)
	}
	defer r.s.book(ctx, p.node, r.parts)()
	n, from, err := a.run(ctx)
	if err == nil {
		r.s.bad.nodeWorked(from.node)
		r.s.stats.delivered(r.s.reader.distance(from.node), asked(r.parts))
		return 0, nil
	}
	if n > 0 {
		before := asked(r.parts)
		r.parts = rest(r.parts, n)
		r.s.stats.delivered(r.s.reader.distance(p.node), before-asked(r.parts))
		if len(r.parts) == 0 {
			return 0, nil
		}
	}
	return causeOf(err), err
}

// places are those that may be read, the best first.
func (r *blockRead) places(ctx context.Context) []place {
	when := time.Now()
	places := r.s.reader.order(r.b, func(p place) int { return r.s.bad.badness(r.b.id, p.node, when) }, r.s.loadIn(ctx))
	if r.only != "" {
		places = slices.DeleteFunc(places, func(p place) bool { return p.node.id != r.only })
	}
	return places
}

// spare is the best other place that has not failed.
func (r *blockRead) spare(p place, places []place) *place {
	for i := range places {
		if places[i].node != p.node && !slices.Contains(r.tried, places[i].node) {
			return &places[i]
		}
	}
	return nil
}

// renew asks the NameNode where the block is now. A NameNode that does not answer leaves what is known.
func (r *blockRead) renew(ctx context.Context, wide bool) error {
	now, err := r.s.renew(ctx, r.l, r.b, wide)
	if err == nil {
		r.b = now
		return nil
	}
	if over := ctx.Err(); over != nil {
		return over
	}
	if store.ClassOf(err) == store.Retryable {
		return nil
	}
	return err
}

// onlyError is that of a read that may use one node only.
func (r *blockRead) onlyError() error {
	if len(r.trial.failures) == 0 {
		return fmt.Errorf("%w: node %s holds no replica of block %s at offset %d", fs.ErrNotExist, r.only, r.b.id, r.b.off)
	}
	if last := r.trial.failures[len(r.trial.failures)-1]; last.cause == byMissing {
		return fmt.Errorf("%w: %s: block %s at offset %d: %v", fs.ErrNotExist, last.place.node, r.b.id, r.b.off, last.err)
	}
	return r.trial.error(r.b)
}

// renewWithin bounds how long a NameNode that does not answer keeps a read from other replicas.
const renewWithin = 5 * time.Second

// renewSoon is renew while there are other replicas to try.
func (r *blockRead) renewSoon(ctx context.Context, wide bool) error {
	soon, cancel := context.WithTimeout(ctx, renewWithin)
	defer cancel()
	err := r.renew(soon, wide)
	if soon.Err() != nil && ctx.Err() == nil {
		return nil
	}
	return err
}

func asked(parts []part) (n int64) {
	for _, p := range parts {
		n += int64(len(p.Buf))
	}
	return n
}
