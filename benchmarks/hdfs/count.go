package main

import (
	"context"
	"net"
	"sync"

	"golang.org/x/sys/unix"
)

// meter counts connections and, by asking the kernel, what came through them.
type meter struct {
	mu    sync.Mutex
	made  map[string]int
	live  map[*metered]struct{}
	ended int64 // bytes of connections that are closed
}

func newMeter() *meter { return &meter{made: map[string]int{}, live: map[*metered]struct{}{}} }

// metered is a connection whose bytes are asked for when it closes. It is a TCPConn in all else.
type metered struct {
	*net.TCPConn
	m *meter
}

func (m *meter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	k := &metered{c.(*net.TCPConn), m}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.made[addr]++
	m.live[k] = struct{}{}
	return k, nil
}

func (k *metered) Close() error {
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	if _, ok := k.m.live[k]; ok {
		k.m.ended += k.received()
		delete(k.m.live, k)
	}
	return k.TCPConn.Close()
}

func (k *metered) received() (n int64) {
	raw, err := k.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			n = int64(info.Bytes_received)
		}
	})
	return n
}

// wire returns the connections made, by address, and the bytes received.
func (m *meter) wire() (map[string]int, int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	bytes := m.ended
	for k := range m.live {
		bytes += k.received()
	}
	made := map[string]int{}
	for addr, n := range m.made {
		made[addr] = n
	}
	return made, bytes
}
