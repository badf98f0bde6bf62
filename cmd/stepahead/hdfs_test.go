package main

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/internal/hdfstest"
)

// TestHDFS: the commands on a real HDFS, as scripts use them.
func TestHDFS(t *testing.T) {
	c := hdfstest.Start(t, hdfstest.Options{})
	for _, name := range []string{"HADOOP_CONF_DIR", "HADOOP_USER_NAME"} {
		t.Setenv(name, c.Getenv(name))
	}
	root := c.URL() + c.Dir(t)
	t.Run("datasets", func(t *testing.T) { testHDFSDatasets(t, root) })
	t.Run("indexed", func(t *testing.T) { testHDFSIndexed(t, c, root) })
	t.Run("files", func(t *testing.T) { testHDFSFiles(t, c, root) })
	t.Run("checkpoints", func(t *testing.T) { testHDFSCheckpoints(t, c, root) })
	t.Run("refused", func(t *testing.T) { testHDFSRefused(t, c, root) })
}

// testHDFSDatasets: a dataset in HDFS, packed from this machine and from HDFS, is the one that a folder gets.
func testHDFSDatasets(t *testing.T, root string) {
	source, local := gifs(t, 70), filepath.Join(t.TempDir(), "set")
	identity := func(set string) string {
		t.Helper()
		code, out, errOut := command(t, "inspect", set, "--json", "--cache", t.TempDir())
		var summary struct{ Identity string }
		if err := json.Unmarshal([]byte(out), &summary); code != 0 || err != nil {
			t.Fatalf("inspect %s: %d, %v, %s", set, code, err, errOut)
		}
		return summary.Identity
	}
	remote := root + "/sets/a b"
	for _, args := range [][]string{
		{"pack", source, "-o", local, "--block-size", "1MiB"},
		{"pack", source, "-o", remote},
		{"verify", remote},
		{"order", remote, "--batch", "4"},
	} {
		if code, out, errOut := command(t, args...); code != 0 {
			t.Fatalf("%v: %d, %s%s", args, code, out, errOut)
		}
	}
	if a, b := identity(local), identity(remote); a != b {
		t.Errorf("the dataset in a folder is %s, in HDFS %s", a, b)
	}
	if code, out, _ := command(t, "pack", source, "-o", remote); code != 0 || !strings.Contains(out, "already packed") {
		t.Errorf("packed again: %d, %s", code, out)
	}
	if code, out, _ := command(t, "ls", remote); code != 0 || strings.Contains(out, "stepahead") || strings.Count(out, "\n") != 3 {
		t.Errorf("a packed dataset: %d\n%s", code, out)
	}
	if code, _, errOut := command(t, "pack", root+"/sets", "-o", root+"/sets/b"); code != exit.Found || !strings.Contains(errOut, "inside the source") {
		t.Errorf("packed into its source: %d, %s", code, errOut)
	}
}

// testHDFSCheckpoints: a checkpoint in HDFS has the digest that it has in a folder, and one that is overwritten is another version.
func testHDFSCheckpoints(t *testing.T, c *hdfstest.Cluster, root string) {
	local := checkpoints(t)
	folder := strings.TrimPrefix(root, c.URL()) + "/runs"
	for _, name := range []string{"step-1/model.safetensors", "step-2/__0_0.distcp", "logs/log"} {
		data, err := os.ReadFile(filepath.Join(local, name))
		must(t, err)
		c.Put(folder+"/"+name, data, 2, 1<<20)
	}
	code, out, errOut := command(t, "checkpoint", "ls", root+"/runs")
	lines := strings.Split(out, "\n")
	if code != exit.OK || len(lines) != 4 || !strings.Contains(lines[1], "incomplete (metadata-missing)") || !strings.Contains(lines[2], "safetensors  complete") {
		t.Errorf("%d: %s\n%s", code, errOut, out)
	}
	digest := func(url string) string {
		t.Helper()
		code, out, errOut := command(t, "checkpoint", "verify", "--json", url)
		var v verifiedCheckpoint
		if err := json.Unmarshal([]byte(out), &v); code != exit.OK || err != nil {
			t.Fatalf("%d: %v, %s", code, err, errOut)
		}
		return v.Digest
	}
	remote := root + "/runs/step-1"
	if a, b := digest(filepath.Join(local, "step-1")), digest(remote); a != b {
		t.Errorf("the digest in a folder is %s, in HDFS %s", a, b)
	}
	_, before, _ := command(t, "checkpoint", "inspect", remote)
	c.Put(folder+"/step-1/model.safetensors", safetensorsFile("w", "12345678"), 2, 1<<20)
	if _, after, _ := command(t, "checkpoint", "inspect", remote); after == before {
		t.Errorf("written again, it has the same identity:\n%s", after)
	}
	if code, out, errOut := command(t, "checkpoint", "diff", filepath.Join(local, "step-1"), remote); code != exit.OK {
		t.Errorf("%d: %s%s", code, out, errOut)
	}
}

