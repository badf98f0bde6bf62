package namenode

import (
	"context"
	"io/fs"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// GetStoragePolicies returns the storage policies that the NameNode knows.
func (c *Client) GetStoragePolicies(ctx context.Context) ([]*hproto.BlockStoragePolicy, error) {
	var r hproto.GetStoragePoliciesResponse
	err := c.call(ctx, "getStoragePolicies", idempotent, new(hproto.GetStoragePoliciesRequest), &r)
	return r.GetPolicies(), err
}

// SetStoragePolicy gives a file or folder a storage policy of its own, by its name.
func (c *Client) SetStoragePolicy(ctx context.Context, path, policy string) error {
	return c.call(ctx, "setStoragePolicy", idempotent, &hproto.SetStoragePolicyRequest{Src: &path, PolicyName: &policy}, new(hproto.SetStoragePolicyResponse))
}

// UnsetStoragePolicy takes a file's or folder's own storage policy away, if it has one.
func (c *Client) UnsetStoragePolicy(ctx context.Context, path string) error {
	return c.call(ctx, "unsetStoragePolicy", idempotent, &hproto.UnsetStoragePolicyRequest{Src: &path}, new(hproto.UnsetStoragePolicyResponse))
}

// SetPermission sets the permission bits, and the sticky bit of a folder.
func (c *Client) SetPermission(ctx context.Context, path string, mode fs.FileMode) error {
	bits := uint32(mode.Perm())
	if mode&fs.ModeSticky != 0 {
		bits |= 0o1000
	}
	request := &hproto.SetPermissionRequest{Src: &path, Permission: &hproto.FsPermission{Perm: proto.Uint32(bits)}}
	return c.call(ctx, "setPermission", idempotent, request, new(hproto.SetPermissionResponse))
}

// SetOwner sets owner and group; "" leaves one as it is. Owners are given away by superusers alone, groups by owners who belong to them.
func (c *Client) SetOwner(ctx context.Context, path, owner, group string) error {
	request := &hproto.SetOwnerRequest{Src: &path}
	if owner != "" {
		request.Username = &owner
	}
	if group != "" {
		request.Groupname = &group
	}
	return c.call(ctx, "setOwner", idempotent, request, new(hproto.SetOwnerResponse))
}

// GetAclStatus returns the access control list, with the entries beyond the permission bits.
func (c *Client) GetAclStatus(ctx context.Context, path string) (*hproto.AclStatus, error) {
	var r hproto.GetAclStatusResponse
	err := c.call(ctx, "getAclStatus", idempotent, &hproto.GetAclStatusRequest{Src: &path}, &r)
	return r.GetResult(), err
}

// SetAcl replaces the whole access control list. It has the entries of the permission bits, too.
func (c *Client) SetAcl(ctx context.Context, path string, entries []*hproto.AclEntry) error {
	return c.call(ctx, "setAcl", idempotent, &hproto.SetAclRequest{Src: &path, AclSpec: entries}, new(hproto.SetAclResponse))
}

// RemoveAcl removes all entries beyond the permission bits.
func (c *Client) RemoveAcl(ctx context.Context, path string) error {
	return c.call(ctx, "removeAcl", idempotent, &hproto.RemoveAclRequest{Src: &path}, new(hproto.RemoveAclResponse))
}

// GetDatanodeStorageReport describes the storages of DataNodes. It is for superusers.
func (c *Client) GetDatanodeStorageReport(ctx context.Context, which hproto.GetDatanodeReportRequest_Type) ([]*hproto.DatanodeStorageReport, error) {
	var r hproto.GetDatanodeStorageReportResponse
	err := c.call(ctx, "getDatanodeStorageReport", idempotent, &hproto.GetDatanodeStorageReportRequest{Type: &which}, &r)
	return r.GetDatanodeStorageReports(), err
}
