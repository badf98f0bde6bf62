package intake

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/checkpoint"
	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/store"
)

const (
	// looksAtOnce bounds the files that are looked at at once, batchOf those whose places are asked for together.
	looksAtOnce = 16
	batchOf     = 1024
	// lookTime bounds one look at a file or checkpoint, with what is tried again.
	lookTime = time.Minute
	// Looks that fail for reasons that may pass are tried again after pauses that double.
	lookTries = 4
	lookPause = 200 * time.Millisecond
	// mostMissing bounds the files that are looked for again, looksAgain how often each is.
	mostMissing = 4096
	looksAgain  = 120
)

// LookerOptions configure a [Looker]. Only Stores has no default.
type LookerOptions struct {
	Stores controller.Stores
	// Tagged is the type of storage that replicas are raised on (docs/controller.md). Default: ARCHIVE.
	Tagged string
	// Labels returns the labels of a checkpoint, by which policy decides. Default: none.
	Labels func(ctx context.Context, st store.Store, path string) (map[string]string, error)

	testing struct {
		pause func(ctx context.Context, d time.Duration) error
	}
}

// Looker finds out what files and checkpoints of the home store are. It is safe for concurrent use.
type Looker struct {
	o LookerOptions

	mu      sync.Mutex
	missing map[string]int // files that were not found, and how often they were looked for again
}

// NewLooker returns one. It does no I/O.
func NewLooker(o LookerOptions) *Looker {
	o.Tagged = cmp.Or(o.Tagged, "ARCHIVE")
	if o.Labels == nil {
		o.Labels = func(context.Context, store.Store, string) (map[string]string, error) { return nil, nil }
	}
	if o.testing.pause == nil {
		o.testing.pause = store.Sleep
	}
	return &Looker{o: o, missing: map[string]int{}}
}

// Look says what files are, in the order of the paths; without an Identity where there is none, or where it cannot be found out within a minute.
func (l *Looker) Look(ctx context.Context, paths []string) []plan.File {
	found := make([]plan.File, len(paths))
	st := l.o.Stores.Home()
	for first := 0; first < len(paths); first += batchOf {
		batch := paths[first:min(first+batchOf, len(paths))]
		if p, ok := st.(store.Prefetcher); ok {
			p.Forget(batch)
			_ = p.Prefetch(ctx, batch) // the look at each file says what is wrong
		}
		var group errgroup.Group
		group.SetLimit(looksAtOnce)
		for i, path := range batch {
			group.Go(func() error {
				found[first+i] = l.file(ctx, st, path)
				return nil
			})
		}
		_ = group.Wait() // found has all there is to say
		if p, ok := st.(store.Prefetcher); ok {
			p.Forget(batch)
		}
	}
	return found
}

// file looks at one file, and again where that may help.
func (l *Looker) file(ctx context.Context, st store.Store, path string) plan.File {
	found := plan.File{Path: path}
	_ = l.again(ctx, func(ctx context.Context) (err error) { // without an identity: it is not there, or cannot be read
		found, err = l.look(ctx, st, path)
		return err
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	switch _, known := l.missing[path]; {
	case found.Identity != "":
		delete(l.missing, path)
	case !known && len(l.missing) < mostMissing:
		l.missing[path] = 0
	}
	return found
}

// LookAgain looks for files that were not there, or could not be read, when they were asked for, and returns those that are found by now. After a
// number of calls a file is given up.
func (l *Looker) LookAgain(ctx context.Context) []plan.File {
	var paths []string
	l.mu.Lock()
	for path, n := range l.missing {
		if l.missing[path] = n + 1; n == looksAgain {
			delete(l.missing, path)
			continue
		}
		paths = append(paths, path)
	}
	l.mu.Unlock()
	return slices.DeleteFunc(l.Look(ctx, paths), func(f plan.File) bool { return f.Identity == "" })
}

// again tries something that may pass.
func (l *Looker) again(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	pause := lookPause
	for try := 1; ; try++ {
		err := do(ctx)
		class := store.ClassOf(err)
		if class != store.Retryable && class != store.IdentityChanged || try == lookTries {
			return err
		}
		if l.o.testing.pause(ctx, pause) != nil {
			return err
		}
		pause *= 2
	}
}

func (l *Looker) look(ctx context.Context, st store.Store, path string) (plan.File, error) {
	none := plan.File{Path: path}
	f, err := st.Open(ctx, path)
	if err != nil {
		return none, err
	}
	defer f.Close()
	kept := store.StoredOf(f)
	found := plan.File{Path: path, Identity: string(f.Identity()), Size: f.Size(), Blocks: 1, Replicas: 1, ErasureCoded: kept.ErasureCoded, Open: kept.Writing}
	rows, err := st.Locate(ctx, path, 0, f.Size())
	switch {
	case errors.Is(err, store.ErrRange): // it was replaced by a shorter one
		return none, store.ErrIdentity
	case err != nil:
		return none, err
	}
	found.Blocks, found.Replicas = blocksOf(rows)
	if p, ok := st.(store.StoragePolicer); ok {
		policy, err := p.StoragePolicy(ctx, path)
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return none, err
		}
		found.OwnPolicy = err == nil && placesOn(policy.Name, l.o.Tagged)
	}
	return found, nil
}

// blocksOf counts the blocks of a file, one at least, and the replicas of the block that has the fewest.
func blocksOf(rows []store.Replica) (blocks, replicas int) {
	all := store.BlocksOf(rows)
	if len(all) == 0 {
		return 1, 1
	}
	replicas = len(all[0].Nodes)
	for _, b := range all[1:] {
		replicas = min(replicas, len(b.Nodes))
	}
	return len(all), replicas
}

// typesOf are the types of storage on which HDFS's policies have replicas lie.
var typesOf = map[string]string{
	"HOT": "DISK", "COLD": "ARCHIVE", "WARM": "DISK ARCHIVE", "ALL_SSD": "SSD", "ONE_SSD": "SSD DISK", "LAZY_PERSIST": "RAM_DISK DISK",
	"ALL_NVDIMM": "NVDIMM DISK", "PROVIDED": "PROVIDED DISK",
}

// placesOn tells whether a policy may have replicas lie on a type of storage. Of one that is not known it is to be feared.
func placesOn(policy, storage string) bool {
	types, known := typesOf[policy]
	return policy != "" && (!known || strings.Contains(" "+types+" ", " "+storage+" "))
}

// Inspect says what checkpoint is at a path. One of which only the number of ranks that saved it is not known counts as whole: who committed it knew.
func (l *Looker) Inspect(ctx context.Context, path string) plan.Checkpoint {
	found := plan.Checkpoint{Path: path}
	st := l.o.Stores.Home()
	var c *checkpoint.Checkpoint
	err := l.again(ctx, func(ctx context.Context) (err error) {
		if c, err = checkpoint.Open(ctx, st, path, checkpoint.Options{}); err == nil {
			found.Labels, err = l.o.Labels(ctx, st, path)
		}
		return err
	})
	if err != nil {
		found.Problem = err.Error()
		if errors.Is(err, fs.ErrNotExist) {
			found.Problem = "there is no checkpoint"
		}
		return found
	}
	found.Identity, found.Bytes, found.Layout = c.Identity(), c.Bytes(), string(c.Layout)
	found.Complete = len(c.Problems) == 0 || len(c.Problems) == 1 && c.Problems[0].Kind == "ranks-unknown"
	if !found.Complete {
		found.Problem = c.Complete().Error()
	}
	return found
}
