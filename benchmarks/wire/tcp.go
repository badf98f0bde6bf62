package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net"

	"github.com/stepahead-io/stepahead/agent/fetch"
)

// tcp is the floor: the same bytes over a connection with the same socket settings, read straight to their
// place in the batch and checked there, with no protocol at all.
func tcp(part []byte) (*wire, error) {
	to, err := newBatch()
	if err != nil {
		return nil, err
	}
	lis, err := listen()
	if err != nil {
		return nil, err
	}
	served := make(chan net.Conn, 1)
	go func() { served <- serveParts(fetch.Listener(lis), part) }() // ends when lis is closed or its connection is made
	conn, err := net.Dial("tcp", lis.Addr().String())
	if err != nil {
		lis.Close()
		return nil, fmt.Errorf("wire: %w", err)
	}
	server := <-served
	crc := crc32.Checksum(part, castagnoli)
	move := func(_ context.Context, parts int) (n int64, err error) {
		if err := binary.Write(conn, binary.LittleEndian, uint64(parts)); err != nil {
			return 0, err
		}
		for range parts {
			dst := to.take(len(part))
			if _, err := io.ReadFull(conn, dst); err != nil {
				return n, err
			}
			if crc32.Checksum(dst, castagnoli) != crc {
				return n, errCRC
			}
			n += int64(len(dst))
		}
		return n, nil
	}
	return &wire{move, func() { conn.Close(); server.Close(); lis.Close(); to.free() }}, nil
}

// serveParts accepts one connection and answers each number that it reads with so many parts, until the
// connection ends.
func serveParts(lis net.Listener, part []byte) net.Conn {
	conn, err := lis.Accept()
	if err != nil {
		return nil
	}
	go func() {
		var parts uint64
		for binary.Read(conn, binary.LittleEndian, &parts) == nil {
			for range parts {
				if _, err := conn.Write(part); err != nil {
					return
				}
			}
		}
	}()
	return conn
}
