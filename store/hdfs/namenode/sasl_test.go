package namenode_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store/hdfs/conf"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
	"github.com/stepahead-io/stepahead/store/hdfs/sasl"
)

// simple agrees to no security.
type simple struct{}

func (simple) Choose(offer []*hproto.SaslAuth, _ conf.NameNode) (sasl.Mechanism, *hproto.SaslAuth, error) {
	for _, a := range offer {
		if a.GetMethod() == "SIMPLE" {
			return nil, a, nil
		}
	}
	return nil, nil, fmt.Errorf("no SIMPLE in the offer: %w", sasl.ErrAuth)
}

func (simple) ContextUser() (string, string) { return "", "" }

// toy is a mechanism of two messages each way; it protects by a number and an XOR.
type toy struct {
	method   string
	qop      sasl.QOP
	limit    int
	steps    int
	sent     byte
	received byte
}

func (m *toy) Name() string           { return "TOY" }
func (m *toy) Start() ([]byte, error) { return []byte("hello"), nil }
func (m *toy) QOP() sasl.QOP          { return m.qop }
func (m *toy) SendLimit() int         { return m.limit }

func (m *toy) Step(challenge []byte) ([]byte, bool, error) {
	m.steps++
	switch string(challenge) {
	case "who":
		return []byte("ada"), false, nil
	case "proof":
		return nil, true, nil
	}
	return nil, false, fmt.Errorf("challenge %q: %w", challenge, sasl.ErrAuth)
}

func (m *toy) Wrap(dst, plain []byte) ([]byte, error) {
	m.sent++
	return toyWrap(dst, m.sent, plain), nil
}

func (m *toy) Unwrap(token []byte) ([]byte, error) {
	m.received++
	return toyUnwrap(m.received, token)
}

func toyWrap(dst []byte, n byte, plain []byte) []byte {
	dst = append(dst, n)
	for _, b := range plain {
		dst = append(dst, b^0x5A)
	}
	return dst
}

func toyUnwrap(n byte, token []byte) ([]byte, error) {
	if len(token) == 0 || token[0] != n {
		return nil, sasl.ErrMessage
	}
	for i := range token[1:] {
		token[1+i] ^= 0x5A
	}
	return token[1:], nil
}

// Choose makes the mechanism anew for each connection.
func (m *toy) Choose(offer []*hproto.SaslAuth, _ conf.NameNode) (sasl.Mechanism, *hproto.SaslAuth, error) {
	for _, a := range offer {
		if a.GetMethod() == m.method {
			n := *m
			return &n, a, nil
		}
	}
	return nil, nil, fmt.Errorf("not offered: %w", sasl.ErrAuth)
}

func (m *toy) ContextUser() (string, string) { return "ada@REALM", "service" }

func auth(method string, challenge []byte) *hproto.SaslAuth {
	return &hproto.SaslAuth{Method: &method, Mechanism: proto.String("TOY"), Protocol: proto.String("nn"), ServerId: proto.String("h"), Challenge: challenge}
}

func (s *session) sasl(m *hproto.RpcSasl) {
	id := int32(-33)
	s.conn.Write(framed(&hproto.RpcResponseHeader{CallId: proto.Uint32(uint32(id)), Status: hproto.RpcResponseHeader_SUCCESS.Enum()}, m))
}

func saslMessage(state hproto.RpcSasl_State, token string, auths ...*hproto.SaslAuth) *hproto.RpcSasl {
	m := &hproto.RpcSasl{State: &state, Auths: auths}
	if token != "" {
		m.Token = []byte(token)
	}
	return m
}

// saslNext reads the client's next message of the exchange.
func (s *session) saslNext() (*hproto.RpcSasl, error) {
	frame, err := s.frame()
	if err != nil {
		return nil, err
	}
	var head hproto.RpcRequestHeader
	m := new(hproto.RpcSasl)
	if rest := part(part(frame, &head), m); head.GetCallId() != -33 || len(rest) > 0 {
		s.fake.t.Errorf("SASL message with header %v and %d more bytes", &head, len(rest))
	}
	return m, nil
}

