package hdfstest

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

//go:embed java
var source embed.FS

// ErrNoJava means that a cluster cannot be had on this machine: no Java, no Maven, or Hadoop cannot be downloaded.
var ErrNoJava = errors.New("no Java for HDFS")

// A Toolchain is Hadoop and our program around it, ready to run: the class path, and an archive of loaded classes that
// halves the time to start.
type Toolchain struct {
	classPath string
	dir       string
}

// Prepare returns the toolchain. The first time on a machine it downloads Hadoop through Maven (about 90 MB), compiles
// our classes and writes the archive, into a folder in the user's cache; processes that need it at the same time wait
// for the one that works. Later it takes no time. Folders of other versions go when nobody has used them for a week.
func Prepare(ctx context.Context) (*Toolchain, error) {
	t, err := prepare(ctx)
	if err != nil {
		return nil, fmt.Errorf("hdfstest.Prepare: %w", err)
	}
	return t, nil
}

func prepare(ctx context.Context) (*Toolchain, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	if err := need("java"); err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, "stepahead", "hdfstest", digest("java"))
	if t := load(dir); t != nil {
		return t, nil
	}
	if err := need("javac", "jar", "mvn"); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	building, err := lockFile(toolchainLock(dir), syscall.LOCK_EX) // one builds, the others wait
	if err != nil {
		return nil, err
	}
	defer building.Close()
	if t := load(dir); t != nil {
		return t, nil
	}
	sweepToolchains(filepath.Dir(dir), dir, time.Now())
	if err := build(ctx, dir); err != nil {
		return nil, err
	}
	return load(dir), nil
}

// need finds programs.
func need(programs ...string) error {
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w: %v: `make hdfs-jars` installs it", ErrNoJava, err)
		}
	}
	return nil
}

// digest names the content of a file of ours, or of a folder.
func digest(root string) string {
	h := sha256.New()
	fs.WalkDir(source, root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			data, _ := source.ReadFile(path)
			fmt.Fprintf(h, "%s %d\n%s", path, len(data), data)
		}
		return err
	})
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// load returns what dir holds if it is complete and all its jars are still there. The folder's time says that it is used.
func load(dir string) *Toolchain {
	jars := readJars(filepath.Join(dir, "complete"))
	if jars == "" {
		return nil
	}
	_ = os.Chtimes(dir, time.Time{}, time.Now()) // at worst it is built again in a week
	return &Toolchain{classPath: filepath.Join(dir, "hdfstest.jar") + ":" + jars, dir: dir}
}

// readJars returns the class path that a file holds, or "" unless all of its jars are there.
func readJars(name string) string {
	data, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	jars := strings.TrimSpace(string(data))
	for jar := range strings.SplitSeq(jars, ":") {
		if _, err := os.Stat(jar); err != nil {
			return ""
		}
	}
	return jars
}

// download returns the class path of all that pom.xml in dir names, after Maven has brought it.
func download(ctx context.Context, dir string) (string, error) {
	known := filepath.Join(filepath.Dir(dir), digest("java/pom.xml")+".jars")
	if jars := readJars(known); jars != "" {
		return jars, nil
	}
	list := filepath.Join(dir, "jars")
	if err := run(ctx, dir, "mvn", "-q", "-B", "dependency:build-classpath", "-Dmdep.outputFile="+list); err != nil {
		return "", fmt.Errorf("%w: Maven: %v", ErrNoJava, err)
	}
	if err := os.Rename(list, known); err != nil {
		return "", err
	}
	return readJars(known), nil
}

func build(ctx context.Context, dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	files, err := fs.Sub(source, "java")
	if err != nil {
		return err
	}
	if err := os.CopyFS(dir, files); err != nil {
		return err
	}
	jars, err := download(ctx, dir)
	if err != nil {
		return err
	}
	if err := compile(ctx, dir, jars); err != nil {
		return err
	}
	t := &Toolchain{classPath: filepath.Join(dir, "hdfstest.jar") + ":" + jars, dir: dir}
	if err := t.writeArchive(ctx); err != nil {
		return err
	}
	done := filepath.Join(dir, "complete")
	if err := os.WriteFile(done+".new", []byte(jars), 0o644); err != nil {
		return err
	}
	return os.Rename(done+".new", done)
}

// compile makes hdfstest.jar of our classes.
func compile(ctx context.Context, dir, jars string) error {
	sources, err := filepath.Glob(filepath.Join(dir, "hdfstest", "*.java"))
	if err != nil {
		return err
	}
	args := append([]string{"-nowarn", "-proc:none", "-cp", jars, "-d", "classes"}, sources...)
	if err := run(ctx, dir, "javac", args...); err != nil {
		return err
	}
	return run(ctx, dir, "jar", "cf", "hdfstest.jar", "-C", "classes", ".")
}

func run(ctx context.Context, dir, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, tail(out))
	}
	return nil
}

// tail returns the last lines of a log.
func tail(log []byte) []byte {
	const most = 6000
	return log[max(0, len(log)-most):]
}

// writeArchive runs a small cluster once and lets the JVM write down the classes that it loaded.
func (t *Toolchain) writeArchive(ctx context.Context) error {
	archive := t.archive() + ".new"
	server, err := t.launch(ctx, Options{}, "-XX:ArchiveClassesAtExit="+archive, "-Dhdfstest.exit=true")
	if err != nil {
		return err
	}
	defer server.Close()
	server.endTime = 10 * time.Minute // writing the archive is its last work
	local := filepath.Join(t.dir, "log4j.properties")
	put := map[string]any{"path": "/warm", "local": local, "replication": 3, "blockSize": 1 << 20}
	if err := server.Do(ctx, "put", put, nil); err != nil {
		return err
	}
	get := map[string]any{"path": "/warm", "local": filepath.Join(t.dir, "warm")}
	if err := server.Do(ctx, "get", get, nil); err != nil {
		return err
	}
	if err := server.Close(); err != nil {
		return err
	}
	return os.Rename(archive, t.archive())
}

func (t *Toolchain) archive() string { return filepath.Join(t.dir, "classes.jsa") }

// ClassPath is where Java finds Hadoop, for programs that want JVM flags of their own.
func (t *Toolchain) ClassPath() string { return t.classPath }

// Command is the command line of a JVM with Hadoop on its class path, up to the name of the main class; flags come after
// our own.
func (t *Toolchain) Command(heap string, flags ...string) []string {
	command := []string{
		"java", "-Xmx" + heap, "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr",
		"-Dlog4j.configuration=file:" + filepath.Join(t.dir, "log4j.properties"),
		"-Djava.net.preferIPv4Stack=true",
	}
	if _, err := os.Stat(t.archive()); err == nil {
		command = append(command, "-XX:SharedArchiveFile="+t.archive())
	}
	return append(append(command, flags...), "-cp", t.classPath)
}
