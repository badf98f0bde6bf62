package pack

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
)

const (
	childSource = "STEPAHEAD_TEST_PACK_SOURCE"
	childRoot   = "STEPAHEAD_TEST_PACK_ROOT"
)

// told calls before everything that changes the store.
type told struct {
	store.Store
	tell func()
}

func (s told) Create(ctx context.Context, name string) (store.Writer, error) {
	s.tell()
	return s.Store.Create(ctx, name)
}

func (s told) Rename(ctx context.Context, from, to string) error {
	s.tell()
	return s.Store.Rename(ctx, from, to)
}

func (s told) Remove(ctx context.Context, name string) error {
	s.tell()
	return s.Store.Remove(ctx, name)
}

// packTold packs, and calls tell at every step.
func packTold(source, root string, tell func()) error {
	st, _, err := dir.Open(root, dir.Options{})
	if err != nil {
		return err
	}
	o := Options{Workers: 3, BinSize: 20_000, Progress: func(Progress) { tell() }}
	o.testing.chunk = 4
	_, err = Pack(context.Background(), Folder{Root: source}, told{st, tell}, "/set", o)
	return err
}

// childMain is the process that TestKilled kills: it packs and writes a line at every step, so that
// the parent knows how far it is. It returns false in the parent.
func childMain() bool {
	if os.Getenv(childSource) == "" {
		return false
	}
	err := packTold(os.Getenv(childSource), os.Getenv(childRoot), func() { fmt.Println() })
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// TestKilled kills a packing process with SIGKILL at random steps, anywhere from the first scan to
// the last clean-up, until a run comes to its end before it is killed: the result is that of an
// unbroken run, to the byte, and nothing is left over.
func TestKilled(t *testing.T) {
	source := photos(t, 60)
	var total atomic.Int64
	wantRoot := t.TempDir()
	if err := packTold(source, wantRoot, func() { total.Add(1) }); err != nil {
		t.Fatal(err)
	}
	want := tree(t, wantRoot)
	rnd := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	all := 0
	for round := range 5 {
		root := t.TempDir()
		kills := 0
		for kills < 100 {
			steps := rnd.Int64N(total.Load())
			if kills == 0 && round%2 == 1 {
				steps = total.Load() - 1 - rnd.Int64N(total.Load()/3) // while files get their names
			}
			if !runChild(t, source, root, steps) {
				break
			}
			kills++
			checkPublished(t, root)
		}
		sameTree(t, tree(t, root), want)
		all += kills
	}
	if all < 5 {
		t.Errorf("killed %d times only", all)
	}
	t.Logf("killed %d times in runs of up to %d steps", all, total.Load())
}

// checkPublished: if there is a manifest, all that it names is there and right.
func checkPublished(t *testing.T, root string) {
	t.Helper()
	if _, err := os.Stat(root + "/set/dataset.json"); err != nil {
		return
	}
	st, _, err := dir.Open(root, dir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	clean(t, st)
}

// runChild runs the child and kills it after some steps. It returns false if the child came to its
// end first.
func runChild(t *testing.T, source, root string, steps int64) (killed bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childSource+"="+source, childRoot+"="+root)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); steps-- {
		if steps == 0 {
			cmd.Process.Kill()
			killed = true
			break
		}
	}
	err = cmd.Wait()
	if err != nil && !killed {
		t.Fatal(err)
	}
	return err != nil
}
