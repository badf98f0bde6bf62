package tar

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/foreign"
	"github.com/stepahead-io/stepahead/internal/testdata"
)

// memory is a File that counts what is read of it.
type memory struct {
	io.ReaderAt
	size, read int64
}

func fileOf(b []byte) *memory { return &memory{ReaderAt: bytes.NewReader(b), size: int64(len(b))} }

func (m *memory) Size() int64 { return m.size }

func (m *memory) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off+int64(len(p)) > m.size {
		return 0, fmt.Errorf("%d bytes at %d of %d: outside the file", len(p), off, m.size)
	}
	m.read += int64(len(p))
	n, err := m.ReaderAt.ReadAt(p, off)
	if n == len(p) {
		err = nil
	}
	return n, err
}

// list is a Sink: a line for each part, as webdataset.tsv has it.
type list struct {
	f        foreign.File
	lines    []string
	scalars  []binfmt.Value
	parts    []foreign.Part
	warnings []string
}

func (l *list) Row(r foreign.Row) error {
	for _, p := range r.Parts {
		data := make([]byte, p.Len)
		if _, err := l.f.ReadAt(data, p.Off); err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		l.lines = append(l.lines, strings.Join([]string{r.Key, p.Field, fmt.Sprint(p.Len), hex.EncodeToString(sum[:])}, "\t"))
		l.parts = append(l.parts, p)
		if v, ok := r.Scalars[p.Field]; ok {
			l.scalars = append(l.scalars, v)
		}
	}
	return nil
}

func (l *list) Warn(format string, args ...any) {
	l.warnings = append(l.warnings, fmt.Sprintf(format, args...))
}

func rows(f foreign.File, policy foreign.Policy) (*list, error) {
	l := &list{f: f}
	return l, New(policy).Rows(context.Background(), foreign.Source{}, foreign.Shard{}, f, l)
}

