package conf_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/store/hdfs/conf"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// site writes a configuration with these keys and values, in order.
func site(pairs ...string) string {
	var b strings.Builder
	b.WriteString("<?xml version=\"1.0\"?>\n<configuration>\n")
	for i := 0; i < len(pairs); i += 2 {
		b.WriteString("<property><name>" + escape(pairs[i]) + "</name><value>" + escape(pairs[i+1]) + "</value></property>\n")
	}
	return b.String() + "</configuration>\n"
}

func escape(s string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(s))
	return b.String()
}

func env(pairs ...string) func(string) string {
	return func(name string) string {
		if i := slices.Index(pairs, name); i >= 0 && i%2 == 0 {
			return pairs[i+1]
		}
		return ""
	}
}

func parse(t testing.TB, files ...string) *conf.Config {
	t.Helper()
	c, err := parseFiles(env("HOSTPART", "h1", "USER", "ada", "HOME", "/home/ada"), files...)
	must(t, err)
	return c
}

func parseFiles(getenv func(string) string, files ...string) (*conf.Config, error) {
	var sources []conf.Source
	for i, f := range files {
		sources = append(sources, conf.Source{Name: fmt.Sprintf("/etc/hadoop/%d.xml", i), Data: []byte(f)})
	}
	return conf.Parse(getenv, sources...)
}

// The values are those that Hadoop 3.5.0's class Configuration gave for the same text.
func TestOverridesAndFinal(t *testing.T) {
	c := parse(t,
		`<?xml version="1.0" encoding="UTF-8"?>
<?xml-stylesheet type="text/xsl" href="configuration.xsl"?>
<!DOCTYPE configuration>
<!-- a comment -->
<configuration>
  <property>
    <name> kept </name><value>first</value><final>true</final><description>words <!-- and --></description>
  </property>
  <property name="attribute" value="yes" final="true"/>
  <property><name>later</name><value>first</value></property>
  <property><name>no.value</name></property>
  <property><value>no name</value></property>
  <configuration><property><name>nested</name><value>1</value></property></configuration>
  <something><property><name>within</name><value>1</value></property></something>
  <property><name>cdata</name><value><![CDATA[a<b]]></value></property>
</configuration>`,
		site("kept", "second", "attribute", "no", "later", "second", "later", "third", "fs.default.name", "hdfs://old:1"))
	for key, want := range map[string]string{
		"kept": "first", "attribute": "yes", "later": "third", "no.value": "-", "nested": "1", "within": "1", "cdata": "a<b", "fs.defaultFS": "hdfs://old:1",
	} {
		if got := c.String(key, "-"); got != want {
			t.Errorf("%s = %q, want %q", key, got, want)
		}
	}
	if got := c.Source("later"); got != "1.xml:6" {
		t.Errorf("later comes from %q", got)
	}
	if got := c.With("kept", "mine").String("kept", ""); got != "mine" {
		t.Errorf("With: %q", got)
	}
	if got := c.String("kept", ""); got != "first" {
		t.Errorf("With changed its receiver: %q", got)
	}
}

// These too, but for user.name and user.home, which are Java's there.
func TestExpansion(t *testing.T) {
	c := parse(t, site(
		"a", "x${b}z", "b", "y", "env", "${env.HOSTPART}:9", "unset", "${env.NO}", "dash", "${env.NO-d}", "colon", "${env.NO:-${b}}",
		"nested", "${in${b}}", "iny", "found", "unknown", "${nowhere}/${b}", "before", "${b}/${nowhere}", "self", "x${self}${b}", "self2", "${b}${self2}", "user", "${user.name} ${user.home}",
		"odd", "$ {b} ${} ${b $b }${b", "old", "${fs.default.name}", "fs.defaultFS", "hdfs://n"))
	for key, want := range map[string]string{
		"a": "xyz", "env": "h1:9", "unset": "${env.NO}", "dash": "d", "colon": "y", "nested": "found", "unknown": "${nowhere}/${b}", "before": "y/${nowhere}", "self": "x${self}${b}", "self2": "${b}${self2}",
		"user": "ada /home/ada", "odd": "$ {b} ${} ${b $b }${b", "old": "hdfs://n",
	} {
		if got := c.String(key, "-"); got != want {
			t.Errorf("%s = %q, want %q", key, got, want)
		}
	}
}