// testHDFSIndexed: shards in HDFS become a dataset where they lie; one that is overwritten is found out.
func testHDFSIndexed(t *testing.T, c *hdfstest.Cluster, root string) {
	folder := strings.TrimPrefix(root, c.URL())
	put := func(name string, samples int) { c.Put(folder+"/shards/"+name, tarOf(t, name, samples), 2, 1<<20) }
	put("00.tar", 4)
	put("01.tar", 5)
	set := root + "/indexed/set"
	for _, args := range [][]string{
		{"index", root + "/shards/{00..01}.tar", "-o", set},
		{"index", root + "/shards/*.tar", "-o", set}, // the same
		{"verify", set},
		{"inspect", set, "--cache", t.TempDir()},
	} {
		code, out, errOut := command(t, args...)
		if code != 0 {
			t.Fatalf("%v: %d, %s%s", args, code, out, errOut)
		}
		if args[0] == "verify" && !strings.Contains(out, "9 parts without a sum") {
			t.Errorf("%v: %s", args, out)
		}
	}
	put("01.tar", 5)
	if code, out, _ := command(t, "verify", set); code != exit.Found || !strings.Contains(out, "01.tar: changed") {
		t.Errorf("a shard written again: %d, %s", code, out)
	}
}

func testHDFSFiles(t *testing.T, c *hdfstest.Cluster, root string) {
	path := strings.TrimPrefix(root, c.URL())
	data := make([]byte, 5<<20/2)
	rand.NewChaCha8([32]byte{3}).Read(data)
	name := "odd %41 \u00e9 +&?#name"
	c.Put(path+"/"+name, data, 2, 1<<20)
	for _, url := range []string{root + "/" + name, "hdfs://" + path + "/" + name} {
		if code, out, errOut := command(t, "cat", url); code != 0 || out != string(data) {
			t.Errorf("cat %s: %d, %d bytes, %s", url, code, len(out), errOut)
		}
		if code, out, errOut := command(t, "cat", url, "--range", "1048000:1000"); code != 0 || out != string(data[1048000:1049000]) {
			t.Errorf("over the border of two blocks: %d, %d bytes, %s", code, len(out), errOut)
		}
	}
	code, out, errOut := command(t, "ls", "--json", "--locations", root+"/"+name)
	var l listed
	if err := json.Unmarshal([]byte(out), &l); code != 0 || err != nil {
		t.Fatalf("ls: %d, %v, %s", code, err, errOut)
	}
	if l.Name != name || l.Replicas != 2 || l.Owner != hdfstest.User || l.Size != int64(len(data)) || len(l.Blocks) != 3 || l.Blocks[2].Len != 1<<19 {
		t.Errorf("%+v", l)
	}
	nodes := c.DataNodes()
	for _, b := range l.Blocks {
		if len(b.Replicas) != 2 {
			t.Errorf("%+v", b)
		}
		for _, r := range b.Replicas {
			if r.Storage != "DISK" || !slices.ContainsFunc(nodes, func(n hdfstest.DataNode) bool {
				return n.UUID == r.Node && n.Rack == r.Rack && (n.Addr == r.Addr || strings.HasPrefix(r.Addr, n.Host))
			}) {
				t.Errorf("no such node: %+v", r)
			}
		}
	}
	tokens := filepath.Join(t.TempDir(), "tokens") // as launchers make one, also where there is no security
	must(t, os.WriteFile(tokens, []byte("HDTS\x00\x00\x00"), 0o600))
	t.Setenv("HADOOP_TOKEN_FILE_LOCATION", tokens)
	if code, out, _ := command(t, "ls", "-l", "--locations", root); code != 0 || !strings.Contains(out, "DISK") || !strings.Contains(out, "/rack") {
		t.Errorf("ls -l --locations: %d\n%s", code, out)
	}
}

