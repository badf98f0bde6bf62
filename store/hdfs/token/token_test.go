package token

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func file(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The files were written by Hadoop: testdata/TokenFiles.java.
func TestFilesOfHadoop(t *testing.T) {
	for _, form := range []string{"writable", "protobuf"} {
		tokens, err := Load("testdata/" + form + ".hdts")
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%q", slices.Sorted(maps.Keys(tokens))); got != `["grün" "ha-hdfs:lake"]` {
			t.Errorf("%s: aliases %s", form, got)
		}
		lake, other := tokens["ha-hdfs:lake"], tokens["grün"]
		if lake.Kind != KindHDFS || lake.Service != "ha-hdfs:lake" || string(lake.Password.Bytes()) != "the password of lake" {
			t.Errorf("%s: %v %q", form, lake, lake.Password.Bytes())
		}
		if other.Kind != "OTHER_KIND" || other.Service != "10.0.0.1:8032" || !bytes.Equal(other.Identifier, bytes.Repeat([]byte{0x90}, 300)) || len(other.Password.Bytes()) != 0 {
			t.Errorf("%s: %v", form, other)
		}
		claims, err := lake.Claims()
		want := Claims{Owner: "alice", Renewer: "yarn", RealUser: "hive", Issued: time.UnixMilli(1700000000123), Until: time.UnixMilli(1700604800123)}
		if err != nil || claims != want {
			t.Errorf("%s: %+v, %v", form, claims, err)
		}
		if tokens, err := Read(file(t, "empty-"+form+".hdts")); err != nil || len(tokens) != 0 {
			t.Errorf("%s, empty: %v, %v", form, tokens, err)
		}
	}
}

// No part of a password shows, however a token, or what holds one, is printed.
func TestPasswordsDoNotShow(t *testing.T) {
	tokens, err := Load("testdata/writable.hdts")
	if err != nil {
		t.Fatal(err)
	}
	lake := tokens["ha-hdfs:lake"]
	type inside struct {
		t Token
		p *Token
		s Secret
		m map[string]Token
	}
	things := []any{lake, &lake, lake.Password, &lake.Password, tokens, []Token{lake}, inside{lake, &lake, lake.Password, tokens}, &inside{t: lake, s: lake.Password}}
	var all strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%c", "%o", "%b", "%U", "%t", "%T"} {
		for _, thing := range things {
			fmt.Fprintf(&all, verb+"\n", thing)
		}
	}
	for _, thing := range things {
		data, err := json.Marshal(thing)
		fmt.Fprintln(&all, string(data), err)
	}
	password := "the password of lake"
	for _, form := range []string{password, "password of", fmt.Sprintf("%x", password), fmt.Sprintf("%X", password), strings.Trim(fmt.Sprint([]byte(password)), "[]"),
		strings.Trim(fmt.Sprintf("%o", []byte(password)), "[]"), "dGhlIHBhc3N3b3JkIG9mIGxha2U"} {
		if strings.Contains(all.String(), form) {
			t.Errorf("the password shows as %q", form)
		}
	}
	for _, want := range []string{"alice", "yarn", "ha-hdfs:lake", "2023-11-21T22:13:20Z"} {
		if !strings.Contains(lake.String(), want) {
			t.Errorf("%s: want %s in it", lake, want)
		}
	}
}

func TestSecretIsACopy(t *testing.T) {
	b := []byte("abc")
	s := NewSecret(b)
	b[0] = 'x'
	s.Bytes()[1] = 'x'
	if got := string(s.Bytes()); got != "abc" || (Secret{}).Bytes() != nil {
		t.Errorf("%q", got)
	}
}

func TestVLong(t *testing.T) {
	// From WritableUtils.writeVLong.
	for text, want := range map[string]int64{
		"\x00": 0, "\x7f": 127, "\x90": -112, "\x8f\x80": 128, "\x87\x70": -113, "\x8e\x01\x00": 256, "\x8d\x01\x00\x00": 65536,
		"\x88\x7f\xff\xff\xff\xff\xff\xff\xff": 1<<63 - 1, "\x80\x7f\xff\xff\xff\xff\xff\xff\xff": -1 << 63,
	} {
		r := reader{data: []byte(text)}
		if got := r.vlong(); got != want || r.err != nil || r.at != len(text) {
			t.Errorf("%x: %d, %v; want %d", text, got, r.err, want)
		}
	}
}

func TestWrongFiles(t *testing.T) {
	writable, protobuf := file(t, "writable.hdts"), file(t, "protobuf.hdts")
	try := func(name string, data []byte, want string) {
		t.Helper()
		tokens, err := Read(data)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v; want %q", name, tokens, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "password") {
			t.Errorf("%s: the message quotes the file: %v", name, err)
		}
	}
	for n := range writable {
		try("writable, cut", writable[:n], "")
	}
	for n := range protobuf {
		try("protobuf, cut", protobuf[:n], "")
	}
	try("empty", nil, "HDTS")
	try("another kind", []byte("PK\x03\x04aaaa"), "HDTS")
	try("version 2", []byte("HDTS\x02"), "version 2")
	try("left over", append(bytes.Clone(writable), 0), "left over")
	try("left over", append(bytes.Clone(protobuf), 0), "announced")
	try("many", []byte("HDTS\x00\x8e\x27\x11"), "10001 entries")
	try("negative", []byte("HDTS\x00\xff"), "-1 entries")
	try("negative length", []byte("HDTS\x00\x01\xff"), "announced")
	try("long length", []byte("HDTS\x00\x01\x88\x7f\xff\xff\xff\xff\xff\xff\xff"), "announced")
	try("not UTF-8", []byte("HDTS\x00\x01\x01\xff"), "UTF-8")
	try("twice", []byte("HDTS\x00\x02\x01a\x00\x00\x00\x00\x01a\x00\x00\x00\x00\x00"), "twice")
	try("not protobuf", []byte("HDTS\x01\x02\xff\xff"), "protobuf")
	try("too large", make([]byte, maxFile+1), "more than")
	if _, err := Load("testdata/absent"); !os.IsNotExist(err) && !strings.Contains(err.Error(), "absent") {
		t.Error(err)
	}
	if _, err := Load("testdata/TokenFiles.java"); err == nil || !strings.Contains(err.Error(), "TokenFiles.java") {
		t.Error(err)
	}
}

func FuzzRead(f *testing.F) {
	for _, name := range []string{"writable.hdts", "protobuf.hdts", "empty-writable.hdts", "empty-protobuf.hdts"} {
		f.Add(file(f, name))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tokens, err := Read(data)
		if err != nil && tokens != nil {
			t.Fatal("tokens beside an error")
		}
		size := 0
		for alias, token := range tokens {
			size += len(alias) + len(token.Kind) + len(token.Service) + len(token.Identifier) + len(token.Password.Bytes())
			_ = token.String()
			if c, err := token.Claims(); err == nil && len(c.Owner)+len(c.Renewer)+len(c.RealUser) > len(token.Identifier) {
				t.Fatalf("%+v from %d bytes", c, len(token.Identifier))
			}
		}
		if size > len(data) {
			t.Fatalf("%d bytes of tokens from %d bytes", size, len(data))
		}
	})
}
