package execute

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/stepahead-io/stepahead/internal/localfile"
)

const (
	nameSuffix  = ".name"
	maxNameFile = 1 << 10 // bytes
)

// Name returns the name of the controller whose journal is a file: a random one that lies beside it, and tells what it made from what others did. A journal in which
// no placement was ever begun gets a new one, so that a number with a name stays unique when a journal is lost.
func Name(j Journal, file string) (string, error) {
	last, err := j.LastPlacement()
	if err != nil {
		return "", fmt.Errorf("execute.Name: %w", err)
	}
	if last > 0 {
		b, err := localfile.Read(file+nameSuffix, maxNameFile)
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
	if err := localfile.Write(file+nameSuffix, []byte(name+"\n")); err != nil {
		return "", fmt.Errorf("execute.Name: %w", err)
	}
	return name, nil
}

func isName(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 8
}
