package sasl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// LoginOptions say where Kerberos finds its files, and as whom to log in.
type LoginOptions struct {
	// Config is krb5.conf, or several separated by colons. Empty: /etc/krb5.conf.
	Config string
	// Keytab holds the keys of Principal ("name@REALM", "name" of the default realm, or empty: the first one
	// in the keytab). It goes before Cache.
	Keytab, Principal string
	// Cache is a ticket cache, kept fresh by others: a path, "FILE:path", or empty: /tmp/krb5cc_<uid>.
	Cache string
	// Now is the clock by which tickets are renewed. Nil: time.Now.
	Now func() time.Time
}

// LoginFromEnv takes the variables that MIT's Kerberos has: KRB5_CONFIG, KRB5_CLIENT_KTNAME and KRB5CCNAME.
func LoginFromEnv(getenv func(string) string) LoginOptions {
	return LoginOptions{Config: getenv("KRB5_CONFIG"), Keytab: getenv("KRB5_CLIENT_KTNAME"), Cache: getenv("KRB5CCNAME")}
}

// Credentials are one principal's: they hold its ticket-granting ticket, which is renewed when a fifth of
// its life is left, and the tickets of services. Safe for concurrent use; one caller at a time talks to the
// KDC, the others wait for what it brings. It starts no goroutine.
type Credentials struct {
	o      LoginOptions
	config *config.Config

	mu       sync.Mutex
	kdc      *client.Client
	tgt      heldTicket
	retry    time.Time // no renewal before
	services map[string]heldTicket
}

// heldTicket is a ticket with its key and life.
type heldTicket struct {
	ticket                  messages.Ticket
	key                     types.EncryptionKey
	start, end, renewableTo time.Time
}

// fresh says that more than a fifth of the ticket's life is left.
func (t heldTicket) fresh(now time.Time) bool {
	return t.end.Sub(now) > t.end.Sub(t.start)/5
}

// Login reads the configuration and the keytab or the ticket cache, and makes sure that there is a
// ticket-granting ticket. Errors match ErrAuth or store.ErrUnavailable, and say what to do.
func Login(ctx context.Context, o LoginOptions) (*Credentials, error) {
	if o.Config == "" {
		o.Config = "/etc/krb5.conf"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	conf, err := loadConfig(o.Config)
	if err != nil {
		return nil, fmt.Errorf("sasl.Login: %w: %w", ErrAuth, err)
	}
	c := &Credentials{o: o, config: conf, services: map[string]heldTicket{}}
	if o.Keytab != "" {
		err = c.openKeytab()
	} else {
		err = c.openCache()
	}
	if err != nil {
		return nil, fmt.Errorf("sasl.Login: %w: %w", ErrAuth, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refresh(); err != nil {
		return nil, fmt.Errorf("sasl.Login: %w", err)
	}
	return c, nil
}

// Principal is who the credentials are of: "name@REALM".
func (c *Credentials) Principal() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.principal()
}

func (c *Credentials) principal() string {
	return c.kdc.Credentials.CName().PrincipalNameString() + "@" + c.kdc.Credentials.Domain()
}

// Until is when the ticket-granting ticket ends that is held now.
func (c *Credentials) Until() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tgt.end
}

// Format prints the principal, and nothing that is secret.
func (c *Credentials) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "Kerberos credentials of %s", c.Principal())
}

func (c *Credentials) openKeytab() error {
	path := strings.TrimPrefix(c.o.Keytab, "FILE:")
	data, err := readSmall(path)
	if err != nil {
		return fmt.Errorf("keytab: %w", err)
	}
	kt := keytab.New()
	if _, err := guarded(func() (any, error) { return nil, kt.Unmarshal(data) }); err != nil {
		return fmt.Errorf("keytab %s: it cannot be read as one: %w", path, plain(err))
	}
	if len(kt.Entries) == 0 {
		return fmt.Errorf("keytab %s: it holds no key", path)
	}
	name, realm, _ := strings.Cut(c.o.Principal, "@")
	if name == "" {
		first := kt.Entries[0].Principal
		name, realm = strings.Join(first.Components, "/"), first.Realm
	}
	if realm == "" {
		realm = c.config.LibDefaults.DefaultRealm
	}
	if realm == "" {
		return fmt.Errorf("principal %q: no realm, and krb5.conf has no default_realm", c.o.Principal)
	}
	c.kdc = client.NewWithKeytab(name, realm, kt, c.config, client.DisablePAFXFAST(true))
	return nil
}

// plain keeps bytes of a damaged file out of messages: some of gokrb5's errors quote the whole of it.
func plain(err error) error {
	if errors.Is(err, errMalformed) || len(err.Error()) > 200 {
		return errMalformed
	}
	return err
}

// openCache reads the ticket cache again: others keep it fresh.
func (c *Credentials) openCache() error {
	path, err := cachePath(c.o.Cache)
	if err != nil {
		return err
	}
	data, err := readSmall(path)
	if err != nil {
		return fmt.Errorf("ticket cache: %w: run kinit, or give a keytab", err)
	}
	held, kdc, err := readCache(data, c.config)
	if err != nil {
		return fmt.Errorf("ticket cache %s: %w", path, err)
	}
	if c.tgt.end.After(held.end) {
		return nil // what we renewed ourselves lives longer
	}
	c.kdc, c.tgt = kdc, held
	clear(c.services)
	return nil
}

func cachePath(name string) (string, error) {
	if name == "" {
		return "/tmp/krb5cc_" + strconv.Itoa(os.Getuid()), nil
	}
	kind, path, ok := strings.Cut(name, ":")
	if !ok || strings.HasPrefix(name, "/") {
		return name, nil
	}
	if kind != "FILE" {
		return "", fmt.Errorf("ticket cache %s: only files can be read: set KRB5CCNAME=FILE:/path and run kinit, or give a keytab", name)
	}
	return path, nil
}

// readCache returns the ticket-granting ticket in a cache, and a client that acts for its owner.
func readCache(data []byte, conf *config.Config) (heldTicket, *client.Client, error) {
	data, err := checkCache(data)
	if err != nil {
		return heldTicket{}, nil, fmt.Errorf("it cannot be read as one: %w", err)
	}
	var cache credentials.CCache
	if _, err := guarded(func() (any, error) { return nil, cache.Unmarshal(data) }); err != nil {
		return heldTicket{}, nil, fmt.Errorf("it cannot be read as one: %w", plain(err))
	}
	realm := cache.GetClientRealm()
	entry, ok := cache.GetEntry(types.PrincipalName{NameType: nametype.KRB_NT_SRV_INST, NameString: []string{"krbtgt", realm}})
	if !ok {
		return heldTicket{}, nil, errors.New("it holds no ticket-granting ticket: run kinit")
	}
	held := heldTicket{key: entry.Key, start: entry.StartTime, end: entry.EndTime, renewableTo: entry.RenewTill}
	if held.start.Unix() == 0 {
		held.start = entry.AuthTime
	}
	if err := held.ticket.Unmarshal(entry.Ticket); err != nil {
		return heldTicket{}, nil, errors.New("the ticket in it cannot be read: run kinit")
	}
	kdc := client.NewWithKeytab(cache.GetClientPrincipalName().PrincipalNameString(), realm, keytab.New(), conf)
	return held, kdc, nil
}
