package auth

import (
	"bytes"
	"crypto/hmac"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

const (
	// signed is what precedes the payload in what is signed, so that a signature for another purpose
	// under the same key can never be a token.
	signed = "stepahead-token-v1."
	// maxToken bounds a token in bytes: gRPC servers take 8 KiB of metadata or more.
	maxToken = 6 << 10
)

// encoding is strict: unused bits must be zero, or one token could be spelt in several ways.
var encoding = base64.RawURLEncoding.Strict()

// payload is the JSON form of claims. Its fields are in the order of their names.
type payload struct {
	Exp    int64    `json:"exp"` // seconds since 1970
	Job    string   `json:"job"`
	Kid    string   `json:"kid"`
	Rights []string `json:"rights"`
	Roots  []string `json:"roots"`
	User   string   `json:"user"`
	V      int      `json:"v"`
}

// Mint returns a token for c, signed by key, whose id it carries. Claims that Validate refuses are an error.
//
// A token is base64url(payload) "." base64url(HMAC-SHA256(secret, "stepahead-token-v1." base64url(payload))),
// without padding; docs/security.md specifies it.
func Mint(key Key, c Claims) (string, error) {
	if key.mac == nil {
		return "", fmt.Errorf("auth.Mint: the key is empty: load it with LoadKeyring")
	}
	c.KeyID = key.ID
	if err := c.Validate(); err != nil {
		return "", fmt.Errorf("auth.Mint: %w", err)
	}
	body, err := encode(c)
	if err != nil {
		return "", fmt.Errorf("auth.Mint: %w", err)
	}
	head := encoding.EncodeToString(body)
	token := head + "." + encoding.EncodeToString(key.mac([]byte(signed+head)))
	if len(token) > maxToken {
		return "", fmt.Errorf("auth.Mint: the token would have %d bytes, more than %d: give fewer or shorter roots", len(token), maxToken)
	}
	return token, nil
}

// encode gives the one spelling of claims that Verify accepts.
func encode(c Claims) ([]byte, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	err := e.Encode(payload{Exp: c.Expires.Unix(), Job: c.Job, Kid: c.KeyID, Rights: c.Rights, Roots: c.Roots, User: c.User, V: 1})
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), err
}

// Verify returns what a token says if one of keys signed it and it has not expired at now. Else the claims
// are zero and the error matches ErrToken, ErrSignature or ErrExpired; it never holds the token. An Insecure
// keyring accepts any string.
func Verify(keys Keyring, token string, now time.Time) (Claims, error) {
	if keys.insecure {
		return anybody(), nil
	}
	c, head, mac, err := parse(token)
	if err != nil {
		return Claims{}, fmt.Errorf("auth.Verify: %w", err)
	}
	key, ok := keys.Key(c.KeyID)
	if !ok {
		return Claims{}, fmt.Errorf("auth.Verify: %w: no key %q here: add it to the key file or mint a new token", ErrSignature, c.KeyID)
	}
	if !hmac.Equal(mac, key.mac([]byte(signed+head))) {
		return Claims{}, fmt.Errorf("auth.Verify: %w: key %q did not make it", ErrSignature, c.KeyID)
	}
	if !now.Before(c.Expires) {
		return Claims{}, fmt.Errorf("auth.Verify: %w: at %s: mint a new one", ErrExpired, c.Expires.UTC().Format(time.RFC3339))
	}
	return c, nil
}

// JobOf returns the job that a token says it is of. It verifies nothing: it is for the holder, who has no
// key. The error matches ErrToken and never holds the token.
func JobOf(token string) (string, error) {
	c, _, _, err := parse(token)
	if err != nil {
		return "", fmt.Errorf("auth.JobOf: %w", err)
	}
	return c.Job, nil
}

// parse takes a token apart. Nothing in it can be trusted yet.
func parse(token string) (c Claims, head string, mac []byte, err error) {
	bad := func(why string) (Claims, string, []byte, error) {
		return Claims{}, "", nil, fmt.Errorf("%w: %s", ErrToken, why)
	}
	if len(token) > maxToken {
		return bad(fmt.Sprintf("%d bytes are more than %d", len(token), maxToken))
	}
	head, tail, found := strings.Cut(token, ".")
	if !found || strings.ContainsAny(token, "\r\n") { // the decoder would skip line ends
		return bad("it is not two parts with a dot between them")
	}
	mac, err = encoding.DecodeString(tail)
	if err != nil {
		return bad("its signature is not base64url")
	}
	body, err := encoding.DecodeString(head)
	if err != nil {
		return bad("its payload is not base64url")
	}
	var p payload
	if json.Unmarshal(body, &p) != nil {
		return bad("its payload is not the JSON of claims")
	}
	if p.V != 1 {
		return bad(fmt.Sprintf("version %d, and this program knows 1", p.V))
	}
	c = Claims{KeyID: p.Kid, Job: p.Job, User: p.User, Roots: p.Roots, Rights: p.Rights, Expires: time.Unix(p.Exp, 0).UTC()}
	if c.Validate() != nil {
		return bad("its claims break the rules of claims")
	}
	if canonical, err := encode(c); err != nil || !bytes.Equal(canonical, body) {
		return bad("its payload is not in the canonical form")
	}
	return c, head, mac, nil
}
