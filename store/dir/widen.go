package dir

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/stepahead-io/stepahead/store"
)

// rootFile, in a folder, holds the way from there to the root that Open takes, such as "../..".
const rootFile = ".stepahead/root"

// Widen makes Open take, for a folder and all below it, a root that holds the other paths too: the nearest folder
// above all of them. It is for folders that name files outside of themselves; it makes the folder and writes one
// small file into it. A folder inside a store that has a store.json or agents keeps that root, and other paths
// outside of it are ErrName.
func Widen(folder string, others ...string) error {
	folder, err := localPath(folder)
	if err != nil {
		return fmt.Errorf("dir.Widen: %w", err)
	}
	root := folder
	for _, o := range others {
		o, err := localPath(o)
		if err != nil {
			return fmt.Errorf("dir.Widen: %w", err)
		}
		for !holds(root, o) {
			root = filepath.Dir(root)
		}
	}
	if fixed, ok := marked(folder); ok && !holds(fixed, root) {
		return fmt.Errorf("dir.Widen %s: the store is the folder %s, and not all of %s is in it: %w", folder, fixed, strings.Join(others, ", "), store.ErrName)
	} else if ok {
		return nil
	}
	if was, ok := widened(folder); ok && holds(was, root) || root == folder {
		return nil
	}
	way, err := filepath.Rel(folder, root)
	if err != nil {
		return fmt.Errorf("dir.Widen: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(folder, filepath.Dir(rootFile)), 0o777); err != nil {
		return fmt.Errorf("dir.Widen: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, rootFile), []byte(way+"\n"), 0o666); err != nil {
		return fmt.Errorf("dir.Widen: %w", err)
	}
	return nil
}

// holds tells whether a path is a folder or below it.
func holds(folder, p string) bool {
	rel, err := filepath.Rel(folder, p)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// way is what a rootFile may hold, in at most maxRootFile bytes.
var way = regexp.MustCompile(`^\.\.(/\.\.)*\n?$`)

const maxRootFile = 1 << 10

// widened returns the root that Widen wrote for a path.
func widened(abs string) (root string, ok bool) {
	for p := abs; ; p = filepath.Dir(p) {
		if text := readRoot(p); way.Match(text) {
			return filepath.Join(p, strings.TrimSpace(string(text))), true
		}
		if p == filepath.Dir(p) {
			return "", false
		}
	}
}

// readRoot returns what the rootFile in a folder holds, nothing if there is none that may be one.
func readRoot(folder string) []byte {
	f, err := os.OpenFile(filepath.Join(folder, rootFile), os.O_RDONLY|syscall.O_NONBLOCK, 0) // of a pipe nothing is waited for
	if err != nil {
		return nil
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxRootFile+1))
	if err != nil || len(text) > maxRootFile {
		return nil
	}
	return text
}
