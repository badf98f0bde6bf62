package sasl

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// hexBytes is written in hex in JSON.
type hexBytes []byte

func (h *hexBytes) UnmarshalText(text []byte) (err error) {
	*h, err = hex.DecodeString(string(text))
	return err
}

// exchange is one between the JDK's client and the JDK's server: testdata/DigestVectors.java.
type exchange struct {
	Protocol, Server             string
	User, Password               hexBytes
	QOP, Cipher                  string
	Challenge, Response, Rspauth hexBytes
	Messages                     []struct{ Plain, Up, Down hexBytes }
}

func exchanges(t testing.TB) []exchange {
	t.Helper()
	data, err := os.ReadFile("testdata/digest.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []exchange
	if err := json.Unmarshal(data, &list); err != nil || len(list) < 7 {
		t.Fatalf("%d exchanges, %v", len(list), err)
	}
	return list
}

// client is set up so that it makes the same nonce as the JDK's client did.
func (e exchange) client(t testing.TB) Mechanism {
	t.Helper()
	nonce, err := base64.StdEncoding.DecodeString(regexp.MustCompile(`cnonce="([^"]*)"`).FindStringSubmatch(string(e.Response))[1])
	if err != nil {
		t.Fatal(err)
	}
	d := Digest{Protocol: e.Protocol, Server: e.Server, User: string(e.User), Password: e.Password, Rand: bytes.NewReader(nonce)}
	for q, name := range digestNames {
		if name == e.QOP {
			d.QOPs = []QOP{QOP(q)}
		}
	}
	if e.Cipher == "3des" {
		d.Ciphers = []Cipher{TripleDES}
	}
	return DigestMD5(d)
}

// agreed is client after the whole exchange.
func (e exchange) agreed(t testing.TB) Mechanism {
	t.Helper()
	m := e.client(t)
	if _, done, err := m.Step(e.Challenge); done || err != nil {
		t.Fatalf("done %v, %v", done, err)
	}
	if _, done, err := m.Step(e.Rspauth); !done || err != nil {
		t.Fatalf("done %v, %v", done, err)
	}
	return m
}

// The JDK's DIGEST-MD5 is what every Hadoop server runs.
func TestDigestEqualsJava(t *testing.T) {
	for _, e := range exchanges(t) {
		t.Run(e.QOP+e.Cipher+string(e.User), func(t *testing.T) {
			m := e.client(t)
			if first, err := m.Start(); len(first) != 0 || err != nil || m.Name() != "DIGEST-MD5" {
				t.Errorf("%s starts with %q, %v", m.Name(), first, err)
			}
			response, done, err := m.Step(e.Challenge)
			if err != nil || done {
				t.Fatalf("done %v, %v", done, err)
			}
			sameDirectives(t, response, e.Response)
			if response, done, err := m.Step(e.Rspauth); err != nil || !done || response != nil {
				t.Fatalf("%q, done %v, %v", response, done, err)
			}
			if got := digestNames[m.QOP()]; got != e.QOP {
				t.Errorf("QOP %s, want %s", got, e.QOP)
			}
			if (len(e.Messages) > 0) != (m.QOP() > Auth) {
				t.Fatalf("%d messages for %s", len(e.Messages), m.QOP())
			}
			for i, message := range e.Messages {
				up, err := m.Wrap([]byte("kept"), message.Plain)
				if err != nil || !bytes.Equal(up, append([]byte("kept"), message.Up...)) {
					t.Fatalf("message %d: wrapped %x, %v; want %x", i, up, err, message.Up)
				}
				down, err := m.Unwrap(bytes.Clone(message.Down))
				if err != nil || !bytes.Equal(down, message.Plain) {
					t.Fatalf("message %d: unwrapped %x, %v; want %x", i, down, err, message.Plain)
				}
			}
			if m.QOP() == Auth {
				if _, err := m.Wrap(nil, []byte("x")); err == nil {
					t.Error("Wrap without protection works")
				}
				if _, err := m.Unwrap([]byte("x")); err == nil {
					t.Error("Unwrap without protection works")
				}
			}
			if _, _, err := m.Step(e.Rspauth); err == nil {
				t.Error("a step after the last one works")
			}
		})
	}
}

func sameDirectives(t *testing.T, got, want []byte) {
	t.Helper()
	a, errA := parseDirectives(got)
	b, errB := parseDirectives(want)
	if errA != nil || errB != nil || len(a) != len(b) {
		t.Fatalf("%s\n%s\n%v %v", got, want, errA, errB)
	}
	for i := range a {
		if a[i] != b[i] {
			t.Errorf("directive %d: %+v, want %+v", i, a[i], b[i])
		}
	}
}

// The examples of RFC 2831, section 4.
func TestDigestRFC(t *testing.T) {
	for _, c := range []struct{ nonce, cnonce, uri, response, rspauth string }{
		{"OA6MG9tEQGm2hh", "OA6MHXh6VqTrRk", "imap/elwood.innosoft.com", "d388dad90d4bbd760a152321f2143af7", "ea40f60335c427b5527b84dbabcdfffd"},
		{"OA9BSXrbuRhWay", "OA9BSuZWMSpW8m", "acap/elwood.innosoft.com", "6084c6db3fede7352c551284490fd0fc", "2f0b3d7c3c2e486600ef710726aa2eae"},
	} {
		ha1 := hashA1("chris", "elwood.innosoft.com", "secret", c.nonce, c.cnonce)
		if got := keyed(ha1, c.nonce, "00000001", c.cnonce, "auth", hexSum("AUTHENTICATE:"+c.uri)); got != c.response {
			t.Errorf("response %s, want %s", got, c.response)
		}
		if got := keyed(ha1, c.nonce, "00000001", c.cnonce, "auth", hexSum(":"+c.uri)); got != c.rspauth {
			t.Errorf("rspauth %s, want %s", got, c.rspauth)
		}
	}
}

func TestDigestServerMustProveItself(t *testing.T) {
	e := exchanges(t)[0]
	for name, proof := range map[string]string{
		"nothing":      "",
		"another":      "rspauth=" + strings.Repeat("0", 32),
		"cut":          string(e.Rspauth[:len(e.Rspauth)-1]),
		"no directive": "rspauth",
		"other name":   "auth=" + string(e.Rspauth[len("rspauth="):]),
	} {
		m := e.client(t)
		if _, _, err := m.Step(e.Challenge); err != nil {
			t.Fatal(err)
		}
		if _, done, err := m.Step([]byte(proof)); done || !errors.Is(err, ErrAuth) || !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: done %v, %v", name, done, err)
		}
		if _, _, err := m.Step(e.Rspauth); err == nil {
			t.Errorf("%s: goes on after an error", name)
		}
	}
}

