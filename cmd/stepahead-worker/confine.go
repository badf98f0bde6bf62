package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/stepahead-io/stepahead/cmd/stepahead-worker/lockdown"
	"github.com/stepahead-io/stepahead/transform/worker/protocol"
)

// confine closes what this process does not need and takes from it what a decoder has no business with. Limits were set
// by the pool. What the kernel does not offer is reported and is the pool's to judge; everything else that goes
// wrong is an error.
func confine() (lockdown.Isolation, error) {
	if err := closeInherited("/proc/self/fd"); err != nil {
		return lockdown.Isolation{}, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	on, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil || on != 1 {
		return lockdown.Isolation{}, fmt.Errorf("no_new_privs is not in force (%d, %v): this program must be started by a stepahead pool", on, err)
	}
	// With the pool this ends as it is. With a script in between it ends with that, which ends with the pool.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return lockdown.Isolation{}, fmt.Errorf("asking to end with the parent process: %w", err)
	}
	i := lockdown.Enter()
	i.InForce = slices.Insert(i.InForce, 0, "no_new_privs")
	return i, nil
}

// closeInherited closes descriptors that the parent process left open by mistake, such as a library's files and
// sockets: a decoder has no business with them. The runtime's own descriptors are anonymous inodes and stay.
func closeInherited(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("listing open descriptors: %w", err)
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= protocol.OutputFD {
			continue
		}
		// ReadDir's own descriptor is among them and is closed already: no link, nothing to do.
		what, err := os.Readlink(filepath.Join(dir, e.Name()))
		if err == nil && !strings.HasPrefix(what, "anon_inode:") {
			_ = unix.Close(fd)
		}
	}
	return nil
}
