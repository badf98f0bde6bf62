package hdfs

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

// draft is a file that is being written. It lies beside its final name, under a name that List leaves out and that nobody
// else has: so nobody else's file can be taken for it.
type draft struct {
	*output
	final string // its path from when it is whole
	over  bool   // what lies there then is replaced
	done  bool   // it was given up or published
}

// cleaning bounds the calls that take back what failed, which must not end with the context of what failed.
const cleaning = 10 * time.Second

func randomName() string {
	b := make([]byte, 16)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// create starts a draft of a file that does not exist, with the usual shape.
func (w *writing) create(ctx context.Context, name string) (*draft, error) {
	s, err := w.shape(ctx)
	if err != nil {
		return nil, err
	}
	return w.createShaped(ctx, name, s)
}

// createShaped starts a draft of a file that does not exist.
func (w *writing) createShaped(ctx context.Context, name string, s shape) (*draft, error) {
	switch _, err := w.names.GetFileInfo(ctx, name); {
	case err == nil:
		return nil, fs.ErrExist
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return w.draft(ctx, name, s)
}

// draft starts a draft of a file that may exist.
func (w *writing) draft(ctx context.Context, name string, s shape) (*draft, error) {
	own := w.newName()
	folder := path.Dir(name)
	o := &output{w: w, ctx: ctx, path: path.Join(folder, tempPrefix+own), holder: "stepahead-" + own, size: s.blockSize, replicas: s.replicas, exclude: s.exclude}
	d := &draft{output: o, final: name}
	status, err := d.begin(s)
	if errors.Is(err, fs.ErrNotExist) {
		if err = w.names.Mkdirs(ctx, folder, w.permissions(0o777), true); err == nil {
			status, err = d.begin(s)
		}
	}
	if errors.Is(err, namenode.ErrOutcomeUnknown) {
		return nil, errors.Join(err, d.clear())
	}
	if err != nil {
		return nil, err
	}
	o.id = status.GetFileId()
	d.keep()
	w.sweep(ctx, folder, status)
	return d, nil
}

// begin makes the draft in a folder that exists. It has replicas also where other files are erasure-coded.
func (d *draft) begin(s shape) (*hproto.FileStatus, error) {
	status, err := d.w.names.Create(d.ctx, &hproto.CreateRequest{
		Src: &d.path, ClientName: &d.holder, CreateParent: proto.Bool(false),
		CreateFlag:  proto.Uint32(uint32(hproto.CreateRequest_CREATE | hproto.CreateRequest_SHOULD_REPLICATE)),
		Masked:      &hproto.FsPermission{Perm: proto.Uint32(uint32(d.w.permissions(0o666)))},
		Unmasked:    &hproto.FsPermission{Perm: proto.Uint32(0o666)},
		Replication: proto.Uint32(uint32(s.replicas)), BlockSize: proto.Uint64(uint64(s.blockSize)),
	})
	return status, writeError(err)
}

// keep has the lease renewed until the draft is closed or dropped.
func (d *draft) keep() {
	o := d.output
	o.lease = keepLease(o.ctx, leaseBeat, func(ctx context.Context) error { return o.w.names.RenewLease(ctx, o.holder) })
}

// publish makes the draft's bytes safe and then gives it its name.
func (d *draft) publish() error {
	if err := d.Close(); err != nil {
		return err
	}
	return d.rename()
}

// rename gives a draft that is closed its name.
func (d *draft) rename() error {
	if err := d.w.names.Rename2(d.ctx, d.path, d.final, d.over); err != nil && !d.published(err) {
		return overFolder(d.failed(err)) // the folder is there if the draft is, so what does not exist is the draft
	}
	d.done = true
	return nil
}

// overFolder recognises that a folder has the name, for which HDFS has no exception of its own.
func overFolder(err error) error {
	var remote *namenode.RemoteError
	if errors.As(err, &remote) && strings.Contains(remote.Message, "must both be directories") {
		return fmt.Errorf("%w: the name is that of a folder: %w", fs.ErrExist, err)
	}
	return err
}

// published tells whether a rename took place that failed: because its outcome is not known, or because the draft is not
// there any more, which a NameNode says to a repeated call that it does not remember.
func (d *draft) published(err error) bool {
	if d.id == 0 || !errors.Is(err, namenode.ErrOutcomeUnknown) && !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	ctx, cancel := d.cleanContext()
	defer cancel()
	status, err := d.w.names.GetFileInfo(ctx, d.final)
	return err == nil && status.GetFileId() == d.id
}

// abort gives the draft up.
func (d *draft) abort() error {
	if d.done {
		return nil
	}
	d.done = true
	d.drop()
	return d.clear()
}

// clear removes the draft.
func (d *draft) clear() error {
	ctx, cancel := d.cleanContext()
	defer cancel()
	_, err := d.w.names.Delete(ctx, d.path, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (d *draft) cleanContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(d.ctx), cleaning)
}