// golden is what WebDataset reads: lines by file; the last is "error" or "huge" where it fails or was not asked.
func golden(t *testing.T) map[string][]string {
	f, err := os.Open("testdata/webdataset.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := make(map[string][]string)
	for in := bufio.NewScanner(f); in.Scan(); {
		cells := strings.Split(in.Text(), "\t")
		line := strings.Join(cells[1:], "\t")
		if len(cells) == 5 {
			cells[2] = foreign.FieldName(cells[2])
			line = strings.Join(cells[1:], "\t")
		}
		want[cells[0]] = append(want[cells[0]], line)
	}
	return want
}

// refused are files that WebDataset reads and that have no bytes to point at, or are damaged in ways that it does
// not see; each with a word of our reason.
var refused = map[string]string{
	".tar.Z": "compressed", ".tgz": "compressed", "sparse": "sparse", "gnu-incremental.tar": "sparse", "writer-big.tar": "was cut",
	"pax-bad-hdr-file.tar": "newline", "pax-nul-path.tar": "zero byte",
}

// silentEnds are files whose reading by WebDataset ends early without an error, which is one in strict mode.
var silentEnds = map[string]string{
	"odd/cut-header.tar": "the file is cut", "odd/damaged.tar": "the checksum", "odd/two.tar": "second archive", "odd/apart.tar": "side by side",
	"tar/libarchive/test_read_format_tar_concatenated.tar": "second archive",
	"tar/libarchive/test_compat_plexus_archiver_tar.tar":   "bytes that are not zero follow",
}

// TestAsWebDataset: every sample of every file, byte for byte as WebDataset reads it.
func TestAsWebDataset(t *testing.T) {
	root := filepath.Dir(testdata.Path(t, "tar"))
	files := 0
	for name, want := range golden(t) {
		path := filepath.Join(root, name)
		if strings.HasPrefix(name, "odd/") {
			path = filepath.Join("testdata", name)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files++
		checkAsPeer(t, name, data, want)
		checkStrict(t, name, data, want)
	}
	if files < 80 {
		t.Errorf("only %d files", files)
	}
}

func refusal(name string) string {
	for _, part := range slices.Sorted(maps.Keys(refused)) { // a sparse archive that is compressed is refused for that
		if strings.Contains(name, part) {
			return refused[part]
		}
	}
	return ""
}

func checkAsPeer(t *testing.T, name string, data []byte, want []string) {
	got, err := rows(fileOf(data), foreign.AsPeer)
	if why := refusal(name); why != "" {
		if err == nil || !errors.Is(err, foreign.ErrContainer) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want a refusal with %q", name, err, why)
		}
		return
	}
	failed := strings.HasPrefix(want[len(want)-1], "error")
	if failed != (err != nil) {
		t.Errorf("%s: %v, WebDataset: %v", name, err, want[len(want)-1])
	}
	if failed {
		return
	}
	if want[0] == "none" {
		want = nil
	}
	if strings.Join(got.lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s:\ngot\n%s\nWebDataset\n%s", name, strings.Join(got.lines, "\n"), strings.Join(want, "\n"))
	}
}

func checkStrict(t *testing.T, name string, data []byte, want []string) {
	got, err := rows(fileOf(data), foreign.Strict)
	if why := silentEnds[name]; why != "" {
		if err == nil || !strings.Contains(err.Error(), why) || !errors.Is(err, foreign.ErrContainer) {
			t.Errorf("%s, strict: %v, want %q", name, err, why)
		}
		return
	}
	if err != nil {
		if !errors.Is(err, foreign.ErrContainer) {
			t.Errorf("%s, strict: an error of no class: %v", name, err)
		}
		if want[0] != "none" && refusal(name) == "" && !strings.HasPrefix(want[len(want)-1], "error") {
			t.Errorf("%s, strict: %v", name, err)
		}
		return
	}
	if want[0] == "none" {
		want = nil
	}
	if strings.Join(got.lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s, strict:\ngot\n%s\nwant\n%s", name, strings.Join(got.lines, "\n"), strings.Join(want, "\n"))
	}
}

// TestEveryTarRow holds the archives against the table of what GNU tar and Python make of them: where both read all
// members, so do we, with the offsets, sizes and bytes of the table.
func TestEveryTarRow(t *testing.T) {
	root := filepath.Dir(testdata.Path(t, "tar"))
	table, err := os.ReadFile(filepath.Join(root, "expect-tar.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	members := tarMembers(t, root)
	for i, line := range strings.Split(strings.TrimSpace(string(table)), "\n") {
		cells := strings.Split(line, "\t")
		if i == 0 {
			continue
		}
		name := cells[0]
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		w := walker{Window: foreign.NewWindow(fileOf(data)), f: fileOf(data), policy: foreign.AsPeer, warn: func(string, ...any) {}}
		var got []string
		for {
			m, err := w.next()
			if err != nil {
				if read := strings.HasPrefix(cells[3], "ok:"); read && refusal(name) == "" && !errors.Is(err, io.EOF) {
					var quiet *silent
					if !errors.As(err, &quiet) {
						t.Errorf("%s: %v, Python reads it: %s", name, err, cells[3])
					}
				}
				break
			}
			sum := sha256.Sum256(data[m.off : m.off+m.size])
			got = append(got, fmt.Sprintf("%d %d %x", m.size, m.off, sum))
		}
		want := members[name] // of large archives the first ones
		if refusal(name) != "" || !strings.HasPrefix(cells[3], "ok:") {
			continue
		}
		for i := range want {
			if i >= len(got) || got[i] != want[i] {
				t.Errorf("%s: member %d of %d is not %s", name, i, len(got), want[i])
				break
			}
		}
		if len(want) < 100 && len(got) != len(want) {
			t.Errorf("%s: %d members, want %d", name, len(got), len(want))
		}
	}
}

// tarMembers are size, offset and digest of the members that are files, by archive.
func tarMembers(t *testing.T, root string) map[string][]string {
	table, err := os.ReadFile(filepath.Join(root, "expect-tar-members.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]string)
	for _, line := range strings.Split(string(table), "\n") {
		cells := strings.Split(line, "\t")
		if len(cells) < 7 || cells[2] != "0" && cells[2] != "7" && cells[2] != `\x00` && cells[2] != `\0` {
			continue
		}
		all[cells[0]] = append(all[cells[0]], cells[3]+" "+cells[4]+" "+cells[6])
	}
	return all
}

// TestCuts: a shard cut anywhere, and one with any byte of its headers changed, is an error or gives samples that
// are those of the whole shard, never others, and never a panic.
func TestCuts(t *testing.T) {
	data, err := os.ReadFile("testdata/odd/global.tar")
	if err != nil {
		t.Fatal(err)
	}
	whole, err := rows(fileOf(data), foreign.Strict)
	if err != nil {
		t.Fatal(err)
	}
	for end := range 9 * block {
		got, err := rows(fileOf(data[:end]), foreign.Strict)
		if err == nil && len(got.lines) < len(whole.lines) && len(got.warnings) == 0 {
			t.Fatalf("cut at %d: %d parts and no word", end, len(got.lines))
		}
		for i, line := range got.lines {
			if line != whole.lines[i] {
				t.Fatalf("cut at %d: part %d is %s, want %s", end, i, line, whole.lines[i])
			}
		}
	}
	for at := range 9 * block {
		changed := bytes.Clone(data)
		changed[at] ^= 0x40
		if _, err := rows(fileOf(changed), foreign.Strict); err != nil && !errors.Is(err, foreign.ErrContainer) {
			t.Fatalf("byte %d changed: an error of no class: %v", at, err)
		}
	}
}

func FuzzRows(f *testing.F) {
	names, err := filepath.Glob("testdata/odd/*.tar")
	if err != nil || len(names) == 0 {
		f.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, policy := range []foreign.Policy{foreign.Strict, foreign.AsPeer} {
			got, err := rows(fileOf(data), policy)
			if err != nil && !errors.Is(err, foreign.ErrContainer) {
				t.Fatalf("an error of no class: %v", err)
			}
			for _, p := range got.parts {
				if p.Off < block || p.Len < 0 || p.Off+p.Len > int64(len(data)) || p.Field == "" {
					t.Fatalf("a part outside the file: %+v of %d bytes", p, len(data))
				}
			}
		}
	})
}
