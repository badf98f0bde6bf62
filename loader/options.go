package loader

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/discovery"
	"github.com/stepahead-io/stepahead/sampler"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/worker"
)

// The values of Options.Layout.
const (
	ChannelsLast = "channels_last" // logical NCHW over HWC memory, a view (default)
	Contiguous   = "contiguous"    // logical NCHW in C order, a copy
)

// AgentsAuto, alone in Options.Agents, takes the agents that the registry lists.
const AgentsAuto = discovery.Auto

// Runner runs the agent's half of a plan. *worker.Pool is the real one; tests bring their own. It
// must be safe for concurrent use.
type Runner interface {
	RunBatch(ctx context.Context, items []worker.Item, outcomes []worker.Outcome)
	Golden(ctx context.Context) (map[string]string, error)
	CPU() time.Duration
	Close() error
}

// A Source is a dataset that samples are drawn from.
type Source struct {
	// Name is the source's in the order and keys its order and randomness: it may change when the dataset
	// moves, but not when the run goes on. Names differ, and one that is alone may have none.
	Name string
	// Store holds the dataset. The Loader does not close it. Default Options.Store.
	Store store.Store
	// Dir is the dataset's folder inside Store, and URL its address for agents.
	Dir, URL string
	// Weight, Upsample and MaxEpochs are those of sampler.Source.
	Weight, Upsample float64
	MaxEpochs        uint64
}

// Options configure a Loader. Store and Dir, or Sources, and GlobalBatch, or Spec, are required, Plans too when
// the datasets have media fields that Fields does not leave out.
type Options struct {
	// Store holds the dataset. The Loader does not close it.
	Store store.Store
	// Dir is the dataset's folder inside Store, such as "/photos".
	Dir string
	// URL is the dataset's address for agents, who open it themselves. Required with Agents.
	URL string
	// CacheDir is the local folder for index files of stores that are not local.
	CacheDir string
	// Sources are several datasets to draw from, in place of Dir and URL. The fields that are delivered must be
	// in each of them, of one kind; and the label field only if the datasets have equal classes.
	Sources []Source
	// Spec is the whole order, in place of Seed, GlobalBatch, Shuffle, Last and what Sources say of weights and
	// epochs. Its sources are the datasets, by the same names in the same order; one whose Samples is 0 has as
	// many as its dataset.
	Spec *sampler.Spec
	// Given says that the samples of each step come from the caller (Loader.Give): online sampling, a curriculum.
	// Weights, Shuffle, Last and Epochs are not given then.
	Given bool

	// Seed, GlobalBatch (samples a step, over all ranks), Shuffle and Last are those of sampler.Spec.
	Seed          uint64
	GlobalBatch   int64
	Shuffle, Last string
	// Balance has each global batch dealt to the ranks by the predicted cost of decoding its samples, instead of in
	// equal parts in order: sampler.EvenCount gives all the same number of samples and costs as even as that allows,
	// sampler.EvenCost even costs and numbers that may differ. What a sample becomes does not depend on it. Every
	// rank then needs the indexes of the whole batch.
	Balance string
	// GroupByLength, when not nil, has neighbouring steps exchange samples so that those of a step are of about the same
	// length. Every rank then needs the indexes of all samples that are exchanged.
	GroupByLength *sampler.GroupByLength
	// Rank of World data-parallel ranks; World must divide GlobalBatch. The zero value is rank 0 of 1.
	Rank, World int
	// Epochs is the number of epochs after which there is no more data. 0: never ends by itself.
	Epochs int64
	// Resume, when not nil, is loaded before anything is read or announced: cheaper than Load after
	// Open, because agents are not told of a start that never happens.
	Resume *sampler.State

	// Plans gives the plan of every media field that is delivered as tensors, by field name. A single plan under
	// the empty name is for the one media field there is.
	Plans map[string]*transform.Plan
	// Tokens, when not nil, has batches of tokens delivered. Plans, Layout, Workers, WorkerPath and OnBadSubstitute are not given then.
	Tokens *TokenOptions
	// Fields are the names of the fields to deliver, in any order. Empty: all. One of media or tokens that is named here and
	// has no plan is delivered as it is stored: FieldData of dtype "bytes". A rank's step has at most 4 GiB of such parts.
	Fields []string
	// Layout of images in a batch: ChannelsLast (default) or Contiguous.
	Layout string
	// OnBad says what a sample with bad content does: sampler.OnBadSubstitute (default) or OnBadRaise.
	OnBad string

	// Prefetch is the number of steps built ahead, the one waited for included. Default 4. It bounds
	// memory and never changes what is delivered.
	Prefetch int
	// Workers is the number of local worker processes. Default: the CPUs of this process, at most 8.
	Workers int
	// WorkerPath is the worker program. Default: what worker.Find("") gives.
	WorkerPath string
	// Runner replaces the worker processes when not nil. Open takes it over, even when it fails: it is
	// closed with the Loader.
	Runner Runner

	// Agents: empty means none; AgentsAuto alone those of the registry; else addresses, each
	// "host:port" of an agent that the registry knows, or "node=host:port".
	Agents []string
	// Registry is the folder inside Store where agents register. Default hints.DefaultRegistry.
	Registry string
	// Token is sent to agents given by address, and to those whose registry file belongs to the owner
	// of the registry's store; never to others.
	Token string
	// Job is the job's id, and Run that of this start of it; both must be equal on all ranks. With a
	// Token the job is the token's, and another one is an error. Default: random ones, which only a
	// single rank can use.
	Job, Run string
	// FetchDeadline bounds the time an agent is waited for. Default 5 s; most waits are far shorter,
	// as they end when the batch is about to be needed.
	FetchDeadline time.Duration
	// CanaryEvery is how many prepared parts there are for one that is made again locally and
	// compared. Default 10,000.
	CanaryEvery int
	// TLS secures connections to agents. Default nil: in the clear, and to loopback addresses only.
	TLS *tls.Config
	// Dial opens connections to agents. Default: TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)

	// RecordPath, when set, is the file that gets a proof record for every sample delivered
	// (loader/proof). An existing file is continued.
	RecordPath string
	// StatsPath, when set, is the file that gets one StepStats a step as JSON lines. An existing file
	// is continued.
	StatsPath string
	// Log gets what an operator should know. Default: nothing.
	Log *zap.Logger

	testing struct {
		now           func() time.Duration // a monotonic clock
		tick          time.Duration        // between two looks at the registry
		backOff       time.Duration        // first back-off after a failure
		minWait       time.Duration        // the least that agents are given, and that their answers may be late
		window, ahead int64                // windowSamples, aheadSamples
	}
}

