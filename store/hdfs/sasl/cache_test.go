package sasl

import (
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/config"
)

// cacheFile is a ticket cache of trainer@EXAMPLE.COM as kinit writes it (version 4).
func cacheFile(t testing.TB, s serviceTicket, start, end, renewable time.Time) []byte {
	t.Helper()
	ticket, err := s.ticket.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	be := binary.BigEndian
	data := func(b []byte, d string) []byte { return append(be.AppendUint32(b, uint32(len(d))), d...) }
	principal := func(b []byte, parts ...string) []byte {
		b = be.AppendUint32(be.AppendUint32(b, 1), uint32(len(parts)))
		b = data(b, "EXAMPLE.COM")
		for _, p := range parts {
			b = data(b, p)
		}
		return b
	}
	b := []byte("\x05\x04\x00\x0c\x00\x01\x00\x08\xff\xff\xff\xff\x00\x00\x00\x00")
	b = principal(b, "trainer")
	b = principal(principal(b, "trainer"), "krbtgt", "EXAMPLE.COM")
	b = data(be.AppendUint16(b, uint16(s.key.KeyType)), string(s.key.KeyValue))
	for _, at := range []time.Time{start, start, end, renewable} {
		b = be.AppendUint32(b, uint32(at.Unix()))
	}
	b = append(b, make([]byte, 1+4+4+4)...)
	return data(data(b, string(ticket)), "")
}

func TestTicketCache(t *testing.T) {
	dir, now := t.TempDir(), time.Unix(1_800_000_000, 0)
	clock := now
	_, ticket := newAcceptor(t, 18)
	put := func(start, end, renewable time.Duration) {
		t.Helper()
		write(t, dir+"/cc", string(cacheFile(t, ticket, now.Add(start), now.Add(end), now.Add(renewable))))
	}
	o := LoginOptions{
		Config: write(t, dir+"/krb5.conf", "[realms]\nEXAMPLE.COM = {\n kdc = 127.0.0.1:1\n}\n"),
		Cache:  "FILE:" + dir + "/cc", Now: func() time.Time { return clock },
	}
	put(-2*time.Hour, -time.Hour, 0)
	_, err := Login(t.Context(), o)
	for _, want := range []string{"trainer@EXAMPLE.COM", "expired at 2027-01-15T07:00:00Z", "now: 2027-01-15T08:00:00Z", "run kinit"} {
		if !errors.Is(err, ErrAuth) || !strings.Contains(err.Error(), want) {
			t.Errorf("expired: %v; want %q in it", err, want)
		}
	}
	put(0, 10*time.Hour, 0)
	c, err := Login(t.Context(), o)
	if err != nil || c.Principal() != "trainer@EXAMPLE.COM" {
		t.Fatalf("%v, %v", c, err)
	}
	// Somebody else renews the ticket: it is taken over when a fifth of the old one's life is left.
	put(9*time.Hour, 19*time.Hour, 0)
	clock = now.Add(9 * time.Hour)
	if err := c.refresh(); err != nil || c.tgt.end != now.Add(19*time.Hour) {
		t.Errorf("not taken over: until %v, %v", c.tgt.end, err)
	}
	// Nobody does: the old one is used to its end, and not longer; a KDC that does not answer does no harm before.
	clock = now.Add(18 * time.Hour)
	if err := c.refresh(); err != nil {
		t.Errorf("in the last fifth: %v", err)
	}
	if err := os.Remove(dir + "/cc"); err != nil {
		t.Fatal(err)
	}
	clock = now.Add(18*time.Hour + 2*retryAfter)
	if err := c.refresh(); err != nil {
		t.Errorf("in the last fifth, no file: %v", err)
	}
	clock = now.Add(20 * time.Hour)
	if err := c.refresh(); err == nil || !strings.Contains(err.Error(), "run kinit") {
		t.Errorf("after the end: %v", err)
	}
}

// However long the header is, what is read after it is what was looked at: the library steps over it in another way.
func TestCacheHeaders(t *testing.T) {
	_, ticket := newAcceptor(t, 18)
	now := time.Unix(1_800_000_000, 0)
	whole := cacheFile(t, ticket, now, now.Add(time.Hour), now)
	for _, header := range []string{"", "\x00", "\x1c", "\x00\x01\x00\x00", "\x00\x02\x00\x03abc", "\x00\x01\x00\x08\xff\xff\xff\xff\x00\x00\x00\x00", strings.Repeat("h", 300)} {
		data := binary.BigEndian.AppendUint16([]byte("\x05\x04"), uint16(len(header)))
		data = append(append(data, header...), whole[16:]...)
		held, _, err := readCache(data, config.New())
		if err != nil || !held.end.Equal(now.Add(time.Hour)) {
			t.Errorf("header %q: until %v, %v", header, held.end, err)
		}
	}
}
