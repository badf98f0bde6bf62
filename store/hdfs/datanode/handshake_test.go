package datanode

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/internal/fakedn"
	"github.com/stepahead-io/stepahead/store/hdfs/sasl"
)

// toy is a mechanism whose tokens are the plain bytes plus one, with a byte in front.
type toy struct {
	qop sasl.QOP
	bad bool // does not believe the server
}

func (m toy) Name() string           { return "TOY" }
func (m toy) Start() ([]byte, error) { return nil, nil }
func (m toy) QOP() sasl.QOP          { return m.qop }
func (m toy) SendLimit() int         { return 100 }

func (m toy) Step(challenge []byte) ([]byte, bool, error) {
	switch {
	case m.bad:
		return nil, false, sasl.ErrAuth
	case string(challenge) == "who?":
		return []byte("me"), false, nil
	default:
		return nil, true, nil
	}
}

func (m toy) Wrap(dst, plain []byte) ([]byte, error) {
	dst = append(dst, 'T')
	for _, b := range plain {
		dst = append(dst, b+1)
	}
	return dst, nil
}

func (m toy) Unwrap(token []byte) ([]byte, error) {
	if len(token) == 0 || token[0] != 'T' {
		return nil, sasl.ErrMessage
	}
	token = token[1:]
	for i := range token {
		token[i]--
	}
	return token, nil
}

func message(m *hproto.DataTransferEncryptorMessage) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return append(protowire.AppendVarint(nil, uint64(len(b))), b...)
}

func said(payload string) *hproto.DataTransferEncryptorMessage {
	return &hproto.DataTransferEncryptorMessage{Status: hproto.DataTransferEncryptorMessage_SUCCESS.Enum(), Payload: []byte(payload)}
}

// peer is the other end of a connection: it says its lines in turn, each after it heard something, and keeps what it heard.
func peer(t *testing.T, lines ...[]byte) (*conn, func() []byte) {
	ours, theirs := net.Pipe()
	var heard bytes.Buffer
	var wg sync.WaitGroup
	wg.Go(func() {
		defer theirs.Close()
		b := make([]byte, 64<<10)
		for _, line := range lines {
			n, err := theirs.Read(b)
			heard.Write(b[:n])
			if err != nil {
				return
			}
			if _, err := theirs.Write(line); err != nil {
				return
			}
		}
	})
	c := newConn(ours, 10*time.Second)
	t.Cleanup(func() { c.abort(); wg.Wait() })
	return c, func() []byte { c.abort(); wg.Wait(); return heard.Bytes() }
}

// TestHandshakeMessages: what the client says, byte for byte.
func TestHandshakeMessages(t *testing.T) {
	id, err := proto.Marshal(&hproto.BlockTokenSecret{ExpiryDate: proto.Uint64(1), BlockPoolId: proto.String("BP-9"), HandshakeSecret: []byte("sesame")})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		token *hproto.Token
		aes   bool
	}{"plain": {}, "secret and AES": {&hproto.Token{Identifier: id}, true}, "old token": {&hproto.Token{Identifier: []byte{0, 0, 7}}, false}} {
		t.Run(name, func(t *testing.T) {
			k, heard := peer(t, message(said("who?")), message(said("fine")))
			h := handshake{c: k, aes: c.aes}
			last, err := h.run(within(t), toy{}, c.token)
			if err != nil || string(last.GetPayload()) != "fine" {
				t.Fatalf("%v, %v", last, err)
			}
			hello, answer := said(""), said("me")
			if c.aes {
				hello.HandshakeSecret = &hproto.HandshakeSecret{Secret: []byte("sesame"), Bpid: proto.String("BP-9")}
				answer.CipherOption = []*hproto.CipherOption{{Suite: hproto.FileEncryptionInfo_AES_CTR_NOPADDING.Enum()}}
			}
			want := slices.Concat([]byte{0xde, 0xad, 0xbe, 0xef}, message(hello), message(answer))
			if got := heard(); !bytes.Equal(got, want) {
				t.Errorf("said %q\nwant %q", got, want)
			}
		})
	}
}

