package pack

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/store/dir"
)

const (
	childSource = "STEPAHEAD_TEST_PACK_SOURCE"
	childRoot   = "STEPAHEAD_TEST_PACK_ROOT"
)

func killOptions() Options {
	o := Options{Workers: 3, BinSize: 20_000}
	o.testing.chunk = 4
	return o
}

// childMain is the process that TestKilled kills: it packs and writes a line at every step, so that
// the parent knows how far it is. It returns false in the parent.
func childMain() bool {
	if os.Getenv(childSource) == "" {
		return false
	}
	st, _, err := dir.Open(os.Getenv(childRoot), dir.Options{})
	if err == nil {
		o := killOptions()
		o.Progress = func(p Progress) { fmt.Println(p.Phase, p.Done) }
		_, err = Pack(context.Background(), Folder{Root: os.Getenv(childSource)}, st, "/set", o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// TestKilled kills a packing process with SIGKILL after a random number of steps, again and again,
// until one run comes to its end: the result is that of an unbroken run, to the byte, and nothing
// is left over.
func TestKilled(t *testing.T) {
	source := photos(t, 150)
	st, wantRoot := openDir(t)
	mustPack(t, Folder{Root: source}, st, killOptions())
	want := tree(t, wantRoot)
	_, root := openDir(t)
	rnd := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	kills := 0
	for run := range 20 {
		// First anywhere in the two passes, then at their end and while files get their final names,
		// then not at all.
		steps, later := rnd.IntN(280), time.Duration(0)
		if run >= 10 {
			steps, later = 299, time.Duration(rnd.IntN(8_000))*time.Microsecond
		}
		if run == 19 {
			steps = math.MaxInt
		}
		if !runChild(t, source, root, steps, later) {
			break
		}
		kills++
		for name := range tree(t, root) {
			if name == "set/dataset.json" {
				// Killed after the last step: the dataset is there, so it has to be right.
				st, _, err := dir.Open(root, dir.Options{})
				if err != nil {
					t.Fatal(err)
				}
				clean(t, st)
			}
		}
	}
	if kills < 5 {
		t.Errorf("killed %d times only", kills)
	}
	t.Logf("killed %d times", kills)
	sameTree(t, tree(t, root), want)
}

// runChild runs the child and kills it some time after some lines. It returns false if the child
// came to its end first.
func runChild(t *testing.T, source, root string, steps int, later time.Duration) (killed bool) {
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
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if steps--; steps < 0 {
			time.Sleep(later)
			killed = cmd.Process.Kill() == nil
			break
		}
	}
	err = cmd.Wait()
	killed = killed && err != nil
	if !killed && err != nil {
		t.Fatal(err)
	}
	return killed
}
