package main

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// advertised returns where trainers find the agent: what is asked for, with the listener's port if it names
// none; else the listener's address, whose wildcard becomes the host's name.
func advertised(asked string, at net.Addr, hostname func() (string, error)) (string, error) {
	host, port, err := net.SplitHostPort(at.String())
	if err != nil {
		return "", fmt.Errorf("--listen: %w", err)
	}
	if asked != "" {
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
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		if host, err = hostname(); err != nil {
			return "", fmt.Errorf("--advertise is needed: this host does not know its name: %w", err)
		}
	}
	return net.JoinHostPort(host, port), nil
}
