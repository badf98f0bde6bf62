package sasl

import (
	"crypto/cipher"
	"crypto/des"
	"crypto/hmac"
	"crypto/md5"
	"crypto/rc4"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"math"
	"slices"
)

// Cipher is what encrypts under DIGEST-MD5's Privacy.
type Cipher int

// The ciphers that HDFS can be configured to (dfs.encrypt.data.transfer.algorithm).
const (
	RC4 Cipher = iota
	TripleDES
)

// String returns the cipher's name in RFC 2831.
func (c Cipher) String() string {
	switch c {
	case RC4:
		return "rc4"
	case TripleDES:
		return "3des"
	}
	return fmt.Sprintf("Cipher(%d)", int(c))
}

const (
	macLen = 10 // bytes of the HMAC that travel
	tail   = 6  // version and sequence number, in clear
	// digestOverhead is the most that Wrap adds: the sum, 8 bytes of padding, and the tail.
	digestOverhead = macLen + des.BlockSize + tail
	layerVersion   = 1
)

// digestSide protects the messages of one direction: RFC 2831, sections 2.3 and 2.4.
type digestSide struct {
	mac   hash.Hash
	seq   uint64
	block int                   // the cipher's block size; 1: it is a stream, or there is none
	crypt func(dst, src []byte) // nil: integrity only
	sum   [md5.Size]byte
	head  [4]byte
}

// newDigestSides derives the keys of both directions, seen from the client.
func newDigestSides(ha1 [md5.Size]byte, c Cipher, q QOP) (out, in *digestSide) {
	key := func(what string) []byte { k := md5.Sum(append(ha1[:len(ha1):len(ha1)], what...)); return k[:] }
	const signing = "Digest session key to %s signing key magic constant"
	const sealing = "Digest H(A1) to %s sealing key magic constant"
	side := func(direction string, decrypt bool) *digestSide {
		s := &digestSide{mac: hmac.New(md5.New, key(fmt.Sprintf(signing, direction))), block: 1}
		if q == Privacy {
			s.crypt, s.block = newCrypt(c, key(fmt.Sprintf(sealing, direction)), decrypt)
		}
		return s
	}
	return side("client-to-server", false), side("server-to-client", true)
}

// newCrypt returns what encrypts or decrypts in place; its state goes on from one message to the next.
func newCrypt(c Cipher, key []byte, decrypt bool) (func(dst, src []byte), int) {
	if c == RC4 {
		stream, err := rc4.NewCipher(key)
		if err != nil {
			panic(err) // the key has 16 bytes
		}
		return stream.XORKeyStream, 1
	}
	k1, k2 := desKey(key[:7]), desKey(key[7:14])
	block, err := des.NewTripleDESCipher(slices.Concat(k1, k2, k1))
	if err != nil {
		panic(err) // the key has 24 bytes
	}
	iv := key[8:]
	if decrypt {
		return cipher.NewCBCDecrypter(block, iv).CryptBlocks, des.BlockSize
	}
	return cipher.NewCBCEncrypter(block, iv).CryptBlocks, des.BlockSize
}

// desKey spreads 56 bits over 8 bytes; their lowest bits, which DES ignores, stay 0.
func desKey(k []byte) []byte {
	var wide [8]byte
	copy(wide[1:], k)
	bits := binary.BigEndian.Uint64(wide[:])
	for i := range wide {
		wide[i] = byte(bits>>(49-7*i)) << 1
	}
	return wide[:]
}

func (s *digestSide) wrap(dst, plain []byte) ([]byte, error) {
	if s.seq > math.MaxUint32 {
		return nil, errors.New("sasl.Wrap: the connection has carried all the messages that its protection can number: open another")
	}
	start := len(dst)
	dst = append(slices.Grow(dst, len(plain)+digestOverhead), plain...)
	sum := s.sumOf(plain)
	if s.block > 1 {
		pad := s.block - (len(plain)+macLen)%s.block
		for range pad {
			dst = append(dst, byte(pad))
		}
	}
	dst = append(dst, sum...)
	if s.crypt != nil {
		s.crypt(dst[start:], dst[start:])
	}
	dst = binary.BigEndian.AppendUint16(dst, layerVersion)
	dst = binary.BigEndian.AppendUint32(dst, uint32(s.seq))
	s.seq++
	return dst, nil
}

func (s *digestSide) unwrap(token []byte) ([]byte, error) {
	fail := func(why string, args ...any) ([]byte, error) {
		return nil, fmt.Errorf("sasl.Unwrap: %w: "+why, append([]any{ErrMessage}, args...)...)
	}
	body := len(token) - tail
	if body < macLen || s.block > 1 && (body%s.block != 0 || body < macLen+1) {
		return fail("%d bytes are no whole message", len(token))
	}
	if v := binary.BigEndian.Uint16(token[body:]); v != layerVersion {
		return fail("version %d", v)
	}
	if n := binary.BigEndian.Uint32(token[body+2:]); uint64(n) != s.seq {
		return fail("it is number %d, expected was %d", n, s.seq)
	}
	if s.crypt != nil {
		s.crypt(token[:body], token[:body])
	}
	n := body - macLen
	if s.block > 1 {
		// A wrong padding and a wrong sum look alike from outside: both end the connection.
		pad := int(token[n-1])
		if pad < 1 || pad > s.block || pad > n {
			return fail("wrong sum")
		}
		n -= pad
	}
	if !hmac.Equal(s.sumOf(token[:n]), token[body-macLen:body]) {
		return fail("wrong sum")
	}
	s.seq++
	return token[:n:n], nil
}

// sumOf is the message's sum; it is overwritten by the next call.
func (s *digestSide) sumOf(plain []byte) []byte {
	binary.BigEndian.PutUint32(s.head[:], uint32(s.seq))
	s.mac.Reset()
	s.mac.Write(s.head[:])
	s.mac.Write(plain)
	return s.mac.Sum(s.sum[:0])[:macLen]
}
