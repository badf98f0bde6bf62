package hdfs

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"syscall"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

// draft is a file that is being written. It lies beside its final name, in a folder that is this name's alone and that
// List leaves out, under a name that nobody else has: so nobody else's file can be taken for it.
type draft struct {
	w    *writing
	ctx  context.Context
	path string // where it will be
	temp string // where it is
	id   uint64 // its inode
	pipe *pipe  // nil: given up or done
}

// cleaning bounds the calls that take back what failed, which must not end with the context of what failed.
const cleaning = 10 * time.Second

func randomName() string {
	b := make([]byte, 16)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// draftFolder is one for each final name: whoever writes the name again finds there what killed writers left.
func draftFolder(name string) string {
	sum := sha256.Sum256([]byte(path.Base(name)))
	return path.Join(path.Dir(name), tempPrefix+hex.EncodeToString(sum[:12]))
}

// create starts a draft of a file that does not exist.
func (w *writing) create(ctx context.Context, name string) (*draft, error) {
	if w.refused != nil {
		return nil, w.refused
	}
	switch _, err := w.names.GetFileInfo(ctx, name); {
	case err == nil:
		return nil, fs.ErrExist
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	s, err := w.shape(ctx)
	if err != nil {
		return nil, err
	}
	folder := draftFolder(name)
	d := &draft{w: w, ctx: ctx, path: name, temp: path.Join(folder, w.newName())}
	if err := w.names.Mkdirs(ctx, folder, w.permissions(0o777), true); err != nil {
		return nil, err
	}
	status, err := d.begin(s)
	if err != nil {
		return nil, errors.Join(err, d.clear())
	}
	w.sweepOld(ctx, folder, d.temp, status)
	d.id = status.GetFileId()
	d.pipe = &pipe{w: w, ctx: ctx, path: d.temp, wanted: s.replicas, replicas: s.replicas}
	return d, nil
}

// begin makes the draft as an empty file. It is closed, and appended to as bytes come: this way it has replicas also in a
// folder whose files are erasure-coded.
func (d *draft) begin(s shape) (*hproto.FileStatus, error) {
	holder := proto.String("stepahead-" + path.Base(d.temp))
	status, err := d.w.names.Create(d.ctx, &hproto.CreateRequest{
		Src: &d.temp, ClientName: holder, CreateParent: proto.Bool(true),
		CreateFlag:  proto.Uint32(uint32(hproto.CreateRequest_CREATE | hproto.CreateRequest_SHOULD_REPLICATE)),
		Masked:      &hproto.FsPermission{Perm: proto.Uint32(uint32(d.w.permissions(0o666)))},
		Unmasked:    &hproto.FsPermission{Perm: proto.Uint32(0o666)},
		Replication: proto.Uint32(uint32(s.replicas)), BlockSize: proto.Uint64(uint64(s.blockSize)),
	})
	if err != nil {
		return nil, writeError(err)
	}
	done, err := d.w.names.Complete(d.ctx, &hproto.CompleteRequest{Src: &d.temp, ClientName: holder, FileId: proto.Uint64(status.GetFileId())})
	if err == nil && !done {
		err = fmt.Errorf("%w: the NameNode does not close an empty file", store.ErrUnavailable)
	}
	return status, err
}

// publish makes the draft's bytes safe and then gives it its name, which must still be free.
func (d *draft) publish() error {
	if err := d.pipe.Close(); err != nil {
		return err
	}
	if err := d.check(); err != nil {
		return err
	}
	if err := d.w.names.Rename2(d.ctx, d.temp, d.path, false); err != nil && !d.published(err) {
		return err
	}
	d.pipe = nil
	_ = d.dropFolder() // it may hold another writer's draft; and the file is there
	return nil
}

// check compares what the NameNode has with what was written.
func (d *draft) check() error {
	status, err := d.w.names.GetFileInfo(d.ctx, d.temp)
	if err != nil {
		return err
	}
	if n := int64(status.GetLength()); n != d.pipe.total || d.id != 0 && status.GetFileId() != d.id {
		return fmt.Errorf("%w: %d bytes were written and the NameNode knows %d: write the file again", store.ErrUnavailable, d.pipe.total, n)
	}
	return nil
}

// published tells whether a rename of unknown outcome took place.
func (d *draft) published(err error) bool {
	if !errors.Is(err, namenode.ErrOutcomeUnknown) || d.id == 0 {
		return false
	}
	ctx, cancel := d.cleanContext()
	defer cancel()
	status, err := d.w.names.GetFileInfo(ctx, d.path)
	return err == nil && status.GetFileId() == d.id
}

// abort gives the draft up.
func (d *draft) abort() error {
	if d.pipe == nil {
		return nil
	}
	_, _ = d.pipe.drop()
	d.pipe = nil
	return d.clear()
}

// clear removes the draft and, if no other writer is in it, its folder.
func (d *draft) clear() error {
	ctx, cancel := d.cleanContext()
	defer cancel()
	_, err := d.w.names.Delete(ctx, d.temp, false)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, d.dropFolder())
}

func (d *draft) dropFolder() error {
	ctx, cancel := d.cleanContext()
	defer cancel()
	_, err := d.w.names.Delete(ctx, path.Dir(d.temp), false)
	if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return err
}

func (d *draft) cleanContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(d.ctx), cleaning)
}
