package auth_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/internal/auth"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newKey(t testing.TB, id string, secret []byte) auth.Key {
	t.Helper()
	k, err := auth.NewKey(id, secret)
	must(t, err)
	return k
}

func ring(t testing.TB, keys ...auth.Key) auth.Keyring {
	t.Helper()
	r, err := auth.NewKeyring(keys...)
	must(t, err)
	return r
}

// counting is the secret 00 01 02 ... of the golden vectors.
func counting() []byte {
	b := make([]byte, 32)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

var now = time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)

func claims() auth.Claims {
	return auth.Claims{
		Job: "resnet-7", User: "ada", Roots: []string{"/datasets/photos"}, Rights: []string{auth.RightFetch, auth.RightHint},
		Expires: time.Unix(1900000000, 0).UTC(),
	}
}

// The tokens were made by a Python program that follows docs/security.md.
func TestGoldenTokens(t *testing.T) {
	for _, c := range []struct {
		key    auth.Key
		claims auth.Claims
		token  string
	}{
		{newKey(t, "k1", counting()), claims(),
			"eyJleHAiOjE5MDAwMDAwMDAsImpvYiI6InJlc25ldC03Iiwia2lkIjoiazEiLCJyaWdodHMiOlsiZmV0Y2giLCJoaW50Il0sInJvb3RzIjpbIi9kYXRhc2V0cy9waG90b3MiXSwidXNlciI6ImFkYSIsInYiOjF9.atphMHPFbKH7UrAC2YlaPTPic-sEK54aIgEIlg2PeFQ"},
		{newKey(t, "2026-10", bytes.Repeat([]byte{0xff}, 64)), auth.Claims{
			Job: "a<b>&ü", User: "张", Roots: []string{"/", "/x y"}, Rights: []string{auth.RightHint}, Expires: time.Unix(4102444800, 0).UTC()},
			"eyJleHAiOjQxMDI0NDQ4MDAsImpvYiI6ImE8Yj4mw7wiLCJraWQiOiIyMDI2LTEwIiwicmlnaHRzIjpbImhpbnQiXSwicm9vdHMiOlsiLyIsIi94IHkiXSwidXNlciI6IuW8oCIsInYiOjF9.Hne5C1eUvLE85UrljbRy4AbyoH8Y0Pqs71GAUWurRL8"},
	} {
		token, err := auth.Mint(c.key, c.claims)
		if err != nil || token != c.token {
			t.Errorf("minted %s, %v; want %s", token, err, c.token)
		}
		got, err := auth.Verify(ring(t, c.key), c.token, now)
		c.claims.KeyID = c.key.ID
		if err != nil || !reflect.DeepEqual(got, c.claims) {
			t.Errorf("verified %+v, %v; want %+v", got, err, c.claims)
		}
	}
}

func TestEveryBitIsSigned(t *testing.T) {
	key := newKey(t, "k1", counting())
	token, err := auth.Mint(key, claims())
	must(t, err)
	keys := ring(t, key)
	for i := range token {
		for bit := range 8 {
			bad := []byte(token)
			bad[i] ^= 1 << bit
			c, err := auth.Verify(keys, string(bad), now)
			if err == nil || !reflect.DeepEqual(c, auth.Claims{}) {
				t.Fatalf("byte %d, bit %d: accepted as %+v", i, bit, c)
			}
		}
	}
	for i := range token {
		if _, err := auth.Verify(keys, token[:i], now); err == nil {
			t.Fatalf("the first %d bytes were accepted", i)
		}
	}
	for _, more := range []string{"A", ".", "=", "\n", " ", "\x00", "." + token} {
		for _, bad := range []string{token + more, more + token} {
			if _, err := auth.Verify(keys, bad, now); !errors.Is(err, auth.ErrToken) && !errors.Is(err, auth.ErrSignature) {
				t.Errorf("%q beside the token: %v", more, err)
			}
		}
	}
}

