package main

import (
	"runtime/debug"
	"runtime/metrics"
)

// keepHeap is how much memory the runtime may keep between two messages: far more than ordinary photographs need, and
// little enough for a host that runs many workers. What C allocates for large pictures goes back by itself: see the environment
// that the pool gives.
const keepHeap = 32 << 20

// giveBack returns the memory of a large picture to the system, which would otherwise keep it until the next collection,
// and that may be long in coming.
func giveBack() {
	held := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(held)
	if held[0].Value.Uint64()+held[1].Value.Uint64() > keepHeap {
		debug.FreeOSMemory()
	}
}
