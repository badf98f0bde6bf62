package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/internal/auth"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/transform/worker"
)

// A Runner runs plans in worker processes: a *worker.Pool. It is safe for concurrent use.
type Runner interface {
	// Run transforms one part into out. An error that is a *transform.Error says whose fault it was.
	Run(ctx context.Context, job worker.Job, in worker.Part, out []byte) (worker.Result, error)
	// Golden returns operator identity -> golden digest.
	Golden(ctx context.Context) (map[string]string, error)
	// CPU is the user and system time of all workers so far.
	CPU() time.Duration
}

// Options configure an [Agent]. Only Node, Store, Pool and Load have no default.
type Options struct {
	// Node is the name that the store's locations give this node.
	Node string
	// Store holds the datasets. The agent reads its own node's replicas through it.
	Store store.Store
	// Resolve returns the name in Store of the folder that a dataset URL means. It does no I/O: the
	// name is compared with the roots of a token before anything is opened. Default: URLs are names.
	Resolve func(url string) (name string, err error)
	// CacheDir is where the indexes of datasets are kept when Store is not a local one. Default: none,
	// Store must be local.
	CacheDir string
	// Pool runs the plans.
	Pool Runner
	// Load tells the load of others on the node.
	Load Load

	// Memory bounds the shelf, in bytes: prepared tensors and those being prepared. Default 1 GiB.
	Memory int64
	// Window is how many steps are prepared ahead of what readers fetch. Default 16.
	Window int
	// Workers is how many preparations run at once at most. Default 1.
	Workers int
	// Queue is how many preparations may hold reserved bytes without being ready. Default 4096.
	Queue int
	// Egress bounds the bytes of tensors prepared a second. Default 0: no limit.
	Egress int64
	// Jobs is how many jobs are served at once. Default 64.
	Jobs int
	// CPUHigh is the share of the CPUs, used by others, at which nothing new starts; CPULow is the
	// share below which it does again, once it has been so for Dwell. Defaults 0.80, 0.70, 10 s.
	CPUHigh, CPULow float64
	Dwell           time.Duration
	// TTL is how long a job's tensors stay without a sign of life. Default 10 min.
	TTL time.Duration
	// Sample is the interval between two samples of the load. Default 1 s, at most Dwell.
	Sample time.Duration

	// Registry is the folder in which the agent says where it listens, as a name in RegistryStore.
	// Default: it says so nowhere.
	Registry string
	// RegistryStore holds the registry. Default: Store.
	RegistryStore store.Store
	// RegistryTTL is how long the agent's entry counts after it was written; it is written three times as often.
	// Default 30 s.
	RegistryTTL time.Duration
	// Keys verify the tokens of callers. The zero value refuses everybody; auth.Insecure() is for
	// loopback only.
	Keys auth.Keyring
	// TLS secures the agent's connections. Default: in the clear, and then, as without keys, Run refuses a
	// listener that other hosts can reach.
	TLS *tls.Config
	// Address is what the registry entry says where the agent listens: host:port. Default: the listener's.
	Address string
	// Access says what the users of tokens may read. Default: what the roots of their tokens cover.
	Access Access
	// AccessAge is how long an answer of Access counts. Default 1 min.
	AccessAge time.Duration
	// Relay keeps what jobs foretell of checkpoints and starts. Default: such hints are refused. One that is also a relay.Source is handed over to
	// callers with the right auth.RightRelay.
	Relay Relay
	// Metrics takes the agent's metrics. Default: they are counted and not exported.
	Metrics prometheus.Registerer
	// Log gets what operators should know; refusals are logged at level warn with the field "audit".
	// Default: nothing is logged.
	Log *zap.Logger
}

func (o Options) withDefaults() Options {
	orDefault(&o.Memory, 1<<30)
	orDefault(&o.Window, 16)
	orDefault(&o.Workers, 1)
	orDefault(&o.Queue, 4096)
	orDefault(&o.Jobs, 64)
	orDefault(&o.CPUHigh, 0.80)
	orDefault(&o.CPULow, 0.70)
	orDefault(&o.Dwell, 10*time.Second)
	orDefault(&o.TTL, 10*time.Minute)
	orDefault(&o.AccessAge, time.Minute)
	orDefault(&o.RegistryTTL, 30*time.Second)
	orDefault(&o.Sample, min(time.Second, o.Dwell))
	if o.RegistryStore == nil {
		o.RegistryStore = o.Store
	}
	if o.Resolve == nil {
		o.Resolve = func(url string) (string, error) { return url, store.CheckName(url) }
	}
	if o.Metrics == nil {
		o.Metrics = prometheus.NewRegistry()
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	return o
}

func orDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Validate returns all that is wrong with o, defaults filled in.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(o.Node == "", "Node is empty: give the name that the store's locations use")
	bad(o.Store == nil, "Store is nil")
	bad(o.Pool == nil, "Pool is nil")
	bad(o.Load == nil, "Load is nil")
	bad(o.Memory < 1<<20, "Memory is %d bytes: give at least 1 MiB", o.Memory)
	bad(o.Window < 1 || o.Window > maxDepth, "Window is %d steps: give 1 to %d", o.Window, maxDepth)
	bad(o.Workers < 1 || o.Workers > 4096, "Workers is %d: give 1 to 4096", o.Workers)
	bad(o.Queue < 1, "Queue is %d: give at least 1", o.Queue)
	bad(o.Jobs < 1, "Jobs is %d: give at least 1", o.Jobs)
	bad(o.Egress < 0, "Egress is %d bytes a second: give 0 for no limit, or more", o.Egress)
	bad(!(0 < o.CPULow && o.CPULow <= o.CPUHigh && o.CPUHigh <= 1), "CPULow %v and CPUHigh %v: give 0 < low <= high <= 1", o.CPULow, o.CPUHigh)
	bad(o.Dwell < 0 || o.TTL < 0 || o.AccessAge < 0, "Dwell, TTL or AccessAge is negative")
	bad(o.RegistryTTL < time.Second || o.RegistryTTL > 10*time.Minute, "RegistryTTL is %v: give 1s to 10m", o.RegistryTTL)
	bad(o.Sample < 10*time.Millisecond, "Sample is %v: give at least 10ms", o.Sample)
	bad(o.Sample > o.Dwell, "Sample is %v, Dwell %v: give at most that", o.Sample, o.Dwell)
	return errors.Join(errs...)
}

func (o Options) limits() limits {
	return limits{
		memory: o.Memory, window: int64(o.Window), workers: o.Workers, queue: o.Queue, egress: o.Egress,
		jobs: o.Jobs, high: o.CPUHigh, low: o.CPULow, dwell: o.Dwell,
	}
}
