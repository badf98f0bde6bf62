package dir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
)

func TestInitWritesWhatOpenReads(t *testing.T) {
	root := filepath.Join(t.TempDir(), "new", "root")
	want := Topology{
		Nodes: []Node{{Name: "dn1", Rack: "/r/1", LatencyUS: 200, BandwidthBytesPerS: 1e8}, {Name: "dn2"}}, BlockSize: 1 << 20,
	}
	for range 2 { // again over the first
		if err := Init(root, want); err != nil {
			t.Fatal(err)
		}
	}
	s, _, err := Open(root, Options{Node: "dn2"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	want.Replication, want.Nodes[1].Rack = 3, "/default"
	if got := s.Topology(); !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	entries, _ := os.ReadDir(filepath.Join(root, metaDir))
	if len(entries) != 1 {
		t.Fatalf("Init left %v behind", entries)
	}
}

func TestTopologyRefused(t *testing.T) {
	good := `{"nodes":[{"name":"a","rack":"/r","latency_us":0,"bandwidth_bytes_per_s":0}],"block_size":65536,"replication":1}`
	if _, err := parseTopology("store.json", []byte(good)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ from, to, says string }{
		"empty":              {good, ``, "EOF"},
		"cut":                {`:1}`, ``, "EOF"},
		"second value":       {`:1}`, `:1}{}`, "more than one"},
		"unknown key":        {`"block_size"`, `"blocksize"`, "blocksize"},
		"no nodes":           {`[{"name":"a","rack":"/r","latency_us":0,"bandwidth_bytes_per_s":0}]`, `[]`, "nodes"},
		"name of a path":     {`"a"`, `"../a"`, "nodes[0].name"},
		"hidden name":        {`"a"`, `".a"`, "nodes[0].name"},
		"rack without slash": {`"/r"`, `"r"`, "nodes[0].rack"},
		"negative latency":   {`"latency_us":0`, `"latency_us":-1`, "negative"},
		"tiny blocks":        {`65536`, `1`, "block_size"},
		"negative blocks":    {`65536`, `-65536`, "block_size"},
		"replication":        {`"replication":1`, `"replication":-1`, "replication"},
		"huge number":        {`65536`, `1e300`, "block_size"},
		"twice": {`[{`, `[{"name":"a"},{`,
			"twice"},
	} {
		text := strings.Replace(good, c.from, c.to, 1)
		_, err := parseTopology("/x/store.json", []byte(text))
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "/x/store.json") {
			t.Errorf("%s: error %v, want one that names the file and %q", name, err, c.says)
		}
	}
}

func TestOpenRefusesABrokenTopology(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, metaDir), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "{}", "null", strings.Repeat(" ", maxTopologyBytes+1)} {
		if err := os.WriteFile(filepath.Join(root, topologyFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if s, _, err := Open(root, Options{}); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("store.json %.10q: %v, %v", text, s, err)
		}
	}
	for what, put := range map[string]func() error{
		"a pipe, whose opening would wait": func() error { return syscall.Mkfifo(filepath.Join(root, topologyFile), 0o600) },
		"a folder":                         func() error { return os.Mkdir(filepath.Join(root, topologyFile), 0o700) },
	} {
		if err := errors.Join(os.RemoveAll(filepath.Join(root, topologyFile)), put()); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Open(root, Options{}); err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), topologyFile) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := Init(root, Topology{}); err == nil {
		t.Error("Init took a topology without nodes")
	}
}

func FuzzTopology(f *testing.F) {
	f.Add([]byte(`{"nodes":[{"name":"a","rack":"/r","latency_us":5,"bandwidth_bytes_per_s":7}],"block_size":65536,"replication":2}`))
	f.Add([]byte(`{"nodes":[{"name":"a"},{"name":"b"}]}`))
	f.Add([]byte(`{"nodes":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		topology, err := parseTopology("store.json", data)
		if err != nil {
			return
		}
		if err := topology.Validate(); err != nil {
			t.Fatalf("accepted, and not valid: %v", err)
		}
		l := newLayout(topology)
		if n := len(l.holders("/f", 0, topology.Replication)); n < 1 || n > len(topology.Nodes) {
			t.Fatalf("%d holders", n)
		}
	})
}