// greet is the server's side of toy. challenge in the offer saves the first step.
func greet(method string, challenge []byte, protect bool, chunk int) func(*session) error {
	return func(s *session) error {
		if _, err := s.saslNext(); err != nil {
			return err
		}
		s.sasl(saslMessage(hproto.RpcSasl_NEGOTIATE, "", auth("OTHER", nil), auth(method, challenge)))
		m, err := s.saslNext()
		if err != nil {
			return err
		}
		want := "hello"
		if challenge != nil {
			want = "ada"
		}
		if m.GetState() != hproto.RpcSasl_INITIATE || string(m.GetToken()) != want || len(m.GetAuths()) != 1 || m.GetAuths()[0].Challenge != nil {
			s.fake.t.Errorf("initiate: %v", m)
		}
		if challenge == nil {
			s.sasl(saslMessage(hproto.RpcSasl_CHALLENGE, "who"))
			if m, err = s.saslNext(); err != nil {
				return err
			}
			if m.GetState() != hproto.RpcSasl_RESPONSE || string(m.GetToken()) != "ada" {
				s.fake.t.Errorf("response: %v", m)
			}
		}
		s.sasl(saslMessage(hproto.RpcSasl_SUCCESS, "proof"))
		if protect {
			s.protect(chunk)
		}
		return nil
	}
}

// protect wraps what follows, in pieces of chunk bytes.
func (s *session) protect(chunk int) {
	sent := byte(0)
	s.wrap = func(plain []byte) []byte {
		var out []byte
		id := int32(-33)
		for len(plain) > 0 {
			n := min(chunk, len(plain))
			sent++
			m := saslMessage(hproto.RpcSasl_WRAP, string(toyWrap(nil, sent, plain[:n])))
			out = append(out, framed(&hproto.RpcResponseHeader{CallId: proto.Uint32(uint32(id)), Status: hproto.RpcResponseHeader_SUCCESS.Enum()}, m)...)
			plain = plain[n:]
		}
		return out
	}
	s.r = &unwrapping{s: s, r: s.r}
}

// unwrapping is the server's view of protected frames.
type unwrapping struct {
	s     *session
	r     io.Reader
	n     byte
	plain []byte
}

func (u *unwrapping) Read(p []byte) (int, error) {
	for len(u.plain) == 0 {
		outer := &session{fake: u.s.fake, r: u.r}
		m, err := outer.saslNext()
		if err != nil {
			return 0, err
		}
		if m.GetState() != hproto.RpcSasl_WRAP {
			u.s.fake.t.Errorf("on a protected connection: %v", m)
		}
		u.n++
		if u.plain, err = toyUnwrap(u.n, m.GetToken()); err != nil {
			u.s.fake.t.Error(err)
		}
	}
	n := copy(p, u.plain)
	u.plain = u.plain[n:]
	return n, nil
}

// SASL's preamble is no hindrance where security is off.
func TestSimpleWithPreamble(t *testing.T) {
	f := newFake(t, func(c *call) { c.info(3) })
	f.greeting = func(s *session) error {
		if _, err := s.saslNext(); err != nil {
			return err
		}
		s.sasl(saslMessage(hproto.RpcSasl_NEGOTIATE, "", &hproto.SaslAuth{Method: proto.String("SIMPLE"), Mechanism: proto.String("")}))
		m, err := s.saslNext()
		if err == nil && (m.GetState() != hproto.RpcSasl_INITIATE || m.GetAuths()[0].GetMethod() != "SIMPLE") {
			t.Errorf("initiate: %v", m)
		}
		return err
	}
	o := options(f)
	o.Auth = simple{}
	wantLength(t, newClient(t, o), 3)
	if got := f.seen()[0].context.GetUserInfo().GetEffectiveUser(); got != "ada" {
		t.Errorf("the context says %q", got)
	}
}

// Authentication of each form, with and without protection in pieces that cut frames anywhere.
func TestSasl(t *testing.T) {
	for name, c := range map[string]struct {
		method    string
		challenge []byte
		qop       sasl.QOP
		chunk     int
		user      string
	}{
		"kerberos":                   {"KERBEROS", nil, sasl.Auth, 0, "ada@REALM"},
		"kerberos privacy":           {"KERBEROS", nil, sasl.Privacy, 1 << 20, "ada@REALM"},
		"kerberos integrity, pieces": {"KERBEROS", nil, sasl.Integrity, 3, "ada@REALM"},
		"token":                      {"TOKEN", []byte("who"), sasl.Auth, 0, ""},
		"token privacy, pieces":      {"TOKEN", []byte("who"), sasl.Privacy, 7, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, func(c *call) { c.info(uint64(len(c.body))) })
			f.greeting = greet(c.method, c.challenge, c.qop != sasl.Auth, c.chunk)
			o := options(f)
			o.Auth = &toy{method: c.method, qop: c.qop, limit: max(c.chunk, 5)}
			o.Protection = []sasl.QOP{sasl.Privacy, c.qop}
			client := newClient(t, o)
			var group sync.WaitGroup
			for i := range 20 {
				group.Go(func() {
					path := strings.Repeat("x", i+1)
					info, err := client.GetFileInfo(t.Context(), path)
					if err != nil || info.GetLength() != uint64(i+3) {
						t.Errorf("%v, %v", info, err)
					}
				})
			}
			group.Wait()
			seen := f.seen()[0].context.GetUserInfo()
			if seen.GetEffectiveUser() != c.user || seen.GetRealUser() != "" || f.connections() != 1 {
				t.Errorf("context %v, %d connections", seen, f.connections())
			}
		})
	}
}

