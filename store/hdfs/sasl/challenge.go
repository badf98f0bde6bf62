package sasl

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// challenge is a server's first DIGEST-MD5 message: RFC 2831, section 2.1.1.
type challenge struct {
	realm   string // the first one, "" if there is none
	nonce   string
	qops    []string
	ciphers []string
	maxbuf  int
	utf8    bool
}

// defaultMaxbuf is what a side receives at most if it does not say: RFC 2831, section 2.1.1.
const defaultMaxbuf = 65536

// maxMaxbuf bounds what either side may announce: 24 bits, the length field of GSSAPI's layer.
const maxMaxbuf = 1<<24 - 1

func parseChallenge(message []byte) (challenge, error) {
	list, err := parseDirectives(message)
	if err != nil {
		return challenge{}, err
	}
	c := challenge{maxbuf: defaultMaxbuf}
	algorithm := ""
	seen := map[string]bool{}
	for _, d := range list {
		if seen[d.name] && d.name != "realm" && known(d.name) {
			return challenge{}, fmt.Errorf("%s is given twice", d.name)
		}
		if d.name == "algorithm" {
			algorithm = d.value
		}
		if err := c.set(d, seen[d.name]); err != nil {
			return challenge{}, err
		}
		seen[d.name] = true
	}
	if c.nonce == "" {
		return challenge{}, errors.New("no nonce")
	}
	if algorithm != "md5-sess" {
		return challenge{}, fmt.Errorf("algorithm %.32q: only md5-sess is known", algorithm)
	}
	if !seen["qop"] {
		c.qops = []string{digestNames[Auth]}
	}
	return c, nil
}

func known(name string) bool {
	return slices.Contains([]string{"nonce", "qop", "stale", "maxbuf", "charset", "algorithm", "cipher"}, name)
}

// set takes one directive over; unknown ones are ignored, as the RFC wants.
func (c *challenge) set(d directive, again bool) error {
	switch d.name {
	case "realm":
		if !again {
			c.realm = d.value
		}
	case "nonce":
		c.nonce = d.value
	case "qop":
		c.qops = words(d.value)
	case "cipher":
		c.ciphers = words(d.value)
	case "charset":
		if c.utf8 = strings.EqualFold(d.value, "utf-8"); !c.utf8 {
			return fmt.Errorf("charset %.32q: only utf-8 is known", d.value)
		}
	case "maxbuf":
		n, err := strconv.ParseUint(d.value, 10, 32)
		if err != nil || n < 17 || n > maxMaxbuf { // 17: one byte and its sum
			return fmt.Errorf("maxbuf %.32q: not in 17..%d", d.value, maxMaxbuf)
		}
		c.maxbuf = int(n)
	}
	return nil
}

// words splits a list inside a quoted string.
func words(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || strings.ContainsRune(blanks, r) })
}
