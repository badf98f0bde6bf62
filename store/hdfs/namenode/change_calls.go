package namenode

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// SetReplication asks for n replicas of a file. false: the path is absent, a folder or erasure-coded.
func (c *Client) SetReplication(ctx context.Context, path string, n int) (bool, error) {
	if n < 1 || n > math.MaxInt16 {
		return false, fmt.Errorf("namenode.setReplication %s: %d replicas: want 1 to %d: %w", path, n, math.MaxInt16, fs.ErrInvalid)
	}
	var r hproto.SetReplicationResponse
	request := &hproto.SetReplicationRequest{Src: &path, Replication: proto.Uint32(uint32(n))}
	err := c.call(ctx, "setReplication", idempotent, request, &r)
	return r.GetResult(), err
}

// SetTimes sets the times of modification and access; a zero time leaves one as it is.
func (c *Client) SetTimes(ctx context.Context, path string, modified, accessed time.Time) error {
	request := &hproto.SetTimesRequest{Src: &path, Mtime: millis(modified), Atime: millis(accessed)}
	return c.call(ctx, "setTimes", idempotent, request, new(hproto.SetTimesResponse))
}

func millis(t time.Time) *uint64 {
	ms := uint64(math.MaxUint64)
	if !t.IsZero() {
		ms = uint64(t.UnixMilli())
	}
	return &ms
}

// Mkdirs makes a folder with these permissions, and with parents those above it that are missing. A folder that exists
// stays as it is.
func (c *Client) Mkdirs(ctx context.Context, path string, permissions fs.FileMode, parents bool) error {
	var r hproto.MkdirsResponse
	perm := &hproto.FsPermission{Perm: proto.Uint32(uint32(permissions.Perm()))}
	err := c.call(ctx, "mkdirs", idempotent, &hproto.MkdirsRequest{Src: &path, Masked: perm, CreateParent: &parents, Unmasked: perm}, &r)
	if err == nil && !r.GetResult() {
		err = fmt.Errorf("namenode.mkdirs %s: the NameNode refused without a reason: %w", path, fs.ErrInvalid)
	}
	return err
}

// Delete removes a file or folder. false: there was none. Without recursive a folder that is not empty is
// syscall.ENOTEMPTY.
func (c *Client) Delete(ctx context.Context, path string, recursive bool) (bool, error) {
	var r hproto.DeleteResponse
	err := c.call(ctx, "delete", atMostOnce, &hproto.DeleteRequest{Src: &path, Recursive: &recursive}, &r)
	return r.GetResult(), err
}

// Rename2 moves a file or folder in one step. With overwrite it replaces a file, or an empty folder; without,
// what exists at the new name matches fs.ErrExist.
func (c *Client) Rename2(ctx context.Context, from, to string, overwrite bool) error {
	return c.call(ctx, "rename2", atMostOnce, &hproto.Rename2Request{Src: &from, Dst: &to, OverwriteDest: &overwrite}, new(hproto.Rename2Response))
}

// Concat appends the blocks of sources to target and removes the sources. They are in the same folder, closed
// and not empty.
func (c *Client) Concat(ctx context.Context, target string, sources ...string) error {
	return c.call(ctx, "concat", atMostOnce, &hproto.ConcatRequest{Trg: &target, Srcs: sources}, new(hproto.ConcatResponse))
}

// SetXAttr sets an extended attribute; flags are bits of hproto.SetXAttrRequest_Flag.
func (c *Client) SetXAttr(ctx context.Context, path string, attribute *hproto.XAttr, flags hproto.SetXAttrRequest_Flag) error {
	request := &hproto.SetXAttrRequest{Src: &path, XAttr: attribute, Flag: proto.Uint32(uint32(flags))}
	return c.call(ctx, "setXAttr", atMostOnce, request, new(hproto.SetXAttrResponse))
}

// RemoveXAttr removes an extended attribute.
func (c *Client) RemoveXAttr(ctx context.Context, path string, attribute *hproto.XAttr) error {
	return c.call(ctx, "removeXAttr", atMostOnce, &hproto.RemoveXAttrRequest{Src: &path, XAttr: attribute}, new(hproto.RemoveXAttrResponse))
}
