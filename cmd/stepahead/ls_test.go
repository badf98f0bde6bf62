package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/store"
)

func TestLs(t *testing.T) {
	root, _ := cluster(t)
	odd := "two\nlines"
	must(t, os.WriteFile(filepath.Join(root, odd), []byte("1"), 0o644))
	must(t, os.WriteFile(filepath.Join(root, "bad\xff"), []byte("22"), 0o644))
	must(t, os.Chtimes(filepath.Join(root, "d", "f"), time.Time{}, time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)))
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{root}, "\"bad\\xff\"\nd/\n\"two\\nlines\"\n"},
		{[]string{filepath.Join(root, "d")}, "empty\nf\n"},
		{[]string{filepath.Join(root, "d", "f")}, "f\n"},
	} {
		if code, out, errOut := command(t, append([]string{"ls"}, row.args...)...); code != exit.OK || out != row.want || errOut != "" {
			t.Errorf("ls %v: exit %d\n%s%swant\n%s", row.args, code, out, errOut, row.want)
		}
	}
	code, out, _ := command(t, "ls", "-l", "--locations", filepath.Join(root, "d", "f"))
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if words := strings.Fields(lines[0]); code != exit.OK || !slices.Equal(words[:2], []string{"-", "2"}) ||
		!slices.Equal(words[3:], []string{"3000", "2026-01-02T03:04:05Z", "f"}) {
		t.Errorf("ls -l: exit %d, %s", code, lines[0])
	}
	if len(lines) != 4 || !strings.HasPrefix(lines[1], "    0+1024  dn") || !strings.HasPrefix(lines[3], "    2048+952  dn") ||
		strings.Count(lines[1], " /r") != 2 {
		t.Errorf("--locations:\n%s", out)
	}
	if code, out, _ := command(t, "ls", "-l", root); code != exit.OK || !strings.Contains(out, " d/\n") || strings.Contains(out, "/r1") {
		t.Errorf("ls -l of a folder: exit %d\n%s", code, out)
	}
}

func TestLsJSON(t *testing.T) {
	root, content := cluster(t)
	must(t, os.WriteFile(filepath.Join(root, "d", "two\nlines"), []byte("1"), 0o644))
	must(t, os.WriteFile(filepath.Join(root, "d", "bad\xff"), nil, 0o644))
	code, out, errOut := command(t, "ls", "--json", "--locations", filepath.Join(root, "d"))
	if code != exit.OK || errOut != "" {
		t.Fatalf("exit %d: %s", code, errOut)
	}
	found := map[string]listed{}
	for _, line := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
		var l listed
		must(t, json.Unmarshal([]byte(line), &l))
		found[l.Name] = l
	}
	if len(found) != 4 || found["two\nlines"].Size != 1 || found["bad\ufffd"].NameHex != "626164ff" {
		t.Errorf("%+v", found)
	}
	f := found["f"]
	if f.Replicas != 2 || f.Size != 3000 || f.Identity == "" || f.Dir || len(f.Blocks) != 3 || f.Blocks[2].Len != 952 || len(f.Blocks[0].Replicas) != 2 ||
		!strings.HasPrefix(f.Blocks[0].Replicas[0].Rack, "/r") {
		t.Errorf("%+v", f)
	}
	if found["empty"].Blocks != nil {
		t.Errorf("an empty file has blocks: %+v", found["empty"])
	}
	if _, out, _ := command(t, "cat", f.URL); out != string(content) { // what ls names, cat reads
		t.Errorf("cat %s: %d bytes", f.URL, len(out))
	}
}

// TestLsOddTimes: a time that no JSON library takes is printed all the same.
func TestLsOddTimes(t *testing.T) {
	for at, want := range map[time.Time]string{
		time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC): `"2026-01-02T03:04:05.0000006Z"`,
		time.UnixMilli(1 << 49).UTC():                 `"19809-03-05T11:03:41.312Z"`,
	} {
		if got, err := json.Marshal(stamp{at}); err != nil || string(got) != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
}

// lost is a store that finds a file no more when it is asked where it lies.
type lost struct {
	store.Store
	name string
}

func (l lost) Locate(ctx context.Context, name string, off, n int64) ([]store.Replica, error) {
	if name == l.name {
		return nil, store.ErrUnavailable
	}
	return l.Store.Locate(ctx, name, off, n)
}

// TestLsPrintsAsItGoes: what is known is not kept until all is.
func TestLsPrintsAsItGoes(t *testing.T) {
	root, _ := cluster(t)
	p, err := openPlace(t.Context(), filepath.Join(root, "d"))
	must(t, err)
	defer p.Close()
	infos, err := list(t.Context(), p)
	must(t, err)
	p.Store = lost{p.Store, infos[1].Name}
	var out strings.Builder
	err = lsFlags{locations: true}.print(t.Context(), p, infos, &out)
	if !errors.Is(err, store.ErrUnavailable) || out.String() != "empty\n" {
		t.Errorf("%v, after %q", err, out.String())
	}
}

func TestLsExitCodes(t *testing.T) {
	root, _ := cluster(t)
	if code, out, errOut := command(t, "ls", filepath.Join(root, "gone")); code != exit.Environment || out != "" || !strings.Contains(errOut, "/gone") {
		t.Errorf("missing: exit %d, %q, %s", code, out, errOut)
	}
	if code, _, _ := command(t, "ls"); code != exit.Misused {
		t.Errorf("no argument: exit %d", code)
	}
	empty := t.TempDir()
	if code, out, errOut := command(t, "ls", empty); code != exit.OK || out != "" || errOut != "" {
		t.Errorf("an empty folder: exit %d, %q, %s", code, out, errOut)
	}
}
