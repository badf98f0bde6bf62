package sasl

import (
	"crypto/md5"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
)

// Digest says how to take part in a DIGEST-MD5 exchange.
type Digest struct {
	// Protocol and Server make the digest-uri "Protocol/Server".
	Protocol, Server string
	// User and Password are what the server knows, as UTF-8.
	User     string
	Password []byte
	// QOPs are acceptable, in order of preference. None: Auth.
	QOPs []QOP
	// Ciphers are acceptable for Privacy, in order of preference. None: RC4, then TripleDES, which is ten
	// times slower and no safer; both are old, HDFS has nothing better here. Where AES is configured, it
	// replaces them: see DataStreams.
	Ciphers []Cipher
	// Rand is where the client's nonce comes from. Nil: crypto/rand.
	Rand io.Reader
}

// Format prints what the exchange is with, whatever the verb: the password does not show.
func (d Digest) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "DIGEST-MD5 with %s/%s", d.Protocol, d.Server)
}

// DigestMD5 returns the client's side of an exchange: RFC 2831, initial authentication. The server speaks first.
func DigestMD5(o Digest) Mechanism {
	if len(o.QOPs) == 0 {
		o.QOPs = []QOP{Auth}
	}
	if len(o.Ciphers) == 0 {
		o.Ciphers = []Cipher{RC4, TripleDES}
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	o.Password = slices.Clone(o.Password)
	return &digest{o: o}
}

type digestState int

const (
	awaitChallenge digestState = iota
	awaitProof
	digestDone
	digestFailed
)

type digest struct {
	o       Digest
	state   digestState
	qop     QOP
	limit   int
	rspauth string // what the server must answer
	// Of each direction; used by different goroutines.
	out, in *digestSide
}

func (d *digest) Format(f fmt.State, verb rune) { d.o.Format(f, verb) }

func (*digest) Name() string           { return "DIGEST-MD5" }
func (*digest) Start() ([]byte, error) { return nil, nil }
func (d *digest) QOP() QOP             { return d.qop }
func (d *digest) SendLimit() int       { return d.limit }

func (d *digest) Step(message []byte) (response []byte, done bool, err error) {
	switch d.state {
	case awaitChallenge:
		response, err = d.respond(message)
		d.state = awaitProof
	case awaitProof:
		done, err = true, d.check(message)
		d.state = digestDone
	default:
		err = errOrder
	}
	if err != nil {
		d.state = digestFailed
		return nil, false, fmt.Errorf("sasl: DIGEST-MD5 with %s: %w", d.uri(), err)
	}
	return response, done, nil
}

func (d *digest) uri() string { return d.o.Protocol + "/" + d.o.Server }

// respond answers the challenge: RFC 2831, section 2.1.2.
func (d *digest) respond(message []byte) ([]byte, error) {
	c, err := parseChallenge(message)
	if err != nil {
		return nil, fmt.Errorf("%w: the server's challenge: %w", ErrAuth, err)
	}
	if d.qop, err = chooseQOP(d.o.QOPs, c.qops); err != nil {
		return nil, err
	}
	var cipher Cipher
	if d.qop == Privacy {
		if cipher, err = chooseCipher(d.o.Ciphers, c.ciphers); err != nil {
			return nil, err
		}
	}
	if !c.utf8 && !ascii(d.o.User+c.realm+string(d.o.Password)) {
		return nil, fmt.Errorf("%w: the server does not take utf-8, and user, realm or password are not ASCII", ErrAuth)
	}
	var random [30]byte
	if _, err := io.ReadFull(d.o.Rand, random[:]); err != nil {
		return nil, err
	}
	cnonce := base64.StdEncoding.EncodeToString(random[:])
	ha1 := hashA1(d.o.User, c.realm, string(d.o.Password), c.nonce, cnonce)
	proof := func(a2 string) string {
		return keyed(ha1, c.nonce, "00000001", cnonce, digestNames[d.qop], hexSum(a2+d.uri()+zeros(d.qop)))
	}
	d.rspauth = proof(":")
	if d.qop > Auth {
		d.out, d.in = newDigestSides(ha1, cipher, d.qop)
		d.limit = c.maxbuf - digestOverhead
	}
	return []byte(d.response(c, cnonce, proof("AUTHENTICATE:"), cipher)), nil
}

func (d *digest) response(c challenge, cnonce, proof string, cipher Cipher) string {
	var b strings.Builder
	if c.utf8 {
		b.WriteString("charset=utf-8,")
	}
	fmt.Fprintf(&b, "username=%s,", quote(d.o.User))
	if c.realm != "" {
		fmt.Fprintf(&b, "realm=%s,", quote(c.realm))
	}
	fmt.Fprintf(&b, "nonce=%s,nc=00000001,cnonce=%s,digest-uri=%s,maxbuf=%d,response=%s,qop=%s",
		quote(c.nonce), quote(cnonce), quote(d.uri()), defaultMaxbuf, proof, digestNames[d.qop])
	if d.qop == Privacy {
		fmt.Fprintf(&b, ",cipher=%s", quote(cipher.String()))
	}
	return b.String()
}

// check verifies that the server knows the password too: RFC 2831, section 2.1.3.
func (d *digest) check(message []byte) error {
	list, err := parseDirectives(message)
	if err != nil {
		return fmt.Errorf("%w: the server's proof: %w", ErrAuth, err)
	}
	for _, v := range list {
		if v.name == "rspauth" {
			if subtle.ConstantTimeCompare([]byte(strings.ToLower(v.value)), []byte(d.rspauth)) == 1 {
				return nil
			}
			return fmt.Errorf("%w: the server does not know our secret: it may not be the one it says it is", ErrAuth)
		}
	}
	return fmt.Errorf("%w: the server's last message holds no rspauth", ErrAuth)
}

func (d *digest) Wrap(dst, plain []byte) ([]byte, error) {
	if d.state != digestDone || d.out == nil {
		return nil, fmt.Errorf("sasl.Wrap: %w: no protection was agreed", errOrder)
	}
	return d.out.wrap(dst, plain)
}

func (d *digest) Unwrap(token []byte) ([]byte, error) {
	if d.state != digestDone || d.in == nil {
		return nil, fmt.Errorf("sasl.Unwrap: %w: no protection was agreed", errOrder)
	}
	return d.in.unwrap(token)
}

func chooseQOP(ours []QOP, theirs []string) (QOP, error) {
	for _, q := range ours {
		if q >= Auth && q <= Privacy && slices.ContainsFunc(theirs, func(s string) bool { return strings.EqualFold(s, digestNames[q]) }) {
			return q, nil
		}
	}
	return 0, protectionError(ours, slices.DeleteFunc(slices.Clone(theirs), func(s string) bool { return len(s) > 32 }))
}

// protectionError says that the two ends have no quality of protection in common.
func protectionError[T any](ours []QOP, theirs []T) error {
	return fmt.Errorf("%w: the server offers the protection %v and we accept %v only: make hadoop.rpc.protection "+
		"(NameNodes) or dfs.data.transfer.protection (DataNodes) of both ends agree", ErrAuth, theirs, ours)
}

func chooseCipher(ours []Cipher, theirs []string) (Cipher, error) {
	for _, c := range ours {
		if slices.Contains(theirs, c.String()) {
			return c, nil
		}
	}
	return 0, fmt.Errorf("%w: the server offers the ciphers %.64q and we accept %v only: see dfs.encrypt.data.transfer.algorithm", ErrAuth, theirs, ours)
}

// hashA1 is H(A1): RFC 2831, section 2.1.2.1, without an authzid.
func hashA1(user, realm, password, nonce, cnonce string) [md5.Size]byte {
	secret := md5.Sum(slices.Concat(narrow(user), []byte(":"), narrow(realm), []byte(":"), narrow(password)))
	return md5.Sum(slices.Concat(secret[:], []byte(":"+nonce+":"+cnonce)))
}

// narrow gives text as it is hashed: in ISO 8859-1 if that has all its characters, else in UTF-8.
func narrow(s string) []byte {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		if r > unicode.MaxLatin1 {
			return []byte(s)
		}
		b = append(b, byte(r))
	}
	return b
}

// keyed is HEX(KD(HEX(H(A1)), parts joined by colons)).
func keyed(ha1 [md5.Size]byte, parts ...string) string {
	return hexSum(hex.EncodeToString(ha1[:]) + ":" + strings.Join(parts, ":"))
}

func hexSum(s string) string {
	sum := md5.Sum([]byte(s))
	return hex.EncodeToString(sum[:])
}

// zeros ends A2 where messages will be protected.
func zeros(q QOP) string {
	if q == Auth {
		return ""
	}
	return ":" + strings.Repeat("0", 32)
}

func ascii(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII })
}
