package store

import "context"

// FolderMaker is implemented by stores that can make a folder with nothing in it.
type FolderMaker interface {
	// MakeFolder makes a folder, and its parents where they are missing. One that is there stays as it is. A file at the name is
	// fs.ErrExist or syscall.ENOTDIR, one at a parent's an error of class Permanent too. errors.ErrUnsupported: here a folder is there
	// for as long as something is in it.
	MakeFolder(ctx context.Context, name string) error
}
