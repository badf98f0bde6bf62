package sasl

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/chksumtype"
	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// Context tokens: RFC 4121, section 4.1; their frame: RFC 2743, section 3.1.
const (
	tokenAPReq = 0x0100
	tokenAPRep = 0x0200
	tokenError = 0x0300
)

// oidKerberos is 1.2.840.113554.1.2.2 in DER.
var oidKerberos = []byte{0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02}

// The flags of the checksum in an authenticator: RFC 4121, section 4.1.1.1.
const (
	gssMutual    = 2
	gssReplay    = 4
	gssSequence  = 8
	gssPrivacy   = 16
	gssIntegrity = 32
)

// request is what the client remembers of the AP-REQ that it sent.
type request struct {
	session types.EncryptionKey // of the ticket
	sub     types.EncryptionKey // of the authenticator
	seq     uint64
	time    time.Time // whole seconds
	micros  int
}

// newAPReq makes the first context token of an initiator who wants mutual authentication.
func newAPReq(t serviceTicket, privacy bool) ([]byte, request, error) {
	auth, err := types.NewAuthenticator(t.clientRealm, t.client)
	if err != nil {
		return nil, request{}, err
	}
	if err := auth.GenerateSeqNumberAndSubKey(t.key.KeyType, len(t.key.KeyValue)); err != nil {
		return nil, request{}, err
	}
	wanted := uint32(gssMutual | gssReplay | gssSequence | gssIntegrity)
	if privacy {
		wanted |= gssPrivacy
	}
	sum := make([]byte, 24) // no channel bindings
	binary.LittleEndian.PutUint32(sum, 16)
	binary.LittleEndian.PutUint32(sum[20:], wanted)
	auth.Cksum = types.Checksum{CksumType: chksumtype.GSSAPI, Checksum: sum}
	req, err := messages.NewAPReq(t.ticket, t.key, auth)
	if err != nil {
		return nil, request{}, err
	}
	types.SetFlag(&req.APOptions, flags.APOptionMutualRequired)
	body, err := req.Marshal()
	if err != nil {
		return nil, request{}, err
	}
	r := request{session: t.key, sub: auth.SubKey, seq: uint64(auth.SeqNumber), time: auth.CTime.Truncate(time.Second), micros: auth.Cusec}
	return frameToken(tokenAPReq, body), r, nil
}

func frameToken(id uint16, body []byte) []byte {
	inner := binary.BigEndian.AppendUint16(bytes.Clone(oidKerberos), id)
	return asn1tools.AddASNAppTag(append(inner, body...), 0)
}

// reply is what the server's AP-REP says.
type reply struct {
	key    types.EncryptionKey // what both sides go on with
	subkey bool                // it is the server's
	seq    uint64              // of the server's first message
}

// readAPRep verifies the server's answer to r: it must hold the time of our authenticator under the ticket's
// session key, which only the service can know.
func readAPRep(token []byte, r request) (reply, error) {
	id, body, err := unframeToken(token)
	if err != nil {
		return reply{}, err
	}
	switch id {
	case tokenAPRep:
	case tokenError:
		return reply{}, serverError(body)
	default:
		return reply{}, fmt.Errorf("token %#04x where an AP-REP belongs", id)
	}
	var rep messages.APRep
	if err := rep.Unmarshal(body); err != nil {
		return reply{}, fmt.Errorf("the AP-REP cannot be read: %w", err)
	}
	part, err := decryptAPRep(rep, r.session)
	if err != nil {
		return reply{}, fmt.Errorf("the AP-REP was not made by the service we have a ticket for: %w", err)
	}
	if part.CTime.Unix() != r.time.Unix() || part.Cusec != r.micros {
		return reply{}, errors.New("the AP-REP answers another request: somebody replays an old connection")
	}
	result := reply{key: r.sub, seq: uint64(uint32(part.SequenceNumber))}
	if len(part.Subkey.KeyValue) > 0 {
		result.key, result.subkey = part.Subkey, true
	}
	return result, nil
}

func decryptAPRep(rep messages.APRep, key types.EncryptionKey) (part messages.EncAPRepPart, err error) {
	et, err := crypto.GetEtype(key.KeyType)
	if err != nil {
		return part, err
	}
	if rep.EncPart.EType != key.KeyType || len(rep.EncPart.Cipher) < aesConfounder+et.GetHMACBitLength()/8 {
		return part, errors.New("wrong type or length")
	}
	plain, err := crypto.DecryptEncPart(rep.EncPart, key, keyusage.AP_REP_ENCPART)
	if err != nil {
		return part, err
	}
	return part, part.Unmarshal(plain)
}

func serverError(body []byte) error {
	var e messages.KRBError
	if err := e.Unmarshal(body); err != nil {
		return fmt.Errorf("the server refuses the ticket with an error that cannot be read: %w", err)
	}
	if e.ErrorCode == errorcode.KRB_AP_ERR_SKEW {
		return fmt.Errorf("the server's clock says %s: %w", e.STime.UTC().Format(time.RFC3339), errSkew)
	}
	return fmt.Errorf("the server refuses the ticket: %w", e)
}

// unframeToken checks the frame of a context token and returns its kind and body.
func unframeToken(token []byte) (id uint16, body []byte, err error) {
	inner, err := derContent(token, 0x60)
	if err != nil {
		return 0, nil, fmt.Errorf("no GSSAPI token: %w", err)
	}
	inner, ok := bytes.CutPrefix(inner, oidKerberos)
	if !ok || len(inner) < 2 {
		return 0, nil, errors.New("no GSSAPI token of Kerberos 5")
	}
	return binary.BigEndian.Uint16(inner), inner[2:], nil
}

// derContent returns the content of the one DER element in b.
func derContent(b []byte, tag byte) ([]byte, error) {
	if len(b) < 2 || b[0] != tag {
		return nil, errors.New("wrong tag")
	}
	n, rest := int(b[1]), b[2:]
	if n >= 0x80 {
		count := n & 0x7f
		if count < 1 || count > 3 || len(rest) < count {
			return nil, errors.New("wrong length")
		}
		n = 0
		for _, c := range rest[:count] {
			n = n<<8 | int(c)
		}
		rest = rest[count:]
	}
	if n != len(rest) {
		return nil, fmt.Errorf("%d bytes instead of %d", len(rest), n)
	}
	return rest, nil
}
