package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/internal/auth"
	"github.com/stepahead-io/stepahead/internal/auth/certs"
)

// Address is where a program is reached, and who may come: the flags listen, tls-cert, tls-key, tls-client-ca, key and metrics.
type Address struct {
	Listen string
	// Cert and Key are the program's own certificate, ClientCA the authorities of those who come.
	Cert, Key, ClientCA string
	// Keys is the file with the keys that sign tokens; "" lets everybody on this host in.
	Keys string
	// Pages is where metrics are served; "" for nowhere.
	Pages string
}

// Check makes sure that other hosts reach the program over TLS and with a token only, and its pages never.
func (a Address) Check() []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if _, _, err := net.SplitHostPort(a.Listen); err != nil {
		bad("--listen: %w", err)
	} else if !auth.Loopback(a.Listen) && (a.Cert == "" || a.Keys == "") {
		bad("--listen %s: other hosts can reach it: give --tls-cert and --tls-key, and --key; or use 127.0.0.1", a.Listen)
	}
	if (a.Cert == "") != (a.Key == "") {
		bad("--tls-cert and --tls-key go together: give both or none")
	}
	if a.ClientCA != "" && a.Cert == "" {
		bad("--tls-client-ca needs --tls-cert and --tls-key")
	}
	if a.Pages != "" {
		if _, _, err := net.SplitHostPort(a.Pages); err != nil {
			bad("--metrics: %w", err)
		} else if !auth.Loopback(a.Pages) {
			bad("--metrics %s: not a loopback address: the pages name jobs and have no guard; use 127.0.0.1", a.Pages)
		}
	}
	return errs
}

// TLS is the program's half of it; nil for none. Files that change and cannot be used are said in the log.
func (a Address) TLS(log *zap.Logger) (*tls.Config, error) {
	if a.Cert == "" {
		return nil, nil
	}
	c, err := certs.Server(certs.Files{Cert: a.Cert, Key: a.Key, CA: a.ClientCA, Warn: func(err error) { log.Warn("certificates", zap.Error(err)) }})
	if err != nil {
		return nil, exit.OfFile(fmt.Errorf("--tls-cert: %w", err))
	}
	return c, nil
}

// Keyring loads the keys. Without any everybody on this host may do what the log then says.
func (a Address) Keyring(log *zap.Logger, everybodyMay string) (auth.Keyring, error) {
	if a.Keys == "" {
		log.Warn("no --key: everybody on this host may " + everybodyMay)
		return auth.Insecure(), nil
	}
	ring, err := auth.LoadKeyring(a.Keys)
	if err != nil {
		return ring, exit.OfFile(fmt.Errorf("--key: %w", err))
	}
	return ring, nil
}

// pageTime bounds one request for metrics or state.
const pageTime = 10 * time.Second

// ServePages serves metrics, and what else there is, until ctx ends.
func ServePages(ctx context.Context, lis net.Listener, metrics *prometheus.Registry, others http.Handler) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.Handle("/", others)
	srv := &http.Server{Handler: mux, ReadTimeout: pageTime, WriteTimeout: pageTime, MaxHeaderBytes: 1 << 16}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(lis); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("--metrics: %w", err)
	}
	return nil
}

// NewLog returns a log of JSON lines on standard error.
func NewLog(level string) (*zap.Logger, error) {
	at, err := zap.ParseAtomicLevel(level)
	if err != nil {
		return nil, fmt.Errorf("--log-level: %w", err)
	}
	c := zap.NewProductionConfig()
	c.Level, c.Sampling, c.DisableCaller, c.DisableStacktrace = at, nil, true, true
	c.OutputPaths = []string{"stderr"}
	return c.Build()
}