// Servers that lie or refuse: one clear error, no repeats but where a repeat may help.
func TestSaslRefusals(t *testing.T) {
	negotiated := func(then func(s *session)) func(*session) error {
		return func(s *session) error {
			if _, err := s.saslNext(); err != nil {
				return err
			}
			then(s)
			s.saslNext()
			return io.EOF
		}
	}
	offer := func(s *session) { s.sasl(saslMessage(hproto.RpcSasl_NEGOTIATE, "", auth("TOKEN", []byte("who")))) }
	id := int32(-33)
	for name, c := range map[string]struct {
		greeting func(*session) error
		want     string
		is       error
	}{
		"forged success": {negotiated(func(s *session) { offer(s); s.saslNext(); s.sasl(saslMessage(hproto.RpcSasl_SUCCESS, "")) }),
			"before it has proved itself", fs.ErrPermission},
		"wrong proof": {negotiated(func(s *session) { offer(s); s.saslNext(); s.sasl(saslMessage(hproto.RpcSasl_SUCCESS, "x")) }),
			`challenge "x"`, fs.ErrPermission},
		"success at once": {negotiated(func(s *session) { s.sasl(saslMessage(hproto.RpcSasl_SUCCESS, "")) }),
			"SASL begins with SUCCESS", nil},
		"nothing offered": {negotiated(func(s *session) { s.sasl(saslMessage(hproto.RpcSasl_NEGOTIATE, "", auth("OTHER", nil))) }),
			"not offered", fs.ErrPermission},
		"unprotected answer": {negotiated(func(s *session) {
			s.raw(framed(&hproto.RpcResponseHeader{CallId: proto.Uint32(0), Status: hproto.RpcResponseHeader_SUCCESS.Enum()}))
		}),
			"answer to call 0, want -33", nil},
		"expired token": {negotiated(func(s *session) {
			s.raw(framed(&hproto.RpcResponseHeader{CallId: proto.Uint32(uint32(id)), Status: hproto.RpcResponseHeader_FATAL.Enum(),
				ExceptionClassName: proto.String("org.apache.hadoop.security.token.SecretManager$InvalidToken"), ErrorMsg: proto.String("token (token for ada: HDFS_DELEGATION_TOKEN) is expired")}))
		}), "is expired: get a new token", namenode.ErrCredentials},
		"less protection than asked": {greet("TOKEN", []byte("who"), false, 0), "agreed to authentication, hadoop.rpc.protection wants [privacy]", sasl.ErrAuth},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, func(c *call) { t.Error("a call was sent") })
			f.greeting = c.greeting
			o := options(f)
			o.Auth, o.Protection = &toy{method: "TOKEN"}, []sasl.QOP{sasl.Privacy}
			_, err := length(t.Context(), newClient(t, o))
			if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%v: want %q, %v", err, c.want, c.is)
			}
			if f.connections() != 1 {
				t.Errorf("%d connections: a refusal was repeated", f.connections())
			}
		})
	}
}

// The handshake is cut at each of its messages; the next connection is fine.
func TestSaslCutAtEachStep(t *testing.T) {
	for step := range 16 {
		f := newFake(t, func(c *call) { c.info(3) })
		f.accepted = func(n int, c net.Conn) net.Conn {
			if n > 2 {
				return c
			}
			return &cutting{Conn: c, left: step}
		}
		f.greeting = greet("KERBEROS", nil, true, 100)
		o := options(f)
		o.Auth, o.FirstRounds = &toy{method: "KERBEROS", qop: sasl.Privacy, limit: 100}, 10
		wantLength(t, newClient(t, o), 3)
	}
}

// cutting ends a connection after so many reads and writes.
type cutting struct {
	net.Conn
	mu   sync.Mutex
	left int
}

func (c *cutting) step() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left--; c.left < 0 {
		c.Conn.Close()
		return io.ErrClosedPipe
	}
	return nil
}

func (c *cutting) Read(p []byte) (int, error) {
	if err := c.step(); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c *cutting) Write(p []byte) (int, error) {
	if err := c.step(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}
