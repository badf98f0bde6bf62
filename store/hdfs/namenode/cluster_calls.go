package namenode

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// GetServerDefaults returns what the NameNode prescribes to clients.
func (c *Client) GetServerDefaults(ctx context.Context) (*hproto.FsServerDefaults, error) {
	var r hproto.GetServerDefaultsResponse
	err := c.call(ctx, "getServerDefaults", idempotent, new(hproto.GetServerDefaultsRequest), &r)
	return r.GetServerDefaults(), err
}

// GetDataEncryptionKey returns the key of encrypted connections to DataNodes; nil: they are not encrypted.
func (c *Client) GetDataEncryptionKey(ctx context.Context) (*hproto.DataEncryptionKey, error) {
	var r hproto.GetDataEncryptionKeyResponse
	err := c.call(ctx, "getDataEncryptionKey", idempotent, new(hproto.GetDataEncryptionKeyRequest), &r)
	return r.GetDataEncryptionKey(), err
}

// ReportBadBlocks tells the NameNode of corrupt replicas: one LocatedBlock a block, its Locs the bad nodes alone.
func (c *Client) ReportBadBlocks(ctx context.Context, blocks []*hproto.LocatedBlock) error {
	return c.call(ctx, "reportBadBlocks", idempotent, &hproto.ReportBadBlocksRequest{Blocks: blocks}, new(hproto.ReportBadBlocksResponse))
}

// GetDatanodeReport describes DataNodes. It is for superusers: see LiveNodes.
func (c *Client) GetDatanodeReport(ctx context.Context, which hproto.GetDatanodeReportRequest_Type) ([]*hproto.DatanodeInfo, error) {
	var r hproto.GetDatanodeReportResponse
	err := c.call(ctx, "getDatanodeReport", idempotent, &hproto.GetDatanodeReportRequest{Type: &which}, &r)
	return r.GetDi(), err
}

// GetSlowDatanodeReport describes the DataNodes that the NameNode finds slow.
func (c *Client) GetSlowDatanodeReport(ctx context.Context) ([]*hproto.DatanodeInfo, error) {
	var r hproto.GetSlowDatanodeReportResponse
	err := c.call(ctx, "getSlowDatanodeReport", idempotent, new(hproto.GetSlowDatanodeReportRequest), &r)
	return r.GetDi(), err
}

// GetFsStats returns the capacity of the cluster and the state of its blocks.
func (c *Client) GetFsStats(ctx context.Context) (*hproto.GetFsStatsResponse, error) {
	var r hproto.GetFsStatsResponse
	err := c.call(ctx, "getFsStats", idempotent, new(hproto.GetFsStatsRequest), &r)
	return &r, err
}

// Msync waits for nothing but learns the active NameNode's newest state, which later reads are not older than.
func (c *Client) Msync(ctx context.Context) error {
	return c.call(ctx, "msync", idempotent, new(hproto.MsyncRequest), new(hproto.MsyncResponse))
}

// GetDelegationToken returns a token that stands for the user without a password, and that renewer may renew. It
// needs a connection with Kerberos. Its service is set to what token files call this cluster.
func (c *Client) GetDelegationToken(ctx context.Context, renewer string) (*hproto.Token, error) {
	var r hproto.GetDelegationTokenResponse
	err := c.call(ctx, "getDelegationToken", idempotent, &hproto.GetDelegationTokenRequest{Renewer: &renewer}, &r)
	if err == nil && r.Token == nil {
		err = fmt.Errorf("namenode.getDelegationToken: the NameNode has no tokens to give: security is off: %w", errors.ErrUnsupported)
	}
	if err != nil {
		return nil, err
	}
	r.Token.Service = proto.String(c.service())
	return r.Token, nil
}

// service is the name of the cluster in token files.
func (c *Client) service() string {
	if c.options.Cluster.HA {
		return "ha-hdfs:" + c.options.Cluster.Name
	}
	return c.options.Cluster.NameNodes[0].Addr
}

// RenewDelegationToken makes a token last longer and returns until when, in milliseconds since 1970.
func (c *Client) RenewDelegationToken(ctx context.Context, token *hproto.Token) (int64, error) {
	var r hproto.RenewDelegationTokenResponse
	err := c.call(ctx, "renewDelegationToken", idempotent, &hproto.RenewDelegationTokenRequest{Token: token}, &r)
	return int64(r.GetNewExpiryTime()), err
}

// CancelDelegationToken ends a token.
func (c *Client) CancelDelegationToken(ctx context.Context, token *hproto.Token) error {
	return c.call(ctx, "cancelDelegationToken", idempotent, &hproto.CancelDelegationTokenRequest{Token: token}, new(hproto.CancelDelegationTokenResponse))
}
