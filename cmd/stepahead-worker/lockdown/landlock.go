package lockdown

import (
	"fmt"

	"github.com/landlock-lsm/go-landlock/landlock"
	llsys "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// The versions of the kernel's interface that brought each protection.
const (
	landlockFilesSince = 1 // Linux 5.13
	landlockNetSince   = 4 // 6.7
	landlockScopeSince = 6 // 6.12
)

// restrictAccess forbids this process, by Landlock, every file, every TCP port and every process outside of it, as far as
// the kernel can. What is open stays usable, and the list of the process's own threads can be seen, which the library needs
// on older kernels. It stands behind the filter of system calls: where a container refuses that one, or a
// kernel lets a call through in disguise, files stay closed all the same.
func restrictAccess(i *Isolation) {
	version, err := llsys.LandlockGetABIVersion()
	if err != nil {
		err = fmt.Errorf("the kernel lacks Landlock, or it is not enabled at boot: %w", err)
	} else {
		// No rule: nothing is permitted. Best effort drops what this kernel does not know, which the versions tell.
		err = landlock.V11.BestEffort().Restrict()
	}
	for _, p := range []struct {
		name  string
		since int
	}{{Files, landlockFilesSince}, {Net, landlockNetSince}, {Scope, landlockScopeSince}} {
		if err == nil && version < p.since {
			i.note(p.name, fmt.Errorf("this kernel's Landlock has version %d, needed is %d", version, p.since))
			continue
		}
		i.note(p.name, err)
	}
}
