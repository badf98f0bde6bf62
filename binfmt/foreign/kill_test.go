package foreign_test

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/foreign"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
)

// childRoot names the store that the process which TestKilled kills works in.
const childRoot = "STEPAHEAD_TEST_INDEX_ROOT"

func TestMain(m *testing.M) {
	if root := os.Getenv(childRoot); root != "" {
		if err := indexTold(root, func() { fmt.Println() }); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

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

// indexTold indexes the shards of a store, and calls tell at every step.
func indexTold(root string, tell func()) error {
	st, _, err := dir.Open(root, dir.Options{})
	if err != nil {
		return err
	}
	defer st.Close()
	src := foreign.Source{Store: told{st, tell}, Names: []string{"/shards"}}
	_, err = foreign.Index(context.Background(), containers(foreign.Strict), src, "/set", foreign.Options{Workers: 3, Progress: func(foreign.Progress) { tell() }})
	return err
}

// TestKilled kills an indexing process with SIGKILL at random steps until a run comes to its end: the result is that
// of an unbroken run, to the byte, and there is never a manifest that is another.
func TestKilled(t *testing.T) {
	_, root, _ := shards(t, 8)
	total := 0
	steps := make(chan struct{}, 1<<16)
	if err := indexTold(root, func() { steps <- struct{}{} }); err != nil {
		t.Fatal(err)
	}
	total = len(steps)
	want := files(t, filepath.Join(root, "set"))
	rnd := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	kills := 0
	for range 3 {
		if err := os.RemoveAll(filepath.Join(root, "set")); err != nil {
			t.Fatal(err)
		}
		for killed := true; killed; {
			killed = runChild(t, root, rnd.IntN(total*3/2))
			if killed {
				kills++
			}
			if data, err := os.ReadFile(filepath.Join(root, "set", binfmt.ManifestName)); err == nil && string(data) != want[binfmt.ManifestName] {
				t.Fatal("another manifest")
			}
		}
		if got := files(t, filepath.Join(root, "set")); !maps.Equal(got, want) {
			t.Fatalf("%q, want %q", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
	}
	t.Logf("killed %d times in runs of about %d steps", kills, total)
}

// runChild runs the child and kills it after some steps. It returns false if the child came to its end first.
func runChild(t *testing.T, root string, steps int) (killed bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childRoot+"="+root)
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
	if err := cmd.Wait(); err != nil && !killed {
		t.Fatal(err)
	}
	return killed
}
