package main

import (
	"context"
	"strings"

	peer "github.com/colinmarc/hdfs/v2"
)

// colinmarc is the other client in Go. Its readers are for one goroutine each; its client is shared.
type colinmarc struct {
	*meter
	client *peer.Client
}

func newColinmarc(c cluster, _ int) (client, error) {
	m := newMeter()
	k, err := peer.NewClient(peer.ClientOptions{
		Addresses: []string{strings.TrimPrefix(c.url, "hdfs://")}, User: c.user, DatanodeDialFunc: m.dial,
	})
	if err != nil {
		return nil, err
	}
	return &colinmarc{m, k}, nil
}

func (*colinmarc) shared() bool { return false }
func (c *colinmarc) close()     { c.client.Close() }

type colinmarcFile struct{ *peer.FileReader }

func (c *colinmarc) open(_ context.Context, path string) (file, error) {
	f, err := c.client.Open(path)
	if err != nil {
		return nil, err
	}
	return colinmarcFile{f}, nil
}

func (f colinmarcFile) size() int64 { return f.Stat().Size() }
func (f colinmarcFile) close()      { f.FileReader.Close() }

func (f colinmarcFile) readAt(_ context.Context, buf []byte, off int64) error {
	_, err := f.ReadAt(buf, off)
	return err
}
