// Package drafttest kills processes that write datasets, for the tests of what writes them.
package drafttest

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/store"
)

// Set is the folder of the dataset that a Writer makes, below its root.
const Set = "set"

// A Writer writes a dataset into the folder Set of the store in root, and calls tell at every step. The same call goes on with what
// another left.
type Writer func(root string, tell func()) error

// Told is a store that tells of everything before it changes it.
type Told struct {
	store.Store
	Tell func()
}

// Create implements store.Store.
func (s Told) Create(ctx context.Context, name string) (store.Writer, error) {
	s.Tell()
	return s.Store.Create(ctx, name)
}

// Rename implements store.Store.
func (s Told) Rename(ctx context.Context, from, to string) error {
	s.Tell()
	return s.Store.Rename(ctx, from, to)
}

// Remove implements store.Store.
func (s Told) Remove(ctx context.Context, name string) error {
	s.Tell()
	return s.Store.Remove(ctx, name)
}

// child names the writer and the root of a process that Killed started.
const child = "STEPAHEAD_TEST_KILLED"

// Child is what TestMain calls first: it is true in a process that Killed started, which has then written, a line a step.
func Child(writers map[string]Writer) bool {
	name, root, ok := strings.Cut(os.Getenv(child), ":")
	if !ok {
		return false
	}
	if err := writers[name](root, func() { fmt.Println() }); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// Killed kills a writer with SIGKILL at random steps, anywhere from its first look to its last clean-up, until a run comes to its end,
// some rounds of that: the result is that of an unbroken run, to the byte, nothing is left over, and a manifest that is there is the
// right one, of which published may check more. name is the writer's for Child.
func Killed(t *testing.T, name, root string, write Writer, rounds int, published func()) {
	t.Helper()
	var steps atomic.Int64
	if err := write(root, func() { steps.Add(1) }); err != nil {
		t.Fatal(err)
	}
	set := filepath.Join(root, Set)
	want := Tree(t, set)
	k := &killing{t: t, name: name, root: root, total: steps.Load(), rnd: rand.New(rand.NewPCG(uint64(os.Getpid()), 1)), want: want, published: published}
	for round := range rounds {
		if err := os.RemoveAll(set); err != nil {
			t.Fatal(err)
		}
		k.round(round%2 == 1)
		if got := Tree(t, set); !Same(got, want) {
			t.Fatalf("%q, want %q, with the same bytes", Names(got), Names(want))
		}
	}
	if k.kills < int64(rounds) {
		t.Errorf("killed %d times only", k.kills)
	}
	t.Logf("killed %d times in runs of %d steps", k.kills, k.total)
}

type killing struct {
	t          *testing.T
	name, root string
	total      int64 // steps of a whole run
	rnd        *rand.Rand
	want       map[string]string
	published  func()
	kills      int64
}

// round runs and kills until a run comes to its end; late says to kill the first while files get their names.
func (k *killing) round(late bool) {
	k.t.Helper()
	for kills := 0; kills < 100; kills++ {
		steps := k.rnd.Int64N(k.total)
		if kills == 0 && late {
			steps = k.total - 1 - k.rnd.Int64N(max(k.total/3, 1))
		}
		killed := k.run(steps)
		data, err := os.ReadFile(filepath.Join(k.root, Set, binfmt.ManifestName))
		if err == nil && string(data) != k.want[binfmt.ManifestName] {
			k.t.Fatal("another manifest")
		}
		if err == nil && k.published != nil {
			k.published()
		}
		if !killed {
			return
		}
		k.kills++
	}
	k.t.Fatal("it never comes to an end")
}

// run starts the writer in a process of its own and kills it after some steps; false if it came to its end first.
func (k *killing) run(steps int64) (killed bool) {
	k.t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), child+"="+k.name+":"+k.root)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		k.t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); steps-- {
		if steps == 0 {
			_ = c.Process.Kill() // Wait says what became of it
			killed = true
			break
		}
	}
	err = c.Wait()
	if err != nil && !killed {
		k.t.Fatal(err)
	}
	return err != nil
}

// Tree reads all files below a folder, hidden ones too, by their paths in it.
func Tree(t testing.TB, folder string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, folder+"/")] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Names are the paths of a Tree, sorted.
func Names(all map[string]string) []string {
	var n []string
	for name := range all {
		n = append(n, name)
	}
	slices.Sort(n)
	return n
}

// Same compares two Trees byte by byte.
func Same(a, b map[string]string) bool {
	for name, data := range a {
		if other, ok := b[name]; !ok || other != data {
			return false
		}
	}
	return len(a) == len(b)
}
