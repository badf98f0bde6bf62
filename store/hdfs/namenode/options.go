package namenode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/stepahead-io/stepahead/store/hdfs/conf"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/sasl"
)

// Options configure a Client. Cluster and User are required; the zero value of the rest is usable.
type Options struct {
	// Cluster says which NameNodes to call. The first one is tried first.
	Cluster conf.Cluster
	// User is the effective user of a connection without security.
	User string
	// RealUser, where it is set, is who acts as User; the NameNode must allow it.
	RealUser string
	// Auth proves who calls. nil: the NameNode is told User and believes it.
	Auth Authenticator
	// Protection lists the qualities of protection that a connection may have after Auth; empty: any.
	Protection []sasl.QOP
	// Context goes into the NameNode's audit log beside each call. Default "stepahead".
	Context string

	// Dial opens connections, those to a NameNode's web service too. Default: a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Clock is the time of pauses, pings and idle connections. Default: the machine's.
	Clock Clock
	// Jitter returns a factor of each pause. Default: random, 0.5 to 1.5.
	Jitter func() float64

	// ConnectTimeout bounds opening a connection, authentication included. Default 20 s.
	ConnectTimeout time.Duration
	// CallTimeout bounds the wait for one answer, after which the call goes to the next NameNode; the whole
	// call is bounded by its context. Default 120 s.
	CallTimeout time.Duration
	// IdleTimeout is how long a connection that nobody uses stays open. Default 10 s.
	IdleTimeout time.Duration
	// PingInterval is the silence, while calls wait, after which the NameNode is pinged. Default 60 s.
	PingInterval time.Duration
	// MaxAnswer bounds an answer, in bytes. Default 128 MiB.
	MaxAnswer int

	// Rounds is how often all NameNodes in turn are tried. Default 15: with the pauses below more than two
	// minutes, which a restart or a failover takes.
	Rounds int
	// FirstRounds is the same as long as no NameNode has ever answered, when the address is likely to be
	// wrong. Default 3.
	FirstRounds int
	// BusyRetries is how often a call is repeated that a NameNode asks to repeat. Default 10.
	BusyRetries int
	// PauseBase is the pause after the first round; it doubles each time up to PauseMax. Defaults 500 ms
	// and 15 s.
	PauseBase, PauseMax time.Duration
}

// Authenticator chooses how to prove to a NameNode who calls. It is safe for concurrent use.
type Authenticator interface {
	// Choose picks the first of the server's ways, in its order, that it can serve, and returns the
	// mechanism and the way to answer with. A nil mechanism with method SIMPLE agrees to no security.
	Choose(offer []*hproto.SaslAuth, nn conf.NameNode) (mech sasl.Mechanism, auth *hproto.SaslAuth, err error)
	// ContextUser is who calls, for method KERBEROS; real is ignored there, since the ticket tells it.
	ContextUser() (effective, real string)
}

// WithConfig fills the limits and times of o that are not set from Hadoop's configuration.
func (o Options) WithConfig(c *conf.Config) (Options, error) {
	o.ConnectTimeout = orDuration(o.ConnectTimeout, c, "ipc.client.connect.timeout")
	o.CallTimeout = orDuration(o.CallTimeout, c, "ipc.client.rpc-timeout.ms")
	o.IdleTimeout = orDuration(o.IdleTimeout, c, "ipc.client.connection.maxidletime")
	o.PingInterval = orDuration(o.PingInterval, c, "ipc.ping.interval")
	o.PauseBase = orDuration(o.PauseBase, c, "dfs.client.failover.sleep.base.millis")
	o.PauseMax = orDuration(o.PauseMax, c, "dfs.client.failover.sleep.max.millis")
	o.MaxAnswer = orInt(o.MaxAnswer, c, "ipc.maximum.response.length")
	o.Rounds = orInt(o.Rounds, c, "dfs.client.failover.max.attempts")
	o.BusyRetries = orInt(o.BusyRetries, c, "dfs.client.retry.max.attempts")
	if o.Protection == nil {
		qops, err := sasl.ParseQOPs(c.String("hadoop.rpc.protection", ""))
		if err != nil {
			return o, fmt.Errorf("namenode.Options: hadoop.rpc.protection (%s): %w", c.Source("hadoop.rpc.protection"), err)
		}
		o.Protection = qops
	}
	return o, nil
}

func orDuration(d time.Duration, c *conf.Config, key string) time.Duration {
	if d != 0 {
		return d
	}
	return max(c.Duration(key, 0, time.Millisecond), 0)
}

func orInt(n int, c *conf.Config, key string) int {
	if n != 0 {
		return n
	}
	return int(max(c.Int(key, 0), 0))
}

func (o Options) withDefaults() Options {
	if o.Context == "" {
		o.Context = "stepahead"
	}
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	if o.Clock == nil {
		o.Clock = realClock{}
	}
	if o.Jitter == nil {
		o.Jitter = randomJitter
	}
	fill(&o.ConnectTimeout, 20*time.Second)
	fill(&o.CallTimeout, 120*time.Second)
	fill(&o.IdleTimeout, 10*time.Second)
	fill(&o.PingInterval, 60*time.Second)
	fill(&o.MaxAnswer, 128<<20)
	fill(&o.Rounds, 15)
	fill(&o.FirstRounds, 3)
	fill(&o.BusyRetries, 10)
	fill(&o.PauseBase, 500*time.Millisecond)
	fill(&o.PauseMax, max(15*time.Second, o.PauseBase))
	return o
}

func fill[T comparable](field *T, def T) {
	var zero T
	if *field == zero {
		*field = def
	}
}

// Validate returns all that is wrong with o, defaults filled in.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("namenode.Options: "+format, args...))
	}
	if len(o.Cluster.NameNodes) == 0 {
		bad("Cluster has no NameNodes: resolve an address with conf.Config.Cluster")
	}
	if o.User == "" && o.Auth == nil {
		bad("User is empty: name the user")
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{
		{"ConnectTimeout", o.ConnectTimeout}, {"CallTimeout", o.CallTimeout}, {"IdleTimeout", o.IdleTimeout},
		{"PingInterval", o.PingInterval}, {"PauseBase", o.PauseBase},
	} {
		if d.d < 0 {
			bad("%s: %v: give a positive time", d.name, d.d)
		}
	}
	if o.PauseMax < o.PauseBase {
		bad("PauseMax %v is less than PauseBase %v", o.PauseMax, o.PauseBase)
	}
	if o.MaxAnswer < 1024 || o.Rounds < 1 || o.FirstRounds < 1 || o.BusyRetries < 0 {
		bad("MaxAnswer %d, Rounds %d, FirstRounds %d, BusyRetries %d: give at least 1024, 1, 1, 0", o.MaxAnswer, o.Rounds, o.FirstRounds, o.BusyRetries)
	}
	return errors.Join(errs...)
}
