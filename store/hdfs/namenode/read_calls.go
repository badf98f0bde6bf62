package namenode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

func absent(op, path string) error {
	return fmt.Errorf("namenode.%s: %w", op, &fs.PathError{Op: "stat", Path: path, Err: fs.ErrNotExist})
}

// GetBlockLocations describes the blocks that [off, off+n) of a file touches, and with them always the last
// one. Behind the end there are none.
func (c *Client) GetBlockLocations(ctx context.Context, path string, off, n int64) (*hproto.LocatedBlocks, error) {
	var r hproto.GetBlockLocationsResponse
	offset, length := uint64(off), uint64(n)
	err := c.call(ctx, "getBlockLocations", idempotent, &hproto.GetBlockLocationsRequest{Src: &path, Offset: &offset, Length: &length}, &r)
	if err == nil && r.Locations == nil {
		err = absent("getBlockLocations", path)
	}
	return r.GetLocations(), err
}

// GetFileInfo describes a file or folder. Its Path is empty. One that is absent matches fs.ErrNotExist.
func (c *Client) GetFileInfo(ctx context.Context, path string) (*hproto.FileStatus, error) {
	var r hproto.GetFileInfoResponse
	err := c.call(ctx, "getFileInfo", idempotent, &hproto.GetFileInfoRequest{Src: &path}, &r)
	if err == nil && r.Fs == nil {
		err = absent("getFileInfo", path)
	}
	return r.GetFs(), err
}

// GetLocatedFileInfo is GetFileInfo with all block locations of a file, and their tokens if they are wanted. A NameNode that
// lacks the call is asked in two calls instead; the file may then have changed between them.
func (c *Client) GetLocatedFileInfo(ctx context.Context, path string, tokens bool) (*hproto.FileStatus, error) {
	var r hproto.GetLocatedFileInfoResponse
	request := &hproto.GetLocatedFileInfoRequest{Src: &path, NeedBlockToken: &tokens}
	err := c.call(ctx, "getLocatedFileInfo", idempotent, request, &r)
	if lacksMethod(err) {
		return c.infoThenLocations(ctx, path)
	}
	if err == nil && r.Fs == nil {
		err = absent("getLocatedFileInfo", path)
	}
	return r.GetFs(), err
}

func lacksMethod(err error) bool {
	var remote *RemoteError
	return errors.As(err, &remote) && remote.noSuchMethod()
}

func (c *Client) infoThenLocations(ctx context.Context, path string) (*hproto.FileStatus, error) {
	info, err := c.GetFileInfo(ctx, path)
	if err != nil || info.GetFileType() != hproto.FileStatus_FILE {
		return info, err
	}
	info.Locations, err = c.GetBlockLocations(ctx, path, 0, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	return info, nil
}

// GetListing returns one page of a folder: what comes after the local name startAfter (empty: from the beginning), in byte
// order. A file lists itself, with an empty path. With locations the pages are much shorter.
func (c *Client) GetListing(ctx context.Context, path string, startAfter []byte, locations bool) (*hproto.DirectoryListing, error) {
	if startAfter == nil {
		startAfter = []byte{}
	}
	var r hproto.GetListingResponse
	request := &hproto.GetListingRequest{Src: &path, StartAfter: startAfter, NeedLocation: &locations}
	err := c.call(ctx, "getListing", idempotent, request, &r)
	if err == nil && r.DirList == nil {
		err = absent("getListing", path)
	}
	return r.GetDirList(), err
}

// ListAll calls each for all that a folder holds, page by page, in byte order of the local names, until each
// fails. Entries that come and go meanwhile may be there or not; others are there exactly once.
func (c *Client) ListAll(ctx context.Context, path string, each func(*hproto.FileStatus) error) error {
	var after []byte
	for {
		page, err := c.GetListing(ctx, path, after, false)
		if err != nil {
			return err
		}
		for _, entry := range page.GetPartialListing() {
			if err := each(entry); err != nil {
				return err
			}
		}
		if page.GetRemainingEntries() == 0 {
			return nil
		}
		last := len(page.GetPartialListing()) - 1
		if last < 0 || bytes.Compare(page.PartialListing[last].GetPath(), after) <= 0 {
			return fmt.Errorf("namenode.ListAll %s: %w: a page ends where it begins and %d entries remain", path, errProtocol, page.GetRemainingEntries())
		}
		after = page.PartialListing[last].GetPath()
	}
}

// IsFileClosed reports whether nobody writes a file any more.
func (c *Client) IsFileClosed(ctx context.Context, path string) (bool, error) {
	var r hproto.IsFileClosedResponse
	err := c.call(ctx, "isFileClosed", idempotent, &hproto.IsFileClosedRequest{Src: &path}, &r)
	return r.GetResult(), err
}

// CheckAccess fails, matching fs.ErrPermission, where the user may not do what mode says.
func (c *Client) CheckAccess(ctx context.Context, path string, mode hproto.CheckAccessRequest_Mode) error {
	return c.call(ctx, "checkAccess", idempotent, &hproto.CheckAccessRequest{Path: &path, Mode: &mode}, new(hproto.CheckAccessResponse))
}

// GetErasureCodingPolicy returns how a file or folder is erasure-coded; nil: it is not.
func (c *Client) GetErasureCodingPolicy(ctx context.Context, path string) (*hproto.ErasureCodingPolicy, error) {
	var r hproto.GetErasureCodingPolicyResponse
	err := c.call(ctx, "getErasureCodingPolicy", idempotent, &hproto.GetErasureCodingPolicyRequest{Src: &path}, &r)
	return r.GetEcPolicy(), err
}

// GetQuotaUsage returns a folder's quotas and what they are used for.
func (c *Client) GetQuotaUsage(ctx context.Context, path string) (*hproto.QuotaUsage, error) {
	var r hproto.GetQuotaUsageResponse
	err := c.call(ctx, "getQuotaUsage", idempotent, &hproto.GetQuotaUsageRequest{Path: &path}, &r)
	return r.GetUsage(), err
}

// GetContentSummary counts what lies under a path. It is dear for large folders.
func (c *Client) GetContentSummary(ctx context.Context, path string) (*hproto.ContentSummary, error) {
	var r hproto.GetContentSummaryResponse
	err := c.call(ctx, "getContentSummary", idempotent, &hproto.GetContentSummaryRequest{Path: &path}, &r)
	return r.GetSummary(), err
}

// GetXAttrs returns the extended attributes with these names, or all that the user may see when none is named.
// An attribute that is absent is an error.
func (c *Client) GetXAttrs(ctx context.Context, path string, names ...*hproto.XAttr) ([]*hproto.XAttr, error) {
	var r hproto.GetXAttrsResponse
	err := c.call(ctx, "getXAttrs", idempotent, &hproto.GetXAttrsRequest{Src: &path, XAttrs: names}, &r)
	return r.GetXAttrs(), err
}
