package intake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/discovery"
	"github.com/stepahead-io/stepahead/hints/relay"
	"github.com/stepahead-io/stepahead/internal/recent"
	"github.com/stepahead-io/stepahead/store"
)

// Engine is what is told: an *execute.Engine.
type Engine interface {
	// Tell returns when the event was applied. who is for the audit.
	Tell(ctx context.Context, who string, ev plan.Event) error
}

// Clock is the controller's: an execute.Clock.
type Clock interface {
	// Now is monotonic, since any fixed moment.
	Now() time.Duration
	// After sends once when d has passed.
	After(d time.Duration) <-chan time.Time
}

// Options configure an [Intake]. Only Engine, Store and Clock have no default.
type Options struct {
	Engine Engine
	Clock  Clock
	// Store is the home store: agents register in it, and its folders are watched.
	Store store.Store
	// Registry is the folder in which agents register. Default hints.DefaultRegistry.
	Registry string
	// Agents are as in discovery.Options. Default: those of the registry. One that is found there is believed if its file belongs to the store's owner.
	Agents []string
	// Client is how agents are reached. Its token needs the right auth.RightRelay.
	Client hints.ClientOptions
	// Ledgers are files of agents on this host, which are read themselves. Their times are of this host's clock.
	Ledgers []string
	// Watched are folders of checkpoints of jobs that say nothing.
	Watched []Watched
	// Read, if not nil, is called with what ranks say of how long their start took, and how long ago an agent took that.
	Read func(r relay.Record, age time.Duration)
	// Report, if not nil, gets what failed and will be tried again, and what is not heard. It is called by several goroutines.
	Report func(error)
	// Wall is this host's wall clock. Default time.Now.
	Wall func() time.Time
}

// Watched is a folder of checkpoints, and the job that they are said to be of.
type Watched struct{ Folder, Job string }

// Stats say what became of records.
type Stats struct {
	// Told were new; Repeated were there before; Expired are older than anything holds. Dropped are of jobs that say too much.
	Told, Repeated, Expired, Dropped int
	// Following is how many agents hand over now; Silent how many are known and do not.
	Following, Silent int
	// Looked: agents were looked for at least once, with or without success.
	Looked bool
}

// Intake hears what jobs foretell and tells the engine. [Intake.Run] runs it.
type Intake struct {
	o      Options
	client *relay.Client
	finder *discovery.Finder

	mu         sync.Mutex
	translator *translator
	perJob     recent.Map[string, *bucket]
	complained map[string]time.Duration // jobs that say too much, when that was reported last
	followed   map[string]*followed
	stats      Stats
}

// New returns an intake. It does no I/O.
func New(o Options) (*Intake, error) {
	if o.Engine == nil || o.Store == nil || o.Clock == nil {
		return nil, fmt.Errorf("intake.New: Engine, Store and Clock must be given: %w", fs.ErrInvalid)
	}
	o.Registry = cmp.Or(o.Registry, hints.DefaultRegistry)
	if o.Agents == nil {
		o.Agents = []string{discovery.Auto}
	}
	if o.Report == nil {
		o.Report = func(error) {}
	}
	if o.Read == nil {
		o.Read = func(relay.Record, time.Duration) {}
	}
	if o.Wall == nil {
		o.Wall = time.Now
	}
	for _, w := range o.Watched {
		if err := store.CheckName(w.Folder); err != nil || w.Job == "" {
			return nil, fmt.Errorf("intake.New: watched folder %q of job %q: give a name in the store and a job: %w", w.Folder, w.Job, errors.Join(err, fs.ErrInvalid))
		}
	}
	// Whom to believe matters as it does for who has a token to send.
	finder, err := discovery.New(discovery.Options{Store: o.Store, Registry: o.Registry, Agents: o.Agents, Token: true})
	if err != nil {
		return nil, fmt.Errorf("intake.New: %w: %w", err, fs.ErrInvalid)
	}
	return &Intake{
		o: o, finder: finder, translator: newTranslator(), perJob: recent.New[string, *bucket](mostJobs),
		complained: map[string]time.Duration{}, followed: map[string]*followed{},
	}, nil
}

// Stats says what was heard so far.
func (in *Intake) Stats() Stats {
	in.mu.Lock()
	defer in.mu.Unlock()
	s := in.stats
	for _, f := range in.followed {
		if f.hears {
			s.Following++
		} else {
			s.Silent++
		}
	}
	return s
}

// take tells the engine what a record says. An error is the engine's, or ctx's.
func (in *Intake) take(ctx context.Context, who string, r relay.Record, age time.Duration) error {
	events := in.translate(r, age)
	for _, ev := range events {
		if err := in.o.Engine.Tell(ctx, who, ev); err != nil {
			return &engineError{err}
		}
	}
	if len(events) > 0 && r.Start != nil && r.Start.Phase == hints.Read.String() {
		in.o.Read(r, max(age, 0))
	}
	return nil
}

// engineError ends Run: whoever is told is not there any more.
type engineError struct{ err error }

func (e *engineError) Error() string { return "the engine takes nothing: " + e.err.Error() }

// Unwrap returns the cause.
func (e *engineError) Unwrap() error { return e.err }

// translate returns what is new in a record that a job may say.
func (in *Intake) translate(r relay.Record, age time.Duration) []plan.Event {
	in.mu.Lock()
	defer in.mu.Unlock()
	now := in.o.Clock.Now()
	age = max(age, 0)
	switch {
	case in.translator.repeated(r):
		in.stats.Repeated++
		return nil
	case age >= hints.MaxTTL:
		in.stats.Expired++
		return nil
	case !in.may(r.Job, now):
		in.stats.Dropped++
		return nil
	}
	in.stats.Told++
	return in.translator.events(taken{r, age, now - age})
}

// may tells whether a job has not said too much, and reports one that has, once a minute.
func (in *Intake) may(job string, now time.Duration) bool {
	b, ok := in.perJob.Get(job)
	if !ok {
		b = &bucket{size: jobBurst, rate: jobRate, at: now}
		in.perJob.Put(job, b)
	}
	if b.take(now) == 0 {
		return true
	}
	if last, ok := in.complained[job]; !ok || now-last >= time.Minute {
		if len(in.complained) >= mostJobs {
			clear(in.complained)
		}
		in.complained[job] = now
		in.o.Report(fmt.Errorf("job %.64q says more than %d things a second: the others are not heard", job, jobRate))
	}
	return false
}
