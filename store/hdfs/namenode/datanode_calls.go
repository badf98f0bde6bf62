package namenode

import (
	"context"
	"errors"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

const dataNodeProtocol = "org.apache.hadoop.hdfs.protocol.ClientDatanodeProtocol"

// VisibleLength asks a DataNode how many bytes of a block that is being written can be read. o says how to call, its Cluster
// where the DataNode's RPC service listens. The connection is for this one call.
func VisibleLength(ctx context.Context, o Options, block *hproto.ExtendedBlock) (n int64, err error) {
	if err := o.Validate(); err != nil {
		return 0, err
	}
	c := New(o)
	c.protocol = dataNodeProtocol
	defer func() { err = errors.Join(err, c.Close()) }()
	var r hproto.GetReplicaVisibleLengthResponse
	if err := c.call(ctx, "getReplicaVisibleLength", idempotent, &hproto.GetReplicaVisibleLengthRequest{Block: block}, &r); err != nil {
		return 0, err
	}
	return int64(r.GetLength()), nil
}
