package hints

import (
	"crypto/tls"

	"github.com/stepahead-io/stepahead/internal/auth/certs"
)

// ClientTLS returns what secures connections to agents whose certificates the authority in the PEM file ca
// has signed. cert and key are this side's, for agents that ask for one, or empty; they may be replaced
// while the configuration is in use.
func ClientTLS(ca, cert, key string) (*tls.Config, error) {
	return certs.Client(certs.Files{CA: ca, Cert: cert, Key: key})
}
