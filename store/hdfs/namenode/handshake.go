package namenode

import (
	"bufio"
	"fmt"
	"io"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/sasl"
)

const (
	clientProtocol = "org.apache.hadoop.hdfs.protocol.ClientProtocol"

	callContext = -3
	callPing    = -4
	callSasl    = -33

	// maxSaslMessage bounds a message of the handshake; tickets are some thousand bytes.
	maxSaslMessage = 1 << 20
)

// opening begins every connection: magic, version, service class, then whether SASL follows.
func opening(withSasl bool) []byte {
	auth := byte(0)
	if withSasl {
		auth = 0xDF // -33
	}
	return []byte{'h', 'r', 'p', 'c', 9, 0, auth}
}

// header makes the header of a frame that is not a call.
func header(callID int32, clientID []byte) *hproto.RpcRequestHeader {
	return &hproto.RpcRequestHeader{
		RpcKind:    hproto.RpcRequestHeader_PROTOCOL_BUFFER.Enum(),
		RpcOp:      hproto.RpcRequestHeader_FINAL_PACKET.Enum(),
		CallId:     proto.Int32(callID),
		ClientId:   clientID,
		RetryCount: proto.Int32(-1),
	}
}

// connectionContext makes the frame that says who calls which protocol. An empty user is left out.
func connectionContext(clientID []byte, protocol, effective, real string) ([]byte, error) {
	m := &hproto.IpcConnectionContext{Protocol: &protocol}
	if effective != "" {
		m.UserInfo = &hproto.UserInformation{EffectiveUser: &effective}
		if real != "" {
			m.UserInfo.RealUser = &real
		}
	}
	return appendFrame(nil, header(callContext, clientID), m)
}

// agreement is what a SASL exchange came to.
type agreement struct {
	method string
	mech   sasl.Mechanism // nil for SIMPLE
}

// wrapped reports whether every later frame is protected.
func (a agreement) wrapped() bool { return a.mech != nil && a.mech.QOP() != sasl.Auth }

// exchange carries the messages of a SASL exchange.
type exchange struct {
	r *bufio.Reader
	w io.Writer
	n *node
}

// run authenticates. Errors that match errProtocol, io errors and *RemoteError keep their kinds.
func (x exchange) run() (agreement, error) {
	if err := x.send(&hproto.RpcSasl{State: hproto.RpcSasl_NEGOTIATE.Enum()}); err != nil {
		return agreement{}, err
	}
	offer, err := x.receive()
	if err != nil {
		return agreement{}, err
	}
	if offer.GetState() != hproto.RpcSasl_NEGOTIATE {
		return agreement{}, fmt.Errorf("%w: SASL begins with %v, want NEGOTIATE", errProtocol, offer.GetState())
	}
	o := x.n.client.options
	mech, auth, err := o.Auth.Choose(offer.GetAuths(), x.n.at)
	if err != nil {
		return agreement{}, err
	}
	a := agreement{auth.GetMethod(), mech}
	if mech == nil {
		return a, x.initiate(auth, nil)
	}
	if err := x.prove(mech, auth); err != nil {
		return agreement{}, err
	}
	if q := mech.QOP(); len(o.Protection) > 0 && !slices.Contains(o.Protection, q) {
		return agreement{}, fmt.Errorf("the NameNode agreed to %v, hadoop.rpc.protection wants %v: %w", q, o.Protection, sasl.ErrAuth)
	}
	return a, nil
}

// prove runs the mechanism's messages until both sides have proved themselves.
func (x exchange) prove(mech sasl.Mechanism, auth *hproto.SaslAuth) error {
	var token []byte
	var done bool
	var err error
	if auth.Challenge != nil {
		token, done, err = mech.Step(auth.Challenge)
	} else {
		token, err = mech.Start()
	}
	if err == nil {
		err = x.initiate(auth, token)
	}
	for err == nil {
		var m *hproto.RpcSasl
		if m, err = x.receive(); err != nil {
			return err
		}
		switch state := m.GetState(); {
		case state == hproto.RpcSasl_SUCCESS:
			return finish(mech, m.Token, done)
		case state != hproto.RpcSasl_CHALLENGE || done:
			return fmt.Errorf("%w: SASL: unexpected %v", errProtocol, state)
		}
		if token, done, err = mech.Step(m.Token); err == nil {
			err = x.send(&hproto.RpcSasl{State: hproto.RpcSasl_RESPONSE.Enum(), Token: orEmpty(token)})
		}
	}
	return err
}

// finish checks the server's last message: success that the mechanism has not seen proved is a forgery.
func finish(mech sasl.Mechanism, token []byte, done bool) error {
	if token != nil && !done {
		_, ok, err := mech.Step(token)
		if err != nil {
			return err
		}
		done = ok
	}
	if !done {
		return fmt.Errorf("the server ends the exchange before it has proved itself: %w", sasl.ErrAuth)
	}
	return nil
}

func (x exchange) initiate(auth *hproto.SaslAuth, token []byte) error {
	chosen := proto.Clone(auth).(*hproto.SaslAuth)
	chosen.Challenge = nil
	return x.send(&hproto.RpcSasl{
		State: hproto.RpcSasl_INITIATE.Enum(), Token: orEmpty(token), Auths: []*hproto.SaslAuth{chosen},
	})
}

// orEmpty makes an absent token one of length 0: servers want the field.
func orEmpty(token []byte) []byte {
	if token == nil {
		return []byte{}
	}
	return token
}

func (x exchange) send(m *hproto.RpcSasl) error {
	frame, err := appendFrame(nil, header(callSasl, []byte{}), m)
	if err != nil {
		return err
	}
	_, err = x.w.Write(frame)
	return err
}

func (x exchange) receive() (*hproto.RpcSasl, error) {
	frame, err := readFrame(x.r, maxSaslMessage)
	if err != nil {
		return nil, err
	}
	return parseSasl(frame, x.n)
}

// parseSasl parses an answer that belongs to SASL: a message of the exchange, or a protected piece.
func parseSasl(frame []byte, n *node) (*hproto.RpcSasl, error) {
	var head hproto.RpcResponseHeader
	rest, err := takeMessage(frame, &head)
	if err != nil {
		return nil, err
	}
	n.client.saw(&head)
	if head.GetStatus() != hproto.RpcResponseHeader_SUCCESS {
		return nil, newRemoteError(&head, n.at.Addr, "connect")
	}
	if id := int32(head.GetCallId()); id != callSasl {
		return nil, fmt.Errorf("%w: SASL: answer to call %d, want %d", errProtocol, id, callSasl)
	}
	var m hproto.RpcSasl
	if err := takeLast(rest, &m); err != nil {
		return nil, err
	}
	return &m, nil
}
