package nodecache

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// An entry's file is a header of 64 bytes and the bytes themselves.
//
//	offset  bytes  content
//	0       8      magic
//	8       32     the digest of the key, which is the file's name too
//	40      8      how many bytes follow, little-endian
//	48      4      their CRC-32C, little-endian
//	52      12     zeros
const headerSize = 64

const magic = "SAnode\x00\x01"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// piece is how much is copied at a time, so that checksums find it in the processor's cache.
const piece = 256 << 10

// entry is what one key's bytes are in memory.
type entry struct {
	id   string
	size int64
	bufs [][]byte
}

func (e entry) header(crc uint32) []byte {
	h := make([]byte, 0, headerSize)
	h = append(h, magic...)
	id, _ := hex.DecodeString(e.id)
	h = append(h, id...)
	h = binary.LittleEndian.AppendUint64(h, uint64(e.size))
	h = binary.LittleEndian.AppendUint32(h, crc)
	return h[:headerSize]
}

// load fills an entry's memory from its file. false without an error means that there is none, or that it was damaged and is
// removed. A file that is not safe to use is an error.
func (f *folder) load(e entry, lease time.Duration) (bool, error) {
	name := e.id + entrySuffix
	file, err := f.open(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	if !e.readFrom(file) {
		return false, f.remove(name)
	}
	now := time.Now()
	if info, err := file.Stat(); err == nil && now.Sub(info.ModTime()) > lease/8 {
		_ = f.root.Chtimes(name, now, now) // it may have been removed just now
	}
	return true, nil
}

// readFrom tells whether a file holds the entry, whole.
func (e entry) readFrom(file *os.File) bool {
	info, err := file.Stat()
	if err != nil || info.Size() != headerSize+e.size {
		return false
	}
	head := make([]byte, headerSize)
	if _, err := file.ReadAt(head, 0); err != nil {
		return false
	}
	crc, off := uint32(0), int64(headerSize)
	ok := e.pieces(func(p []byte) bool {
		_, err := file.ReadAt(p, off)
		crc, off = crc32.Update(crc, castagnoli, p), off+int64(len(p))
		return err == nil
	})
	return ok && bytes.Equal(head, e.header(crc))
}

// pieces calls do for the entry's memory, piece by piece, until it returns false.
func (e entry) pieces(do func([]byte) bool) bool {
	for _, b := range e.bufs {
		for len(b) > 0 {
			n := min(len(b), piece)
			if !do(b[:n]) {
				return false
			}
			b = b[n:]
		}
	}
	return true
}

// leaveEntry writes an entry for others to find: under another name, and renamed when it is whole.
func (f *folder) leaveEntry(e entry, o Options) error {
	draft, name, err := f.draft(e, o)
	if err != nil {
		return err
	}
	err = e.writeTo(draft)
	if err == nil {
		err = f.root.Rename(name, e.id+entrySuffix)
	}
	if err != nil {
		err = errors.Join(err, f.root.Remove(name))
	}
	return errors.Join(err, draft.Close())
}

// draft makes room for an entry and takes it.
func (f *folder) draft(e entry, o Options) (file *os.File, name string, err error) {
	unlock, err := f.exclusive()
	if err != nil {
		return nil, "", err
	}
	defer unlock()
	ok, err := f.makeRoom(headerSize+e.size, o, time.Now())
	if err == nil && !ok {
		err = syscall.ENOSPC
	}
	if err != nil {
		return nil, "", err
	}
	name = e.id + "." + rand.Text() + draftSuffix
	if file, err = f.open(name, openFlags|os.O_EXCL); err != nil {
		return nil, "", err
	}
	_, err = tryFlock(file, syscall.LOCK_EX) // nobody else knows the name
	if err == nil {
		err = file.Truncate(headerSize + e.size) // who makes room next sees what this takes
	}
	if err != nil {
		return nil, "", errors.Join(err, f.root.Remove(name), file.Close())
	}
	return file, name, nil
}

func (e entry) writeTo(file *os.File) (err error) {
	crc, off := uint32(0), int64(headerSize)
	e.pieces(func(p []byte) bool {
		crc = crc32.Update(crc, castagnoli, p)
		_, err = file.WriteAt(p, off)
		off += int64(len(p))
		return err == nil
	})
	if err != nil {
		return err
	}
	_, err = file.WriteAt(e.header(crc), 0)
	return err
}
