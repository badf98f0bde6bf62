package datanode

import (
	"context"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/sasl"
)

// Mode is how a connection to a DataNode begins.
type Mode int

const (
	// None: with the first request.
	None Mode = iota
	// General: with a handshake that shows the block's token. It is left out for a node whose port is privileged.
	General
	// Encrypted: with a handshake that shows the cluster's data encryption key.
	Encrypted
)

// Protection is what a cluster wants of a connection.
type Protection struct {
	Mode Mode
	// Key is the cluster's, for Encrypted.
	Key *hproto.DataEncryptionKey
	// QOPs are what may be agreed on, best first, for General. None: Auth, Integrity and Privacy.
	QOPs []sasl.QOP
	// AES asks for AES-CTR in place of the handshake's own cipher, where Privacy is agreed on. The node may decline.
	AES bool
}

// Security says what the cluster wants. It is safe for concurrent use.
type Security interface {
	// Protection is asked for each connection that is made.
	Protection(ctx context.Context) (Protection, error)
	// KeyRefused says that a node does not know this key, so that Protection gives a newer one.
	KeyRefused(key *hproto.DataEncryptionKey)
}

// protection is what a connection to node needs.
func (p *Pool) protection(ctx context.Context, node Node) (Protection, error) {
	if p.o.Security == nil {
		return Protection{}, nil
	}
	want, err := p.o.Security.Protection(ctx)
	if want.Mode == General && node.privileged() {
		want = Protection{}
	}
	return want, err
}
