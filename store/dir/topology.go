package dir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// The store's own folder and the files in it. The folder can be reached by name and is never listed.
const (
	metaDir      = ".stepahead"
	topologyFile = ".stepahead/store.json"
	agentsDir    = ".stepahead/agents"
	downDir      = ".stepahead/down"
	replicaDir   = ".stepahead/replicas"
	sidecarDir   = ".stepahead/replication"
)

const (
	defaultBlockSize   = 128 << 20 // HDFS's own default
	defaultReplication = 3
	minBlockSize       = 1 << 10 // smaller ones would make Locate's answer larger than the file
	maxNodes           = 4096
	maxTopologyBytes   = 1 << 20
)

// Node is a simulated storage node.
type Node struct {
	// Name and Rack: letters, digits, '.', '_', '-'; a rack may hold slashes. Rack's default is "/default".
	Name string `json:"name"`
	Rack string `json:"rack"`
	// LatencyUS is what each request waits first, in microseconds. Default 0.
	LatencyUS int64 `json:"latency_us"`
	// BandwidthBytesPerS is shared by all reads of this process from the node. Default 0: unlimited.
	BandwidthBytesPerS int64 `json:"bandwidth_bytes_per_s"`
	// Types are its types of storage: DISK, SSD, ARCHIVE. Default: none, and the store has no storage policies where no node has any.
	Types []string `json:"types,omitempty"`
	// FreeBytes is how much room it has, whatever is stored: of replicas that are given up those on nodes with the least go first. Default 0: what the
	// folder's file system has.
	FreeBytes int64 `json:"free_bytes,omitempty"`
}

// Topology says on which nodes the blocks of a store lie; it is the content of .stepahead/store.json.
type Topology struct {
	Nodes []Node `json:"nodes"`
	// BlockSize in bytes. Default 128 MiB.
	BlockSize int64 `json:"block_size"`
	// Replication is the number of nodes that hold each block. Default 3; nodes are the upper bound.
	Replication int `json:"replication"`
}

// plain is the topology of a folder that has no store.json.
func plain() Topology {
	return Topology{Nodes: []Node{{Name: "local", Rack: "/default"}}, BlockSize: defaultBlockSize, Replication: 1}
}

func (t Topology) withDefaults() Topology {
	if t.BlockSize == 0 {
		t.BlockSize = defaultBlockSize
	}
	if t.Replication == 0 {
		t.Replication = defaultReplication
	}
	t.Nodes = append([]Node(nil), t.Nodes...)
	for i := range t.Nodes {
		if t.Nodes[i].Rack == "" {
			t.Nodes[i].Rack = "/default"
		}
	}
	return t
}

var (
	nodeName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$`) // also a file name in down/
	rackName = regexp.MustCompile(`^/[A-Za-z0-9._/-]{0,127}$`)
)

// Validate returns all that is wrong with t, defaults filled in.
func (t Topology) Validate() error {
	t = t.withDefaults()
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(t.Nodes) == 0 || len(t.Nodes) > maxNodes {
		bad("nodes: %d given: give 1 to %d", len(t.Nodes), maxNodes)
	}
	if t.BlockSize < minBlockSize {
		bad("block_size: %d bytes: give at least %d", t.BlockSize, minBlockSize)
	}
	if t.Replication < 1 || t.Replication > math.MaxInt16 {
		bad("replication: %d: give 1 to %d", t.Replication, math.MaxInt16)
	}
	seen := map[string]bool{}
	for i, n := range t.Nodes {
		switch {
		case !nodeName.MatchString(n.Name):
			bad("nodes[%d].name: %q: use 1 to 128 letters, digits, '.', '_' and '-', not starting with '.'", i, n.Name)
		case seen[n.Name]:
			bad("nodes[%d].name: %q occurs twice", i, n.Name)
		}
		seen[n.Name] = true
		if !rackName.MatchString(n.Rack) {
			bad("nodes[%d].rack: %q: use a slash, then letters, digits, '.', '_', '-' and slashes", i, n.Rack)
		}
		if n.LatencyUS < 0 || n.BandwidthBytesPerS < 0 || n.FreeBytes < 0 {
			bad("nodes[%d]: negative latency, bandwidth or room", i)
		}
		if !slices.Equal(n.Types, slices.Compact(slices.Sorted(slices.Values(n.Types)))) || !subset(n.Types, []string{typeArchive, typeDisk, typeSSD}) {
			bad("nodes[%d].types: %q: use ARCHIVE, DISK and SSD, each at most once and in this order", i, n.Types)
		}
	}
	return errors.Join(errs...)
}

func subset(a, b []string) bool {
	return !slices.ContainsFunc(a, func(s string) bool { return !slices.Contains(b, s) })
}

// Init makes the folder root a store with the topology t, by writing its .stepahead/store.json in one
// step. Blocks are placed by the topology, so changing it moves the (simulated) blocks of existing
// files; their content is not touched.
func Init(root string, t Topology) error {
	if err := t.Validate(); err != nil {
		return fmt.Errorf("dir.Init %s: %w", root, err)
	}
	data, err := json.MarshalIndent(t.withDefaults(), "", "  ")
	if err != nil {
		return fmt.Errorf("dir.Init %s: %w", root, err)
	}
	if err := os.MkdirAll(filepath.Join(root, metaDir), 0o755); err != nil {
		return fmt.Errorf("dir.Init: %w", err)
	}
	r, err := os.OpenRoot(root)
	if err != nil {
		return fmt.Errorf("dir.Init: %w", err)
	}
	defer r.Close()
	if err := replaceFile(r, topologyFile, append(data, '\n')); err != nil {
		return fmt.Errorf("dir.Init %s: %w", root, err)
	}
	return nil
}

// parseTopology is strict: a misspelt key would silently give another topology.
func parseTopology(name string, data []byte) (Topology, error) {
	var t Topology
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&t); err != nil {
		return Topology{}, fmt.Errorf("%s: %w", name, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return Topology{}, fmt.Errorf("%s: more than one JSON value: remove what follows the first", name)
	}
	if err := t.Validate(); err != nil {
		return Topology{}, fmt.Errorf("%s: %w", name, err)
	}
	return t.withDefaults(), nil
}

// readTopology reads root's store.json. Its absence is fs.ErrNotExist.
func readTopology(root tree) (Topology, error) {
	name := filepath.Join(root.Name(), topologyFile)
	f, _, err := openRegular(root, topologyFile)
	if err != nil {
		return Topology{}, fmt.Errorf("%s: %w", name, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxTopologyBytes+1))
	if err != nil {
		return Topology{}, err
	}
	if len(data) > maxTopologyBytes {
		return Topology{}, fmt.Errorf("%s: larger than %d bytes", name, maxTopologyBytes)
	}
	return parseTopology(name, data)
}
