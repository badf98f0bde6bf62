package sasl

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// javaContext is one between the JDK's initiator and its acceptor: testdata/GssVectors.java.
type javaContext struct {
	Session, Context struct {
		Type int32
		Key  hexBytes
	}
	Request, Reply hexBytes
	Messages       []struct {
		Sealed          bool
		Plain, Up, Down hexBytes
	}
}

func readJavaContext(t testing.TB) javaContext {
	t.Helper()
	data, err := os.ReadFile("testdata/gss.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []javaContext
	if err := json.Unmarshal(data, &list); err != nil || len(list) != 1 {
		t.Fatalf("%d contexts, %v", len(list), err)
	}
	return list[0]
}

// request is what the JDK's initiator remembers.
func (c javaContext) request(t testing.TB) request {
	t.Helper()
	_, body, err := unframeToken(c.Request)
	if err != nil {
		t.Fatal(err)
	}
	var req messages.APReq
	if err := req.Unmarshal(body); err != nil {
		t.Fatal(err)
	}
	session := types.EncryptionKey{KeyType: c.Session.Type, KeyValue: c.Session.Key}
	if err := req.DecryptAuthenticator(session); err != nil {
		t.Fatal(err)
	}
	a := req.Authenticator
	return request{session: session, sub: a.SubKey, seq: uint64(a.SeqNumber), time: a.CTime, micros: a.Cusec}
}

func TestAPRepOfJava(t *testing.T) {
	c := readJavaContext(t)
	r := c.request(t)
	got, err := readAPRep(c.Reply, r)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.key.KeyValue, c.Context.Key) || got.key.KeyType != c.Context.Type || got.subkey {
		t.Errorf("%+v, want key %x", got, c.Context.Key)
	}
	if want := binary.BigEndian.Uint64(c.Messages[0].Down[8:]); got.seq != want {
		t.Errorf("sequence number %d, want %d", got.seq, want)
	}
	later := r
	later.time = later.time.Add(time.Second)
	if _, err := readAPRep(c.Reply, later); err == nil || !strings.Contains(err.Error(), "another request") {
		t.Errorf("an answer to another request: %v", err)
	}
	for i := range c.Reply {
		changed := bytes.Clone(c.Reply)
		changed[i] ^= 1 << (i % 8)
		reply, err := guarded(func() (reply, error) { return readAPRep(changed, r) })
		if err == nil && !bytes.Equal(reply.key.KeyValue, c.Context.Key) {
			t.Errorf("a bit of byte %d changes the key without an error", i)
		}
	}
}

func TestWrapTokensOfJava(t *testing.T) {
	c := readJavaContext(t)
	key := types.EncryptionKey{KeyType: c.Context.Type, KeyValue: c.Context.Key}
	up, down := binary.BigEndian.Uint64(c.Messages[0].Up[8:]), binary.BigEndian.Uint64(c.Messages[0].Down[8:])
	out, in, err := newWrapSides(key, false, up, down)
	if err != nil {
		t.Fatal(err)
	}
	server, _, _ := newWrapSides(key, false, up, down) // reads what the client sends
	for i, m := range c.Messages {
		ours, err := out.wrap([]byte("kept"), m.Plain, m.Sealed)
		if err != nil || !bytes.HasPrefix(ours, []byte("kept")) {
			t.Fatal(err)
		}
		if !m.Sealed && !bytes.Equal(ours[4:], m.Up) {
			t.Errorf("message %d: %x, want %x", i, ours[4:], m.Up)
		}
		if len(ours[4:]) != len(m.Up) {
			t.Errorf("message %d: %d bytes, want %d", i, len(ours)-4, len(m.Up))
		}
		if got, err := in.unwrap(m.Down, m.Sealed); err != nil || !bytes.Equal(got, m.Plain) {
			t.Fatalf("message %d: %x, %v; want %x", i, got, err, m.Plain)
		}
		seq := server.seq
		for _, token := range [][]byte{m.Up, ours[4:]} {
			server.seq = seq
			if got, err := server.unwrap(token, m.Sealed); err != nil || !bytes.Equal(got, m.Plain) {
				t.Fatalf("message %d to the server: %x, %v; want %x", i, got, err, m.Plain)
			}
		}
	}
}

