package auth

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/stepahead-io/stepahead/internal/localfile"
)

const (
	minSecret  = 32 // bytes: as long as the signature
	maxSecret  = 1 << 10
	maxKeys    = 64
	maxKeyFile = 256 << 10
)

var keyID = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$`)

func checkKeyID(id string) error {
	if !keyID.MatchString(id) {
		return fmt.Errorf("%w: use 1 to 64 letters, digits, '.', '_' and '-', not starting with '.'", fs.ErrInvalid)
	}
	return nil
}

// Key signs tokens. Its secret is held where neither fmt nor encoding/json nor a debugger's print of a struct
// that holds a Key can see it.
type Key struct {
	ID  string
	mac func(message []byte) []byte
}

// NewKey returns a key with a copy of the secret, of 32 to 1024 bytes.
func NewKey(id string, secret []byte) (Key, error) {
	if err := checkKeyID(id); err != nil {
		return Key{}, fmt.Errorf("auth.NewKey: key id: %w", err)
	}
	if len(secret) < minSecret || len(secret) > maxSecret {
		return Key{}, fmt.Errorf("auth.NewKey: key %q: the secret has %d bytes: give %d to %d", id, len(secret), minSecret, maxSecret)
	}
	secret = slices.Clone(secret)
	return Key{ID: id, mac: func(message []byte) []byte {
		h := hmac.New(sha256.New, secret)
		h.Write(message)
		return h.Sum(nil)
	}}, nil
}

// Keyring holds the keys that verify. The zero value refuses everybody. It does not change and is safe for
// concurrent use.
type Keyring struct {
	keys     []Key
	insecure bool
}

// Verifies reports whether callers need a token: it is false for an Insecure keyring.
func (k Keyring) Verifies() bool { return !k.insecure }

// NewKeyring returns a keyring; the first key is the one to mint with.
func NewKeyring(keys ...Key) (Keyring, error) {
	if len(keys) == 0 || len(keys) > maxKeys {
		return Keyring{}, fmt.Errorf("auth.NewKeyring: %d keys: give 1 to %d", len(keys), maxKeys)
	}
	for i, k := range keys {
		if k.mac == nil {
			return Keyring{}, fmt.Errorf("auth.NewKeyring: key %d is empty: make it with NewKey", i+1)
		}
		if slices.ContainsFunc(keys[:i], func(other Key) bool { return other.ID == k.ID }) {
			return Keyring{}, fmt.Errorf("auth.NewKeyring: key %q occurs twice: give each key its own id", k.ID)
		}
	}
	return Keyring{keys: slices.Clone(keys)}, nil
}

// Insecure returns a keyring that lets everybody in, with all rights on all paths for any job. It is for an
// agent without a key, which must listen on loopback only; see Loopback.
func Insecure() Keyring { return Keyring{insecure: true} }

// Insecure reports whether the keyring lets everybody in.
func (k Keyring) Insecure() bool { return k.insecure }

// First returns the key to mint with; false if there is none.
func (k Keyring) First() (Key, bool) {
	if len(k.keys) == 0 {
		return Key{}, false
	}
	return k.keys[0], true
}

// Key returns the key of an id; false if there is none.
func (k Keyring) Key(id string) (Key, bool) {
	if i := slices.IndexFunc(k.keys, func(key Key) bool { return key.ID == id }); i >= 0 {
		return k.keys[i], true
	}
	return Key{}, false
}

// LoadKeyring reads a key file: a line "id:secret" for each key, the one to mint with first; the secret has
// at least 32 bytes, written in hex if it has hex digits only and else in base64 (any alphabet, padded or
// not); empty lines and lines that start with # are skipped. A file that others than its owner may read or
// write is refused. Errors name the line and never what is in it.
func LoadKeyring(file string) (Keyring, error) {
	data, err := ReadPrivate(file)
	if err != nil {
		return Keyring{}, fmt.Errorf("auth.LoadKeyring: %w", err)
	}
	keys, err := parseKeys(data)
	if err != nil {
		return Keyring{}, fmt.Errorf("auth.LoadKeyring %s: %w", file, err)
	}
	ring, err := NewKeyring(keys...)
	if err != nil {
		return Keyring{}, fmt.Errorf("auth.LoadKeyring %s: %w", file, err)
	}
	return ring, nil
}

// ReadPrivate returns the content of a file of at most 256 KiB that its owner alone has access to; any other matches fs.ErrPermission. The open file is
// checked, not the name: a name can be replaced between the two. What is no file matches localfile.ErrNotRegular.
func ReadPrivate(file string) ([]byte, error) {
	f, err := localfile.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("%s: others than its owner have access (mode %04o): run chmod 600 %s: %w", file, mode, file, fs.ErrPermission)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err == nil && len(data) > maxKeyFile {
		err = fmt.Errorf("%s: larger than %d bytes: not a key file", file, maxKeyFile)
	}
	return data, err
}

func parseKeys(data []byte) ([]Key, error) {
	var keys []Key
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		key, err := parseKey(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if len(keys) == maxKeys {
			return nil, fmt.Errorf("line %d: more than %d keys", n, maxKeys)
		}
		keys = append(keys, key)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("a line is too long: %w", err)
	}
	return keys, nil
}

// parseKey does not name anything of the line in its errors, the id neither: id and secret may be swapped.
func parseKey(line string) (Key, error) {
	id, text, found := strings.Cut(line, ":")
	if !found || checkKeyID(id) != nil {
		return Key{}, errors.New("not id:secret, with an id of 1 to 64 letters, digits, '.', '_' and '-'")
	}
	secret, err := decodeSecret(strings.TrimSpace(text))
	if err != nil {
		return Key{}, err
	}
	if len(secret) < minSecret || len(secret) > maxSecret {
		return Key{}, fmt.Errorf("the secret has %d bytes: give %d to %d; `stepahead token keygen` makes one", len(secret), minSecret, maxSecret)
	}
	return NewKey(id, secret)
}

var hexDigits = regexp.MustCompile(`^[0-9A-Fa-f]+$`)

func decodeSecret(text string) ([]byte, error) {
	if hexDigits.MatchString(text) { // by chance a base64 secret is so with p < 1e-18
		b, err := hex.DecodeString(text)
		if err != nil {
			return nil, errors.New("the secret has an odd number of hex digits")
		}
		return b, nil
	}
	text = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
	b, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil { // its text would quote the secret's place, so it is dropped
		return nil, errors.New("the secret is neither hex nor base64")
	}
	return b, nil
}

// GenerateKeyFile writes a new key file with one random key, readable by its owner only. A file that exists
// matches fs.ErrExist and is left alone: add a line to it to rotate keys. A bad id matches fs.ErrInvalid.
func GenerateKeyFile(file, id string) error {
	if err := checkKeyID(id); err != nil {
		return fmt.Errorf("auth.GenerateKeyFile: key id: %w", err)
	}
	secret := make([]byte, minSecret)
	rand.Read(secret) // never fails: it ends the process instead
	err := WritePrivate(file, fmt.Appendf(nil, "%s:%s\n", id, base64.StdEncoding.EncodeToString(secret)))
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%w; to rotate keys, add a line to it", err)
	}
	if err != nil {
		return fmt.Errorf("auth.GenerateKeyFile: %w", err)
	}
	return nil
}

// WritePrivate writes a new file that its owner alone has access to: beside, synced and linked, so that the name is never there with half a key in
// it. A file that exists matches fs.ErrExist and is left alone.
func WritePrivate(file string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(file), ".key-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	err = os.Link(f.Name(), file)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: %w: it is left alone", file, fs.ErrExist)
	}
	if err != nil {
		return err
	}
	return localfile.SyncFolder(file)
}
