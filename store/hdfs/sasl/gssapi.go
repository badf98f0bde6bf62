package sasl

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// serviceTicket lets a client speak to one service.
type serviceTicket struct {
	ticket      messages.Ticket
	key         types.EncryptionKey
	client      types.PrincipalName
	clientRealm string
}

// GSSAPI returns the client's side of an exchange with service/host@realm: Kerberos 5 with mutual
// authentication, then the security layer of RFC 4752. qops are acceptable, in order of preference; none: Auth.
// realm may be empty: krb5.conf then says which one the host is in. Start asks the KDC for a ticket unless c
// has one.
func GSSAPI(c *Credentials, service, host, realm string, qops []QOP) Mechanism {
	return newGSSAPI(service+"/"+host, qops, func() (serviceTicket, error) { return c.ticket(service, host, realm) })
}

func newGSSAPI(service string, qops []QOP, ticket func() (serviceTicket, error)) *gssapi {
	if len(qops) == 0 {
		qops = []QOP{Auth}
	}
	return &gssapi{service: service, qops: qops, ticket: ticket}
}

type gssState int

const (
	gssStart gssState = iota
	gssAwaitReply
	gssAwaitLayer
	gssDone
	gssFailed
)

type gssapi struct {
	service string
	qops    []QOP
	ticket  func() (serviceTicket, error)
	state   gssState
	request request
	qop     QOP
	limit   int
	// Of each direction; used by different goroutines.
	out, in *wrapSide
}

func (g *gssapi) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "GSSAPI with %s", g.service) }

func (*gssapi) Name() string     { return "GSSAPI" }
func (g *gssapi) QOP() QOP       { return g.qop }
func (g *gssapi) SendLimit() int { return g.limit }

func (g *gssapi) Start() ([]byte, error) {
	if g.state != gssStart {
		return nil, g.fail(errOrder)
	}
	t, err := g.ticket()
	if err != nil {
		return nil, g.fail(err)
	}
	if err := checkKey(t.key); err != nil {
		return nil, g.fail(err)
	}
	token, request, err := newAPReq(t, slices.Contains(g.qops, Privacy))
	if err != nil {
		return nil, g.fail(err)
	}
	g.state, g.request = gssAwaitReply, request
	return token, nil
}

func (g *gssapi) Step(challenge []byte) (response []byte, done bool, err error) {
	switch g.state {
	case gssAwaitReply:
		response, err = []byte{}, g.accept(challenge)
		g.state = gssAwaitLayer
	case gssAwaitLayer:
		response, err = g.chooseLayer(challenge)
		done = true
		g.state = gssDone
	default:
		err = errOrder
	}
	if err != nil {
		return nil, false, g.fail(err)
	}
	return response, done, nil
}

func (g *gssapi) fail(err error) error {
	g.state = gssFailed
	return fmt.Errorf("sasl: Kerberos with %s: %w", g.service, err)
}

// accept takes the AP-REP; the answer to it is empty.
func (g *gssapi) accept(token []byte) error {
	reply, err := guarded(func() (reply, error) { return readAPRep(token, g.request) })
	if err != nil {
		return fmt.Errorf("%w: %w", ErrAuth, err)
	}
	g.out, g.in, err = newWrapSides(reply.key, reply.subkey, g.request.seq, reply.seq)
	return err
}

// chooseLayer answers the server's offer of layers: RFC 4752, section 3.1.
func (g *gssapi) chooseLayer(token []byte) ([]byte, error) {
	offer, err := g.in.unwrap(bytes.Clone(token), false)
	if err != nil {
		return nil, fmt.Errorf("%w: the server's offer of protection: %w", ErrAuth, err)
	}
	if len(offer) != 4 {
		return nil, fmt.Errorf("%w: the server's offer of protection has %d bytes instead of 4", ErrAuth, len(offer))
	}
	var theirs []QOP
	for q := Auth; q <= Privacy; q++ {
		if offer[0]&(1<<q) != 0 {
			theirs = append(theirs, q)
		}
	}
	i := slices.IndexFunc(g.qops, func(q QOP) bool { return slices.Contains(theirs, q) })
	if i < 0 {
		return nil, protectionError(g.qops, theirs)
	}
	g.qop = g.qops[i]
	most := binary.BigEndian.Uint32(offer) & maxMaxbuf
	answer := binary.BigEndian.AppendUint32(nil, 1<<g.qop<<24)
	if g.qop > Auth {
		if most <= gssOverhead {
			return nil, fmt.Errorf("%w: the server takes messages of %d bytes only", ErrAuth, most)
		}
		g.limit = int(most) - gssOverhead
		answer = binary.BigEndian.AppendUint32(nil, 1<<g.qop<<24|defaultMaxbuf)
	}
	return g.out.wrap(nil, answer, false)
}

func (g *gssapi) Wrap(dst, plain []byte) ([]byte, error) {
	if g.state != gssDone || g.qop == Auth {
		return nil, fmt.Errorf("sasl.Wrap: %w: no protection was agreed", errOrder)
	}
	return g.out.wrap(dst, plain, g.qop == Privacy)
}

func (g *gssapi) Unwrap(token []byte) ([]byte, error) {
	if g.state != gssDone || g.qop == Auth {
		return nil, fmt.Errorf("sasl.Unwrap: %w: no protection was agreed", errOrder)
	}
	return guarded(func() ([]byte, error) { return g.in.unwrap(token, g.qop == Privacy) })
}

// guarded turns a panic into an error: gokrb5 panics on some malformed messages.
func guarded[T any](f func() (T, error)) (result T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errMalformed, p)
		}
	}()
	return f()
}

var errMalformed = errors.New("malformed Kerberos message")
