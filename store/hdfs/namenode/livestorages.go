package namenode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// LiveStorages is LiveNodes with the storages of each DataNode. Only superusers are told those. For others each node has a storage of each type that the
// NameNode counts on all of them, with the type alone; where it counts a type on some of them, or does not tell, they have none.
func (c *Client) LiveStorages(ctx context.Context) ([]*hproto.DatanodeStorageReport, error) {
	reports, err := c.GetDatanodeStorageReport(ctx, hproto.GetDatanodeReportRequest_LIVE)
	if !errors.Is(err, fs.ErrPermission) {
		return reports, err
	}
	nodes, err := c.liveNodesJMX(ctx, err)
	if err != nil {
		return nil, fmt.Errorf("namenode.LiveStorages: %w", err)
	}
	types, err := c.commonTypes(ctx, nodes)
	if err != nil {
		return nil, fmt.Errorf("namenode.LiveStorages: %w", err)
	}
	reports = nil
	for _, n := range nodes {
		r := &hproto.DatanodeStorageReport{DatanodeInfo: n}
		for _, t := range types {
			if n.GetAdminState() != hproto.DatanodeInfo_NORMAL {
				break // it was not counted
			}
			r.StorageReports = append(r.StorageReports, &hproto.StorageReport{StorageUuid: proto.String(""), Storage: &hproto.DatanodeStorage{
				StorageUuid: proto.String(""), StorageType: proto.Uint32(t),
			}})
		}
		reports = append(reports, r)
	}
	return reports, nil
}

// commonTypes asks the web service which types of storage all nodes have. That it does not tell is no error.
func (c *Client) commonTypes(ctx context.Context, nodes []*hproto.DatanodeInfo) ([]uint32, error) {
	inService := 0
	for _, n := range nodes {
		if n.GetAdminState() == hproto.DatanodeInfo_NORMAL {
			inService++
		}
	}
	at, _ := c.current()
	body, err := c.jmx(ctx, at.at.Web, "BlockStats")
	if err != nil {
		return nil, ctx.Err()
	}
	return parseStorageTypes(body, inService), nil
}

// parseStorageTypes reads the bean BlockStats. It returns nil unless all nodes in service have the same.
func parseStorageTypes(body []byte, inService int) (types []uint32) {
	var page struct {
		Beans []struct {
			StorageTypeStats []struct {
				Key   string `json:"key"`
				Value struct {
					Nodes int `json:"nodesInService"`
				} `json:"value"`
			}
		}
	}
	if json.Unmarshal(body, &page) != nil || len(page.Beans) == 0 {
		return nil
	}
	for _, s := range page.Beans[0].StorageTypeStats {
		t, known := hproto.StorageType_value[s.Key]
		if !known || s.Value.Nodes != inService || inService == 0 {
			return nil
		}
		types = append(types, uint32(t))
	}
	slices.Sort(types)
	return types
}