// TestHandshakeFails: every way in which a handshake can end badly has a kind.
func TestHandshakeFails(t *testing.T) {
	status := func(s hproto.DataTransferEncryptorMessage_Status, token bool) []byte {
		return message(&hproto.DataTransferEncryptorMessage{Status: s.Enum(), Message: proto.String("because"), AccessTokenError: &token})
	}
	endless := make([][]byte, 20)
	for i := range endless {
		endless[i] = message(said("who?"))
	}
	for name, c := range map[string]struct {
		lines [][]byte
		m     toy
		kind  error
		says  string
	}{
		"unknown key":  {[][]byte{status(hproto.DataTransferEncryptorMessage_ERROR_UNKNOWN_KEY, false)}, toy{}, ErrKey, "because"},
		"token":        {[][]byte{message(said("who?")), status(hproto.DataTransferEncryptorMessage_ERROR, true)}, toy{}, ErrToken, "because"},
		"error":        {[][]byte{status(hproto.DataTransferEncryptorMessage_ERROR, false)}, toy{}, ErrConnect, "because"},
		"closed":       {nil, toy{}, ErrBroken, "handshake"},
		"closed later": {[][]byte{message(said("who?"))}, toy{}, ErrBroken, "handshake"},
		"half":         {[][]byte{message(said("who?"))[:3]}, toy{}, ErrBroken, "handshake"},
		"garbage":      {[][]byte{[]byte("\x05HTTP/1.1")}, toy{}, ErrProtocol, ""},
		"huge":         {[][]byte{{0xff, 0xff, 0xff, 0x7f}}, toy{}, ErrProtocol, "at most"},
		"not believed": {[][]byte{message(said("who?"))}, toy{bad: true}, ErrConnect, "authentication"},
		"does not end": {endless, toy{}, ErrProtocol, "does not end"},
	} {
		t.Run(name, func(t *testing.T) {
			k, _ := peer(t, c.lines...)
			h := handshake{c: k}
			if _, err := h.run(within(t), c.m, nil); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v; want %v with %q", err, c.kind, c.says)
			}
		})
	}
}

// TestProtect: what was agreed on decides what lies between the operations and the wire.
func TestProtect(t *testing.T) {
	key := func(k string) []byte { b, _ := toy{}.Wrap(nil, []byte(k)); return b }
	option := &hproto.CipherOption{
		Suite: hproto.FileEncryptionInfo_AES_CTR_NOPADDING.Enum(),
		InKey: key("0123456789abcdef"), InIv: make([]byte, 16), OutKey: key("fedcba9876543210"), OutIv: make([]byte, 16),
	}
	other := &hproto.CipherOption{Suite: hproto.FileEncryptionInfo_SM4_CTR_NOPADDING.Enum()}
	for name, c := range map[string]struct {
		qop     sasl.QOP
		options []*hproto.CipherOption
		want    any
	}{
		"auth":        {sasl.Auth, nil, &conn{}},
		"integrity":   {sasl.Integrity, []*hproto.CipherOption{option}, &wrapped{}},
		"privacy":     {sasl.Privacy, nil, &wrapped{}},
		"AES":         {sasl.Privacy, []*hproto.CipherOption{option}, &encrypted{}},
		"SM4":         {sasl.Privacy, []*hproto.CipherOption{other}, nil},
		"two":         {sasl.Privacy, []*hproto.CipherOption{option, option}, nil},
		"without key": {sasl.Privacy, []*hproto.CipherOption{{Suite: option.Suite}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			k := newConn(nil, time.Second)
			err := protect(k, toy{qop: c.qop}, &hproto.DataTransferEncryptorMessage{CipherOption: c.options})
			if (err != nil) != (c.want == nil) {
				t.Fatal(err)
			}
			if c.want != nil && !sameType(k.src, c.want) {
				t.Errorf("%T, want %T", k.src, c.want)
			}
		})
	}
}

func sameType(a, b any) bool {
	switch a.(type) {
	case *conn:
		_, ok := b.(*conn)
		return ok
	case *wrapped:
		_, ok := b.(*wrapped)
		return ok
	default:
		_, ok := b.(*encrypted)
		return ok
	}
}

// loop is a wire that ends where it begins.
type loop struct {
	net.Conn
	bytes.Buffer
	most int // bytes a read
}

