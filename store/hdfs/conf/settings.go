package conf

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// setting is a key whose value must have a form.
type setting struct {
	key  string
	want string
	ok   func(value string) bool
}

// settings are the keys that are read and are not plain text. Parse refuses values of another form, so that
// a misspelt number is an error with its place and not a silent default.
var settings = []setting{
	{"dfs.blocksize", aSize, isSize},
	{"dfs.replication", aNumber, isInt},
	{"dfs.client.socket-timeout", aTime, isTime},
	{"dfs.client.datanode-restart.timeout", aTime, isTime},
	{"dfs.client.use.datanode.hostname", aBool, isBool},
	{"dfs.client.failover.max.attempts", aNumber, isInt},
	{"dfs.client.failover.sleep.base.millis", aTime, isTime},
	{"dfs.client.failover.sleep.max.millis", aTime, isTime},
	{"dfs.client.retry.max.attempts", aNumber, isInt},
	{"fs.permissions.umask-mode", aMask, isMask},
	{"ipc.client.connect.timeout", aTime, isTime},
	{"ipc.client.connection.maxidletime", aTime, isTime},
	{"ipc.client.fallback-to-simple-auth-allowed", aBool, isBool},
	{"ipc.client.rpc-timeout.ms", aTime, isTime},
	{"ipc.maximum.response.length", aNumber, isInt},
	{"ipc.ping.interval", aTime, isTime},
}

const (
	aSize   = "a size in bytes, such as 134217728 or 128m"
	aNumber = "a whole number"
	aTime   = "a time, such as 500ms, 20s or 2m, or a whole number in the key's own unit"
	aBool   = "true or false"
	aMask   = "a mask such as 022, or what it leaves, such as u=rwx,g=rx,o="
)

func isSize(v string) bool { _, ok := parseSize(v); return ok }
func isInt(v string) bool  { _, ok := parseInt(v); return ok }
func isBool(v string) bool { _, ok := parseBool(v); return ok }
func isMask(v string) bool { _, ok := parseUmask(v); return ok }
func isTime(v string) bool { _, ok := parseDuration(v, time.Millisecond); return ok }

// check finds values that cannot be expanded or have the wrong form.
func (c *Config) check() error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(c.properties)) {
		p := c.properties[key]
		if _, err := c.expand(p.value); err != nil {
			errs = append(errs, fmt.Errorf("%s: property %.100s: %w", p.where, key, err))
		}
	}
	for _, s := range settings {
		if v, ok := c.lookup(s.key); ok && !s.ok(v) && !strings.Contains(v, "${") {
			errs = append(errs, fmt.Errorf("%s: property %s: %.60q: want %s", c.Source(s.key), s.key, v, s.want))
		}
	}
	return errors.Join(errs...)
}
