package daemon

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/cmd/exit"
)

func TestSize(t *testing.T) {
	for text, want := range map[string]Size{"0": 0, "1": 1, "4KiB": 4096, "1GiB": 1 << 30, "2 TiB": 2 << 40} {
		var s Size
		if err := s.Set(text); err != nil || s != want {
			t.Errorf("%q is %d, %v, want %d", text, s, err, want)
		}
	}
	for _, text := range []string{"", "-1", "1KB", "KiB", "1.5GiB", "99999999999TiB", "1 KiB KiB"} {
		var s Size
		if err := s.Set(text); err == nil {
			t.Errorf("%q is taken as %d", text, s)
		}
	}
}

// FuzzSize: what is accepted is not negative, and its text means the same.
func FuzzSize(f *testing.F) {
	for _, text := range []string{"0", "17", "4KiB", "1GiB", "8191TiB", "1.5GiB", "-1", "KiB"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var s, again Size
		if s.Set(text) != nil {
			return
		}
		if err := again.Set(s.String()); err != nil || s != again || s < 0 {
			t.Errorf("%q is %d, printed %s and read again %d, %v", text, s, s.String(), again, err)
		}
	})
}

// FuzzConfig: no key or value of a file makes a flag panic, and none but flags are taken.
func FuzzConfig(f *testing.F) {
	f.Add("node", "dn1")
	f.Add("memory", "1GiB")
	f.Add("dwell", "-1s")
	f.Add("config", "x")
	f.Add("window", "many")
	f.Add("site", "a=b")
	f.Fuzz(func(t *testing.T, name, value string) {
		var s Size
		var list []string
		flags := pflag.NewFlagSet("program", pflag.ContinueOnError)
		flags.String("node", "", "")
		flags.Var(&s, "memory", "")
		flags.Duration("dwell", 0, "")
		flags.Int("window", 0, "")
		flags.StringArrayVar(&list, "site", nil, "")
		if err := setFlag(flags, name, value); err == nil && flags.Lookup(name) == nil {
			t.Errorf("key %q was taken", name)
		}
	})
}

// TestConfigIsAFile: what would be read for ever, or waited for, is refused as a mistake, and so is a file that is too large.
func TestConfigIsAFile(t *testing.T) {
	pipe, large := filepath.Join(t.TempDir(), "pipe"), filepath.Join(t.TempDir(), "large")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(large, make([]byte, maxConfig+1), 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, word := range map[string]string{pipe: "a pipe", "/dev/zero": "a device", t.TempDir(): "a folder", large: "more than"} {
		if err := Read(name, pflag.NewFlagSet("program", pflag.ContinueOnError)); err == nil || !strings.Contains(err.Error(), word) || !strings.Contains(err.Error(), "--config: "+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFilesOfTheAddress: keys and certificates that are none are mistakes, and not waited for; those that are not there the environment lacks.
func TestFilesOfTheAddress(t *testing.T) {
	pipe, wrong := filepath.Join(t.TempDir(), "pipe"), filepath.Join(t.TempDir(), "wrong")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(wrong, []byte("what is this?\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	code := func(err error) int {
		c := &cobra.Command{Use: "program", RunE: func(*cobra.Command, []string) error { return err }, SilenceErrors: true, SilenceUsage: true}
		c.SetErr(io.Discard)
		return exit.Run(t.Context(), c, []string{})
	}
	for name, want := range map[string]int{pipe: exit.Misused, wrong: exit.Misused, "/nonexistent": exit.Environment} {
		_, key := Address{Keys: name}.Keyring(zap.NewNop(), "do this")
		_, cert := Address{Cert: name, Key: name}.TLS(zap.NewNop())
		if code(key) != want || code(cert) != want {
			t.Errorf("%s: %v, %v", name, key, cert)
		}
	}
}

// TestLists: a flag that may be given several times takes a list, what is printed says it again, and others take none.
func TestLists(t *testing.T) {
	flags := func() (*pflag.FlagSet, *[]string) {
		f := pflag.NewFlagSet("program", pflag.ContinueOnError)
		f.String("store", "", "")
		return f, f.StringArray("site", nil, "")
	}
	file := filepath.Join(t.TempDir(), "config.yaml")
	read := func(text string) ([]string, *pflag.FlagSet, error) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, list := flags()
		err := Read(file, f)
		return *list, f, err
	}
	want := []string{"east=hdfs://e/", "west=a,b"}
	for _, text := range []string{"site: [\"east=hdfs://e/\", \"west=a,b\"]\n", "site:\n- east=hdfs://e/\n- west=a,b\nstore: /x\n"} {
		got, f, err := read(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
		var printed bytes.Buffer
		if err := printConfig(&printed, f); err != nil {
			t.Fatal(err)
		}
		if again, _, err := read(printed.String()); err != nil || !reflect.DeepEqual(again, want) {
			t.Errorf("printed as %q, read again as %q, %v", printed.String(), again, err)
		}
	}
	if got, _, err := read("site: east=x\n"); err != nil || !reflect.DeepEqual(got, []string{"east=x"}) {
		t.Errorf("one: %q, %v", got, err)
	}
	for _, text := range []string{"store: [a]\n", "site: [[a]]\n", "site: {a: b}\n"} {
		if _, _, err := read(text); err == nil || !strings.Contains(err.Error(), "give one value") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