func (l *loop) Read(b []byte) (int, error)     { return l.Buffer.Read(b[:min(len(b), l.most)]) }
func (l *loop) Write(b []byte) (int, error)    { return l.Buffer.Write(b) }
func (*loop) SetReadDeadline(time.Time) error  { return nil }
func (*loop) SetWriteDeadline(time.Time) error { return nil }
func (*loop) Close() error                     { return nil }

// TestWrapped: plain bytes come out as they went in, however they are cut on the way.
func TestWrapped(t *testing.T) {
	data := content(100_000)
	for _, most := range []int{1, 3, 1000, 1 << 20} {
		l := &loop{most: most}
		w := &wrapped{c: newConn(l, time.Second), m: toy{}}
		if n, err := w.Write(data[:3000]); n != 3000 || err != nil {
			t.Fatal(n, err)
		}
		if _, err := w.Write(data[3000:]); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(w); !errors.Is(err, io.EOF) && err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes a read: %d bytes came out, %v", most, len(got), err)
		}
	}
	for name, wire := range map[string][]byte{
		"forged": append(binary.BigEndian.AppendUint32(nil, 3), "abc"...), "huge": {0x7f, 0xff, 0xff, 0xff}, "negative": {0xff, 0xff, 0xff, 0xff},
	} {
		l := &loop{most: 100}
		l.Buffer.Write(wire)
		w := &wrapped{c: newConn(l, time.Second), m: toy{}}
		if _, err := w.Read(make([]byte, 10)); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// keys is a Security whose keys a node knows or not.
type keys struct {
	mu      sync.Mutex
	key     *hproto.DataEncryptionKey
	refused int
	err     error
}

func (k *keys) Protection(context.Context) (Protection, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return Protection{Mode: Encrypted, Key: k.key}, k.err
}

func (k *keys) KeyRefused(*hproto.DataEncryptionKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refused++
}

// TestUnknownKeyIsReplacedOnce: and only once.
func TestUnknownKeyIsReplacedOnce(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { lis.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := lis.Accept()
			if err != nil {
				return
			}
			_, _ = bufio.NewReader(c).Peek(4)
			_, _ = c.Write(message(&hproto.DataTransferEncryptorMessage{Status: hproto.DataTransferEncryptorMessage_ERROR_UNKNOWN_KEY.Enum()}))
			c.Close()
		}
	})
	security := &keys{key: &hproto.DataEncryptionKey{KeyId: proto.Uint32(1)}}
	p := newPool(t, Options{Security: security})
	b := Block{ExtendedBlock: &hproto.ExtendedBlock{PoolId: new(string), BlockId: new(uint64), GenerationStamp: new(uint64)}}
	_, err = p.Read(within(t), Node{Addr: lis.Addr().String()}, b, []Part{{0, make([]byte, 1)}})
	if !errors.Is(err, ErrKey) || security.refused != 1 {
		t.Errorf("%v; refused %d times", err, security.refused)
	}
	security.key, security.err = nil, errors.New("no NameNode")
	if _, err = p.Read(within(t), Node{Addr: lis.Addr().String()}, b, []Part{{0, make([]byte, 1)}}); !errors.Is(err, security.err) {
		t.Errorf("got %v", err)
	}
}

// TestPrivilegedPort: a general handshake is left out where the port proves the node.
func TestPrivilegedPort(t *testing.T) {
	n := start(t, fakedn.Options{})
	b := Block{ExtendedBlock: n.Put(7, content(10))}
	p := newPool(t, Options{Security: general{}})
	node := at(n)
	node.XferPort = 1004
	if _, err := p.Read(within(t), node, b, []Part{{0, make([]byte, 10)}}); err != nil {
		t.Error(err)
	}
	node.XferPort, node.Addr = 0, n.Addr()
	p = newPool(t, Options{Security: general{}})
	if _, err := p.Read(within(t), node, b, []Part{{0, make([]byte, 10)}}); !errors.Is(err, ErrConnect) { // the fake one knows none
		t.Errorf("got %v", err)
	}
}

type general struct{}

func (general) Protection(context.Context) (Protection, error) { return Protection{Mode: General}, nil }
func (general) KeyRefused(*hproto.DataEncryptionKey)           {}
