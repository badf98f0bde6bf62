// Package certs knows TLS certificates that lie in files, and notices when the files change.
package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/stepahead-io/stepahead/internal/localfile"
)

// maxFile bounds a file, in bytes: bundles of authorities have some hundred thousand.
const maxFile = 4 << 20

// lookEvery is how often at most the files are looked at.
const lookEvery = time.Second

// Files name PEM files. Cert may hold the chain after the certificate itself.
type Files struct {
	// Cert and Key are our own certificate and its private key; both or none.
	Cert, Key string
	// CA holds the certificates of the authorities that sign the other side's.
	CA string
	// Warn is told when changed files cannot be used; the ones before stay in use. nil: nobody is told.
	Warn func(error)
}

// Server returns what a server needs that shows Cert and, where CA is given, lets in only clients whose
// certificate it signed. Files that change are used for the connections that follow.
func Server(f Files) (*tls.Config, error) {
	if f.Cert == "" || f.Key == "" {
		return nil, errors.New("certs.Server: a server needs a certificate and its key")
	}
	w, err := watch(f)
	if err != nil {
		return nil, fmt.Errorf("certs.Server: %w", err)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			p := w.current()
			c := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*p.own}, NextProtos: []string{"h2"}}
			if p.authorities != nil {
				c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, p.authorities
			}
			return c, nil
		},
	}, nil
}

// Client returns what a client needs that accepts servers whose certificate CA signed, for the host that is
// dialled, and shows Cert, where it is given, to those that ask. Cert and Key may change; CA is read once.
func Client(f Files) (*tls.Config, error) {
	if f.CA == "" {
		return nil, errors.New("certs.Client: a client needs the authority's certificate (CA)")
	}
	if (f.Cert == "") != (f.Key == "") {
		return nil, errors.New("certs.Client: a certificate and its key go together: give both or none")
	}
	w, err := watch(f)
	if err != nil {
		return nil, fmt.Errorf("certs.Client: %w", err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: w.current().authorities}
	if f.Cert != "" {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return w.current().own, nil }
	}
	return c, nil
}

// content is what the files hold.
type content struct {
	own         *tls.Certificate // nil: not given
	authorities *x509.CertPool   // nil: not given
}

// watched holds the newest content that could be used.
type watched struct {
	files Files
	now   func() time.Time

	mu     sync.Mutex
	looked time.Time
	stamp  string
	held   content
}

func watch(f Files) (*watched, error) {
	w := &watched{files: f, now: time.Now}
	w.looked, w.stamp = w.now(), f.stamp()
	var err error
	w.held, err = f.read(w.now())
	return w, err
}

// current returns the content, read again if the files have changed.
func (w *watched) current() content {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	if now.Sub(w.looked) < lookEvery {
		return w.held
	}
	w.looked = now
	stamp := w.files.stamp()
	if stamp == w.stamp {
		return w.held
	}
	w.stamp = stamp // what cannot be used now is tried again when it changes
	held, err := w.files.read(now)
	if err == nil {
		w.held = held
	} else if w.files.Warn != nil {
		w.files.Warn(fmt.Errorf("certs: changed files are not used: %w", err))
	}
	return w.held
}

// stamp changes when a file does.
func (f Files) stamp() string {
	var b strings.Builder
	for _, name := range []string{f.Cert, f.Key, f.CA} {
		if info, err := os.Stat(name); err == nil {
			fmt.Fprintf(&b, "%d %d;", info.Size(), info.ModTime().UnixNano())
		} else {
			b.WriteString("-;")
		}
	}
	return b.String()
}

func (f Files) read(now time.Time) (content, error) {
	var c content
	if f.Cert != "" {
		pair, err := readPair(f.Cert, f.Key, now)
		if err != nil {
			return c, err
		}
		c.own = pair
	}
	if f.CA != "" {
		data, err := localfile.Read(f.CA, maxFile)
		if err != nil {
			return c, err
		}
		c.authorities = x509.NewCertPool()
		if !c.authorities.AppendCertsFromPEM(data) {
			return c, fmt.Errorf("%s: no certificate in it: PEM is wanted (-----BEGIN CERTIFICATE-----)", f.CA)
		}
	}
	return c, nil
}

func readPair(certFile, keyFile string, now time.Time) (*tls.Certificate, error) {
	certPEM, err := localfile.Read(certFile, maxFile)
	if err != nil {
		return nil, err
	}
	keyPEM, err := localfile.Read(keyFile, maxFile)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("%s with %s: %w", certFile, keyFile, err)
	}
	if end := pair.Leaf.NotAfter; now.After(end) {
		return nil, fmt.Errorf("%s: the certificate expired at %s (now: %s): renew it", certFile, end.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return &pair, nil
}
