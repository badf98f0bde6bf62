//go:build !amd64

package loader

// widenPast does nothing: there are no such stores here.
func widenPast(string, []byte, []byte) (done int, largest uint64) { return 0, 0 }

func copyPast(dst, src []byte) { copy(dst, src) }
