package sasl

import (
	"bytes"
	"crypto/hmac"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/crypto/etype"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/types"
)

// Wrap tokens: RFC 4121, section 4.2.6.2. gokrb5 knows those without encryption only, and neither rotation
// nor sequence numbers; what it has (the encryption types) is used here.
const (
	wrapHeader    = 16
	fromAcceptor  = 1
	sealed        = 2
	acceptorKey   = 4
	wrapFiller    = 0xff
	wrapTokenID   = 0x0504
	aesConfounder = 16
	// gssOverhead is the most that a wrap token adds: two headers, the confounder, the longest sum (24 bytes).
	gssOverhead = 2*wrapHeader + aesConfounder + 24
)

// wrapSide makes or reads the wrap tokens of one direction.
type wrapSide struct {
	key   types.EncryptionKey
	etype etype.EType
	usage uint32
	flags byte // fromAcceptor and acceptorKey, as they must be in each token
	seq   uint64
}

// newWrapSides returns the sides of the initiator. subkey says that the key is the acceptor's subkey.
func newWrapSides(key types.EncryptionKey, subkey bool, outSeq, inSeq uint64) (out, in *wrapSide, err error) {
	if err := checkKey(key); err != nil {
		return nil, nil, err
	}
	et, err := crypto.GetEtype(key.KeyType)
	if err != nil {
		return nil, nil, err
	}
	var flags byte
	if subkey {
		flags = acceptorKey
	}
	out = &wrapSide{key: key, etype: et, usage: keyusage.GSSAPI_INITIATOR_SEAL, flags: flags, seq: outSeq}
	in = &wrapSide{key: key, etype: et, usage: keyusage.GSSAPI_ACCEPTOR_SEAL, flags: flags | fromAcceptor, seq: inSeq}
	return out, in, nil
}

// checkKey refuses keys whose wrap tokens are of the older form (RFC 1964, RFC 4757).
func checkKey(key types.EncryptionKey) error {
	want := map[int32]int{
		etypeID.AES128_CTS_HMAC_SHA1_96: 16, etypeID.AES256_CTS_HMAC_SHA1_96: 32,
		etypeID.AES128_CTS_HMAC_SHA256_128: 16, etypeID.AES256_CTS_HMAC_SHA384_192: 32,
	}[key.KeyType]
	if want == 0 {
		return fmt.Errorf("%w: the session key is of encryption type %d, only AES (17 to 20) is accepted: give the service's "+
			"principal AES keys, and look at default_tgs_enctypes in krb5.conf", ErrAuth, key.KeyType)
	}
	if len(key.KeyValue) != want {
		return fmt.Errorf("%w: the session key has %d bytes instead of %d", ErrAuth, len(key.KeyValue), want)
	}
	return nil
}

func (s *wrapSide) sumLen() int { return s.etype.GetHMACBitLength() / 8 }

// header returns the first 16 bytes of a token with these lengths.
func (s *wrapSide) header(flags byte, ec, rrc uint16) []byte {
	b := binary.BigEndian.AppendUint16(make([]byte, 0, wrapHeader), wrapTokenID)
	b = append(b, flags, wrapFiller)
	b = binary.BigEndian.AppendUint16(b, ec)
	b = binary.BigEndian.AppendUint16(b, rrc)
	return binary.BigEndian.AppendUint64(b, s.seq)
}

// wrap appends the next token to dst.
func (s *wrapSide) wrap(dst, plain []byte, seal bool) ([]byte, error) {
	if seal {
		header := s.header(s.flags|sealed, 0, 0)
		_, body, err := s.etype.EncryptMessage(s.key.KeyValue, slices.Concat(plain, header), s.usage)
		if err != nil {
			return nil, fmt.Errorf("sasl.Wrap: %w", err)
		}
		s.seq++
		return append(append(dst, header...), body...), nil
	}
	sum, err := s.etype.GetChecksumHash(s.key.KeyValue, slices.Concat(plain, s.header(s.flags, 0, 0)), s.usage)
	if err != nil {
		return nil, fmt.Errorf("sasl.Wrap: %w", err)
	}
	dst = append(dst, s.header(s.flags, uint16(len(sum)), 0)...)
	s.seq++
	return append(append(dst, plain...), sum...), nil
}

// unwrap verifies the next token. mustSeal refuses tokens that are not encrypted.
func (s *wrapSide) unwrap(token []byte, mustSeal bool) ([]byte, error) {
	fail := func(why string, args ...any) ([]byte, error) {
		return nil, fmt.Errorf("sasl.Unwrap: %w: "+why, append([]any{ErrMessage}, args...)...)
	}
	if len(token) < wrapHeader || binary.BigEndian.Uint16(token) != wrapTokenID || token[3] != wrapFiller {
		return fail("%d bytes are no wrap token", len(token))
	}
	flags, body := token[2], token[wrapHeader:]
	if flags&^sealed != s.flags {
		return fail("flags %#x, expected were %#x", flags&^sealed, s.flags)
	}
	if mustSeal && flags&sealed == 0 {
		return fail("it is not encrypted, as was agreed")
	}
	if n := binary.BigEndian.Uint64(token[8:]); n != s.seq {
		return fail("it is number %d, expected was %d", n, s.seq)
	}
	ec := int(binary.BigEndian.Uint16(token[4:]))
	body = rotateLeft(body, int(binary.BigEndian.Uint16(token[6:])))
	open := s.verify
	if flags&sealed != 0 {
		open = s.decrypt
	}
	plain, ok := open(body, flags, ec)
	if !ok {
		return fail("wrong sum")
	}
	s.seq++
	return plain, nil
}

func (s *wrapSide) verify(body []byte, flags byte, ec int) ([]byte, bool) {
	n := len(body) - ec
	if n < 0 || ec != s.sumLen() {
		return nil, false
	}
	sum, err := s.etype.GetChecksumHash(s.key.KeyValue, slices.Concat(body[:n], s.header(flags, 0, 0)), s.usage)
	if err != nil || !hmac.Equal(sum, body[n:]) {
		return nil, false
	}
	return body[:n:n], true
}

func (s *wrapSide) decrypt(body []byte, flags byte, ec int) ([]byte, bool) {
	if len(body) < aesConfounder+ec+wrapHeader+s.sumLen() {
		return nil, false
	}
	plain, err := s.etype.DecryptMessage(s.key.KeyValue, body, s.usage)
	if err != nil {
		return nil, false
	}
	n := len(plain) - wrapHeader
	if n < ec || !bytes.Equal(plain[n:], s.header(flags, uint16(ec), 0)) {
		return nil, false
	}
	return plain[: n-ec : n-ec], true
}

// rotateLeft undoes a right rotation by n.
func rotateLeft(b []byte, n int) []byte {
	if len(b) == 0 || n%len(b) == 0 {
		return b
	}
	n %= len(b)
	return slices.Concat(b[n:], b[:n])
}
