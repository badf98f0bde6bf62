package datanode

import (
	"context"
	"encoding/binary"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/sasl"
)

// magic opens a handshake. No version of the data transfer protocol begins like it.
const magic = 0xDEADBEEF

// handshake agrees with a DataNode on how the connection is protected.
type handshake struct {
	c   *conn
	in  inbox
	aes bool // wanted
}

// shake runs the handshake that want asks for, with the block's token or the cluster's key, and leaves c protected.
func shake(ctx context.Context, c *conn, want Protection, b Block) error {
	m, private, err := mechanism(want, b)
	if err != nil {
		return err
	}
	h := handshake{c: c, in: inbox{buf: make([]byte, 2<<10)}, aes: want.AES && private}
	last, err := h.run(ctx, m, b.Token)
	if err != nil {
		return err
	}
	if h.in.len() > 0 {
		return violation("%d bytes after the handshake", h.in.len())
	}
	return protect(c, m, last)
}

// mechanism is what the client proves itself with, and whether privacy may come out of it.
func mechanism(want Protection, b Block) (m sasl.Mechanism, private bool, err error) {
	if want.Mode == General {
		qops := want.QOPs
		if len(qops) == 0 {
			qops = []sasl.QOP{sasl.Auth, sasl.Integrity, sasl.Privacy}
		}
		for _, q := range qops {
			private = private || q == sasl.Privacy
		}
		return sasl.DigestMD5(sasl.BlockToken(b.Token.GetIdentifier(), b.Token.GetPassword(), qops)), private, nil
	}
	key := want.Key
	if key == nil {
		return nil, false, fmt.Errorf("%w: the cluster encrypts data transfer and gave no key", ErrProtection)
	}
	d, err := sasl.DataKey(int32(key.GetKeyId()), key.GetBlockPoolId(), key.GetNonce(), key.GetEncryptionKey(), key.GetEncryptionAlgorithm())
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrProtection, err)
	}
	return sasl.DigestMD5(d), true, nil
}

// run exchanges messages until m is done, and returns the node's last one.
func (h *handshake) run(ctx context.Context, m sasl.Mechanism, token *hproto.Token) (*hproto.DataTransferEncryptorMessage, error) {
	hello := &hproto.DataTransferEncryptorMessage{Payload: []byte{}, HandshakeSecret: secretOf(token)}
	if err := h.send(ctx, binary.BigEndian.AppendUint32(nil, magic), hello); err != nil {
		return nil, err
	}
	const most = 8 // messages; two are enough for DIGEST-MD5
	for range most {
		got, err := h.receive(ctx)
		if err != nil {
			return nil, err
		}
		response, done, err := m.Step(got.GetPayload())
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrConnect, err)
		}
		if !done || response != nil {
			answer := &hproto.DataTransferEncryptorMessage{Payload: response}
			if h.aes {
				answer.CipherOption = []*hproto.CipherOption{{Suite: hproto.FileEncryptionInfo_AES_CTR_NOPADDING.Enum()}}
			}
			if err := h.send(ctx, nil, answer); err != nil {
				return nil, err
			}
		}
		if done {
			return got, nil
		}
	}
	return nil, violation("the handshake does not end")
}

func (h *handshake) send(ctx context.Context, b []byte, m *hproto.DataTransferEncryptorMessage) error {
	m.Status = hproto.DataTransferEncryptorMessage_SUCCESS.Enum()
	b, err := appendDelimited(b, m)
	if err != nil {
		return err
	}
	if _, err := h.c.Write(b); err != nil {
		return broken(ctx, "sending the handshake", err)
	}
	return nil
}

func (h *handshake) receive(ctx context.Context) (*hproto.DataTransferEncryptorMessage, error) {
	b, err := h.in.message(ctx, h.c, "waiting in the handshake", 1<<10)
	if err != nil {
		return nil, err
	}
	m := new(hproto.DataTransferEncryptorMessage)
	if err := proto.Unmarshal(b, m); err != nil {
		return nil, violation("handshake: %v", err)
	}
	switch said := brief(m.GetMessage()); {
	case m.GetStatus() == hproto.DataTransferEncryptorMessage_SUCCESS:
		return m, nil
	case m.GetStatus() == hproto.DataTransferEncryptorMessage_ERROR_UNKNOWN_KEY:
		return nil, fmt.Errorf("%w: %s", ErrKey, said)
	case m.GetAccessTokenError():
		return nil, fmt.Errorf("%w in the handshake: %s", ErrToken, said)
	default:
		return nil, fmt.Errorf("%w: the handshake ended with %v: %s", ErrConnect, m.GetStatus(), said)
	}
}

// secretOf is what a block token carries for the handshake, if anything. The identifier belongs to the NameNode: what is no
// newer identifier carries none.
func secretOf(token *hproto.Token) *hproto.HandshakeSecret {
	var id hproto.BlockTokenSecret
	raw := token.GetIdentifier()
	if len(raw) == 0 || int8(raw[0]) <= 0 || proto.Unmarshal(raw, &id) != nil || len(id.GetHandshakeSecret()) == 0 {
		return nil
	}
	return &hproto.HandshakeSecret{Secret: id.GetHandshakeSecret(), Bpid: proto.String(id.GetBlockPoolId())}
}

// protect puts what was agreed on between the operations and the wire.
func protect(c *conn, m sasl.Mechanism, last *hproto.DataTransferEncryptorMessage) error {
	if m.QOP() == sasl.Auth {
		return nil
	}
	c.raw = nil
	options := last.GetCipherOption()
	if m.QOP() != sasl.Privacy || len(options) == 0 {
		w := &wrapped{c: c, m: m, in: inbox{buf: make([]byte, maxToken)}}
		c.src, c.dst = w, w
		return nil
	}
	o := options[0]
	if len(options) > 1 || o.GetSuite() != hproto.FileEncryptionInfo_AES_CTR_NOPADDING {
		return violation("the handshake chose cipher %v, and %d in all", o.GetSuite(), len(options))
	}
	encrypt, decrypt, err := sasl.DataStreams(m, o.GetInKey(), o.GetInIv(), o.GetOutKey(), o.GetOutIv())
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConnect, err)
	}
	e := &encrypted{c: c, out: encrypt, in: decrypt}
	c.src, c.dst = e, e
	return nil
}
