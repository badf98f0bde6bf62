package lockdown

import (
	"os"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// filterCalls loads the filters of system calls into all threads.
func filterCalls() error {
	table, err := arch.GetInfo("")
	if err != nil {
		return err
	}
	// The one on arguments first: the other forbids to load any more.
	for _, p := range []seccomp.Policy{arguments(uint64(os.Getpid())), calls(table)} {
		if err := seccomp.LoadFilter(seccomp.Filter{Flag: seccomp.FilterFlagTSync, Policy: p}); err != nil {
			return err
		}
	}
	return nil
}

// calls returns which calls a worker may make. There are three answers:
//
//   - What the Go runtime, the C library's memory and threads, and the conversation with the pool need is allowed.
//   - What only a program that was taken over asks for ends the process at once, so that somebody hears of it.
//   - Everything else fails with EPERM and no more, opening a file among it: C libraries look at this and that (the number
//     of processors, a terminal for their last words) and cope without.
func calls(table *arch.Info) seccomp.Policy {
	return seccomp.Policy{
		DefaultAction: seccomp.ActionErrno,
		Syscalls: []seccomp.SyscallGroup{
			{Action: seccomp.ActionAllow, Names: known(table, allowed)},
			// The filter cannot look into the arguments of clone3; without it the C library uses clone.
			{Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS), Names: []string{"clone3"}},
			{Action: seccomp.ActionKillProcess, Names: known(table, forbidden)},
		},
	}
}

// arguments returns how the process pid must not make calls that are allowed otherwise. The kernel asks all filters of a
// process, and the strictest answer counts. This is a filter of its own because the library compares an argument where it
// has compared the call's number, and does not load the number again: whatever follows a condition that does not hold
// sees the argument in its place. Here nothing but "allowed" follows, and no argument that holds is
// the number of a call further down: process ids, which might be, come last.
func arguments(pid uint64) seccomp.Policy {
	when := func(name string, argument uint32, op seccomp.Operation, value uint64) seccomp.NameWithConditions {
		return seccomp.NameWithConditions{Name: name, Conditions: seccomp.ArgumentConditions{{Argument: argument, Operation: op, Value: value}}}
	}
	return seccomp.Policy{
		DefaultAction: seccomp.ActionAllow,
		Syscalls: []seccomp.SyscallGroup{
			{Action: seccomp.ActionKillProcess, NamesWithCondtions: []seccomp.NameWithConditions{
				when("clone", 0, seccomp.BitsNotSet, unix.CLONE_THREAD), // another process, not one more thread of this one
			}},
			{Action: seccomp.ActionErrno, NamesWithCondtions: []seccomp.NameWithConditions{
				when("mmap", 2, seccomp.BitsSet, unix.PROT_EXEC), // new code
				when("mprotect", 2, seccomp.BitsSet, unix.PROT_EXEC),
				when("prlimit64", 2, seccomp.NotEqual, 0), // to set a limit
				when("prctl", 0, seccomp.NotEqual, unix.PR_SET_VMA),
				when("kill", 0, seccomp.NotEqual, pid), // another process
				when("tgkill", 0, seccomp.NotEqual, pid),
			}},
		},
	}
}

var allowed = []string{
	// the conversation, and last words on standard error
	"read", "write", "writev", "close", "fstat",
	// memory
	"mmap", "mprotect", "munmap", "mremap", "madvise", "brk",
	// threads
	"clone", "futex", "set_robust_list", "rseq", "sched_yield", "sched_getaffinity", "gettid", "getpid", "exit", "exit_group",
	// signals: the runtime stops goroutines by them
	"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "restart_syscall", "kill", "tgkill",
	// time, where the kernel does not offer it without a call, and the runtime's timers
	"clock_gettime", "gettimeofday", "nanosleep", "clock_nanosleep",
	"epoll_create1", "epoll_ctl", "epoll_pwait", "eventfd2",
	// what a process may know about itself
	"getrandom", "getrusage", "prlimit64",
	// and the names that the runtime gives to its memory
	"prctl",
}

var forbidden = []string{
	// other programs
	"fork", "vfork", "execve", "execveat",
	// other processes
	"ptrace", "process_vm_readv", "process_vm_writev", "pidfd_open", "pidfd_getfd", "kcmp", "perf_event_open",
	// the network
	"socket", "socketpair", "connect", "bind", "listen", "accept", "accept4", "sendto", "sendmsg", "sendmmsg", "recvfrom", "recvmsg", "recvmmsg",
	// the kernel
	"io_uring_setup", "io_uring_enter", "io_uring_register", "bpf", "userfaultfd", "add_key", "request_key", "keyctl",
	"init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot", "iopl", "ioperm", "modify_ldt",
	"mount", "umount2", "move_mount", "open_tree", "fsopen", "pivot_root", "chroot", "setns", "unshare", "open_by_handle_at",
	"setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setgroups", "capset",
}

// known returns those of names that the architecture has.
func known(table *arch.Info, names []string) []string {
	var have []string
	for _, n := range names {
		if _, ok := table.SyscallNames[n]; ok {
			have = append(have, n)
		}
	}
	return have
}