func TestWrapTokensChanged(t *testing.T) {
	c := readJavaContext(t)
	key := types.EncryptionKey{KeyType: c.Context.Type, KeyValue: c.Context.Key}
	_, in, err := newWrapSides(key, false, 0, binary.BigEndian.Uint64(c.Messages[0].Down[8:]))
	if err != nil {
		t.Fatal(err)
	}
	try := func(name string, token []byte, mustSeal bool) {
		t.Helper()
		if got, err := in.unwrap(bytes.Clone(token), mustSeal); !errors.Is(err, ErrMessage) {
			t.Errorf("%s: %x, %v", name, got, err)
		}
	}
	first, second := c.Messages[0].Down, c.Messages[1].Down
	try("not sealed where it was agreed", first, true)
	try("the second message first", second, true)
	try("the client's own message", c.Messages[0].Up, false)
	for _, token := range [][]byte{first, second} {
		for i := range token {
			if i == 6 || i == 7 {
				continue // the rotation is not protected; any is undone, and wrong bytes have a wrong sum
			}
			changed := bytes.Clone(token)
			changed[i] ^= 1 << (i % 8)
			try(fmt.Sprintf("a bit of byte %d", i), changed, false)
		}
		for n := range token {
			try(fmt.Sprintf("%d bytes", n), token[:n], false)
		}
		if got, err := in.unwrap(bytes.Clone(token), false); err != nil {
			t.Fatalf("%x, %v", got, err)
		}
		try("the same message twice", token, false)
	}
}

// Other implementations (Microsoft's, MIT's) rotate and fill: RFC 4121, sections 4.2.3 to 4.2.5.
func TestWrapTokensRotatedAndFilled(t *testing.T) {
	for _, rrc := range []uint16{0, 1, 12, 28, 1000} {
		for _, seal := range []bool{false, true} {
			_, ticket := newAcceptor(t, 18)
			_, in, err := newWrapSides(ticket.key, true, 0, 5)
			if err != nil {
				t.Fatal(err)
			}
			server := *in // makes what in reads
			token, err := server.wrap(nil, []byte("some text"), seal)
			if err != nil {
				t.Fatal(err)
			}
			if seal { // filled
				header := in.header(in.flags|sealed, 3, 0)
				_, body, err := in.etype.EncryptMessage(in.key.KeyValue, append([]byte("some textxyz"), header...), in.usage)
				if err != nil {
					t.Fatal(err)
				}
				token = append(header, body...)
			}
			binary.BigEndian.PutUint16(token[6:], rrc)
			body := token[wrapHeader:]
			n := len(body) - int(rrc)%len(body)
			token = append(bytes.Clone(token[:wrapHeader]), append(bytes.Clone(body[n:]), body[:n]...)...)
			if got, err := in.unwrap(token, seal); err != nil || string(got) != "some text" {
				t.Errorf("rotation %d, sealed %v: %q, %v", rrc, seal, got, err)
			}
		}
	}
}

func TestGSSAPI(t *testing.T) {
	for _, c := range []struct {
		etype  int32
		subkey bool
		qops   []QOP
		want   QOP
	}{
		{17, false, nil, Auth},
		{18, true, []QOP{Integrity}, Integrity},
		{18, false, []QOP{Privacy, Integrity}, Privacy},
		{19, true, []QOP{Privacy}, Privacy},
		{20, false, []QOP{Integrity, Privacy}, Integrity},
		{20, true, []QOP{Privacy}, Privacy},
	} {
		t.Run(fmt.Sprintf("etype %d, %v", c.etype, c.want), func(t *testing.T) {
			a, ticket := newAcceptor(t, c.etype)
			a.subkey = c.subkey
			g := newGSSAPI("nn/localhost", c.qops, func() (serviceTicket, error) { return ticket, nil })
			if err := a.meet(g); err != nil {
				t.Fatal(err)
			}
			if g.QOP() != c.want || a.chosen != 1<<c.want {
				t.Errorf("%v (the server got %d), want %v", g.QOP(), a.chosen, c.want)
			}
			if wantsSeal := a.asked&gssPrivacy != 0; a.asked&^gssPrivacy != gssMutual|gssReplay|gssSequence|gssIntegrity || wantsSeal != strings.Contains(fmt.Sprint(c.qops), "privacy") {
				t.Errorf("flags %#x", a.asked)
			}
			protects(t, g, a)
		})
	}
}

// protects sends messages both ways.
func protects(t *testing.T, g *gssapi, a *acceptor) {
	t.Helper()
	if g.QOP() == Auth {
		if _, err := g.Wrap(nil, []byte("x")); err == nil {
			t.Error("Wrap without protection works")
		}
		if _, err := g.Unwrap([]byte("x")); err == nil {
			t.Error("Unwrap without protection works")
		}
		return
	}
	if g.SendLimit() != 65536-gssOverhead {
		t.Errorf("send limit %d", g.SendLimit())
	}
	for _, n := range []int{0, 1, 15, 16, 17, g.SendLimit()} {
		text := bytes.Repeat([]byte("n"), n)
		up, err := g.Wrap(nil, text)
		if err != nil || len(up) > 65536 {
			t.Fatalf("%d bytes: %d, %v", n, len(up), err)
		}
		if got, err := a.in.unwrap(up, g.QOP() == Privacy); err != nil || !bytes.Equal(got, text) {
			t.Fatalf("up: %v", err)
		}
		down, err := a.out.wrap(nil, text, g.QOP() == Privacy)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := g.Unwrap(down); err != nil || !bytes.Equal(got, text) {
			t.Fatalf("down: %v", err)
		}
	}
	if _, _, err := g.Step(nil); err == nil {
		t.Error("a step after the last one works")
	}
}