func TestRefusedTokens(t *testing.T) {
	ours, other := newKey(t, "k1", counting()), newKey(t, "k1", bytes.Repeat([]byte{7}, 32))
	unknown := newKey(t, "k9", counting())
	good, _ := auth.Mint(ours, claims())
	forged, _ := auth.Mint(other, claims())
	foreign, _ := auth.Mint(unknown, claims())
	head, mac, _ := strings.Cut(good, ".")
	body, _ := base64.RawURLEncoding.DecodeString(head)
	respell := func(from, to string) string {
		text := strings.Replace(string(body), from, to, 1)
		if text == string(body) {
			t.Fatalf("nothing to replace: %s", from)
		}
		return base64.RawURLEncoding.EncodeToString([]byte(text)) + "." + mac
	}
	keys := ring(t, ours)
	for name, c := range map[string]struct {
		token string
		want  error
	}{
		"empty":             {"", auth.ErrToken},
		"dot":               {".", auth.ErrToken},
		"huge":              {strings.Repeat("A", 1<<20), auth.ErrToken},
		"forged":            {forged, auth.ErrSignature},
		"unknown key":       {foreign, auth.ErrSignature},
		"no signature":      {head + ".", auth.ErrSignature},
		"short signature":   {head + "." + mac[:20], auth.ErrSignature},
		"wider root":        {respell("/datasets/photos", "/"), auth.ErrSignature},
		"later":             {respell("1900000000", "2900000000"), auth.ErrSignature},
		"version 2":         {respell(`"v":1`, `"v":2`), auth.ErrToken},
		"spaces":            {respell(`"v":1`, `"v": 1`), auth.ErrToken},
		"unknown field":     {respell(`"v":1`, `"v":1,"x":2`), auth.ErrToken},
		"field twice":       {respell(`"v":1`, `"user":"root","v":1`), auth.ErrToken},
		"case":              {respell(`"user"`, `"USER"`), auth.ErrToken},
		"unclean root":      {respell("/datasets/photos", "/datasets/../photos"), auth.ErrToken},
		"unknown right":     {respell("fetch", "write"), auth.ErrToken},
		"no roots":          {respell(`["/datasets/photos"]`, `[]`), auth.ErrToken},
		"null roots":        {respell(`["/datasets/photos"]`, `null`), auth.ErrToken},
		"standard alphabet": {strings.NewReplacer("-", "+", "_", "/").Replace(good), auth.ErrToken},
	} {
		if _, err := auth.Verify(keys, c.token, now); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, err := auth.Verify(auth.Keyring{}, good, now); !errors.Is(err, auth.ErrSignature) {
		t.Errorf("a keyring without keys: %v", err)
	}
}

func TestExpiry(t *testing.T) {
	key := newKey(t, "k1", counting())
	token, _ := auth.Mint(key, claims())
	for seconds, want := range map[int64]error{1899999999: nil, 1900000000: auth.ErrExpired, 1900000001: auth.ErrExpired} {
		if _, err := auth.Verify(ring(t, key), token, time.Unix(seconds, 0)); !errors.Is(err, want) {
			t.Errorf("at %d: %v, want %v", seconds, err, want)
		}
	}
	if _, err := auth.Verify(ring(t, key), token, time.Unix(1899999999, 999999999)); err != nil {
		t.Errorf("in the last nanosecond: %v", err)
	}
}

func TestMintRefuses(t *testing.T) {
	long := strings.Repeat("x", 300)
	for name, spoil := range map[string]func(c *auth.Claims){
		"job: empty":         func(c *auth.Claims) { c.Job = "" },
		"job: 300":           func(c *auth.Claims) { c.Job = long },
		"job: \"a\\nb\"":     func(c *auth.Claims) { c.Job = "a\nb" },
		"user: empty":        func(c *auth.Claims) { c.User = "" },
		"user: \"\\xff\"":    func(c *auth.Claims) { c.User = "\xff" },
		"roots: 0":           func(c *auth.Claims) { c.Roots = nil },
		"roots: 65":          func(c *auth.Claims) { c.Roots = make([]string, 65) },
		"roots: \"a\"":       func(c *auth.Claims) { c.Roots = []string{"a"} },
		"roots: \"/a/\"":     func(c *auth.Claims) { c.Roots = []string{"/ok", "/a/"} },
		"roots: \"/a/../b\"": func(c *auth.Claims) { c.Roots = []string{"/a/../b"} },
		"URL":                func(c *auth.Claims) { c.Roots = []string{"hdfs://ns/a"} },
		"rights: none":       func(c *auth.Claims) { c.Rights = nil },
		"rights: \"write\"":  func(c *auth.Claims) { c.Rights = []string{"write"} },
		"rights: \"fetch\"":  func(c *auth.Claims) { c.Rights = []string{"fetch", "fetch"} },
		"expires":            func(c *auth.Claims) { c.Expires = time.Time{} },
	} {
		c := claims()
		spoil(&c)
		token, err := auth.Mint(newKey(t, "k1", counting()), c)
		if err == nil || token != "" || !strings.Contains(err.Error(), name) {
			t.Errorf("%q, %v; want an error with %q", token, err, name)
		}
	}
	if _, err := auth.Mint(auth.Key{}, claims()); err == nil {
		t.Error("an empty key signed")
	}
	if err := (auth.Claims{}).Validate(); strings.Count(err.Error(), "auth.Claims:") != 6 {
		t.Errorf("not all problems at once: %v", err)
	}
	c := claims()
	c.Roots = nil
	for i := range 10 {
		c.Roots = append(c.Roots, fmt.Sprintf("/%d/%s", i, strings.Repeat("r", 900)))
	}
	if token, err := auth.Mint(newKey(t, "k1", counting()), c); err == nil {
		t.Errorf("a token of %d bytes", len(token))
	}
}

func TestRotation(t *testing.T) {
	older, newer := newKey(t, "2026-09", bytes.Repeat([]byte{1}, 32)), newKey(t, "2026-10", bytes.Repeat([]byte{2}, 32))
	fromOld, _ := auth.Mint(older, claims())
	fromNew, _ := auth.Mint(newer, claims())
	both := ring(t, newer, older)
	for _, token := range []string{fromOld, fromNew} {
		if _, err := auth.Verify(both, token, now); err != nil {
			t.Errorf("both keys known: %v", err)
		}
	}
	if _, err := auth.Verify(ring(t, newer), fromOld, now); !errors.Is(err, auth.ErrSignature) || !strings.Contains(err.Error(), "2026-09") {
		t.Errorf("the old key removed: %v, want its id named", err)
	}
	if first, _ := both.First(); first.ID != "2026-10" {
		t.Errorf("mints with %s", first.ID)
	}
}

func TestAllows(t *testing.T) {
	c := claims()
	c.Roots = []string{"/a/b", "/c"}
	c.Rights = []string{auth.RightFetch}
	for path, want := range map[string]error{
		"/a/b": nil, "/a/b/c": nil, "/a/b/c/d.bin": nil, "/c": nil, "/a/b/..x": nil, "/c/new\nline": nil,
		"/a/bc": auth.ErrRoot, "/a": auth.ErrRoot, "/": auth.ErrRoot, "/A/b": auth.ErrRoot, "/cc": auth.ErrRoot, "": auth.ErrRoot,
		"a/b": auth.ErrRoot, "/a/b/": auth.ErrRoot, "/a/b/../../etc": auth.ErrRoot, "/a/b/..": auth.ErrRoot, "/c/../d": auth.ErrRoot,
		"//a/b": auth.ErrRoot, "/a//b": auth.ErrRoot, "/a/./b": auth.ErrRoot, "/c/x\x00": auth.ErrRoot, "dir:///a/b": auth.ErrRoot,
	} {
		if err := c.Allows(auth.RightFetch, path); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", path, err, want)
		}
		if err := c.Allows(auth.RightHint, path); !errors.Is(err, auth.ErrRight) {
			t.Errorf("%q without the right: %v", path, err)
		}
	}
	c.Roots = []string{"/"}
	for _, path := range []string{"/", "/a", "/a/b"} {
		if err := c.Allows(auth.RightFetch, path); err != nil {
			t.Errorf("root /, path %s: %v", path, err)
		}
	}
	if err := (auth.Claims{}).Allows(auth.RightFetch, "/"); !errors.Is(err, auth.ErrRight) {
		t.Errorf("zero claims: %v", err)
	}
}

