package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/store/dir"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// cluster is a folder store of three nodes with blocks of 1 KiB, and one file of 3000 bytes and 4 replicas asked.
func cluster(t *testing.T) (root string, content []byte) {
	t.Helper()
	root = t.TempDir()
	must(t, dir.Init(root, dir.Topology{Nodes: []dir.Node{{Name: "dn1", Rack: "/r1"}, {Name: "dn2", Rack: "/r2"}, {Name: "dn3", Rack: "/r2"}}, BlockSize: 1 << 10, Replication: 2}))
	content = make([]byte, 3000)
	rand.NewChaCha8([32]byte{1}).Read(content)
	must(t, os.Mkdir(filepath.Join(root, "d"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, "d", "f"), content, 0o644))
	must(t, os.WriteFile(filepath.Join(root, "d", "empty"), nil, 0o644))
	return root, content
}

func TestCat(t *testing.T) {
	root, content := cluster(t)
	file := filepath.Join(root, "d", "f")
	for _, row := range []struct {
		args []string
		want []byte
	}{
		{[]string{file}, content},
		{[]string{"file://" + file}, content},
		{[]string{file, "--range", "0:3000"}, content},
		{[]string{file, "--range", "1000:100"}, content[1000:1100]},
		{[]string{file, "--range=1KiB:1KiB"}, content[1024:2048]},
		{[]string{file, "--range", "2999:"}, content[2999:]},
		{[]string{file, "--range", "3000:0"}, nil},
		{[]string{filepath.Join(root, "d", "empty")}, nil},
		{[]string{filepath.Join(root, "d", "empty"), "--range", "0:"}, nil},
	} {
		code, out, errOut := command(t, append([]string{"cat"}, row.args...)...)
		if code != exit.OK || out != string(row.want) || errOut != "" {
			t.Errorf("cat %v: exit %d, %d bytes, want %d; %s", row.args, code, len(out), len(row.want), errOut)
		}
	}
}

// TestCatLarge: more than all buffers hold, in order.
func TestCatLarge(t *testing.T) {
	content := make([]byte, 5*catPiece+12345)
	rand.NewChaCha8([32]byte{2}).Read(content)
	file := filepath.Join(t.TempDir(), "large")
	must(t, os.WriteFile(file, content, 0o644))
	if code, out, errOut := command(t, "cat", file); code != exit.OK || out != string(content) {
		t.Errorf("exit %d, equal: %t, %s", code, out == string(content), errOut)
	}
	full := brokenPipe{after: 2 * catPiece}
	root := newRoot()
	root.SetOut(&full)
	root.SetErr(new(bytes.Buffer))
	if code := exit.Run(context.Background(), root, []string{"cat", file}); code != exit.Environment {
		t.Errorf("a reader that goes away: exit %d", code)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	root = newRoot()
	root.SetOut(new(bytes.Buffer))
	root.SetErr(new(bytes.Buffer))
	if code := exit.Run(ended, root, []string{"cat", file}); code != exit.Environment {
		t.Errorf("interrupted: exit %d", code)
	}
}

// brokenPipe takes some bytes and then no more.
type brokenPipe struct{ after int }

func (b *brokenPipe) Write(p []byte) (int, error) {
	if b.after -= len(p); b.after < 0 {
		return 0, errors.New("broken pipe")
	}
	return len(p), nil
}

// TestCatExitCodes: scripts can tell mistakes from damage and from outages.
func TestCatExitCodes(t *testing.T) {
	root, content := cluster(t)
	file := filepath.Join(root, "d", "f")
	for name, row := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no argument":      {nil, exit.Misused, "arg"},
		"two":              {[]string{file, file}, exit.Misused, "arg"},
		"a folder":         {[]string{filepath.Join(root, "d")}, exit.Misused, "stepahead ls"},
		"missing":          {[]string{file + "x"}, exit.Environment, "/d/fx"},
		"scheme":           {[]string{"s3://b/x"}, exit.Misused, "scheme s3"},
		"no colon":         {[]string{file, "--range", "5"}, exit.Misused, "OFF:LEN"},
		"negative":         {[]string{file, "--range", "-1:5"}, exit.Misused, "OFF:LEN"},
		"words":            {[]string{file, "--range", "a:b"}, exit.Misused, "OFF:LEN"},
		"too large a size": {[]string{file, "--range", "0:9999999TiB"}, exit.Misused, "OFF:LEN"},
		"behind the end":   {[]string{file, "--range", "3001:0"}, exit.Misused, "3000 bytes"},
		"over the end":     {[]string{file, "--range", "2000:1001"}, exit.Misused, "3000 bytes"},
		"over all ends":    {[]string{file, "--range", "1:9223372036854775807"}, exit.Misused, "3000 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := command(t, append([]string{"cat"}, row.args...)...)
			if code != row.code || out != "" || !strings.Contains(errOut, row.want) {
				t.Errorf("exit %d, want %d; output %q; %q is to be in: %s", code, row.code, out, row.want, errOut)
			}
		})
	}
	for i := range 3 { // every replica cut short: damage, not an outage
		node := filepath.Join(root, ".stepahead", "replicas", fmt.Sprintf("dn%d", i+1), "d")
		must(t, os.MkdirAll(node, 0o755))
		must(t, os.WriteFile(filepath.Join(node, "f"), content[:2500], 0o644))
	}
	if code, _, errOut := command(t, "cat", file); code != exit.Found {
		t.Errorf("damaged on every replica: exit %d, %s", code, errOut)
	}
	if code, out, _ := command(t, "cat", file, "--range", "0:2048"); code != exit.OK || out != string(content[:2048]) {
		t.Errorf("what is not damaged: exit %d, %d bytes", code, len(out))
	}
}
