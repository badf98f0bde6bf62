package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// certificate writes a self-signed certificate for a host, which is its own authority, and its key.
func certificate(t *testing.T, dir, name, host string) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	must(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(k)
	must(t, err)
	cert, key = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	must(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600))
	return cert, key
}

func TestListenSettings(t *testing.T) {
	var good settings
	flags := pflag.NewFlagSet("agent", pflag.ContinueOnError)
	good.flags(flags)
	must(t, flags.Parse([]string{"--store", "/x", "--node", "n"}))
	for name, c := range map[string]struct {
		change func(*settings)
		want   string
	}{
		"loopback":             {func(*settings) {}, ""},
		"loopback with TLS":    {func(s *settings) { s.at.Cert, s.at.Key = "c", "k" }, ""},
		"outside, all given":   {func(s *settings) { s.at.Listen, s.at.Cert, s.at.Key, s.at.Keys = ":7000", "c", "k", "keys" }, ""},
		"outside, nothing":     {func(s *settings) { s.at.Listen = "0.0.0.0:7000" }, "give --tls-cert and --tls-key, and --key"},
		"outside, no key":      {func(s *settings) { s.at.Listen, s.at.Cert, s.at.Key = "10.0.0.1:7000", "c", "k" }, "and --key"},
		"outside, no TLS":      {func(s *settings) { s.at.Listen, s.at.Keys = "host.example:7000", "keys" }, "--tls-cert"},
		"half a pair":          {func(s *settings) { s.at.Key = "k" }, "go together"},
		"an authority alone":   {func(s *settings) { s.at.ClientCA = "ca" }, "--tls-client-ca needs"},
		"no port":              {func(s *settings) { s.at.Listen = "127.0.0.1" }, "--listen"},
		"pages outside":        {func(s *settings) { s.at.Pages = ":9100" }, "--metrics :9100: not a loopback address"},
		"pages without a port": {func(s *settings) { s.at.Pages = "localhost" }, "--metrics"},
	} {
		s := good
		c.change(&s)
		err := s.validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

func TestAdvertised(t *testing.T) {
	at := func(text string) net.Addr {
		addr, err := net.ResolveTCPAddr("tcp", text)
		must(t, err)
		return addr
	}
	host := func() (string, error) { return "dn7.example", nil }
	for _, c := range []struct{ asked, at, want string }{
		{"", "127.0.0.1:7", "127.0.0.1:7"},
		{"", "10.0.0.1:7", "10.0.0.1:7"},
		{"", "0.0.0.0:7", "dn7.example:7"},
		{"", "[::]:7", "dn7.example:7"},
		{"agent.example", "0.0.0.0:7", "agent.example:7"},
		{"agent.example:8", "0.0.0.0:7", "agent.example:8"},
		{"10.0.0.9", "0.0.0.0:7", "10.0.0.9:7"},
		{"fd00::9", "[::]:7", "[fd00::9]:7"},
		{"[fd00::9]", "[::]:7", "[fd00::9]:7"},
		{"[fd00::9]:8", "[::]:7", "[fd00::9]:8"},
		{"a b", "0.0.0.0:7", "error"},
		{":8", "0.0.0.0:7", "error"},
		{"host:", "0.0.0.0:7", "error"},
		{"https://host", "0.0.0.0:7", "error"},
	} {
		got, err := (&settings{advertise: c.asked}).advertised(at(c.at), host)
		if err != nil {
			got = "error"
		}
		if got != c.want {
			t.Errorf("%q at %s: %s, %v; want %s", c.asked, c.at, got, err, c.want)
		}
	}
	nameless := func() (string, error) { return "", errors.New("no name") }
	if _, err := (&settings{}).advertised(at("0.0.0.0:7"), nameless); err == nil || !strings.Contains(err.Error(), "--advertise is needed") {
		t.Errorf("a host without a name: %v", err)
	}
	if got, err := (&settings{registry: noRegistry}).advertised(at("0.0.0.0:7"), nameless); got != "" || err != nil {
		t.Errorf("a host without a name that tells nobody: %q, %v", got, err)
	}
}
