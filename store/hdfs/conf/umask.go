package conf

import (
	"io/fs"
	"strconv"
	"strings"
)

// Umask returns what a key takes from the permissions of new files and folders, or def where it is not set: three octal
// digits, or, as chmod writes it, the permissions that are left: u=rwx,g=rx,o=.
func (c *Config) Umask(key string, def fs.FileMode) fs.FileMode {
	v, _ := c.lookup(key)
	if mask, ok := parseUmask(v); ok {
		return mask
	}
	return def
}

func parseUmask(v string) (mask fs.FileMode, ok bool) {
	if n, err := strconv.ParseUint(strings.TrimPrefix(v, "+"), 8, 32); err == nil {
		return fs.FileMode(n), n <= 0o777
	}
	var left fs.FileMode
	for clause := range strings.SplitSeq(v, ",") {
		if left, ok = change(left, strings.TrimSpace(clause)); !ok {
			return 0, false
		}
	}
	return 0o777 &^ left, true
}

// change does what a clause says to permissions: whose they are (nobody named: all), what is done, and which are meant.
func change(mode fs.FileMode, clause string) (fs.FileMode, bool) {
	at := strings.IndexAny(clause, "+-=")
	if at < 0 {
		return 0, false
	}
	who, known := bitsOf(clause[:at], map[rune]fs.FileMode{'u': 0o700, 'g': 0o070, 'o': 0o007, 'a': 0o777})
	what, clear := bitsOf(clause[at+1:], map[rune]fs.FileMode{'r': 0o444, 'w': 0o222, 'x': 0o111})
	if !known || !clear {
		return 0, false
	}
	if who == 0 {
		who = 0o777
	}
	switch clause[at] {
	case '+':
		return mode | who&what, true
	case '-':
		return mode &^ (who & what), true
	}
	return mode&^who | who&what, true
}

// bitsOf adds up letters; false: one has no meaning.
func bitsOf(letters string, bits map[rune]fs.FileMode) (sum fs.FileMode, ok bool) {
	for _, letter := range letters {
		b, ok := bits[letter]
		if !ok {
			return 0, false
		}
		sum |= b
	}
	return sum, true
}
