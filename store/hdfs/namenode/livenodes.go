package namenode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// LiveNodes describes the DataNodes that are alive: capacity, use, load, rack. Superusers get it from
// getDatanodeReport; for others it is read from the JMX page of the NameNode's web service, which tells neither
// a node's load nor its UUID.
func (c *Client) LiveNodes(ctx context.Context) ([]*hproto.DatanodeInfo, error) {
	report, err := c.GetDatanodeReport(ctx, hproto.GetDatanodeReportRequest_LIVE)
	if !errors.Is(err, fs.ErrPermission) {
		return report, err
	}
	nodes, err := c.liveNodesJMX(ctx, err)
	if err != nil {
		return nil, fmt.Errorf("namenode.LiveNodes: %w", err)
	}
	return nodes, nil
}

// maxJMX bounds the answer of the web service, in bytes: some 600 a node.
const maxJMX = 64 << 20

// liveNodesJMX asks the web service, since the call was refused.
func (c *Client) liveNodesJMX(ctx context.Context, refused error) ([]*hproto.DatanodeInfo, error) {
	n, _ := c.current() // the one that has just answered
	body, err := c.jmx(ctx, n.at.Web, "NameNodeInfo")
	var nodes []*hproto.DatanodeInfo
	if err == nil {
		nodes, err = parseLiveNodes(body)
	}
	if err != nil {
		return nil, fmt.Errorf("%w; nor by its web service %s: %w", refused, n.at.Web, err)
	}
	return nodes, nil
}

// jmx reads a bean of the NameNode.
func (c *Client) jmx(ctx context.Context, web, bean string) ([]byte, error) {
	transport := &http.Transport{DialContext: c.options.Dial, DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: c.options.CallTimeout}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, web+"/jmx?qry=Hadoop:service=NameNode,name="+bean, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxJMX+1))
	if err != nil {
		return nil, err
	}
	if len(body) > maxJMX {
		return nil, fmt.Errorf("an answer of more than %d bytes", maxJMX)
	}
	return body, nil
}

// parseLiveNodes reads the bean NameNodeInfo, whose attribute LiveNodes is JSON in a string.
func parseLiveNodes(body []byte) ([]*hproto.DatanodeInfo, error) {
	var page struct {
		Beans []struct{ LiveNodes string }
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return nil, fmt.Errorf("JMX: %w: %w", err, store.ErrUnavailable)
	}
	if len(page.Beans) == 0 || page.Beans[0].LiveNodes == "" {
		return nil, fmt.Errorf("JMX: no attribute LiveNodes of NameNodeInfo: %w", errors.ErrUnsupported)
	}
	var live map[string]liveNode
	if err := json.Unmarshal([]byte(page.Beans[0].LiveNodes), &live); err != nil {
		return nil, fmt.Errorf("JMX: LiveNodes: %w: %w", err, store.ErrUnavailable)
	}
	var nodes []*hproto.DatanodeInfo
	for name, n := range live {
		info, err := n.info(name)
		if err != nil {
			return nil, fmt.Errorf("JMX: LiveNodes: %.100s: %w", name, err)
		}
		nodes = append(nodes, info)
	}
	return nodes, nil
}

// liveNode is a DataNode as the bean shows it.
type liveNode struct {
	InfoAddr      string `json:"infoAddr"`
	XferAddr      string `json:"xferaddr"`
	Location      string `json:"location"`
	UUID          string `json:"uuid"`
	AdminState    string `json:"adminState"`
	Version       string `json:"version"`
	Capacity      uint64 `json:"capacity"`
	UsedSpace     uint64 `json:"usedSpace"`
	Remaining     uint64 `json:"remaining"`
	NonDFS        uint64 `json:"nonDfsUsedSpace"`
	BlockPoolUsed uint64 `json:"blockPoolUsed"`
	NumBlocks     uint32 `json:"numBlocks"`
}

var adminStates = map[string]hproto.DatanodeInfo_AdminState{
	"In Service":               hproto.DatanodeInfo_NORMAL,
	"Decommission In Progress": hproto.DatanodeInfo_DECOMMISSION_INPROGRESS,
	"Decommissioned":           hproto.DatanodeInfo_DECOMMISSIONED,
	"Entering Maintenance":     hproto.DatanodeInfo_ENTERING_MAINTENANCE,
	"In Maintenance":           hproto.DatanodeInfo_IN_MAINTENANCE,
}

func (n liveNode) info(name string) (*hproto.DatanodeInfo, error) {
	ip, port, err := hostPort(n.XferAddr)
	if err != nil {
		return nil, err
	}
	host, _, _ := strings.Cut(name, ":")
	state := adminStates[n.AdminState]
	_, infoPort, _ := hostPort(n.InfoAddr)
	return &hproto.DatanodeInfo{
		Id: &hproto.DatanodeID{
			IpAddr: &ip, HostName: &host, DatanodeUuid: &n.UUID, XferPort: &port, InfoPort: &infoPort, IpcPort: proto.Uint32(0),
		},
		Capacity: &n.Capacity, DfsUsed: &n.UsedSpace, Remaining: &n.Remaining, NonDfsUsed: &n.NonDFS, BlockPoolUsed: &n.BlockPoolUsed,
		NumBlocks: &n.NumBlocks, Location: &n.Location, AdminState: &state, SoftwareVersion: &n.Version,
	}, nil
}

func hostPort(addr string) (host string, port uint32, err error) {
	host, digits, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	return host, uint32(n), err
}