// testHDFSRefused: what cannot be read says why, and scripts can tell the kinds apart.
func testHDFSRefused(t *testing.T, c *hdfstest.Cluster, root string) {
	path := strings.TrimPrefix(root, c.URL())
	c.Put(path+"/bad", make([]byte, 300<<10), 3, 1<<20)
	for dn := range c.DataNodes() {
		c.Corrupt(path+"/bad", 0, dn, hdfstest.FlipData)
	}
	c.Mkdir(path + "/closed")
	c.Chmod(path+"/closed", hdfstest.Superuser, 0o700)
	for name, row := range map[string]struct {
		args []string
		code int
		want string
	}{
		"missing":          {[]string{"cat", root + "/none"}, exit.Environment, "/none"},
		"a folder":         {[]string{"cat", root}, exit.Misused, "stepahead ls"},
		"range":            {[]string{"cat", root + "/bad", "--range", "307200:1"}, exit.Misused, "307200 bytes"},
		"corrupt":          {[]string{"cat", root + "/bad"}, exit.Found, "/bad"},
		"closed":           {[]string{"ls", root + "/closed"}, exit.Environment, "ermission"},
		"not to be made":   {[]string{"pack", gifs(t, 2), "-o", root + "/closed/set"}, exit.Environment, "ermission"},
		"a colon":          {[]string{"ls", root + "/a:b"}, exit.Environment, "':'"},
		"no NameNode":      {[]string{"ls", "hdfs://127.0.0.1:1/"}, exit.Environment, "127.0.0.1:1"},
		"no such service":  {[]string{"ls", "hdfs://prod.invalid/"}, exit.Environment, "prod.invalid"},
		"no dataset there": {[]string{"verify", root}, exit.Environment, "dataset.json"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := command(t, row.args...)
			if code != row.code || !strings.Contains(errOut, row.want) {
				t.Errorf("exit %d, want %d; %q is to be in %q; printed %d bytes", code, row.code, row.want, errOut, len(out))
			}
		})
	}
	if err := os.Unsetenv("HADOOP_CONF_DIR"); err != nil {
		t.Fatal(err)
	}
	if code, _, errOut := command(t, "ls", "hdfs:///"); code != exit.Environment || !strings.Contains(errOut, "HADOOP_CONF_DIR") {
		t.Errorf("without configuration: exit %d, %s", code, errOut)
	}
}

// TestHDFSSecured: the same on a cluster with Kerberos and two NameNodes, of which one takes over between two commands.
func TestHDFSSecured(t *testing.T) {
	c := hdfstest.Start(t, hdfstest.Options{Kerberos: "integrity", NameNodes: 2, DataNodes: 1})
	for _, name := range []string{"HADOOP_CONF_DIR", "KRB5_CONFIG"} {
		t.Setenv(name, c.Getenv(name))
	}
	t.Setenv("KRB5_CLIENT_KTNAME", c.Keytab(hdfstest.User))
	set := c.URL() + c.Dir(t) + "/set"
	if code, _, errOut := command(t, "pack", gifs(t, 3), "-o", set); code != 0 {
		t.Fatalf("pack: %d, %s", code, errOut)
	}
	c.Failover(1)
	if code, out, errOut := command(t, "verify", set); code != 0 {
		t.Errorf("verify: %d, %s%s", code, out, errOut)
	}
	code, out, errOut := command(t, "ls", "-l", "--locations", set+"/dataset.json")
	if code != 0 || !strings.Contains(out, c.DataNodes()[0].Addr+" /rack0 DISK") {
		t.Errorf("ls: %d, %s%s", code, out, errOut)
	}
	if code, out, errOut := command(t, "cat", set+"/dataset.json", "--range", "0:1"); code != 0 || out != "{" {
		t.Errorf("cat: %d, %q, %s", code, out, errOut)
	}
	c.Chmod(strings.TrimPrefix(set, c.URL()), hdfstest.User, 0o700)
	t.Setenv("KRB5_CLIENT_KTNAME", c.Keytab(hdfstest.Intruder))
	if code, _, errOut := command(t, "cat", set+"/dataset.json"); code != exit.Environment || !strings.Contains(errOut, "user="+hdfstest.Intruder) {
		t.Errorf("another user: %d, %s", code, errOut)
	}
}