func TestGSSAPIRefuses(t *testing.T) {
	none := errors.New("no KDC today")
	for name, c := range map[string]struct {
		qops   []QOP
		change func(*acceptor, *serviceTicket)
		ticket error
		want   string
	}{
		"no ticket":   {nil, nil, none, "no KDC today"},
		"an impostor": {nil, func(a *acceptor, s *serviceTicket) { s.key.KeyValue[0] ^= 1 }, nil, "decrypt"},
		"a replay":    {nil, func(a *acceptor, _ *serviceTicket) { a.change = func(p *messages.EncAPRepPart) { p.Cusec++ } }, nil, "another request"},
		"another second": {nil, func(a *acceptor, _ *serviceTicket) {
			a.change = func(p *messages.EncAPRepPart) { p.CTime = p.CTime.Add(time.Second) }
		}, nil, "another request"},
		"a session of RC4":          {nil, func(_ *acceptor, s *serviceTicket) { s.key.KeyType = 23 }, nil, "only AES"},
		"no layer in common":        {[]QOP{Privacy}, func(a *acceptor, _ *serviceTicket) { a.layers = 1 }, nil, "hadoop.rpc.protection"},
		"no layer":                  {nil, func(a *acceptor, _ *serviceTicket) { a.layers = 0 }, nil, "hadoop.rpc.protection"},
		"a server of tiny messages": {[]QOP{Integrity}, func(a *acceptor, _ *serviceTicket) { a.limit = 50 }, nil, "50 bytes only"},
		"a subkey of the wrong kind": {nil, func(a *acceptor, _ *serviceTicket) {
			a.change = func(p *messages.EncAPRepPart) {
				p.Subkey = types.EncryptionKey{KeyType: 23, KeyValue: make([]byte, 16)}
			}
		}, nil, "only AES"},
		"a subkey of the wrong width": {nil, func(a *acceptor, _ *serviceTicket) {
			a.change = func(p *messages.EncAPRepPart) {
				p.Subkey = types.EncryptionKey{KeyType: 18, KeyValue: make([]byte, 16)}
			}
		}, nil, "16 bytes instead of 32"},
	} {
		a, ticket := newAcceptor(t, 18)
		if c.change != nil {
			c.change(a, &ticket)
		}
		g := newGSSAPI("nn/localhost", c.qops, func() (serviceTicket, error) { return ticket, c.ticket })
		err := a.meet(g)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q in it", name, err, c.want)
		}
		if _, _, again := g.Step(nil); again == nil {
			t.Errorf("%s: goes on after an error", name)
		}
	}
}

// A server whose clock differs says so with a KRB-ERROR.
func TestClockOfTheServer(t *testing.T) {
	a, ticket := newAcceptor(t, 18)
	g := newGSSAPI("nn/localhost", nil, func() (serviceTicket, error) { return ticket, nil })
	if _, err := g.Start(); err != nil {
		t.Fatal(err)
	}
	e := messages.NewKRBError(a.name, "EXAMPLE.COM", 37, "")
	e.STime = time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)
	body, err := e.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = g.Step(frameToken(tokenError, body))
	for _, want := range []string{"2031-05-06T07:08:09Z", "chronyc tracking", "nn/localhost"} {
		if !errors.Is(err, ErrAuth) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q in it", err, want)
		}
	}
}

func FuzzGSSUnwrap(f *testing.F) {
	c := readJavaContext(f)
	key := types.EncryptionKey{KeyType: c.Context.Type, KeyValue: c.Context.Key}
	for _, m := range c.Messages[:4] {
		f.Add([]byte(m.Down))
	}
	f.Fuzz(func(t *testing.T, token []byte) {
		var seq uint64
		if len(token) >= wrapHeader {
			seq = binary.BigEndian.Uint64(token[8:])
		}
		_, in, err := newWrapSides(key, false, 0, seq)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := in.unwrap(token, false); err != nil && !errors.Is(err, ErrMessage) {
			t.Fatal(err)
		}
	})
}

func FuzzAPRep(f *testing.F) {
	c := readJavaContext(f)
	r := c.request(f)
	f.Add([]byte(c.Reply))
	f.Add([]byte(c.Request))
	e := messages.NewKRBError(types.PrincipalName{}, "R", 37, "text")
	body, _ := e.Marshal()
	f.Add(frameToken(tokenError, body))
	f.Fuzz(func(t *testing.T, token []byte) {
		got, err := guarded(func() (reply, error) { return readAPRep(token, r) })
		if err == nil && !bytes.Equal(got.key.KeyValue, c.Context.Key) {
			t.Fatalf("accepted: %+v", got)
		}
	})
}