// sources are the datasets to open.
func (o Options) sources() []Source {
	if len(o.Sources) == 0 {
		return []Source{{Store: o.Store, Dir: o.Dir, URL: o.URL}}
	}
	sources := slices.Clone(o.Sources)
	for i := range sources {
		if sources[i].Store == nil {
			sources[i].Store = o.Store
		}
	}
	return sources
}

// defaultPrefetch covers the usual spread of step times: one step is waited for, three are on the way.
const defaultPrefetch = 4

// defaultWorkers bounds the default only: several ranks share a host.
const defaultWorkers = 8

func (o Options) withDefaults() Options {
	if o.Store == nil && len(o.Sources) > 0 {
		o.Store = o.Sources[0].Store
	}
	orDefault(&o.World, 1)
	orDefault(&o.Layout, ChannelsLast)
	orDefault(&o.OnBad, sampler.OnBadSubstitute)
	orDefault(&o.Prefetch, defaultPrefetch)
	orDefault(&o.Workers, min(runtime.GOMAXPROCS(0), defaultWorkers))
	orDefault(&o.Registry, hints.DefaultRegistry)
	orDefault(&o.FetchDeadline, 5*time.Second)
	orDefault(&o.CanaryEvery, 10_000)
	orDefault(&o.testing.tick, time.Minute)
	orDefault(&o.testing.backOff, minBackOff)
	orDefault(&o.testing.minWait, minWait)
	orDefault(&o.testing.window, windowSamples)
	orDefault(&o.testing.ahead, aheadSamples)
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.testing.now == nil {
		start := time.Now()
		o.testing.now = func() time.Duration { return time.Since(start) }
	}
	return o
}

func orDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Validate returns everything that is wrong with the options as far as it can be told without the
// dataset, or nil.
func (o Options) Validate() error {
	errs := o.validateTokens() // which are about what is given
	o = o.withDefaults()
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	errs = append(errs, o.validateOrder()...)
	bad(o.World < 1, "world: %d: must be at least 1", o.World)
	bad(o.Rank < 0 || o.Rank >= max(o.World, 1), "rank: %d: must be 0 to %d", o.Rank, o.World-1)
	bad(o.Epochs < 0, "epochs: %d: must not be negative; 0 never ends", o.Epochs)
	bad(o.Layout != ChannelsLast && o.Layout != Contiguous, "layout: %q: must be %q or %q", o.Layout, ChannelsLast, Contiguous)
	bad(o.OnBad != sampler.OnBadSubstitute && o.OnBad != sampler.OnBadRaise, "on_bad: %q: must be %q or %q",
		o.OnBad, sampler.OnBadSubstitute, sampler.OnBadRaise)
	bad(o.Prefetch < 1 || o.Prefetch > maxPrefetch, "prefetch: %d: must be 1 to %d", o.Prefetch, maxPrefetch)
	bad(o.Workers < 1 || o.Workers > maxWorkers, "workers: %d: must be 1 to %d", o.Workers, maxWorkers)
	bad(o.FetchDeadline < 0, "fetch_deadline: %v: must not be negative", o.FetchDeadline)
	bad(o.CanaryEvery < 0, "canary_every: %d: must not be negative", o.CanaryEvery)
	return errors.Join(append(errs, o.validateAgents()...)...)
}

