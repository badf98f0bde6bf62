package sasl

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"fmt"
	"strconv"
)

// NameNodeToken is the exchange that shows a NameNode a delegation token.
func NameNodeToken(identifier, password []byte, qops []QOP) Digest {
	return Digest{Server: "default", User: encode(identifier), Password: []byte(encode(password)), QOPs: qops}
}

// BlockToken is the exchange that shows a DataNode the token of a block.
func BlockToken(identifier, password []byte, qops []QOP) Digest {
	return Digest{Protocol: "hdfs", Server: "0", User: encode(identifier), Password: []byte(encode(password)), QOPs: qops}
}

// DataKey is the exchange with a DataNode that wants encrypted data transfer: the fields are those of the
// DataEncryptionKey, whose keyId is a signed number. algorithm is "3des", "rc4" or "" (either).
func DataKey(keyID int32, blockPool string, nonce, key []byte, algorithm string) (Digest, error) {
	d := Digest{
		Protocol: "hdfs", Server: "0",
		User:     strconv.Itoa(int(keyID)) + " " + blockPool + " " + encode(nonce),
		Password: []byte(encode(key)),
		QOPs:     []QOP{Privacy},
	}
	switch algorithm {
	case "":
	case "rc4":
		d.Ciphers = []Cipher{RC4}
	case "3des":
		d.Ciphers = []Cipher{TripleDES}
	default:
		return Digest{}, fmt.Errorf("sasl.DataKey: dfs.encrypt.data.transfer.algorithm is %.32q at the NameNode: rc4 and 3des are known", algorithm)
	}
	return d, nil
}

func encode(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// DataStreams returns the two AES-CTR streams of a connection to a DataNode, from the cipher option that the
// server sent with its last message: what it calls "in" is what the client sends. The keys are protected by m,
// which has said done, and are overwritten.
func DataStreams(m Mechanism, inKey, inIV, outKey, outIV []byte) (encrypt, decrypt cipher.Stream, err error) {
	for _, s := range []struct {
		name    string
		key, iv []byte
		stream  *cipher.Stream
	}{{"in", inKey, inIV, &encrypt}, {"out", outKey, outIV, &decrypt}} {
		key, err := m.Unwrap(s.key)
		if err != nil {
			return nil, nil, fmt.Errorf("sasl.DataStreams: %sKey: %w", s.name, err)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, nil, fmt.Errorf("sasl.DataStreams: %sKey: %w: %w", s.name, ErrMessage, err)
		}
		if len(s.iv) != aes.BlockSize {
			return nil, nil, fmt.Errorf("sasl.DataStreams: %sIv: %w: %d bytes instead of %d", s.name, ErrMessage, len(s.iv), aes.BlockSize)
		}
		*s.stream = cipher.NewCTR(block, s.iv)
	}
	return encrypt, decrypt, nil
}
