package lockdown

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/internal/testdata"
)

func tables(t *testing.T) []*arch.Info {
	t.Helper()
	var all []*arch.Info
	for _, name := range []string{"amd64", "arm64"} {
		table, err := arch.GetInfo(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, table)
	}
	return all
}

// onlyAMD64 are calls of old that arm64 never had; its C library and its Go use others of the lists.
var onlyAMD64 = []string{"fork", "vfork", "iopl", "ioperm", "modify_ldt"}

// A slip of the pen must not open a door.
func TestTheListsNameCallsThatExist(t *testing.T) {
	for _, table := range tables(t) {
		for _, name := range slices.Concat(allowed, forbidden) {
			if _, ok := table.SyscallNames[name]; !ok && !(table.Name != "x86_64" && slices.Contains(onlyAMD64, name)) {
				t.Errorf("%s is unknown on %s", name, table.Name)
			}
		}
	}
	for _, name := range allowed {
		if slices.Contains(forbidden, name) {
			t.Errorf("%s is allowed and forbidden", name)
		}
	}
}

// machine answers a system call as the kernel does with the program of a policy. This machine loads words in network order,
// so each is put there in that order.
func machine(t *testing.T, p seccomp.Policy) *bpf.VM {
	t.Helper()
	program, err := p.Assemble()
	if err != nil {
		t.Fatal(err)
	}
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	return vm
}

func ask(vm *bpf.VM, table *arch.Info, number int, args [6]uint64) seccomp.Action {
	var data [64]byte // struct seccomp_data
	binary.BigEndian.PutUint32(data[0:], uint32(number))
	binary.BigEndian.PutUint32(data[4:], uint32(table.ID))
	for i, a := range args {
		binary.BigEndian.PutUint32(data[16+8*i:], uint32(a))
		binary.BigEndian.PutUint32(data[20+8*i:], uint32(a>>32))
	}
	answer, err := vm.Run(data[:])
	if err != nil {
		panic(err)
	}
	return seccomp.Action(uint32(answer))
}

const (
	eperm  = seccomp.ActionErrno | seccomp.Action(unix.EPERM)
	enosys = seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)
)

// wanted is the rule that the filters must follow, written down a second time.
func wanted(name string, a [6]uint64, pid uint64) seccomp.Action {
	if slices.Contains(forbidden, name) {
		return seccomp.ActionKillProcess
	}
	allow := map[string]bool{
		"mmap": a[2]&unix.PROT_EXEC == 0, "mprotect": a[2]&unix.PROT_EXEC == 0, "prlimit64": a[2] == 0,
		"prctl": a[0] == unix.PR_SET_VMA, "kill": a[0] == pid, "tgkill": a[0] == pid,
	}
	allowedSo, conditional := allow[name]
	switch {
	case name == "clone3":
		return enosys
	case name == "clone" && a[0]&unix.CLONE_THREAD == 0:
		return seccomp.ActionKillProcess
	case conditional && !allowedSo, !slices.Contains(allowed, name):
		return eperm
	}
	return seccomp.ActionAllow
}

// strictest is what the kernel makes of two answers: an errno, or the end, counts more than "allowed", whose value is the largest.
func strictest(a, b seccomp.Action) seccomp.Action {
	if a == seccomp.ActionKillProcess || b == seccomp.ActionKillProcess {
		return seccomp.ActionKillProcess
	}
	return min(a, b)
}

func TestTheFiltersFollowTheRule(t *testing.T) {
	table, err := arch.GetInfo("")
	if err != nil {
		t.Fatal(err)
	}
	names, numbers := []string{}, []uint64{0, 1, 2, 3, 4, 7}
	for name, number := range table.SyscallNames {
		names, numbers = append(names, name), append(numbers, uint64(number))
	}
	slices.Sort(names)
	slices.Sort(numbers)
	names = append(names, "mmap", "mprotect", "clone", "kill", "tgkill", "prctl", "prlimit64") // more often
	first := machine(t, calls(table))
	rapid.Check(t, func(r *rapid.T) {
		// Arguments and process ids that are the numbers of calls are the ones that could be taken for them.
		argument := rapid.OneOf(rapid.SampledFrom(numbers), rapid.Uint64(),
			rapid.SampledFrom([]uint64{unix.PR_SET_VMA, unix.CLONE_THREAD, unix.CLONE_THREAD | unix.CLONE_VM, 1 << 32, 4 << 32}))
		pid := argument.Draw(r, "pid") & 0x3fffff
		second := machine(t, arguments(pid))
		for range 10 {
			name := rapid.SampledFrom(names).Draw(r, "call")
			var args [6]uint64
			for i := range args {
				args[i] = rapid.OneOf(argument, rapid.Just(pid)).Draw(r, "argument")
			}
			number := table.SyscallNames[name]
			got, want := strictest(ask(first, table, number, args), ask(second, table, number, args)), wanted(name, args, pid)
			if got != want && !(want == seccomp.ActionAllow && refusedByChance(name, args)) {
				r.Fatalf("%s%x of process %d: %x, want %x", name, args, pid, uint32(got), uint32(want))
			}
		}
	})
	if got := ask(first, &arch.Info{ID: arch.I386.ID}, table.SyscallNames["read"], [6]uint64{}); got != eperm {
		t.Errorf("a call of another architecture gets %x", uint32(got))
	}
	if got := ask(first, table, table.SyscallNames["read"]|0x40000000, [6]uint64{}); got == seccomp.ActionAllow {
		t.Error("a call of x32 is allowed")
	}
}

// The same on the other architecture, whose calls have other numbers.
func TestTheFiltersFollowTheRuleOnARM64(t *testing.T) {
	testdata.Soak(t)
	qemu, err := exec.LookPath("qemu-aarch64-static")
	if err != nil {
		testdata.Missing(t, "qemu-user-static to run arm64 programs: %v", err)
	}
	program := filepath.Join(t.TempDir(), "arm64.test")
	build := exec.Command("go", "test", "-c", "-o", program, ".")
	build.Env = append(os.Environ(), "GOARCH=arm64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command(qemu, program, "-test.run", "TestTheFiltersFollowTheRule$").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// refusedByChance are calls that nobody makes and that the library's habit makes the filter refuse: memory with protection
// bits that do not exist, threads with a signal that does not.
func refusedByChance(name string, args [6]uint64) bool {
	switch name {
	case "mmap", "mprotect":
		return args[2] > unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC
	}
	return false
}
