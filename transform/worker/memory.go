package worker

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// keepBytes is how much touched memory a slot keeps between jobs: enough for the crops that training asks for, so
// that they find their pages warm, and little enough to forget in a pool of hundreds.
const keepBytes = 8 << 20

// keepPrivate is how much private address space a worker may have after a message. The Go runtime gives pages back, but not
// addresses, and a picture would fail that needs them for its decoder.
const keepPrivate = 1 << 30

// memory is a piece of memory shared with one worker. Its size is sealed, so that the worker cannot
// shorten it under the parent's mapping; pages cost memory only once they are touched.
type memory struct {
	file  *os.File
	bytes []byte
}

func newMemory(name string, size int64, prot int) (*memory, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_NOEXEC_SEAL)
	if err == unix.EINVAL { // a kernel before 6.3 knows no memory that can never be executed
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	m := &memory{file: os.NewFile(uintptr(fd), name)}
	if err := m.mapSealed(fd, size, prot); err != nil {
		m.file.Close()
		return nil, err
	}
	return m, nil
}

func (m *memory) mapSealed(fd int, size int64, prot int) error {
	if err := unix.Ftruncate(fd, size); err != nil {
		return fmt.Errorf("reserving %d bytes of shared memory: %w", size, err)
	}
	const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return fmt.Errorf("sealing shared memory: %w", err)
	}
	b, err := unix.Mmap(fd, 0, int(size), prot, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("mapping %d bytes of shared memory: %w", size, err)
	}
	m.bytes = b
	return nil
}

// trim gives pages beyond keepBytes back after a job that used the first n bytes. The worker may have touched
// more than it said; that goes with the worker.
func (m *memory) trim(n int64) {
	if n <= keepBytes {
		return
	}
	const mode = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
	_ = unix.Fallocate(int(m.file.Fd()), mode, keepBytes, int64(len(m.bytes))-keepBytes) // only an economy
}

func (m *memory) free() {
	_ = unix.Munmap(m.bytes)
	m.bytes = nil
	m.file.Close()
}
