package nodecache

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The tests of processes run this test program as other processes.

const childEnv = "NODECACHE_TEST_CHILD"

// exitInterrupted is how a child ends whose read was interrupted.
const exitInterrupted = 3

// child is what a child process does: it reads one key, whose bytes it makes itself when it is asked to read them.
type child struct {
	Options Options
	Key     Key
	// Begun and Fills are files: what is written before the read begins, and a line for each fill.
	Begun, Fills string
	// Takes is how long a fill takes; it ends early with its context.
	Takes time.Duration
	// Forks leaves a process behind that has all locks that this one had during the fill. Its id is written to Begun.
	Forks bool
	// Draft begins to write the entry, and gets no further.
	Draft bool
}

func TestMain(m *testing.M) {
	if text := os.Getenv(childEnv); text != "" {
		var c child
		if err := errors.Join(json.Unmarshal([]byte(text), &c), c.run()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			if errors.Is(err, context.Canceled) {
				os.Exit(exitInterrupted)
			}
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func (c child) run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	cache, err := Open(c.Options)
	if err != nil {
		return err
	}
	defer cache.Close()
	got := make([]byte, c.Key.Len)
	if c.Draft {
		draft, _, err := cache.folder.draft(entry{id: c.Key.id(), size: c.Key.Len, bufs: [][]byte{got}}, cache.o)
		if err != nil {
			return err
		}
		defer draft.Close()
	}
	if !c.Forks {
		if err := c.begun(""); err != nil {
			return err
		}
	}
	if c.Draft {
		select {} // until it is killed
	}
	if err := cache.Read(ctx, c.Key, [][]byte{got}, func(ctx context.Context) error { return c.fill(ctx, got) }); err != nil {
		return err
	}
	if !bytes.Equal(got, contentOf(c.Key)) {
		return errors.New("wrong bytes")
	}
	return nil
}

// begun writes a file that is there at once, with its content.
func (c child) begun(text string) error {
	beside := c.Begun + ".new"
	return errors.Join(os.WriteFile(beside, []byte(text), 0o600), os.Rename(beside, c.Begun))
}

func (c child) fill(ctx context.Context, to []byte) error {
	f, err := os.OpenFile(c.Fills, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(f, os.Getpid()); err != nil {
		return err
	}
	f.Close()
	if c.Forks {
		pid, err := leaveBehind()
		if err != nil {
			return err
		}
		if err := c.begun(strconv.Itoa(pid)); err != nil {
			return err
		}
	}
	select {
	case <-time.After(c.Takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	copy(to, contentOf(c.Key))
	return nil
}

// leaveBehind starts a process that has what a forked child of this one would have: the open files of all locks.
func leaveBehind() (int, error) {
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		return 0, err
	}
	cmd := exec.Command("sleep", "600")
	for _, link := range links {
		to, _ := os.Readlink(link)
		fd, _ := strconv.Atoi(filepath.Base(link))
		if strings.HasSuffix(to, lockSuffix) || strings.HasSuffix(to, usersName) {
			same, err := syscall.Dup(fd)
			if err != nil {
				return 0, err
			}
			cmd.ExtraFiles = append(cmd.ExtraFiles, os.NewFile(uintptr(same), to))
		}
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	return cmd.Process.Pid, nil
}

// contentOf is what a key's bytes are.
func contentOf(k Key) []byte {
	b := make([]byte, k.Len)
	rand.NewChaCha8([32]byte{byte(k.Off), byte(k.Off >> 8), byte(len(k.Identity)), 1}).Read(b)
	return b
}

// family starts child processes in one folder.
type family struct {
	t *testing.T
	child
	n int
}

func newFamily(t *testing.T) *family {
	tmp := t.TempDir()
	return &family{t: t, child: child{
		Options: Options{Dir: filepath.Join(tmp, "shared"), Stale: 300 * time.Millisecond},
		Key:     Key{Store: "s", Name: "/f", Identity: "1", Off: 10, Len: 1 << 20},
		Fills:   filepath.Join(tmp, "fills"),
	}}
}

// keep opens the folder until the end of the test, so that entries stay when children end.
func (f *family) keep() *Cache {
	f.t.Helper()
	c, err := Open(f.Options)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { c.Close() })
	return c
}

// process is a running child.
type process struct {
	*exec.Cmd
	t      *testing.T
	begun  string
	stderr bytes.Buffer
}

// start starts a child, after change.
func (f *family) start(change func(*child)) *process {
	f.t.Helper()
	f.n++
	c := f.child
	c.Begun = fmt.Sprintf("%s-begun-%d", f.Fills, f.n)
	if change != nil {
		change(&c)
	}
	text, err := json.Marshal(c)
	if err != nil {
		f.t.Fatal(err)
	}
	p := &process{Cmd: exec.Command(os.Args[0]), t: f.t, begun: c.Begun}
	p.Env = append(os.Environ(), childEnv+"="+string(text))
	p.Stderr = &p.stderr
	if err := p.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = p.Process.Kill() })
	return p
}

// waitBegun returns what a child wrote when it began.
func (p *process) waitBegun() string {
	p.t.Helper()
	var text []byte
	until(p.t, func() bool {
		var err error
		text, err = os.ReadFile(p.begun)
		return err == nil
	})
	return string(text)
}

// until waits for something that other processes do.
func until(t *testing.T, done func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); !done(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("not within 20 s")
		}
	}
}

// kill ends a child at once, as the kernel does when memory is short.
func (p *process) kill() {
	p.t.Helper()
	if err := p.Process.Signal(syscall.SIGKILL); err != nil {
		p.t.Fatal(err)
	}
	_ = p.Wait()
}

// mustEnd waits for a child that has read the right bytes.
func (p *process) mustEnd() {
	p.t.Helper()
	if err := p.Wait(); err != nil {
		p.t.Errorf("%v: %s", err, p.stderr.String())
	}
}

// fills is how many fills there were.
func (f *family) fills() int {
	text, _ := os.ReadFile(f.Fills)
	return strings.Count(string(text), "\n")
}

// left are the names in the folder, without those that stay.
func (f *family) left() (names []string) {
	all, _ := os.ReadDir(f.Options.Dir)
	for _, e := range all {
		if e.Name() != usersName && e.Name() != managerName {
			names = append(names, e.Name())
		}
	}
	return names
}
