// Package conf knows Hadoop's configuration: which files it is read from, what a key's value is, and which
// NameNodes an address means.
package conf

import (
	"maps"
	"math"
	"strconv"
	"strings"
	"time"
)

// Config is a set of keys and values. It never changes, so it is safe for concurrent use; nil is an empty
// one. A key without a value, or with blanks alone, counts as not set. Values are expanded and trimmed.
type Config struct {
	properties map[string]property
	getenv     func(string) string
}

type property struct {
	value string // as written, not expanded
	where string // "core-site.xml:12"
	final bool
}

// String returns a key's value, or def where it is not set.
func (c *Config) String(key, def string) string {
	if v, ok := c.lookup(key); ok {
		return v
	}
	return def
}

// Strings returns a value that is a list with commas, trimmed, without empty elements; nil where it is not set.
func (c *Config) Strings(key string) []string {
	v, _ := c.lookup(key)
	return fields(v)
}

// Bool returns a value that is true or false, in any case, or def where it is neither.
func (c *Config) Bool(key string, def bool) bool {
	v, _ := c.lookup(key)
	if b, ok := parseBool(v); ok {
		return b
	}
	return def
}

// Int returns a value that is a whole number, decimal or hexadecimal with 0x, or def where it is none.
func (c *Config) Int(key string, def int64) int64 {
	v, _ := c.lookup(key)
	if n, ok := parseInt(v); ok {
		return n
	}
	return def
}

// Size returns a value in bytes, written with one of the binary suffixes k, m, g, t, p, e or without one, or
// def where it is none.
func (c *Config) Size(key string, def int64) int64 {
	v, _ := c.lookup(key)
	if n, ok := parseSize(v); ok {
		return n
	}
	return def
}

// Duration returns a value that is a time, written with one of the suffixes ns, us, ms, s, m, h, d, or
// without one in the unit that the key is counted in, or def where it is none.
func (c *Config) Duration(key string, def, unit time.Duration) time.Duration {
	v, _ := c.lookup(key)
	if d, ok := parseDuration(v, unit); ok {
		return d
	}
	return def
}

// Source says where a key was set, as "file:line"; "" where it is not set.
func (c *Config) Source(key string) string {
	if c == nil {
		return ""
	}
	return c.properties[canonical(key)].where
}

// With returns a copy in which key has this value, whatever files said, final or not. The value is not
// checked: the reading methods return their default for one of the wrong form.
func (c *Config) With(key, value string) *Config {
	n := &Config{properties: map[string]property{}}
	if c != nil {
		n.getenv = c.getenv
		maps.Copy(n.properties, c.properties)
	}
	n.properties[canonical(key)] = property{value: value, where: "set by the program"}
	return n
}

func (c *Config) lookup(key string) (string, bool) {
	if c == nil {
		return "", false
	}
	p, ok := c.properties[canonical(key)]
	if !ok {
		return "", false
	}
	v, err := c.expand(p.value)
	if err != nil {
		v = p.value
	}
	v = strings.TrimSpace(v)
	return v, v != ""
}

// canonical maps names that Hadoop deprecated to those of today.
func canonical(key string) string {
	if now, ok := renamed[key]; ok {
		return now
	}
	return key
}

var renamed = map[string]string{
	"fs.default.name":             "fs.defaultFS",
	"dfs.federation.nameservices": "dfs.nameservices",
	"dfs.block.size":              "dfs.blocksize",
	"dfs.socket.timeout":          "dfs.client.socket-timeout",
	"dfs.http.address":            "dfs.namenode.http-address",
	"dfs.https.address":           "dfs.namenode.https-address",
}

func fields(v string) []string {
	var list []string
	for _, f := range strings.Split(v, ",") {
		if f = strings.TrimSpace(f); f != "" {
			list = append(list, f)
		}
	}
	return list
}

func parseBool(v string) (value, ok bool) {
	switch strings.ToLower(v) {
	case "true":
		return true, true
	case "false":
		return false, true
	}
	return false, false
}

func parseInt(v string) (int64, bool) {
	sign, digits := "", v
	if strings.HasPrefix(v, "-") {
		sign, digits = "-", v[1:]
	}
	base := 10
	if len(digits) > 2 && (digits[:2] == "0x" || digits[:2] == "0X") {
		base, digits = 16, digits[2:]
	}
	n, err := strconv.ParseInt(sign+digits, base, 64)
	return n, err == nil
}

func parseSize(v string) (int64, bool) {
	if v == "" {
		return 0, false
	}
	shift := strings.IndexByte("kmgtpe", v[len(v)-1]|0x20) + 1
	if shift > 0 {
		v = strings.TrimSpace(v[:len(v)-1])
	}
	n, ok := parseInt(v)
	factor := int64(1) << (10 * shift)
	if !ok || n > math.MaxInt64/factor || n < math.MinInt64/factor {
		return 0, false
	}
	return n * factor, true
}

var units = []struct {
	suffix string
	unit   time.Duration
}{ // longer suffixes first: "ms" also ends in "s"
	{"ns", time.Nanosecond}, {"us", time.Microsecond}, {"ms", time.Millisecond},
	{"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}, {"d", 24 * time.Hour},
}

func parseDuration(v string, unit time.Duration) (time.Duration, bool) {
	v = strings.ToLower(v)
	for _, u := range units {
		if number, ok := strings.CutSuffix(v, u.suffix); ok {
			v, unit = strings.TrimSpace(number), u.unit
			break
		}
	}
	n, ok := parseInt(v)
	if !ok || n > math.MaxInt64/int64(unit) || n < math.MinInt64/int64(unit) {
		return 0, false
	}
	return time.Duration(n) * unit, true
}
