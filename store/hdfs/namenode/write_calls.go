package namenode

import (
	"context"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// Create makes a new file and gives the caller, by its client name, the lease on it. The answer is nil from old
// NameNodes.
func (c *Client) Create(ctx context.Context, request *hproto.CreateRequest) (*hproto.FileStatus, error) {
	var r hproto.CreateResponse
	err := c.call(ctx, "create", atMostOnce, request, &r)
	return r.GetFs(), err
}

// AddBlock starts the next block of a file that the caller writes. Previous is the block before, with its length.
func (c *Client) AddBlock(ctx context.Context, request *hproto.AddBlockRequest) (*hproto.LocatedBlock, error) {
	var r hproto.AddBlockResponse
	err := c.call(ctx, "addBlock", idempotent, request, &r)
	return r.GetBlock(), err
}

// AbandonBlock gives up the block that was last added.
func (c *Client) AbandonBlock(ctx context.Context, request *hproto.AbandonBlockRequest) error {
	return c.call(ctx, "abandonBlock", idempotent, request, new(hproto.AbandonBlockResponse))
}

// UpdateBlockForPipeline gives the block that clientName writes another generation stamp, and a token for it. The answer has
// no locations.
func (c *Client) UpdateBlockForPipeline(ctx context.Context, block *hproto.ExtendedBlock, clientName string) (*hproto.LocatedBlock, error) {
	var r hproto.UpdateBlockForPipelineResponse
	err := c.call(ctx, "updateBlockForPipeline", idempotent, &hproto.UpdateBlockForPipelineRequest{Block: block, ClientName: &clientName}, &r)
	return r.GetBlock(), err
}

// UpdatePipeline makes the replicas of these nodes, under a new generation stamp, the ones that count.
func (c *Client) UpdatePipeline(ctx context.Context, request *hproto.UpdatePipelineRequest) error {
	return c.call(ctx, "updatePipeline", atMostOnce, request, new(hproto.UpdatePipelineResponse))
}

// Complete closes a file. false: its last blocks do not have enough replicas yet; ask again.
func (c *Client) Complete(ctx context.Context, request *hproto.CompleteRequest) (bool, error) {
	var r hproto.CompleteResponse
	err := c.call(ctx, "complete", idempotent, request, &r)
	return r.GetResult(), err
}

// RenewLease keeps the files that clientName writes its own; it is due every 60 seconds.
func (c *Client) RenewLease(ctx context.Context, clientName string) error {
	return c.call(ctx, "renewLease", idempotent, &hproto.RenewLeaseRequest{ClientName: &clientName}, new(hproto.RenewLeaseResponse))
}
