package auth_test

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stepahead-io/stepahead/internal/auth"
)

func keyFile(t testing.TB, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "agent.key")
	must(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestLoadKeyring(t *testing.T) {
	secret := counting()
	for i := range secret {
		secret[i] ^= 0xfb // so that both base64 alphabets differ
	}
	want, err := auth.Mint(newKey(t, "k1", secret), claims())
	must(t, err)
	for name, text := range map[string]string{
		"hex":            "k1:" + hex.EncodeToString(secret),
		"upper hex":      "k1:" + strings.ToUpper(hex.EncodeToString(secret)) + "\n",
		"base64":         "k1:" + base64.StdEncoding.EncodeToString(secret) + "\n",
		"unpadded":       "k1:" + base64.RawStdEncoding.EncodeToString(secret),
		"base64url":      "k1:" + base64.URLEncoding.EncodeToString(secret),
		"comments, CRLF": "# keys\r\n\r\n  k1: " + base64.StdEncoding.EncodeToString(secret) + " \r\n",
		"two keys":       "k1:" + hex.EncodeToString(secret) + "\nk0:" + hex.EncodeToString(counting()) + "\n",
	} {
		keys, err := auth.LoadKeyring(keyFile(t, text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		first, _ := keys.First()
		if token, err := auth.Mint(first, claims()); err != nil || token != want {
			t.Errorf("%s: another secret was read, %v", name, err)
		}
	}
}

func TestLoadKeyringRefuses(t *testing.T) {
	good := hex.EncodeToString(counting())
	marker := "SWORDFISH" // stands in what must not be printed
	for name, c := range map[string]struct{ text, says string }{
		"empty":        {"", "0 keys"},
		"comments":     {"# nothing\n\n", "0 keys"},
		"no colon":     {"k1" + marker, "line 1"},
		"no id":        {":" + good, "line 1"},
		"id of a path": {"../k" + marker + ":" + good, "line 1"},
		"swapped":      {marker + strings.Repeat("x", 60) + ":k1", "line 1"},
		"short":        {"k0:" + good + "\nk1:" + good[:62], "line 2: the secret has 31 bytes"},
		"empty secret": {"k1:", "line 1"},
		"odd hex":      {"k1:" + good[:63], "odd number"},
		"not base64":   {"k1:" + marker + "!" + good, "neither hex nor base64"},
		"twice":        {"k1:" + good + "\nk1:" + good, "twice"},
		"too many":     {strings.Repeat("k:"+good+"\n", 65), "more than 64"},
		"long line":    {"k1:" + strings.Repeat("A", 100_000), "too long"},
		"huge file":    {strings.Repeat("#\n", 200_000), "larger than"},
		"binary":       {"\x00\x01" + marker, "line 1"},
	} {
		_, err := auth.LoadKeyring(keyFile(t, c.text))
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "agent.key") {
			t.Errorf("%s: %v; want the file named and %q", name, err, c.says)
		}
		if s := fmt.Sprint(err); strings.Contains(s, marker) || strings.Contains(s, good[:30]) {
			t.Errorf("%s: the error shows what the file holds: %s", name, s)
		}
	}
	if _, err := auth.LoadKeyring(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := auth.LoadKeyring(t.TempDir()); err == nil {
		t.Error("a folder was accepted")
	}
}

func TestKeyFileMode(t *testing.T) {
	file := keyFile(t, "k1:"+hex.EncodeToString(counting()))
	for mode, ok := range map[fs.FileMode]bool{
		0o600: true, 0o400: true, 0o700: true, 0o640: false, 0o604: false, 0o644: false, 0o620: false, 0o602: false, 0o610: false, 0o666: false,
	} {
		must(t, os.Chmod(file, mode))
		_, err := auth.LoadKeyring(file)
		if (err == nil) != ok {
			t.Errorf("mode %04o: %v", mode, err)
		}
		if !ok && (!errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "chmod 600 "+file)) {
			t.Errorf("mode %04o: %v; want to be told chmod 600", mode, err)
		}
	}
}

func TestGenerateKeyFile(t *testing.T) {
	old := syscall.Umask(0) // the worst umask must not open the file
	defer syscall.Umask(old)
	folder := t.TempDir()
	file := filepath.Join(folder, "agent.key")
	must(t, auth.GenerateKeyFile(file, "k1"))
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	before, _ := os.ReadFile(file)
	if err := auth.GenerateKeyFile(file, "k2"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a key file: %v, want fs.ErrExist", err)
	}
	if after, _ := os.ReadFile(file); string(after) != string(before) {
		t.Error("the key file was overwritten")
	}
	if entries, _ := os.ReadDir(folder); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
	keys, err := auth.LoadKeyring(file)
	must(t, err)
	key, ok := keys.Key("k1")
	if !ok {
		t.Fatal("no k1")
	}
	second := filepath.Join(folder, "other.key")
	must(t, auth.GenerateKeyFile(second, "k1"))
	other, err := auth.LoadKeyring(second)
	must(t, err)
	token, err := auth.Mint(key, claims())
	must(t, err)
	if _, err := auth.Verify(other, token, now); !errors.Is(err, auth.ErrSignature) {
		t.Errorf("two new keys are the same: %v", err)
	}
	if err := auth.GenerateKeyFile(filepath.Join(folder, "x"), "bad id"); err == nil {
		t.Error("an id with a space")
	}
}

func TestKeyOwnsItsSecret(t *testing.T) {
	secret := counting()
	key := newKey(t, "k1", secret)
	before, _ := auth.Mint(key, claims())
	clear(secret)
	if after, _ := auth.Mint(key, claims()); after != before {
		t.Error("the key changed with the caller's memory")
	}
}

func FuzzLoadKeyring(f *testing.F) {
	good := hex.EncodeToString(counting())
	for _, s := range []string{"k1:" + good, "# c\n\nk1: " + good + "\r\n", "k1:" + good + "\nk2:" + base64.StdEncoding.EncodeToString(counting()), ":", "k:", "k1:=="} {
		f.Add(s)
	}
	file := filepath.Join(f.TempDir(), "agent.key")
	f.Fuzz(func(t *testing.T, text string) {
		must(t, os.WriteFile(file, []byte(text), 0o600))
		keys, err := auth.LoadKeyring(file)
		first, ok := keys.First()
		if (err == nil) != ok {
			t.Fatalf("%v, and a key: %v", err, ok)
		}
		if !ok {
			return
		}
		token, err := auth.Mint(first, claims())
		must(t, err)
		if _, err := auth.Verify(keys, token, now); err != nil {
			t.Fatal(err)
		}
	})
}