func TestForJob(t *testing.T) {
	if err := claims().ForJob("resnet-7"); err != nil {
		t.Error(err)
	}
	for _, job := range []string{"", "resnet-8", "resnet", "resnet-77", "RESNET-7"} {
		if err := claims().ForJob(job); !errors.Is(err, auth.ErrJob) {
			t.Errorf("job %q: %v, want ErrJob", job, err)
		}
	}
	if err := (auth.Claims{}).ForJob(""); !errors.Is(err, auth.ErrJob) {
		t.Errorf("zero claims: %v", err)
	}
}

func TestInsecure(t *testing.T) {
	c, err := auth.Verify(auth.Insecure(), "anything", now)
	if err != nil || c.Allows(auth.RightHint, "/x") != nil || c.ForJob("any") != nil || !auth.Insecure().Insecure() {
		t.Errorf("%+v, %v", c, err)
	}
	if (auth.Keyring{}).Insecure() {
		t.Error("the zero keyring lets everybody in")
	}
}

func TestRoundTrip(t *testing.T) {
	key := newKey(t, "k1", counting())
	keys := ring(t, key)
	rapid.Check(t, func(t *rapid.T) {
		c := auth.Claims{
			KeyID: "k1", Job: rapid.StringMatching(`[ -~äß张]{1,40}`).Draw(t, "job"), User: rapid.StringMatching(`[!-~]{1,40}`).Draw(t, "user"),
			Roots:   rapid.SliceOfN(rapid.StringMatching(`(/[a-z\n"<>&\\ü]{1,8}){1,4}`), 1, 5).Draw(t, "roots"),
			Rights:  rapid.SampledFrom([][]string{{"fetch"}, {"hint"}, {"hint", "fetch"}, {"relay"}, {"relay", "hint"}}).Draw(t, "rights"),
			Expires: now.Add(time.Duration(rapid.Int64Range(1, 1e9).Draw(t, "ttl")) * time.Second),
		}
		token, err := auth.Mint(key, c)
		if err != nil {
			t.Fatal(err)
		}
		got, err := auth.Verify(keys, token, now)
		if err != nil || !reflect.DeepEqual(got, c) {
			t.Fatalf("%+v became %+v, %v", c, got, err)
		}
	})
}

