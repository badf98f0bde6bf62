// Package token knows Hadoop's delegation tokens, and the files in which a job is given them.
package token

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// KindHDFS is the kind of the tokens that NameNodes give out.
const KindHDFS = "HDFS_DELEGATION_TOKEN"

// Token lets who has it act as its owner. However it is printed, its password does not show.
type Token struct {
	Kind string
	// Service is whom the token is for: "ip:port" or "host:port" of a NameNode, or "ha-hdfs:<nameservice>".
	Service string
	// Identifier is public: see Claims.
	Identifier []byte
	Password   Secret
}

// Secret holds bytes where neither fmt nor encoding/json nor a print of a struct around it can see them.
type Secret struct{ bytes func() []byte }

// NewSecret keeps a copy of b.
func NewSecret(b []byte) Secret {
	b = slices.Clone(b)
	return Secret{func() []byte { return b }}
}

// Bytes returns a copy of what NewSecret was given; nil for the zero value.
func (s Secret) Bytes() []byte {
	if s.bytes == nil {
		return nil
	}
	return slices.Clone(s.bytes())
}

// Format prints "[secret]", whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { io.WriteString(f, "[secret]") }

// MarshalText gives "[secret]", so that no encoder writes the value.
func (Secret) MarshalText() ([]byte, error) { return []byte("[secret]"), nil }

// String says what the token is, and whose.
func (t Token) String() string {
	text := fmt.Sprintf("%.64q token for %.128q", t.Kind, t.Service)
	if c, err := t.Claims(); err == nil && t.Kind == KindHDFS {
		text += fmt.Sprintf(" of %.128q, renewed by %.128q, issued %s, good until %s at most", c.Owner, c.Renewer,
			c.Issued.UTC().Format(time.RFC3339), c.Until.UTC().Format(time.RFC3339))
	}
	return text
}

// Format prints String, whatever the verb.
func (t Token) Format(f fmt.State, _ rune) { io.WriteString(f, t.String()) }

// Claims are what the identifier of an HDFS token says. Only the NameNode can tell whether it is true, and
// how long the token lives unless somebody renews it.
type Claims struct {
	Owner, Renewer string
	// RealUser acts as Owner; "" where nobody does.
	RealUser string
	Issued   time.Time
	// Until is when renewals end.
	Until time.Time
}

// Claims reads the identifier of an HDFS token.
func (t Token) Claims() (Claims, error) {
	r := reader{data: t.Identifier}
	if v := r.byte(); v != 0 {
		r.failf("version %d: only 0 is known", v)
	}
	c := Claims{Owner: r.text(), Renewer: r.text(), RealUser: r.text()}
	c.Issued, c.Until = time.UnixMilli(r.vlong()), time.UnixMilli(r.vlong())
	if r.err != nil {
		return Claims{}, fmt.Errorf("token.Claims: %w", r.err)
	}
	return c, nil
}
