package hdfs

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"syscall"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

// tooFewNodes is what the NameNode says where a block finds no DataNodes; the group is how many there are.
var tooFewNodes = regexp.MustCompile(`could only be written to \d+ of the .* There are (\d+) datanode`)

// writeError gives what a NameNode says to a call that starts or goes on with a file its meaning.
func writeError(err error) error {
	var remote *namenode.RemoteError
	if !errors.As(err, &remote) {
		return err
	}
	if m := tooFewNodes.FindStringSubmatch(remote.Message); m != nil {
		if m[1] == "0" {
			return fmt.Errorf("%w: no DataNode is there: %w", store.ErrUnavailable, err)
		}
		return fmt.Errorf("%w: no DataNode takes a block, most likely for want of room: %w", syscall.ENOSPC, err)
	}
	if strings.HasSuffix(remote.Class, ".UnknownCryptoProtocolVersionException") {
		return fmt.Errorf("%w: the folder lies in an encryption zone: write to another: %w", errors.ErrUnsupported, err)
	}
	return err
}
