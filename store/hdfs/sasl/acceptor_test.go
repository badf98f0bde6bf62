package sasl

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/asnAppTag"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// acceptor is a service that follows RFC 4121 and RFC 4752, without a network and without a KDC.
type acceptor struct {
	keys   *keytab.Keytab
	name   types.PrincipalName
	subkey bool // answers with a subkey of its own
	layers byte
	limit  uint32
	change func(*messages.EncAPRepPart)

	out, in *wrapSide
	chosen  byte
	asked   uint32 // the flags in the authenticator
}

// newAcceptor also returns the ticket that a KDC would have given.
func newAcceptor(t testing.TB, etypeID int32) (*acceptor, serviceTicket) {
	t.Helper()
	a := &acceptor{keys: keytab.New(), layers: 7, limit: 65536, name: types.NewPrincipalName(nametype.KRB_NT_SRV_HST, "nn/localhost")}
	now := time.Now().UTC()
	if err := a.keys.AddEntry("nn/localhost", "EXAMPLE.COM", "service", now, 1, etypeID); err != nil {
		t.Fatal(err)
	}
	client := types.NewPrincipalName(nametype.KRB_NT_PRINCIPAL, "trainer")
	ticket, key, err := messages.NewTicket(client, "EXAMPLE.COM", a.name, "EXAMPLE.COM", types.NewKrbFlags(), a.keys, etypeID, 1, now, now, now.Add(time.Hour), now.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if etypeID == 20 {
		key.KeyValue = append(key.KeyValue, 1, 2, 3, 4, 5, 6, 7, 8) // gokrb5 makes 24 bytes, RFC 8009 says 32
		encrypted, _ := asn1.Marshal(messages.EncTicketPart{Flags: types.NewKrbFlags(), Key: key, CRealm: "EXAMPLE.COM", CName: client, AuthTime: now, EndTime: now.Add(time.Hour)})
		service, _, _ := a.keys.GetEncryptionKey(a.name, "EXAMPLE.COM", 1, etypeID)
		ticket.EncPart, err = crypto.GetEncryptedData(asn1tools.AddASNAppTag(encrypted, asnAppTag.EncTicketPart), service, keyusage.KDC_REP_TICKET, 1)
		if err != nil {
			t.Fatal(err)
		}
	}
	return a, serviceTicket{ticket: ticket, key: key, client: client, clientRealm: "EXAMPLE.COM"}
}

// accept answers the first token.
func (a *acceptor) accept(token []byte) ([]byte, error) {
	id, body, err := unframeToken(token)
	if err != nil || id != tokenAPReq {
		return nil, errors.Join(err, errors.New("no AP-REQ"))
	}
	var req messages.APReq
	if err := req.Unmarshal(body); err != nil {
		return nil, err
	}
	if err := req.Ticket.DecryptEncPart(a.keys, &a.name); err != nil {
		return nil, err
	}
	session := req.Ticket.DecryptedEncPart.Key
	if err := req.DecryptAuthenticator(session); err != nil {
		return nil, err
	}
	auth := req.Authenticator
	if len(auth.Cksum.Checksum) != 24 || auth.Cksum.CksumType != 0x8003 || !slices.Equal(auth.Cksum.Checksum[:20], append([]byte{16, 0, 0, 0}, make([]byte, 16)...)) {
		return nil, errors.New("wrong checksum in the authenticator")
	}
	a.asked = binary.LittleEndian.Uint32(auth.Cksum.Checksum[20:])
	part := messages.EncAPRepPart{CTime: auth.CTime, Cusec: auth.Cusec, SequenceNumber: 0x7fff1234}
	key := auth.SubKey
	if a.subkey {
		key = types.EncryptionKey{KeyType: session.KeyType, KeyValue: slices.Repeat([]byte{7}, len(session.KeyValue))}
		part.Subkey = key
	}
	if a.change != nil {
		a.change(&part)
	}
	reply, err := makeAPRep(part, session)
	if err != nil {
		return nil, err
	}
	// The acceptor's two directions are the initiator's, turned round.
	a.in, a.out, err = newWrapSides(key, a.subkey, uint64(auth.SeqNumber), uint64(part.SequenceNumber))
	return reply, err
}

func makeAPRep(part messages.EncAPRepPart, session types.EncryptionKey) ([]byte, error) {
	plain, err := asn1.Marshal(part)
	if err != nil {
		return nil, err
	}
	encrypted, err := crypto.GetEncryptedData(asn1tools.AddASNAppTag(plain, asnAppTag.EncAPRepPart), session, keyusage.AP_REP_ENCPART, 0)
	if err != nil {
		return nil, err
	}
	reply, err := asn1.Marshal(messages.APRep{PVNO: 5, MsgType: 15, EncPart: encrypted})
	return frameToken(tokenAPRep, asn1tools.AddASNAppTag(reply, asnAppTag.APREP)), err
}

// offer is the message of layers.
func (a *acceptor) offer() ([]byte, error) {
	return a.out.wrap(nil, binary.BigEndian.AppendUint32(nil, uint32(a.layers)<<24|a.limit), false)
}

// finish reads the client's choice.
func (a *acceptor) finish(token []byte) error {
	choice, err := a.in.unwrap(token, false)
	if err != nil {
		return err
	}
	if len(choice) != 4 {
		return errors.New("the choice has not 4 bytes")
	}
	a.chosen = choice[0]
	return nil
}

// meet runs the whole exchange.
func (a *acceptor) meet(g *gssapi) error {
	first, err := g.Start()
	if err != nil {
		return err
	}
	reply, err := a.accept(first)
	if err != nil {
		return err
	}
	empty, done, err := g.Step(reply)
	if err != nil {
		return err
	}
	if done || empty == nil || len(empty) != 0 {
		return errors.New("the answer to the AP-REP must be there and empty")
	}
	offer, err := a.offer()
	if err != nil {
		return err
	}
	choice, done, err := g.Step(offer)
	if err != nil {
		return err
	}
	if !done {
		return errors.New("not done")
	}
	return a.finish(choice)
}
