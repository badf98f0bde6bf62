package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/internal/auth"
)

// runToken runs `stepahead token ARGS` and returns its exit code, output and error output.
func runToken(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	root := newRoot()
	root.SetOut(&o)
	root.SetErr(&e)
	code = exit.Run(t.Context(), root, append([]string{"token"}, args...))
	return code, o.String(), e.String()
}

func TestTokenMint(t *testing.T) {
	key := filepath.Join(t.TempDir(), "agent.key")
	if code, _, errOut := runToken(t, "keygen", "--key", key, "--key-id", "k7"); code != exit.OK {
		t.Fatalf("keygen: %d, %s", code, errOut)
	}
	keys, err := auth.LoadKeyring(key)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"mint", "--key", key, "--job", "j", "--user", "u", "--root", "/photos/", "--root", "/b//c", "--rights", "hint", "--ttl", "90m"}
	code, out, errOut := runToken(t, args...)
	if code != exit.OK || strings.Count(out, "\n") != 1 {
		t.Fatalf("%d, %q, %s", code, out, errOut)
	}
	c, err := auth.Verify(keys, strings.TrimSpace(out), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	left := time.Until(c.Expires)
	if c.Job != "j" || c.User != "u" || strings.Join(c.Roots, " ") != "/photos /b/c" || strings.Join(c.Rights, " ") != "hint" || left > 90*time.Minute || left < 89*time.Minute {
		t.Errorf("the token says %+v", c)
	}
	code, out, _ = runToken(t, append(args, "--json")...)
	var shown struct {
		Token   string    `json:"token"`
		KeyID   string    `json:"key_id"`
		Expires time.Time `json:"expires"`
	}
	if err := json.Unmarshal([]byte(out), &shown); code != exit.OK || err != nil || shown.KeyID != "k7" {
		t.Fatalf("%d, %s, %v", code, out, err)
	}
	if c, err := auth.Verify(keys, shown.Token, time.Now()); err != nil || !c.Expires.Equal(shown.Expires) {
		t.Errorf("the JSON shows %v, the token says %v, %v", shown.Expires, c.Expires, err)
	}
}

// TestCatalogueKeygen: a key of the other kind, which no token can be made with.
func TestCatalogueKeygen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "catalogue.key")
	if code, out, errOut := runToken(t, "keygen", "--catalogue", "--key", file, "--key-id", "c7"); code != exit.OK || !strings.Contains(out, "--catalogue-key") {
		t.Fatalf("%d, %s%s", code, out, errOut)
	}
	if k, err := catalogue.LoadKey(file); err != nil || k.ID != "c7" {
		t.Errorf("%v, %v", k, err)
	}
	if code, _, _ := runToken(t, "mint", "--key", file, "--job", "j", "--user", "u", "--root", "/"); code == exit.OK {
		t.Error("a token was made with it")
	}
}

func TestTokenRefuses(t *testing.T) {
	folder := t.TempDir()
	key := filepath.Join(folder, "agent.key")
	if code, _, errOut := runToken(t, "keygen", "--key", key); code != exit.OK {
		t.Fatal(errOut)
	}
	open := filepath.Join(folder, "open.key")
	data, _ := os.ReadFile(key)
	if err := os.WriteFile(open, data, 0o644); err != nil {
		t.Fatal(err)
	}
	_, secret, _ := strings.Cut(strings.TrimSpace(string(data)), ":")
	good := []string{"mint", "--key", key, "--job", "j", "--user", "u", "--root", "/a"}
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"nothing to do":   {nil, exit.Misused, "mint or keygen"},
		"unknown command": {[]string{"steal"}, exit.Misused, "steal"},
		"unknown flag":    {append(good, "--colour"), exit.Misused, "colour"},
		"argument":        {append(good, "x"), exit.Misused, "x"},
		"no key":          {[]string{"mint"}, exit.Misused, "--key"},
		"no job":          {[]string{"mint", "--key", key}, exit.Misused, "job"},
		"key missing":     {[]string{"mint", "--key", key + "x"}, exit.Environment, "no such file"},
		"key open":        {[]string{"mint", "--key", open}, exit.Environment, "chmod 600"},
		"key id":          {append(good, "--key-id", "k9"), exit.Misused, "k9"},
		"ttl":             {append(good, "--ttl", "0s"), exit.Misused, "--ttl"},
		"negative ttl":    {append(good, "--ttl", "-1h"), exit.Misused, "--ttl"},
		"right":           {append(good, "--rights", "fetch,write"), exit.Misused, "write"},
		"root above":      {append(good, "--root", "/a/../b"), exit.Misused, "/a/../b"},
		"root URL":        {append(good, "--root", "hdfs://ns/a"), exit.Misused, "URL"},
		"a token's key":   {[]string{"keygen", "--catalogue", "--key", key}, exit.Environment, "exists"},
		"keygen over":     {[]string{"keygen", "--key", key}, exit.Environment, "exists"},
		"keygen id":       {[]string{"keygen", "--key", key + "2", "--key-id", "a b"}, exit.Misused, "key id"},
		"keygen no key":   {[]string{"keygen"}, exit.Misused, "--key"},
	} {
		code, out, errOut := runToken(t, c.args...)
		if code != c.code || !strings.Contains(errOut, c.says) || out != "" {
			t.Errorf("%s: exit %d, %q, %q; want exit %d and %q", name, code, out, errOut, c.code, c.says)
		}
		if strings.Contains(out+errOut, secret) {
			t.Errorf("%s: the secret was printed", name)
		}
	}
}
