package plan

import (
	"cmp"
	"time"
)

// Cluster is what is known of the cluster that holds the files. The zero value allows nothing to be made.
type Cluster struct {
	// Nodes are live and in service; Tagged of them also have a directory of the storage type that replicas are raised on.
	Nodes  int `json:"nodes"`
	Tagged int `json:"tagged"`
	// Load is how busy the nodes are by others, in [0, 1].
	Load float64 `json:"load"`
	// Free is the space, in bytes, that temporary replicas may fill.
	Free int64 `json:"free"`
	// NodeRate is the bytes a second that one node serves to all of its readers.
	NodeRate int64 `json:"node_rate"`
	// ReadersPerSource is C_load: with more readers than this at one source, the last reader waits longer. It is measured.
	ReadersPerSource float64 `json:"readers_per_source"`
	// MaxReplication is the largest replication factor that the store takes.
	MaxReplication int `json:"max_replication"`
}

// known tells whether anything is known of the cluster.
func (c Cluster) known() bool { return c.ReadersPerSource > 0 }

// Site is another datacenter that checkpoints are copied to.
type Site struct {
	Name string
	// Up says that the site answers, Writable that it takes files, Free how many bytes.
	Up, Writable bool
	Free         int64
	// RemoteRate is the bytes a second at which an evaluation there reads a checkpoint that is not there, LocalRate one that is.
	RemoteRate, LocalRate int64
}

// File is what is known of a hot file.
type File struct {
	Path string
	// Identity is that of the content, as store.Identity; "" says that there is no such file.
	Identity string
	Size     int64
	// Blocks is how many blocks the file has, Replicas how many replicas of each.
	Blocks, Replicas int
	// ErasureCoded files take no other replication; those of which Open is set are still being written.
	ErasureCoded, Open bool
	// OwnPolicy says that the file's storage policy already names the type that replicas would be raised on.
	OwnPolicy bool
}

// Checkpoint is what is known of a committed checkpoint.
type Checkpoint struct {
	Path string
	// Identity is that of the version, as checkpoint.Checkpoint.Identity; "" says that there is none.
	Identity string
	// Complete says that all files are there; else Problem says what is missing.
	Complete bool
	Problem  string
	Bytes    int64
	Layout   string
	// Labels are carried with each copy; policy decides by them.
	Labels map[string]string
}

// Policy decides what may be done. Its methods are pure: the same request gives the same verdict.
type Policy interface {
	// Copy decides whether a checkpoint may lie at a site.
	Copy(Request) Verdict
	// Spread decides by which means a hot file may have more sources.
	Spread(Request) Verdict
}

// Request is what policy decides on.
type Request struct {
	Path, Job, User string
	Site            string            // of copies
	Layout          string            // of copies
	Labels          map[string]string // of copies
}

// Verdict is what policy decided. The zero value denies.
type Verdict struct {
	Allowed bool
	// Rule names the rule that decided, for people.
	Rule string
	// Means are those allowed for a hot file, the preferred first.
	Means []Means
	// Lease is how long a copy of this version may lie at the site, from the moment when it was begun, whoever asks for it; 0: as long as it is asked for.
	Lease time.Duration
	// Access is who may read a copy.
	Access Access
}

// Access is who may read a copy: never more than may read the original.
type Access string

// The kinds of access.
const (
	// AsOriginal is whoever may read the original.
	AsOriginal Access = ""
	// OwnerOnly is the original's owner alone.
	OwnerOnly Access = "owner"
)

// denyAll is the policy until one is given.
type denyAll struct{}

func (denyAll) Copy(Request) Verdict   { return Verdict{Rule: "no policy was given"} }
func (denyAll) Spread(Request) Verdict { return Verdict{Rule: "no policy was given"} }

// Means is a way to have bytes where they are wanted.
type Means string

// The means.
const (
	// Copy is a checkpoint's copy at another site.
	Copy Means = "copy"
	// Even tells our readers who reads from which replica; nothing is made.
	Even Means = "even"
	// Sibling is a temporary copy beside the original, on other nodes, for our readers.
	Sibling Means = "sibling"
	// StorageType is replicas on storages of another type, for every client of the path.
	StorageType Means = "storage-type"
	// Raise is a plainly raised replication factor. Lowering it again concentrates the file: only where policy names it.
	Raise Means = "raise"
)

// makes tells whether the means makes something that has to be removed, and row whether readers find it in the catalogue.
func (m Means) makes() bool { return m != Even }
func (m Means) row() bool   { return m == Copy || m == Sibling || m == Even }

// Options are what does not change while a planner lives. The zero value is usable.
type Options struct {
	// Home is the site of the files: evaluations there need no copy.
	Home string
	// Grace is how long what was withdrawn stays for readers that have it open. Default 1 min.
	Grace time.Duration
	// RetryAfter is the pause after the first failure of an action; it doubles up to 64 times of it. Default 5 s.
	RetryAfter time.Duration
	// HostsShare says that the ranks of a host share what they read, so that a host is one reader.
	HostsShare bool
	// NextID is the smallest number that no placement has had before. Default 1.
	NextID ID
}

const (
	// openWithin is how long after its expected time a start may open nothing before it is given up.
	openWithin = 10 * time.Minute
	// firstMargin is the first lead time beyond the predicted duration of a copy; what comes of copies moves it.
	firstMargin = time.Minute
	// predictedLease is how long a copy lives that was predicted and not announced, beyond its expected time.
	predictedLease = 30 * time.Minute
	// evaluationAccelerators is how many accelerators wait for the reads of an evaluation.
	evaluationAccelerators = 8
	// workMemory is what the making of one copy or replica takes, in bytes.
	workMemory = 512 << 20
	// makeRate is the bytes a second at which the sources of a hot file are made, and bytesPerCore how many one core reads, verifies and sends.
	makeRate, bytesPerCore = 100e6, 1e9
)

func (o Options) withDefaults() Options {
	o.Grace, o.RetryAfter, o.NextID = cmp.Or(o.Grace, time.Minute), cmp.Or(o.RetryAfter, 5*time.Second), cmp.Or(o.NextID, 1)
	return o
}
