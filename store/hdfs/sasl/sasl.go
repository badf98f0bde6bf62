// Package sasl knows how a client of HDFS proves who it is, and how the bytes that follow are protected: the
// mechanisms DIGEST-MD5 (RFC 2831, for tokens and for the data port) and GSSAPI with Kerberos 5 (RFC 4752,
// RFC 4121). A mechanism turns messages into answers; its caller carries them. Only Kerberos does I/O of its
// own: it asks the KDC for tickets.
package sasl

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// The kinds of failure.
var (
	// ErrAuth: one side does not believe the other, or the two have no way in common. Trying again with the
	// same credentials fails again. It matches fs.ErrPermission.
	ErrAuth = fmt.Errorf("authentication failed: %w", fs.ErrPermission)
	// ErrMessage: a protected message is not what its sender wrote, or not the next one. The connection is
	// of no more use.
	ErrMessage = errors.New("a protected message is damaged, forged or out of order")
	// errOrder: a caller's mistake.
	errOrder = errors.New("called out of order")
)

// QOP is the quality of protection of a connection, as Hadoop counts it.
type QOP int

// The qualities, each better than the one before.
const (
	// Auth: both ends are known; bytes travel as they are.
	Auth QOP = iota
	// Integrity: every message carries a sum that only the two ends can make.
	Integrity
	// Privacy: messages are also encrypted.
	Privacy
)

var (
	hadoopNames = [...]string{"authentication", "integrity", "privacy"}
	digestNames = [...]string{"auth", "auth-int", "auth-conf"}
)

// String returns Hadoop's name, as hadoop.rpc.protection spells it.
func (q QOP) String() string {
	if q < Auth || q > Privacy {
		return fmt.Sprintf("QOP(%d)", int(q))
	}
	return hadoopNames[q]
}

// ParseQOPs reads the value of hadoop.rpc.protection or dfs.data.transfer.protection: names in order of
// preference, separated by commas. An empty value gives none.
func ParseQOPs(value string) ([]QOP, error) {
	var list []QOP
	for name := range strings.SplitSeq(value, ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		if name == "" {
			continue
		}
		i := slices.Index(hadoopNames[:], name)
		if i < 0 {
			return nil, fmt.Errorf("sasl.ParseQOPs: %q: known are %s", name, strings.Join(hadoopNames[:], ", "))
		}
		list = append(list, QOP(i))
	}
	return list, nil
}

// Mechanism is the client's side of one exchange, and then the protection of one connection. Start and Step
// are called one after the other by one goroutine; afterwards one goroutine may call Wrap while another calls
// Unwrap. After an error a Mechanism is of no more use.
type Mechanism interface {
	// Name is the mechanism's registered name: "DIGEST-MD5" or "GSSAPI".
	Name() string
	// Start returns the client's first message. It is empty where the server speaks first.
	Start() ([]byte, error)
	// Step takes the server's next message and returns the answer. done says that the server has proved
	// itself and that nothing more is expected from it; an answer that comes with done is still to be sent
	// if it is not nil.
	Step(challenge []byte) (response []byte, done bool, err error)
	// QOP is what was agreed; it counts once Step has said done.
	QOP() QOP
	// SendLimit is the most bytes that the server lets Wrap be given at once; it counts once Step has said
	// done, and for Integrity and Privacy.
	SendLimit() int
	// Wrap appends the protected form of plain to dst, and returns the extended slice. plain must not
	// overlap dst's spare capacity. For Integrity and Privacy only. Messages must reach the server in the
	// order in which they were wrapped.
	Wrap(dst, plain []byte) ([]byte, error)
	// Unwrap verifies the server's next message and returns what it holds, which may lie in token's memory:
	// token is overwritten. Errors match ErrMessage.
	Unwrap(token []byte) ([]byte, error)
}
