package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/stepahead-io/stepahead/transform/worker/protocol"
)

// confine closes what this process does not need and returns the names of the protections in force that it can
// vouch for itself. Limits were set by the pool. Landlock and seccomp filters belong here, before Serve.
func confine() ([]string, error) {
	if err := closeInherited("/proc/self/fd"); err != nil {
		return nil, err
	}
	on, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil || on != 1 {
		return nil, fmt.Errorf("no_new_privs is not in force (%d, %v): this program must be started by a stepahead pool", on, err)
	}
	return []string{"no_new_privs"}, nil
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
