// Package worker knows how to run plans in warm, limited worker processes: the parent's side, pure Go.
//
// A decoder reads what strangers wrote, so it may crash, hang or ask for all memory. It does so in a process of its own
// that has no environment, few descriptors, hard limits and a deadline; whatever happens to it costs one job. Input and
// output lie in shared memory of fixed size, of which only what is touched costs memory, and a
// small socket carries the description of each job (package protocol).
package worker
