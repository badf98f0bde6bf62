package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, key := sign(t, template, template, nil)
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert, key}
}

// sign signs with a new key's owner itself if by is nil.
func sign(t *testing.T, template, parent *x509.Certificate, by *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if by == nil {
		by = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	return der, key
}

func write(t *testing.T, name, kind string, der []byte) string {
	t.Helper()
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func (a authority) file(t *testing.T, name string) string {
	return write(t, name, "CERTIFICATE", a.cert.Raw)
}

// issue writes a certificate of 127.0.0.1 and its key to base.crt and base.key.
func (a authority) issue(t *testing.T, base string, serial int64, until time.Time) (cert, key string) {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotAfter: until, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, k := sign(t, template, a.cert, a.key)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, base+".crt", "CERTIFICATE", der), write(t, base+".key", "PRIVATE KEY", pkcs8)
}

// meet makes one connection and returns what the client and the server say of it, and whom each met.
func meet(t *testing.T, server, client *tls.Config, host string) (theirs *x509.Certificate, clientErr, serverErr error) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	served := make(chan error, 1)
	go func() {
		conn, err := lis.Accept()
		if err != nil {
			served <- err
			return
		}
		defer conn.Close()
		_, err = tls.Server(conn, server).Write([]byte("welcome"))
		served <- err
	}()
	conn, err := net.Dial("tcp", lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client = client.Clone()
	client.ServerName, client.NextProtos = host, []string{"h2"}
	c := tls.Client(conn, client)
	_, clientErr = io.ReadFull(c, make([]byte, 7))
	if clientErr == nil {
		theirs = c.ConnectionState().PeerCertificates[0]
	}
	conn.Close()
	return theirs, clientErr, <-served
}

func TestOnlyWhomTheAuthorityKnows(t *testing.T) {
	dir := t.TempDir()
	ours, foreign := newAuthority(t, "ours"), newAuthority(t, "foreign")
	cert, key := ours.issue(t, dir+"/agent", 2, time.Now().Add(time.Hour))
	clientCert, clientKey := ours.issue(t, dir+"/trainer", 3, time.Now().Add(time.Hour))
	strangeCert, strangeKey := foreign.issue(t, dir+"/stranger", 4, time.Now().Add(time.Hour))
	ca, otherCA := ours.file(t, dir+"/ca.crt"), foreign.file(t, dir+"/other.crt")
	for name, c := range map[string]struct {
		serverCA string
		client   Files
		host     string
		fine     bool
	}{
		"one-sided":               {"", Files{CA: ca}, "127.0.0.1", true},
		"an unknown server":       {"", Files{CA: otherCA}, "127.0.0.1", false},
		"another host":            {"", Files{CA: ca}, "127.0.0.2", false},
		"mutual":                  {ca, Files{CA: ca, Cert: clientCert, Key: clientKey}, "127.0.0.1", true},
		"mutual, nothing shown":   {ca, Files{CA: ca}, "127.0.0.1", false},
		"mutual, a stranger":      {ca, Files{CA: ca, Cert: strangeCert, Key: strangeKey}, "127.0.0.1", false},
		"shown, though not asked": {"", Files{CA: ca, Cert: clientCert, Key: clientKey}, "127.0.0.1", true},
	} {
		server, err := Server(Files{Cert: cert, Key: key, CA: c.serverCA})
		if err != nil {
			t.Fatal(err)
		}
		client, err := Client(c.client)
		if err != nil {
			t.Fatal(err)
		}
		_, clientErr, serverErr := meet(t, server, client, c.host)
		if fine := clientErr == nil && serverErr == nil; fine != c.fine {
			t.Errorf("%s: client %v, server %v", name, clientErr, serverErr)
		}
	}
}

func TestChangedFiles(t *testing.T) {
	dir := t.TempDir()
	ca := newAuthority(t, "ours")
	cert, key := ca.issue(t, dir+"/agent", 10, time.Now().Add(time.Hour))
	var warned []error
	f := Files{Cert: cert, Key: key, Warn: func(err error) { warned = append(warned, err) }}
	w, err := watch(f)
	if err != nil {
		t.Fatal(err)
	}
	clock := time.Now()
	w.now = func() time.Time { return clock }
	serial := func(after time.Duration) int64 {
		clock = clock.Add(after)
		return w.current().own.Leaf.SerialNumber.Int64()
	}
	ca.issue(t, dir+"/agent", 11, time.Now().Add(2*time.Hour))
	touch(t, cert, 1)
	if got := serial(0); got != 10 {
		t.Errorf("looked again within %v: serial %d", lookEvery, got)
	}
	if got := serial(lookEvery); got != 11 || len(warned) > 0 {
		t.Errorf("not read again: serial %d, %v", got, warned)
	}
	// The certificate is replaced before its key.
	newCert, newKey := ca.issue(t, dir+"/next", 12, time.Now().Add(time.Hour))
	move(t, newCert, cert)
	touch(t, cert, 2)
	if got := serial(lookEvery); got != 11 || len(warned) != 1 {
		t.Errorf("half a change: serial %d, %v", got, warned)
	}
	if got := serial(lookEvery); got != 11 || len(warned) != 1 {
		t.Errorf("told twice: serial %d, %v", got, warned)
	}
	move(t, newKey, key)
	touch(t, key, 3)
	if got := serial(lookEvery); got != 12 {
		t.Errorf("the whole change: serial %d, %v", got, warned)
	}
	if err := os.Remove(cert); err != nil {
		t.Fatal(err)
	}
	if got := serial(lookEvery); got != 12 || len(warned) != 2 || !errors.Is(warned[1], os.ErrNotExist) {
		t.Errorf("no file: serial %d, %v", got, warned)
	}
}

func touch(t *testing.T, name string, seconds int) {
	t.Helper()
	at := time.Now().Add(time.Duration(seconds) * time.Minute)
	if err := os.Chtimes(name, at, at); err != nil {
		t.Fatal(err)
	}
}

func move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func TestWrongFiles(t *testing.T) {
	dir := t.TempDir()
	a := newAuthority(t, "ours")
	ca := a.file(t, dir+"/ca.crt")
	cert, key := a.issue(t, dir+"/good", 2, time.Now().Add(time.Hour))
	old, oldKey := a.issue(t, dir+"/old", 3, time.Now().Add(-time.Minute))
	empty := write(t, dir+"/empty", "NOTHING", nil)
	large := dir + "/large"
	if err := os.WriteFile(large, make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		make func(Files) (*tls.Config, error)
		f    Files
		want string
	}{
		"no certificate":    {Server, Files{CA: ca}, "needs a certificate"},
		"no key":            {Server, Files{Cert: cert}, "needs a certificate and its key"},
		"another's key":     {Server, Files{Cert: cert, Key: oldKey}, "private key does not match"},
		"expired":           {Server, Files{Cert: old, Key: oldKey}, "expired at"},
		"no file":           {Server, Files{Cert: dir + "/absent", Key: key}, "absent"},
		"no certificate in": {Server, Files{Cert: cert, Key: key, CA: empty}, "no certificate in it"},
		"large":             {Server, Files{Cert: cert, Key: key, CA: large}, "more than"},
		"no authority":      {Client, Files{}, "authority"},
		"half a pair":       {Client, Files{CA: ca, Key: key}, "go together"},
	} {
		if _, err := c.make(c.f); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q in it", name, err, c.want)
		}
	}
}
