package sasl

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"

	"github.com/stepahead-io/stepahead/internal/localfile"
)

const (
	maxKrbFile   = 1 << 20 // bytes of krb5.conf, a keytab or a ticket cache
	maxInclusion = 8       // files that include files
)

// readSmall reads a whole file of at most maxKrbFile bytes.
func readSmall(path string) ([]byte, error) { return localfile.Read(path, maxKrbFile) }

// aesTypes are the encryption types that we accept for sessions, in order of preference.
var aesTypes = []int32{
	etypeID.AES256_CTS_HMAC_SHA1_96, etypeID.AES128_CTS_HMAC_SHA1_96,
	etypeID.AES256_CTS_HMAC_SHA384_192, etypeID.AES128_CTS_HMAC_SHA256_128,
}

// loadConfig reads the files of KRB5_CONFIG, which are separated by colons, with what they include. As with
// MIT's, files that do not exist are passed over as long as there is one.
func loadConfig(paths string) (*config.Config, error) {
	merged := sections{}
	found := 0
	for _, path := range filepath.SplitList(paths) {
		err := merged.read(path, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("krb5.conf: %w", err)
		}
		found++
	}
	if found == 0 {
		return nil, fmt.Errorf("krb5.conf: %s: %w: name it with KRB5_CONFIG", paths, fs.ErrNotExist)
	}
	c, err := guarded(func() (*config.Config, error) { return config.NewFromString(merged.text()) })
	var unsupported config.UnsupportedDirective
	if err != nil && !errors.As(err, &unsupported) {
		return nil, fmt.Errorf("krb5.conf: %s: %w", paths, err)
	}
	return c, acceptTypes(&c.LibDefaults, merged)
}

// acceptTypes asks for AES sessions: RFC 4121's wrap tokens have no other.
func acceptTypes(l *config.LibDefaults, s sections) error {
	if !slices.ContainsFunc(s["libdefaults"], func(line string) bool { return strings.Contains(line, "default_tgs_enctypes") }) {
		l.DefaultTGSEnctypeIDs = slices.Clone(aesTypes)
	}
	if !slices.ContainsFunc(s["libdefaults"], func(line string) bool { return strings.Contains(line, "default_tkt_enctypes") }) {
		l.DefaultTktEnctypeIDs = append(slices.Clone(aesTypes), l.DefaultTktEnctypeIDs...)
	}
	l.DefaultTGSEnctypeIDs = slices.DeleteFunc(l.DefaultTGSEnctypeIDs, func(id int32) bool { return !slices.Contains(aesTypes, id) })
	if len(l.DefaultTGSEnctypeIDs) == 0 {
		return errors.New("krb5.conf: default_tgs_enctypes has no AES type: add aes256-cts-hmac-sha1-96")
	}
	return nil
}

// sections are the lines of each section of krb5.conf. gokrb5 wants each section once and knows no inclusion.
type sections map[string][]string

var (
	sectionLine = regexp.MustCompile(`^\s*\[(\w+)\]\s*$`)
	includeLine = regexp.MustCompile(`^\s*(include|includedir)\s+(\S.*?)\s*$`)
	includeName = regexp.MustCompile(`^[A-Za-z0-9_-]+$|^[^.].*\.conf$`)
)

func (s sections) read(path string, depth int) error {
	if depth > maxInclusion {
		return fmt.Errorf("%s: files include each other more than %d deep", path, maxInclusion)
	}
	data, err := readSmall(path)
	if err != nil {
		return err
	}
	section := ""
	for line := range bytes.Lines(data) {
		text := strings.TrimRight(string(line), "\r\n")
		if m := sectionLine.FindStringSubmatch(text); m != nil {
			section = m[1]
		} else if m := includeLine.FindStringSubmatch(text); m != nil {
			if err := s.include(m[1], m[2], depth+1); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		} else if section != "" {
			s[section] = append(s[section], text)
		}
	}
	return nil
}

func (s sections) include(directive, path string, depth int) error {
	if directive == "include" {
		return s.read(path, depth)
	}
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !includeName.MatchString(e.Name()) {
			continue
		}
		if err := s.read(filepath.Join(path, e.Name()), depth); err != nil {
			return err
		}
	}
	return nil
}

// text is one krb5.conf with the sections that matter here.
func (s sections) text() string {
	var b strings.Builder
	for _, name := range []string{"libdefaults", "realms", "domain_realm"} {
		fmt.Fprintf(&b, "[%s]\n%s\n", name, strings.Join(s[name], "\n"))
	}
	return b.String()
}