func FuzzVerify(f *testing.F) {
	key, err := auth.NewKey("k1", counting())
	if err != nil {
		f.Fatal(err)
	}
	keys, _ := auth.NewKeyring(key)
	good, _ := auth.Mint(key, claims())
	f.Add(good)
	head, mac, _ := strings.Cut(good, ".")
	for _, s := range []string{"", ".", head, head + ".", "." + mac, "e30." + mac, "bnVsbA." + mac, "W10.AA", good + "=", head + "\n." + mac} {
		f.Add(s)
	}
	body, _ := base64.RawURLEncoding.DecodeString(head)
	for _, s := range []string{string(body), "{}", strings.Replace(string(body), "photos", `ph\u006ftos`, 1), strings.Replace(string(body), `"v":1`, `"v":1.0`, 1)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, token string) {
		// The input as a payload that is signed well: what is accepted must be its own only spelling.
		payload := base64.RawURLEncoding.EncodeToString([]byte(token))
		h := hmac.New(sha256.New, counting())
		h.Write([]byte("stepahead-token-v1." + payload))
		signed := payload + "." + base64.RawURLEncoding.EncodeToString(h.Sum(nil))
		if c, err := auth.Verify(keys, signed, now); err == nil {
			if again, err := auth.Mint(key, c); err != nil || again != signed {
				t.Fatalf("%q was accepted as %+v, which is minted as %s, %v", token, c, again, err)
			}
		}
		c, err := auth.Verify(keys, token, now)
		if err == nil && token != good {
			t.Fatalf("%q was accepted as %+v", token, c)
		}
		if err != nil && (!reflect.DeepEqual(c, auth.Claims{}) || len(err.Error()) > 400) {
			t.Fatalf("claims %+v beside the error %v", c, err)
		}
	})
}

// Secrets and tokens must not get into logs by any way of printing.
func TestNothingPrintsASecret(t *testing.T) {
	secret := []byte("correct horse battery staple 0123456789")
	key := newKey(t, "k1", secret)
	token, err := auth.Mint(key, claims())
	must(t, err)
	holder := struct {
		key   auth.Key
		keys  auth.Keyring
		creds any
	}{key, ring(t, key), auth.PerRPC(token)}
	var printed []string
	for _, v := range []any{key, &key, holder, &holder, []auth.Key{key}, map[string]auth.Keyring{"k": holder.keys}, holder.creds} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			printed = append(printed, fmt.Sprintf(verb, v))
		}
		if b, err := json.Marshal(v); err == nil {
			printed = append(printed, string(b))
		}
	}
	_, err = auth.Verify(ring(t, newKey(t, "k1", counting())), token, now)
	printed = append(printed, fmt.Sprint(err))
	_, err = auth.Verify(holder.keys, token+"!", now)
	printed = append(printed, fmt.Sprint(err))
	_, err = auth.Verify(holder.keys, token, now.AddDate(100, 0, 0))
	printed = append(printed, fmt.Sprint(err))
	_, mac, _ := strings.Cut(token, ".")
	for _, text := range printed {
		for _, bad := range []string{"horse", fmt.Sprintf("%x", "horse"), fmt.Sprintf("%d", []byte("horse"))[1:10], token, mac} {
			if strings.Contains(text, bad) {
				t.Errorf("a secret shows in %q", text)
			}
		}
	}
}
