package execute

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const nameSuffix = ".name"

// Name returns the name of the controller whose journal is a file: a random one that lies beside it, and tells what it made from what others did. A journal in which
// no placement was ever begun gets a new one, so that a number with a name stays unique when a journal is lost.
func Name(j Journal, file string) (string, error) {
	last, err := j.LastPlacement()
	if err != nil {
		return "", fmt.Errorf("execute.Name: %w", err)
	}
	if last > 0 {
		b, err := os.ReadFile(file + nameSuffix)
		if name := strings.TrimSpace(string(b)); err == nil && isName(name) {
			return name, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("execute.Name: %w", err)
		}
	}
	b := make([]byte, 8)
	_, _ = rand.Read(b) // it does not fail
	name := hex.EncodeToString(b)
	if err := writeDurably(file+nameSuffix, name+"\n"); err != nil {
		return "", fmt.Errorf("execute.Name: %w", err)
	}
	return name, nil
}

func isName(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 8
}

// writeDurably gives a file its content in one step.
func writeDurably(name, content string) error {
	f, err := os.OpenFile(name+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(name+".new", name); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