// validateOrder is about where samples come from.
func (o Options) validateOrder() (errs []error) {
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(len(o.Sources) > 0 && o.Dir+o.URL != "", "dir, url: %q, %q: are of a single dataset, and sources are given: give one or the other", o.Dir, o.URL)
	for i, s := range o.sources() {
		at := ""
		if len(o.Sources) > 0 {
			at = fmt.Sprintf("sources[%d].", i)
		}
		bad(s.Store == nil, "%sstore: missing", at)
		bad(!strings.HasPrefix(s.Dir, "/"), "%sdir: %q: must be an absolute path inside the store", at, s.Dir)
		bad(len(o.Agents) > 0 && s.URL == "", "%surl: missing: agents open the dataset by it", at)
	}
	bad(o.Balance != "" && o.Balance != sampler.EvenCount && o.Balance != sampler.EvenCost, "balance: %q: must be %q or %q", o.Balance, sampler.EvenCount, sampler.EvenCost)
	if o.Given {
		bad(o.Shuffle != "", "shuffle: %q: the steps are given: leave it out", o.Shuffle)
		bad(o.Last != "", "last: %q: the steps are given: leave it out", o.Last)
		bad(o.Epochs != 0, "epochs: %d: the steps are given, which end when they are used up: leave it out", o.Epochs)
		for i, s := range o.Sources {
			bad(s.Weight != 0 || s.Upsample != 0 || s.MaxEpochs != 0, "sources[%d]: weight, upsample and max_epochs: the steps are given: leave them out", i)
		}
	}
	bad(o.GroupByLength != nil && o.Given, "group_by_length: the steps are given: give steps of samples of like length")
	bad(o.GroupByLength != nil && o.Tokens != nil, "group_by_length: samples made of tokens are of one length: leave it out")
	bad(o.Balance != "" && o.Tokens != nil, "balance: %q: samples of tokens cost the same: leave it out", o.Balance)
	if o.Spec == nil {
		bad(o.GlobalBatch < 1, "global_batch: %d: must be at least 1", o.GlobalBatch)
		return errs
	}
	bad(o.Seed != 0 || o.GlobalBatch != 0 || o.Shuffle != "" || o.Last != "" || o.GroupByLength != nil,
		"spec: seed, global_batch, shuffle, last and group_by_length are in it: give one or the other")
	bad(o.Given, "spec: the steps are given: no specification says which samples they have")
	for i, s := range o.Sources {
		bad(s.Weight != 0 || s.Upsample != 0 || s.MaxEpochs != 0, "sources[%d]: weight, upsample and max_epochs are in spec: give one or the other", i)
	}
	return errs
}

// Limits that keep a typing error from mapping all memory, or from starting all processes that the host has room for.
const (
	maxPrefetch = 1024
	maxWorkers  = 1024
)

func (o Options) validateAgents() (errs []error) {
	if len(o.Agents) == 0 {
		return nil
	}
	job, err := o.job()
	if err != nil {
		errs = append(errs, err)
	} else if o.World > 1 && (job == "" || o.Run == "") {
		errs = append(errs, fmt.Errorf("job, run: %q, %q: with agents and %d ranks both are needed, equal on all ranks", job, o.Run, o.World))
	}
	for _, a := range o.Agents {
		if a == AgentsAuto && len(o.Agents) > 1 {
			errs = append(errs, fmt.Errorf("agents: %q cannot be joined with addresses", AgentsAuto))
		}
		if a != AgentsAuto {
			_, _, err := discovery.Split(a)
			errs = append(errs, err)
		}
	}
	return errs
}

// job returns the job's id: the token's if there is a token, else the one that was given, if any.
func (o Options) job() (string, error) {
	if o.Token == "" {
		return o.Job, nil
	}
	job, err := hints.TokenJob(o.Token)
	if err != nil {
		return "", fmt.Errorf("token: %w: give one that `stepahead token mint` made", err)
	}
	if o.Job != "" && o.Job != job {
		return "", fmt.Errorf("job: %.64q: the token is of job %q: leave job out, or mint a token for that job", o.Job, job)
	}
	return job, nil
}

// named fills in the names of valid options' job and run.
func (o Options) named() Options {
	if len(o.Agents) > 0 {
		o.Job, _ = o.job() // Validate has reported its error
	}
	if o.Job == "" {
		o.Job = hints.NewID()
	}
	if o.Run == "" {
		o.Run = hints.NewID()
	}
	return o
}