func TestValues(t *testing.T) {
	c := parse(t, site("n", " 12 ", "hex", "0x1F", "bad", "many", "size", "128m", "big", "8e", "huge", "9e", "t", "TRUE", "d", "20s", "ms", "1500",
		"days", "2d", "list", " a, b ,,c", "blank", "  ", "neg", "-3", "us", "7us"))
	check := func(what string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	check("n", c.Int("n", 1), int64(12))
	check("hex", c.Int("hex", 1), int64(31))
	check("bad", c.Int("bad", 1), int64(1))
	check("neg", c.Int("neg", 1), int64(-3))
	check("size", c.Size("size", 1), int64(128<<20))
	check("plain size", c.Size("n", 1), int64(12))
	check("big", c.Size("big", 1), int64(1)) // 8e is 2^63, one too many
	check("huge", c.Size("huge", 1), int64(1))
	check("t", c.Bool("t", false), true)
	check("bad bool", c.Bool("bad", true), true)
	check("d", c.Duration("d", 1, time.Millisecond), 20*time.Second)
	check("ms", c.Duration("ms", 1, time.Millisecond), 1500*time.Millisecond)
	check("days", c.Duration("days", 1, time.Second), 48*time.Hour)
	check("us", c.Duration("us", 1, time.Second), 7*time.Microsecond)
	check("list", strings.Join(c.Strings("list"), "|"), "a|b|c")
	check("blank", c.String("blank", "none"), "none")
	var none *conf.Config
	check("nil", none.String("n", "d")+none.Source("n"), "d")
	check("nil with", none.With("n", "5").Int("n", 0), int64(5))
}

// Each hostile or broken file is refused with its place.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct{ file, want string }{
		"entities":           {`<!DOCTYPE c [<!ENTITY a "b"><!ENTITY c "&a;&a;">]>` + "\n" + site("k", "v"), "0.xml:1: a DOCTYPE with declarations"},
		"file entity":        {`<!DOCTYPE c SYSTEM "x" [<!ENTITY a SYSTEM "file:///etc/passwd">]><configuration/>`, "0.xml:1: a DOCTYPE"},
		"use of entity":      {"<configuration>\n<property><name>k</name><value>&a;</value></property></configuration>", "0.xml:2: "},
		"cut":                {"<configuration>\n<property><name>k</name>", "0.xml:2: property k: "},
		"cut in value":       {"<configuration><property name='k'><value>abc", "property k: "},
		"empty":              {"", "the file is empty"},
		"other root":         {"<html>\n</html>", "root element <html>"},
		"deep":               {strings.Repeat("<configuration>", 100_000), "more than 16 elements"},
		"element in a value": {"<configuration><property><name>k</name><value><b/></value></property></configuration>", "property k: <b> inside a field"},
		"circle":             {site("a", "${b}", "b", "x${a}"), "property a: more than 20 variables, or a circle"},
		"growth":             {site("a", strings.Repeat("${b}", 19), "b", strings.Repeat("x", 100_000)), "property a: more than 1048576 bytes"},
		"include":            {`<configuration><include href="http://h/x.xml"/></configuration>`, `include "http://h/x.xml": only local files`},
		"no include":         {`<configuration><include href="x.xml"/></configuration>`, `include "x.xml": includes are not read here`},
		"number":             {site("dfs.replication", "three"), `0.xml:3: property dfs.replication: "three": want a whole number`},
		"bool":               {site("dfs.client.use.datanode.hostname", "yes"), "want true or false"},
		"latin":              {`<?xml version="1.0" encoding="ISO-8859-1"?><configuration/>`, "save the file as UTF-8"},
		"large":              {strings.Repeat(" ", 9<<20), "a configuration has at most"},
	} {
		if _, err := parseFiles(nil, c.file); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	write("etc/hadoop/core-site.xml", `<configuration xmlns:xi="http://www.w3.org/2001/XInclude">
<xi:include href="more/common.xml"><xi:fallback/></xi:include><property><name>k</name><value>core</value></property></configuration>`)
	write("etc/hadoop/more/common.xml", `<configuration><include href="`+filepath.Join(dir, "abs.xml")+`"/>`+site("k", "included", "only", "there")[len("<?xml version=\"1.0\"?>\n<configuration>"):])
	write("abs.xml", site("absolute", "yes"))
	write("etc/hadoop/hdfs-site.xml", site("k", "hdfs"))
	home := filepath.Join(dir, "etc", "hadoop")
	for _, getenv := range []func(string) string{env("HADOOP_HOME", dir), env("HADOOP_CONF_DIR", home, "HADOOP_HOME", "/none")} {
		c, err := conf.Load(getenv)
		must(t, err)
		if got := c.String("k", "") + c.String("only", "") + c.String("absolute", ""); got != "hdfsthereyes" {
			t.Errorf("loaded %q", got)
		}
	}
	write("etc/hadoop/more/common.xml", `<configuration><include href="common.xml"/></configuration>`)
	if _, err := conf.Load(env("HADOOP_HOME", dir)); err == nil || !strings.Contains(err.Error(), "a circle") {
		t.Errorf("a circle of includes: %v", err)
	}
	write("etc/hadoop/more/common.xml", `<configuration><include href="missing.xml"/></configuration>`)
	if _, err := conf.Load(env("HADOOP_HOME", dir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing include: %v", err)
	}
	if _, err := conf.Load(env("HADOOP_CONF_DIR", filepath.Join(dir, "none"))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
	c, err := conf.Load(env("HADOOP_CONF_DIR", t.TempDir()))
	must(t, err)
	if got := c.String("k", "none"); got != "none" {
		t.Errorf("an empty folder has k = %q", got)
	}
}

// What is written is what is read, whatever the characters.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-z<>&"'. é\n]{0,30}`)
		want := rapid.MapOf(rapid.StringMatching(`[a-z.&<-]{1,20}`), text).Draw(t, "properties")
		var pairs []string
		for k, v := range want {
			pairs = append(pairs, k, v)
		}
		c, err := parseFiles(nil, site(pairs...))
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range want {
			if got := c.String(k, ""); got != strings.TrimSpace(v) {
				t.Fatalf("%q = %q, want %q", k, got, v)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(site("a", "${b}${env.X:-y}", "b", "1m", "dfs.replication", "3")))
	f.Add([]byte(`<configuration><property name="k" value="v" final="true"/><include href="x"/></configuration>`))
	f.Add([]byte(`<!DOCTYPE c [<!ENTITY a "b">]><configuration>&a;</configuration>`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := conf.Parse(env("X", "${a}"), conf.Source{Name: "f.xml", Data: data})
		if err != nil {
			if !strings.Contains(err.Error(), "f.xml:") && !strings.Contains(err.Error(), "f.xml: ") {
				t.Errorf("no place in %q", err)
			}
			return
		}
		for _, key := range []string{"a", "b", "k", "dfs.replication"} {
			c.String(key, "")
			c.Size(key, 1)
			c.Duration(key, 1, time.Second)
		}
		c.Cluster("")
		c.Cluster("a")
	})
}
