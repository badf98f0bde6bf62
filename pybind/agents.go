package pybind

import (
	"crypto/tls"
	"os"

	"github.com/stepahead-io/stepahead/hints"
)

// agentOptions say how agents are reached, and who speaks to them.
type agentOptions struct {
	Agents     []string `json:"agents"`
	Registry   string   `json:"registry"`
	Token      string   `json:"token"`
	CA         string   `json:"ca"`
	ClientCert string   `json:"client_cert"`
	ClientKey  string   `json:"client_key"`
	Job        string   `json:"job"`
	Run        string   `json:"run"`
}

// tls is how connections to agents are secured; nil: they are not.
func (o agentOptions) tls() (*tls.Config, error) {
	if o.CA+o.ClientCert+o.ClientKey == "" {
		return nil, nil
	}
	secured, err := hints.ClientTLS(o.CA, o.ClientCert, o.ClientKey)
	if err != nil {
		return nil, &optionError{err}
	}
	return secured, nil
}

// environment holds variables as Python sees them now: this module's own copy was made when it was loaded.
type environment map[string]string

func (e environment) get(name string) string {
	if value, ok := e[name]; ok {
		return value
	}
	return os.Getenv(name)
}
