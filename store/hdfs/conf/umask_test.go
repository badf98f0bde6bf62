package conf

import (
	"io/fs"
	"testing"
)

func TestUmask(t *testing.T) {
	const key = "fs.permissions.umask-mode"
	for text, want := range map[string]fs.FileMode{
		"022": 0o022, "0077": 0o077, "+027": 0o027, "0": 0, "777": 0o777,
		"u=rwx,g=rx,o=rx": 0o022, "u=rwx,g=rx,o=": 0o027, "u=rwx, g=, o=": 0o077, "a=rwx": 0, "=rx": 0o222, "u=rwx": 0o077,
		"ug+rwx,g-w": 0o027, "a=rx,u+w": 0o022,
	} {
		if got := new(Config).With(key, text).Umask(key, 0o001); got != want {
			t.Errorf("%q masks %03o, want %03o", text, got, want)
		}
	}
	for _, text := range []string{"", "rwx", "u:rwx", "u=rwt", "x=r", "7777", "1000", "8", "u=rwx;g=", "u=r,", "-1"} {
		if got := new(Config).With(key, text).Umask(key, 0o001); got != 0o001 {
			t.Errorf("%q masks %03o", text, got)
		}
	}
}