func TestChallengeRefused(t *testing.T) {
	const good = `realm="0",nonce="n",qop="auth,auth-int,auth-conf",charset=utf-8,cipher="rc4",algorithm=md5-sess`
	privacy := Digest{QOPs: []QOP{Privacy}}
	for _, c := range []struct {
		name, challenge string
		o               Digest
		want            string
	}{
		{"good", good, Digest{}, ""},
		{"blanks and empty elements", " ,, realm = \"0\" ,\tnonce=\"n\"\r\n,algorithm=md5-sess,charset=UTF-8,", Digest{}, ""},
		{"unknown directives", good + `,x=1,x=2,y="a\"b"`, Digest{}, ""},
		{"no qop is auth", `nonce="n",charset=utf-8,algorithm=md5-sess`, Digest{}, ""},
		{"many realms", `realm="a",realm="b",` + good, Digest{}, ""},
		{"empty", "", Digest{}, "no nonce"},
		{"no nonce", `charset=utf-8,algorithm=md5-sess`, Digest{}, "no nonce"},
		{"two nonces", good + `,nonce="m"`, Digest{}, "nonce is given twice"},
		{"two qops", good + `,qop="auth"`, Digest{}, "qop is given twice"},
		{"no algorithm", `nonce="n"`, Digest{}, "only md5-sess"},
		{"other algorithm", `nonce="n",algorithm=md5`, Digest{}, "only md5-sess"},
		{"charset", `nonce="n",algorithm=md5-sess,charset=latin1`, Digest{}, "only utf-8"},
		{"maxbuf 16", good + `,maxbuf=16`, Digest{}, "maxbuf"},
		{"maxbuf negative", good + `,maxbuf=-1`, Digest{}, "maxbuf"},
		{"maxbuf huge", good + `,maxbuf=16777216`, Digest{}, "maxbuf"},
		{"no end of quotes", `nonce="n`, Digest{}, "no end"},
		{"ends with backslash", `nonce="n\`, Digest{}, "no end"},
		{"no comma", `nonce="n" algorithm=md5-sess`, Digest{}, "no comma"},
		{"no value", `nonce=`, Digest{}, "no value"},
		{"no =", `nonce`, Digest{}, "no ="},
		{"no name", `="x"`, Digest{}, "no name"},
		{"not UTF-8", "nonce=\"\xff\"", Digest{}, "not UTF-8"},
		{"too long", good + `,x="` + strings.Repeat("x", maxChallenge) + `"`, Digest{}, "more than 2048"},
		{"no common protection", `nonce="n",algorithm=md5-sess,qop="auth"`, privacy, "hadoop.rpc.protection"},
		{"no common cipher", `nonce="n",algorithm=md5-sess,qop="auth-conf",cipher="des"`, privacy, "dfs.encrypt.data.transfer.algorithm"},
		{"no cipher", `nonce="n",algorithm=md5-sess,qop="auth-conf"`, privacy, "dfs.encrypt.data.transfer.algorithm"},
		{"not ASCII", `nonce="n",algorithm=md5-sess`, Digest{User: "J\u00fcrgen"}, "not ASCII"},
	} {
		response, _, err := DigestMD5(c.o).Step([]byte(c.challenge))
		if c.want == "" && (err != nil || len(response) == 0) {
			t.Errorf("%s: %q, %v", c.name, response, err)
		}
		if c.want != "" && (!errors.Is(err, ErrAuth) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v; want %q in it", c.name, err, c.want)
		}
	}
}

func TestQOPIsOurFirstChoiceThatTheServerHas(t *testing.T) {
	for _, c := range []struct {
		ours   []QOP
		theirs string
		want   QOP
	}{
		{nil, "auth-conf,auth-int,auth", Auth},
		{[]QOP{Privacy, Integrity}, "auth,auth-int", Integrity},
		{[]QOP{Integrity, Privacy}, "auth-conf,auth-int", Integrity},
		{[]QOP{Privacy, Auth}, "auth , auth-conf", Privacy},
	} {
		m := DigestMD5(Digest{QOPs: c.ours})
		_, _, err := m.Step([]byte(`nonce="n",algorithm=md5-sess,cipher="3des,rc4",qop="` + c.theirs + `"`))
		if err != nil || m.QOP() != c.want {
			t.Errorf("%v of %s: %v, %v", c.ours, c.theirs, m.QOP(), err)
		}
	}
}

func TestDigestMessagesChanged(t *testing.T) {
	for _, e := range exchanges(t) {
		if len(e.Messages) == 0 {
			continue
		}
		first, second := e.Messages[0].Down, e.Messages[1].Down
		try := func(name string, token []byte) {
			if got, err := e.agreed(t).Unwrap(bytes.Clone(token)); !errors.Is(err, ErrMessage) {
				t.Errorf("%s %s: %s gives %x, %v", e.QOP, e.Cipher, name, got, err)
			}
		}
		for i := range len(first) * 8 {
			flipped := bytes.Clone(first)
			flipped[i/8] ^= 1 << (i % 8)
			try("one bit", flipped)
		}
		for n := range first {
			try("a cut message", first[:n])
		}
		try("the second message first", second)
		try("a longer message", append(bytes.Clone(first), 0))
		try("the client's own message", e.Messages[0].Up)
		m := e.agreed(t)
		if _, err := m.Unwrap(bytes.Clone(first)); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Unwrap(bytes.Clone(first)); !errors.Is(err, ErrMessage) {
			t.Errorf("the same message twice: %v", err)
		}
	}
}

func TestDigestDoesNotAllocate(t *testing.T) {
	for _, e := range exchanges(t) {
		if len(e.Messages) == 0 {
			continue
		}
		m, plain, dst := e.agreed(t), make([]byte, 4096), make([]byte, 0, 8192)
		if n := testing.AllocsPerRun(20, func() { m.Wrap(dst, plain) }); n > 0 {
			t.Errorf("%s %s: Wrap allocates %v times", e.QOP, e.Cipher, n)
		}
	}
}

func FuzzChallenge(f *testing.F) {
	for _, e := range exchanges(f) {
		f.Add([]byte(e.Challenge))
		f.Add([]byte(e.Rspauth))
	}
	f.Add([]byte(`realm="a\"b\\",nonce=n,algorithm=md5-sess,qop="auth-conf,auth",cipher="rc4",maxbuf=17`))
	f.Fuzz(func(t *testing.T, message []byte) {
		m := DigestMD5(Digest{User: "u", Password: []byte("p"), QOPs: []QOP{Privacy, Integrity, Auth}})
		response, done, err := m.Step(message)
		if done || (err == nil) == (len(response) == 0) {
			t.Fatalf("%q, %v, %v", response, done, err)
		}
		if err != nil && !errors.Is(err, ErrAuth) {
			t.Fatal(err)
		}
		if err == nil {
			if _, err := parseDirectives(response); len(response) <= maxChallenge && err != nil {
				t.Fatalf("our response %q: %v", response, err)
			}
		}
	})
}

func FuzzDigestUnwrap(f *testing.F) {
	var list []exchange
	for _, e := range exchanges(f) {
		if len(e.Messages) > 0 {
			f.Add(uint8(len(list)), []byte(e.Messages[0].Down))
			f.Add(uint8(len(list)), []byte(e.Messages[1].Down))
			list = append(list, e)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, token []byte) {
		e := list[int(which)%len(list)]
		got, err := e.agreed(t).Unwrap(bytes.Clone(token))
		if genuine := bytes.Equal(token, e.Messages[0].Down); genuine != (err == nil) || genuine && !bytes.Equal(got, e.Messages[0].Plain) {
			t.Fatalf("%x gives %x, %v", token, got, err)
		}
		if err != nil && !errors.Is(err, ErrMessage) {
			t.Fatal(err)
		}
	})
}
