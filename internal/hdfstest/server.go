package hdfstest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// startTime bounds a start, which takes three seconds of processor time, or ten with a process for each DataNode.
const startTime = 8 * time.Minute

// A Server is a running cluster. Close ends it, and so does the end of this process, however it ends. Safe for
// concurrent use.
type Server struct {
	options Options
	dir     string
	lock    *os.File // of dir, as long as this process uses it
	cmd     *exec.Cmd
	stdin   io.Closer
	wire    *wire
	endTime time.Duration // how long the JVM may take to end
	close   sync.Once
	closed  error

	desc description
}

// description is what the JVM says of the cluster when it serves.
type description struct {
	NameNodes []NameNode `json:"nameNodes"`
	DataNodes []DataNode `json:"dataNodes"`
	Kerberos  *Realm     `json:"kerberos"`
}

// A NameNode is one of the cluster's: its id in the nameservice, and its addresses as host:port.
type NameNode struct {
	ID   string `json:"id"`
	Addr string `json:"addr"`
	HTTP string `json:"http"`
}

// A DataNode is one of the cluster's. Its place in the list never changes; its address does when it starts again on
// another port.
type DataNode struct {
	UUID    string   `json:"uuid"`
	Addr    string   `json:"addr"` // of data transfer, ip:port
	Host    string   `json:"host"`
	Rack    string   `json:"rack"`
	PID     int      `json:"pid"`
	Running bool     `json:"running"`
	Folders []string `json:"folders"` // of its blocks
}

// A Realm is what Kerberos knows: the service principal of all daemons and the files that users need.
type Realm struct {
	Realm     string            `json:"realm"`
	Principal string            `json:"principal"`
	Krb5Conf  string            `json:"krb5Conf"`
	Keytabs   map[string]string `json:"keytabs"` // by user
}

// Launch starts a cluster and waits until it serves. An error that matches ErrNoJava says that this machine lacks what
// it takes.
func Launch(ctx context.Context, o Options) (*Server, error) {
	t, err := Prepare(ctx)
	if err != nil {
		return nil, err
	}
	return t.launch(ctx, o)
}

func (t *Toolchain) launch(ctx context.Context, o Options, flags ...string) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	o = o.withDefaults()
	sweepClusters(os.TempDir(), time.Now())
	dir, err := os.MkdirTemp("", clusterPrefix)
	if err != nil {
		return nil, fmt.Errorf("hdfstest.Launch: %w", err)
	}
	lock, err := lockFile(clusterLock(dir), syscall.LOCK_EX)
	if err != nil {
		return nil, fmt.Errorf("hdfstest.Launch: %w", errors.Join(err, os.RemoveAll(dir)))
	}
	s := &Server{options: o, dir: dir, lock: lock, endTime: time.Minute}
	if err := s.start(ctx, t, append(flags, o.JVM...)); err != nil {
		log := s.Log()
		s.Close()
		return nil, fmt.Errorf("hdfstest.Launch: %w\n%s", err, log)
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, t *Toolchain, flags []string) error {
	log, err := os.Create(s.logFile())
	if err != nil {
		return err
	}
	defer log.Close()
	command := append(t.Command("512m", flags...), "hdfstest.Main")
	s.cmd = exec.Command(command[0], command[1:]...)
	s.cmd.Stderr = log
	s.cmd.Env = append(s.cmd.Environ(), "HADOOP_USER_NAME="+Superuser)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's Ctrl-C is for this process
	if s.options.DiskBytes > 0 {
		s.cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS // what it mounts ends with it
	}
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	s.stdin, s.wire = in, newWire(out, in)
	_, ready := s.wire.expect()
	if err := s.wire.send(s.options.spec(s.dir, t.Command("256m", s.options.JVM...))); err != nil {
		return err
	}
	if err := s.wire.wait(ctx, "start", ready, &s.desc); err != nil {
		return err
	}
	return s.writeConf()
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "log") }

// Log returns the last lines of what Hadoop logged.
func (s *Server) Log() string {
	log, _ := os.ReadFile(s.logFile())
	return string(tail(log))
}

// Do runs a command of the JVM (the classes in java/hdfstest whose names end in Commands list them) and decodes its
// result into result, unless that is nil.
func (s *Server) Do(ctx context.Context, op string, args, result any) error {
	if args == nil {
		args = struct{}{}
	}
	return s.wire.call(ctx, op, args, result)
}

// Close ends the cluster and removes what it stored. Later calls return the same.
func (s *Server) Close() error {
	s.close.Do(func() {
		s.closed = errors.Join(s.end(), os.RemoveAll(s.dir), s.lock.Close())
	})
	return s.closed
}

func (s *Server) end() error {
	if s.wire == nil {
		return nil
	}
	s.stdin.Close()
	select {
	case <-s.wire.done:
	case <-time.After(s.endTime):
		syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
		<-s.wire.done
	}
	return s.cmd.Wait()
}

// URL is the root of the cluster's file system: hdfs://host:port, or hdfs://nameservice if there are two NameNodes.
func (s *Server) URL() string {
	if s.options.NameNodes > 1 {
		return "hdfs://" + nameservice
	}
	return "hdfs://" + s.desc.NameNodes[0].Addr
}

// NameNodes returns the NameNodes, as they were when the cluster started: they keep their addresses.
func (s *Server) NameNodes() []NameNode { return s.desc.NameNodes }

// Realm returns what Kerberos knows, nil without Kerberos.
func (s *Server) Realm() *Realm { return s.desc.Kerberos }
