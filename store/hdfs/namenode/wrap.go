package namenode

import (
	"fmt"
	"io"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/sasl"
)

// unwrapper is the stream of bytes inside protected frames. They may cut it anywhere.
type unwrapper struct {
	r     io.Reader
	n     *node
	mech  sasl.Mechanism
	limit int
	plain []byte // unwrapped, not read yet
}

func (u *unwrapper) Read(p []byte) (int, error) {
	for len(u.plain) == 0 {
		frame, err := readFrame(u.r, u.limit)
		if err != nil {
			return 0, err
		}
		m, err := parseSasl(frame, u.n)
		if err != nil {
			return 0, err
		}
		if m.GetState() != hproto.RpcSasl_WRAP {
			return 0, fmt.Errorf("%w: SASL: %v on a protected connection, want WRAP", errProtocol, m.GetState())
		}
		if u.plain, err = u.mech.Unwrap(m.GetToken()); err != nil {
			return 0, err
		}
	}
	n := copy(p, u.plain)
	u.plain = u.plain[n:]
	return n, nil
}

// wrap makes the protected frames that carry plain, each of at most what the server takes.
func wrap(mech sasl.Mechanism, plain []byte) ([]byte, error) {
	limit := mech.SendLimit()
	if limit <= 0 {
		return nil, fmt.Errorf("%w: SASL: the server takes messages of %d bytes", errProtocol, limit)
	}
	var out []byte
	for len(plain) > 0 {
		n := min(len(plain), limit)
		token, err := mech.Wrap(nil, plain[:n])
		if err != nil {
			return nil, err
		}
		m := &hproto.RpcSasl{State: hproto.RpcSasl_WRAP.Enum(), Token: token}
		if out, err = appendFrame(out, header(callSasl, []byte{}), m); err != nil {
			return nil, err
		}
		plain = plain[n:]
	}
	return out, nil
}
