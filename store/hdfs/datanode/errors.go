package datanode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// The kinds of failure: what a caller does next depends on them. Each wraps the sentinel of store that fits where nobody
// knows better. The end of the caller's context is none of them: it matches ctx.Err().
var (
	// ErrChecksum: the replica's bytes do not match its checksums. Another replica may be right; this one is to be reported.
	ErrChecksum = kind("checksum does not match", store.ErrCorrupt)
	// ErrUnverified: the replica has no checksums, and Block.AcceptUnverified is not set.
	ErrUnverified = kind("the replica has no checksums", store.ErrUnavailable)
	// ErrToken: the block token is refused, mostly because it expired. The node is not to blame.
	ErrToken = kind("block token refused", store.ErrUnavailable)
	// ErrKey: the data encryption key is not known to the node, and neither was the one fetched after it.
	ErrKey = kind("data encryption key refused", store.ErrUnavailable)
	// ErrProtection: how the cluster wants connections protected, or the key for it, cannot be had. No node is to blame.
	ErrProtection = errors.New("how to connect is not known")
	// ErrRestarting: the node says that it restarts. It means to be back soon, with what it has of the block.
	ErrRestarting = kind("the node restarts", store.ErrUnavailable)
	// ErrMissing: the node does not have this replica, or has an older version of it.
	ErrMissing = kind("the node has no such replica", store.ErrUnavailable)
	// ErrLength: the range is not inside the replica as the node knows it.
	ErrLength = kind("range outside the replica", store.ErrUnavailable)
	// ErrRefused: the node answered with an error that is none of the above; its text is kept.
	ErrRefused = kind("the node refused", store.ErrUnavailable)
	// ErrConnect: no connection, or the handshake came to no result.
	ErrConnect = kind("cannot connect", store.ErrUnavailable)
	// ErrBroken: the connection ended, was reset or stood still while an answer was due.
	ErrBroken = kind("connection broke", store.ErrUnavailable)
	// ErrProtocol: the node sent what the protocol does not allow.
	ErrProtocol = kind("protocol violated", store.ErrUnavailable)
	// ErrClosed: the Pool is closed.
	ErrClosed = errors.New("datanode: the pool is closed")
)

func kind(text string, class error) error { return &kindError{text, class} }

// kindError is a sentinel that has a class of store.
type kindError struct {
	text  string
	class error
}

func (e *kindError) Error() string { return e.text }
func (e *kindError) Unwrap() error { return e.class }

// NodeError says what failed at which node. It matches one of the kinds.
type NodeError struct {
	Node  Node
	Block string
	Op    string
	Err   error
}

func (e *NodeError) Error() string {
	return fmt.Sprintf("datanode.%s %s at %s: %v", e.Op, e.Block, e.Node, e.Err)
}

func (e *NodeError) Unwrap() error { return e.Err }

func violation(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}

// broken turns an error of the connection into ErrBroken, unless it has a kind already. The end of ctx closes the
// connection, so it is the cause of whatever the connection says after it.
func broken(ctx context.Context, doing string, err error) error {
	if cause := ctx.Err(); cause != nil {
		return fmt.Errorf("%s: %w", doing, cause)
	}
	if errors.Is(err, ErrProtocol) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w, %s: %w", ErrBroken, doing, err)
}

// lost tells whether err is what a connection gives whose other end closed it while it lay idle.
func lost(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// refusal turns an answer other than SUCCESS into an error. Hadoop says in the text, not in the status, what is wrong:
// "opReadBlock <block> received exception <class>: <message>".
func refusal(status hproto.BlockOpResponse_Status, text string) error {
	said := fmt.Sprintf("%v: %s", status, brief(text))
	if status == hproto.BlockOpResponse_ERROR_ACCESS_TOKEN {
		return fmt.Errorf("%w: %s", ErrToken, said)
	}
	for _, row := range refusals {
		if strings.Contains(text, row.text) {
			return fmt.Errorf("%w: %s", row.kind, said)
		}
	}
	return fmt.Errorf("%w: %s", ErrRefused, said)
}

// refusals is searched from the top.
var refusals = []struct {
	text string
	kind error
}{
	{"InvalidToken", ErrToken},
	{"don't match block", ErrLength},
	{"ReplicaNotFoundException", ErrMissing},
	{"FileNotFoundException", ErrMissing},
	{"Replica gen stamp < block genstamp", ErrMissing},
	{"Replica is not readable", ErrMissing},
	{"is not valid", ErrMissing},
	{"Replica does not exist", ErrMissing},
	{"Replica not found", ErrMissing},
}

// brief keeps a DataNode's text to one line that fits a log.
func brief(text string) string {
	const most = 400
	text, _, _ = strings.Cut(text, "\n")
	if len(text) > most {
		text = text[:most] + "..."
	}
	return strings.ToValidUTF8(text, "?")
}
