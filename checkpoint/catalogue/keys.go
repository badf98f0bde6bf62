package catalogue

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/stepahead-io/stepahead/internal/auth"
	"github.com/stepahead-io/stepahead/store"
)

const (
	// KeyFolder is where a store's trusted public keys lie.
	KeyFolder = Folder + "/keys"
	keySuffix = ".pub"
	keyKind   = "ed25519"

	maxKeyFile = 1 << 10
	maxKeys    = 64
)

var keyID = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$`)

func checkKeyID(id string) error {
	if !keyID.MatchString(id) {
		return fmt.Errorf("%.64q: use 1 to 64 letters, digits, '.', '_' and '-', not starting with '.': %w", id, fs.ErrInvalid)
	}
	return nil
}

// Key signs rows. Its secret is held where neither fmt nor encoding/json nor a debugger's print of a struct that holds a Key can see it.
type Key struct {
	ID     string
	public ed25519.PublicKey
	sign   func(message []byte) []byte
}

// Keys are public keys by their id.
type Keys map[string]ed25519.PublicKey

// Keys returns the key that verifies what k signs.
func (k Key) Keys() Keys { return Keys{k.ID: k.public} }

// NewKey returns the key of a seed of 32 bytes.
func NewKey(id string, seed []byte) (Key, error) {
	if err := checkKeyID(id); err != nil {
		return Key{}, fmt.Errorf("catalogue.NewKey: key id %w", err)
	}
	if len(seed) != ed25519.SeedSize {
		return Key{}, fmt.Errorf("catalogue.NewKey: key %q: the seed has %d bytes, it must have %d: %w", id, len(seed), ed25519.SeedSize, fs.ErrInvalid)
	}
	return newKey(id, seed), nil
}

func newKey(id string, seed []byte) Key {
	private := ed25519.NewKeyFromSeed(seed)
	return Key{ID: id, public: private.Public().(ed25519.PublicKey), sign: func(message []byte) []byte { return ed25519.Sign(private, message) }}
}

// GenerateKeyFile writes a new private key that its owner alone can read. A file that exists matches fs.ErrExist and is left alone. A bad
// id matches fs.ErrInvalid.
func GenerateKeyFile(file, id string) error {
	if err := checkKeyID(id); err != nil {
		return fmt.Errorf("catalogue.GenerateKeyFile: key id %w", err)
	}
	seed := make([]byte, ed25519.SeedSize)
	rand.Read(seed) // never fails: it ends the process instead
	if err := auth.WritePrivate(file, keyLine(id, seed)); err != nil {
		return fmt.Errorf("catalogue.GenerateKeyFile: %w", err)
	}
	return nil
}

// LoadKey reads a private key. A file that others than its owner may read or write matches fs.ErrPermission. Errors say nothing of what is in it.
func LoadKey(file string) (Key, error) {
	data, err := auth.ReadPrivate(file)
	if err != nil {
		return Key{}, fmt.Errorf("catalogue.LoadKey: %w", err)
	}
	id, seed, err := parseKeyLine(data)
	if err != nil {
		return Key{}, fmt.Errorf("catalogue.LoadKey %s: %w", file, err)
	}
	return newKey(id, seed), nil
}

// keyLine is a key file: the kind, the id, and 32 bytes in base64, the seed of a private key or the public key.
func keyLine(id string, b []byte) []byte {
	return fmt.Appendf(nil, "%s:%s:%s\n", keyKind, id, base64.StdEncoding.EncodeToString(b))
}

func parseKeyLine(data []byte) (id string, b []byte, err error) {
	parts := strings.Split(strings.TrimSuffix(string(data), "\n"), ":")
	if len(data) > maxKeyFile || len(parts) != 3 || parts[0] != keyKind || checkKeyID(parts[1]) != nil {
		return "", nil, fmt.Errorf("not one line %s:ID:BASE64: %w", keyKind, fs.ErrInvalid)
	}
	b, err = base64.StdEncoding.Strict().DecodeString(parts[2])
	if err != nil || len(b) != ed25519.SeedSize || strings.ContainsAny(parts[2], "\r\n") { // a public key has as many bytes
		return "", nil, fmt.Errorf("not %d bytes in base64 after the id: %w", ed25519.SeedSize, fs.ErrInvalid)
	}
	return parts[1], b, nil
}

// PublishKey puts the public half of a key into a store, where readers look for it. See [TrustedKeys] for whose keys they trust.
func PublishKey(ctx context.Context, st store.Store, k Key) error {
	if k.public == nil {
		return errors.New("catalogue.PublishKey: the key is empty: load it with LoadKey")
	}
	if err := store.ReplaceFile(ctx, st, path.Join(KeyFolder, k.ID+keySuffix), keyLine(k.ID, k.public)); err != nil {
		return fmt.Errorf("catalogue.PublishKey: %w", err)
	}
	return nil
}

func readKey(ctx context.Context, st store.Store, name string) (string, ed25519.PublicKey, error) {
	data, err := store.ReadFile(ctx, st, name, maxKeyFile)
	if err != nil {
		return "", nil, err
	}
	id, public, err := parseKeyLine(data)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", st.Address(name), err)
	}
	return id, public, nil
}

// TrustedKeys returns the keys in a store that readers trust: those in KeyFolder whose file belongs to the owner of the store's root; or to the owner
// of the catalogue's folder or KeyFolder, where the folder above that one belongs to the owner of the root, who then gave it away. Where an
// owner cannot be told, nobody is trusted. No folder is no keys. ignored says what is there and is not trusted, and why.
func TrustedKeys(ctx context.Context, st store.Store) (keys Keys, ignored []error, err error) {
	infos, err := st.List(ctx, KeyFolder)
	if errors.Is(err, fs.ErrNotExist) {
		return Keys{}, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("catalogue.TrustedKeys: %w", err)
	}
	trusted, err := owners(ctx, st)
	if err != nil {
		return nil, nil, fmt.Errorf("catalogue.TrustedKeys: %w", err)
	}
	keys = Keys{}
	for _, i := range infos {
		if i.Dir || !strings.HasSuffix(i.Name, keySuffix) || len(keys) == maxKeys {
			continue
		}
		if !trusted[i.Owner] {
			ignored = append(ignored, fmt.Errorf("%s: it belongs to %q, not to the owner of the store or of the folder: %w", st.Address(i.Name), i.Owner, fs.ErrPermission))
			continue
		}
		id, public, err := readKey(ctx, st, i.Name)
		if err == nil && id+keySuffix != path.Base(i.Name) {
			err = fmt.Errorf("%s: it holds the key %q: %w", st.Address(i.Name), id, fs.ErrInvalid)
		}
		switch {
		case ctx.Err() != nil:
			return nil, nil, fmt.Errorf("catalogue.TrustedKeys: %w", err)
		case err != nil:
			ignored = append(ignored, err)
		default:
			keys[id] = public
		}
	}
	return keys, ignored, nil
}

// owners returns whose keys are trusted. It is the rule by which loaders trust agents' registry files, for each folder on the way.
func owners(ctx context.Context, st store.Store) (map[string]bool, error) {
	chain := []string{"/", path.Dir(Folder), Folder, KeyFolder}
	who := make([]string, len(chain))
	for i, name := range chain {
		info, err := st.Stat(ctx, name)
		if err != nil {
			return nil, err
		}
		who[i] = info.Owner
	}
	trusted := map[string]bool{}
	if who[0] == "" {
		return trusted, nil
	}
	trusted[who[0]] = true
	for i := 2; i < len(chain); i++ { // what lies in the root itself was given away by nobody
		if who[i] != "" && who[i-1] == who[0] {
			trusted[who[i]] = true
		}
	}
	return trusted, nil
}
