package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// noRegistry is the --registry of an agent that tells nobody where it listens.
const noRegistry = "none"

// checkAdvertise says what is wrong with --advertise.
func (s *settings) checkAdvertise() error {
	if s.advertise == "" {
		return nil
	}
	if s.registry == noRegistry {
		return errors.New("--advertise: --registry none tells nobody: leave one out")
	}
	_, err := withPort(s.advertise, "0")
	return err
}

// advertised returns where the registry tells trainers that the agent is: what is asked for, with the listener's port if it
// names none; else the listener's address, whose wildcard becomes the host's name. Without a registry it is nowhere.
func (s *settings) advertised(at net.Addr, hostname func() (string, error)) (string, error) {
	if s.registry == noRegistry {
		return "", nil
	}
	host, port, err := net.SplitHostPort(at.String())
	if err != nil {
		return "", fmt.Errorf("--listen: %w", err)
	}
	if s.advertise != "" {
		return withPort(s.advertise, port)
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		if host, err = hostname(); err != nil {
			return "", fmt.Errorf("--advertise is needed: this host does not know its name: %w", err)
		}
	}
	return net.JoinHostPort(host, port), nil
}

// withPort returns the host and port of what is asked for, which may have no port.
func withPort(asked, port string) (string, error) {
	if h, p, err := net.SplitHostPort(asked); err == nil {
		if _, err := strconv.ParseUint(p, 10, 16); err == nil && h != "" {
			return asked, nil
		}
	}
	name := strings.TrimSuffix(strings.TrimPrefix(asked, "["), "]")
	if name == "" || strings.ContainsAny(name, "/[] ") || strings.Contains(name, ":") && net.ParseIP(name) == nil {
		return "", fmt.Errorf("--advertise %q: give a host or host:port", asked)
	}
	return net.JoinHostPort(name, port), nil
}
