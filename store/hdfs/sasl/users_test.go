package sasl

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"strings"
	"testing"
)

func TestUsers(t *testing.T) {
	id, secret := []byte{0, 1, 2, 0xff}, []byte{9, 8, 7}
	nn, dn := NameNodeToken(id, secret, []QOP{Integrity}), BlockToken(id, secret, nil)
	if nn.Protocol+"/"+nn.Server != "/default" || nn.User != "AAEC/w==" || string(nn.Password) != "CQgH" || nn.QOPs[0] != Integrity {
		t.Errorf("%+v", nn)
	}
	if dn.Protocol+"/"+dn.Server != "hdfs/0" || dn.User != nn.User || string(dn.Password) != "CQgH" {
		t.Errorf("%+v", dn)
	}
	for algorithm, want := range map[string]string{"": "[]", "rc4": "[rc4]", "3des": "[3des]"} {
		key, err := DataKey(-7, "BP-1-127.0.0.1-2", id, secret, algorithm)
		if err != nil || key.User != "-7 BP-1-127.0.0.1-2 AAEC/w==" || string(key.Password) != "CQgH" || key.QOPs[0] != Privacy {
			t.Errorf("%+v, %v", key, err)
		}
		if got := ciphers(key); got != want {
			t.Errorf("%q: %s, want %s", algorithm, got, want)
		}
	}
	if _, err := DataKey(1, "", nil, nil, "aes"); err == nil || !strings.Contains(err.Error(), "rc4 and 3des are known") {
		t.Error(err)
	}
}

func ciphers(d Digest) string {
	names := []string{}
	for _, c := range d.Ciphers {
		names = append(names, c.String())
	}
	return "[" + strings.Join(names, " ") + "]"
}

// unwrapped is a Mechanism whose messages are their own protection.
type unwrapped struct{ Mechanism }

func (unwrapped) Unwrap(token []byte) ([]byte, error) { return token, nil }

func TestDataStreams(t *testing.T) {
	inKey, outKey := bytes.Repeat([]byte{1}, 16), bytes.Repeat([]byte{2}, 32)
	inIV, outIV := bytes.Repeat([]byte{0xff}, 16), bytes.Repeat([]byte{4}, 16)
	encrypt, decrypt, err := DataStreams(unwrapped{}, inKey, inIV, outKey, outIV)
	if err != nil {
		t.Fatal(err)
	}
	// The counter after ff..ff is 0: the second block is the encryption of zeros.
	got, want := make([]byte, 32), make([]byte, 32)
	encrypt.XORKeyStream(got, got)
	block, _ := aes.NewCipher(inKey)
	block.Encrypt(want[:16], inIV)
	block.Encrypt(want[16:], make([]byte, 16))
	if !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	text := []byte("from the DataNode")
	server, _ := aes.NewCipher(outKey)
	cipher.NewCTR(server, outIV).XORKeyStream(text, text)
	if decrypt.XORKeyStream(text, text); string(text) != "from the DataNode" {
		t.Errorf("%q", text)
	}
	for name, c := range map[string][4][]byte{
		"key of 15 bytes": {inKey[:15], inIV, outKey, outIV},
		"IV of 15 bytes":  {inKey, inIV, outKey, outIV[:15]},
		"nothing":         {},
	} {
		if _, _, err := DataStreams(unwrapped{}, c[0], c[1], c[2], c[3]); !errors.Is(err, ErrMessage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
