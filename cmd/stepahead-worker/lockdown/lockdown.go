// Package lockdown knows what a decoder has no business with, and takes it from the whole process, for good.
package lockdown

// The protections, by their names in worker.Stats.
const (
	Files = "landlock"       // no file can be opened, made, changed or run
	Net   = "landlock_net"   // no TCP port can be bound or connected to
	Scope = "landlock_scope" // no signal and no abstract socket reaches another process
	Calls = "seccomp"        // system calls beyond a decoder's needs fail, or end the process
)

// Isolation is what protects others from this process.
type Isolation struct {
	InForce []string
	Refused map[string]string // protection -> why it is not in force
}

// Enter puts every protection in force that the kernel, and the container that this runs in, offer. They hold for all threads,
// those that exist and those to come, and cannot be taken back. The calling goroutine must be locked to a thread that has the
// no_new_privs flag; other threads get it. Descriptors that are open stay usable.
func Enter() Isolation {
	var i Isolation
	restrictAccess(&i)
	i.note(Calls, filterCalls()) // last: it forbids what the others need
	return i
}

func (i *Isolation) note(name string, err error) {
	if err == nil {
		i.InForce = append(i.InForce, name)
		return
	}
	if i.Refused == nil {
		i.Refused = map[string]string{}
	}
	i.Refused[name] = err.Error()
}
