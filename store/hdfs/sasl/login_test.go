package sasl

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/keytab"

	"github.com/stepahead-io/stepahead/store"
)

func write(t testing.TB, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestKrbConfIsPutTogether(t *testing.T) {
	dir := t.TempDir()
	main := write(t, filepath.Join(dir, "krb5.conf"), "# comment\nincludedir "+dir+"/d\n[libdefaults]\n default_realm = LAKE.EXAMPLE\n[realms]\n LAKE.EXAMPLE = {\n  kdc = kdc1:88\n }\n[appdefaults]\n pam = {\n  x = y\n }\n")
	write(t, dir+"/d/more.conf", "[realms]\nOTHER.EXAMPLE = {\n kdc = kdc2\n}\n[domain_realm]\n.other.example = OTHER.EXAMPLE\n")
	write(t, dir+"/d/plain", "include "+dir+"/one\n")
	write(t, dir+"/d/ignored.rpmsave", "[libdefaults]\nclockskew = nonsense\n")
	write(t, dir+"/one", "[libdefaults]\nclockskew = 120\n")
	c, err := loadConfig(dir + "/absent:" + main)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintln(c.LibDefaults.DefaultRealm, c.LibDefaults.Clockskew, c.ResolveRealm("a.other.example"), len(c.Realms), c.LibDefaults.DefaultTGSEnctypeIDs)
	if want := "LAKE.EXAMPLE 2m0s OTHER.EXAMPLE 2 [18 17 20 19]\n"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for name, text := range map[string]string{
		"itself":     "include " + dir + "/bad",
		"no file":    "include " + dir + "/absent",
		"no AES":     "[libdefaults]\ndefault_tgs_enctypes = arcfour-hmac-md5",
		"a wrong =":  "[libdefaults]\nclockskew",
		"a half one": "[realms]\n}",
		"too large":  strings.Repeat("#", maxKrbFile+1),
	} {
		if _, err := loadConfig(write(t, dir+"/bad", text)); err == nil || !strings.Contains(err.Error(), "krb5.conf: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := loadConfig("/absent"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "KRB5_CONFIG") {
		t.Errorf("no file: %v", err)
	}
}

func TestCachePath(t *testing.T) {
	for name, want := range map[string]string{
		"": fmt.Sprintf("/tmp/krb5cc_%d", os.Getuid()), "/a/b": "/a/b", "FILE:/a:b": "/a:b", "rel": "rel", "/a:b": "/a:b",
	} {
		if got, err := cachePath(name); got != want || err != nil {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
	if _, err := cachePath("KEYRING:persistent:0"); err == nil || !strings.Contains(err.Error(), "KRB5CCNAME=FILE:") {
		t.Errorf("a keyring: %v", err)
	}
}

func TestLoginWithWrongFiles(t *testing.T) {
	dir := t.TempDir()
	conf := write(t, dir+"/krb5.conf", "[libdefaults]\ndefault_realm = LAKE.EXAMPLE\ndns_lookup_kdc = false\n[realms]\nLAKE.EXAMPLE = {\n kdc = 127.0.0.1:1\n}\n")
	good := keytab.New()
	if err := good.AddEntry("trainer", "LAKE.EXAMPLE", "password", time.Now(), 1, 18); err != nil {
		t.Fatal(err)
	}
	data, err := good.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/good", string(data))
	for name, c := range map[string]struct {
		o    LoginOptions
		want []string
		is   error
	}{
		"no krb5.conf":    {LoginOptions{Config: dir + "/absent"}, []string{"KRB5_CONFIG"}, ErrAuth},
		"no keytab":       {LoginOptions{Config: conf, Keytab: dir + "/absent"}, []string{"keytab", "absent"}, fs.ErrNotExist},
		"a wrong keytab":  {LoginOptions{Config: conf, Keytab: conf}, []string{"cannot be read as one"}, ErrAuth},
		"a cut keytab":    {LoginOptions{Config: conf, Keytab: write(t, dir+"/cut", string(data[:len(data)-9]))}, []string{"cannot be read as one"}, ErrAuth},
		"an empty keytab": {LoginOptions{Config: conf, Keytab: write(t, dir+"/empty", "\x05\x02\x00\x00\x00\x00")}, []string{"no key"}, ErrAuth},
		"no cache":        {LoginOptions{Config: conf, Cache: dir + "/absent"}, []string{"run kinit"}, ErrAuth},
		"a wrong cache":   {LoginOptions{Config: conf, Cache: "FILE:" + conf}, []string{"cannot be read as one"}, ErrAuth},
		"no KDC":          {LoginOptions{Config: conf, Keytab: dir + "/good"}, []string{"trainer@LAKE.EXAMPLE", "no KDC answers", "port 88"}, store.ErrUnavailable},
	} {
		_, err := Login(t.Context(), c.o)
		if !errors.Is(err, c.is) {
			t.Errorf("%s: %v; want %v", name, err, c.is)
		}
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; want %q in it", name, err, want)
			}
		}
	}
}

func TestKDCErrorsSayWhatToDo(t *testing.T) {
	for text, want := range map[string]string{
		"[Root cause: KDC_Error] KRB Error: (37) KRB_AP_ERR_SKEW Clock skew too great":                             "timedatectl",
		"clock skew with KDC too large. Greater than 300 seconds":                                                  "chronyc",
		"KRB Error: (6) KDC_ERR_C_PRINCIPAL_UNKNOWN Client not found in Kerberos database":                         "klist -k",
		"KRB Error: (7) KDC_ERR_S_PRINCIPAL_UNKNOWN Server not found in Kerberos database":                         "dfs.namenode.kerberos.principal",
		"KRB Error: (24) KDC_ERR_PREAUTH_FAILED Pre-authentication information was invalid":                        "fetch a new one",
		"error getting key from credentials: matching key not found in keytab. Looking for \"a\" realm: R kvno: 0": "klist -ke",
		"KRB Error: (14) KDC_ERR_ETYPE_NOSUPP KDC has no support for encryption type":                              "AES is needed",
		"KRB Error: (18) KDC_ERR_CLIENT_REVOKED Clients credentials have been revoked":                             "locked",
		"KRB Error: (32) KRB_AP_ERR_TKT_EXPIRED Ticket expired":                                                    "run kinit",
		"something else": "something else",
	} {
		err := kdcError("log-in of trainer@R", errors.New(text))
		if !errors.Is(err, ErrAuth) || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "log-in of trainer@R: ") || !strings.Contains(err.Error(), text) {
			t.Errorf("%v; want %q in it", err, want)
		}
	}
	if err := kdcError("x", errors.New("[Root cause: Networking_Error] failed")); store.ClassOf(err) != store.Retryable {
		t.Errorf("%v is %v", err, store.ClassOf(err))
	}
}

func TestFreshness(t *testing.T) {
	start := time.Unix(1000, 0)
	held := heldTicket{start: start, end: start.Add(100 * time.Second)}
	for seconds, want := range map[int]bool{0: true, 79: true, 80: false, 100: false, 200: false} {
		if got := held.fresh(start.Add(time.Duration(seconds) * time.Second)); got != want {
			t.Errorf("after %d of 100 s: %v", seconds, got)
		}
	}
	if (heldTicket{}).fresh(start) {
		t.Error("no ticket is fresh")
	}
}

func FuzzTicketCache(f *testing.F) {
	f.Add([]byte("\x05\x04\x00\x0c\x00\x01\x00\x08\xff\xff\xff\xff\x00\x00\x00\x00" + "\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01R\x00\x00\x00\x01u"))
	conf := config.New()
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<12 {
			return
		}
		if _, _, err := readCache(data, conf); err != nil && len(err.Error()) > 400 {
			t.Fatalf("a message of %d bytes", len(err.Error()))
		}
	})
}
