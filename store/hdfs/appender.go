package hdfs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"syscall"
	"time"

	client "github.com/colinmarc/hdfs/v2"
	"github.com/colinmarc/hdfs/v2/hadoopconf"
	krb5 "github.com/jcmturner/gokrb5/v8/client"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

// appender opens streams with the HDFS client github.com/colinmarc/hdfs, which sends blocks down pipelines of DataNodes.
//
// Each stream has a client of its own, and so a connection to the NameNode of its own: the client serialises its calls, is
// not safe for concurrent use, renews leases every second until it is closed, and keeps block keys for ever. Nothing is read
// through it, and whatever it says was written is checked afterwards.
type appender struct {
	cluster conf.Cluster
	conf    *conf.Config
	user    string
	dial    dialer
	// kerberos returns a client that is logged in; nil: the cluster has no security.
	kerberos func() (*krb5.Client, error)
}

// loginHolder is an Authenticator that has Kerberos credentials: a nil function means that it has none.
type loginHolder interface {
	KerberosLogin() func() (*krb5.Client, error)
}

// openWriting returns the part of a Store that writes.
func openWriting(o Options, cluster conf.Cluster, nn *namenode.Client) *writing {
	a := &appender{cluster: cluster, conf: o.Conf, user: o.User, dial: o.Dial}
	if a.dial == nil {
		a.dial = new(net.Dialer).DialContext
	}
	w := newWriting(nn, o.Conf, a.open)
	secure := strings.EqualFold(o.Conf.String("hadoop.security.authentication", ""), "kerberos")
	if holder, ok := o.Auth.(loginHolder); ok && secure {
		a.kerberos = holder.KerberosLogin()
	}
	switch {
	case o.RealUser != "":
		w.refused = fmt.Errorf("%w: acting as %s no files can be written: write as yourself", errors.ErrUnsupported, o.User)
	case secure && a.kerberos == nil:
		w.refused = errTokenOnly
	}
	return w
}

func (a *appender) options() (client.ClientOptions, error) {
	keys := hadoopconf.HadoopConf{}
	for _, key := range []string{"dfs.client.use.datanode.hostname", "dfs.data.transfer.protection", "dfs.encrypt.data.transfer", "dfs.namenode.kerberos.principal"} {
		keys[key] = a.conf.String(key, "")
	}
	if a.kerberos != nil && keys["dfs.data.transfer.protection"] == "" {
		keys["dfs.data.transfer.protection"] = "authentication" // with security DataNodes ask for it, but at privileged ports
	}
	o := client.ClientOptionsFromConf(keys)
	o.User, o.Addresses = a.user, nil
	for _, n := range a.cluster.NameNodes {
		o.Addresses = append(o.Addresses, n.Addr)
	}
	if a.kerberos == nil {
		return o, nil
	}
	var err error
	o.KerberosClient, err = a.kerberos()
	return o, err
}

// open implements writing.appendTo.
func (a *appender) open(ctx context.Context, path string) (stream, error) {
	o, err := a.options()
	if err != nil {
		return nil, err
	}
	s := &clientStream{wires: newWires(ctx, a.dial), patience: a.patience(), kerberos: o.KerberosClient}
	s.stop = context.AfterFunc(ctx, s.wires.end)
	o.NamenodeDialFunc = s.wires.dialer(a.conf.Duration("ipc.client.rpc-timeout.ms", 2*time.Minute, time.Millisecond), false)
	o.DatanodeDialFunc = s.wires.dialer(s.patience, true)
	if s.client, err = client.NewClient(o); err == nil {
		s.file, err = s.client.Append(path)
	}
	if err != nil {
		s.free()
		return nil, writeError(err)
	}
	return s, nil
}

// patience bounds the wait for a DataNode: what Hadoop's clients wait for a pipeline of three.
func (a *appender) patience() time.Duration {
	return a.conf.Duration("dfs.client.socket-timeout", time.Minute, time.Millisecond) + 15*time.Second
}

// clientStream is a client with one file.
type clientStream struct {
	client   *client.Client
	file     *client.FileWriter
	wires    *wires
	patience time.Duration
	kerberos *krb5.Client // nil: none
	stop     func() bool
}

func (s *clientStream) Write(p []byte) (int, error) {
	if len(p) == 0 { // the client would start a block that stays empty
		return 0, nil
	}
	n, err := s.file.Write(p)
	if err == nil {
		err = s.wires.failure()
	}
	return n, writeError(err)
}

// Close closes the file, however often it takes until DataNodes have reported enough replicas.
func (s *clientStream) Close() error {
	end := time.Now().Add(s.patience)
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := s.file.Close()
		if err == nil {
			s.free()
			return nil
		}
		if !client.IsErrReplicating(err) {
			return writeError(err)
		}
		if time.Now().After(end) {
			return fmt.Errorf("%w: too few DataNodes have reported the last block after %v", store.ErrUnavailable, s.patience)
		}
		if err := wait(s.wires.ctx, pause); err != nil {
			return err
		}
	}
}

func (s *clientStream) Abort() error {
	s.wires.end()
	err := s.file.Close() // ends its goroutines; it cannot succeed
	s.free()
	if err == nil || !strings.HasPrefix(err.Error(), "Ack error") { // else it is about connections that were just closed
		return nil
	}
	return writeError(err)
}

func (s *clientStream) Holder() string { return s.client.Name() }

func (s *clientStream) free() {
	s.stop()
	s.wires.end()
	if s.client != nil {
		s.client.Close()
		s.client = nil
	}
	if s.kerberos != nil {
		s.kerberos.Destroy()
	}
}

// tooFewNodes is what the NameNode says where a block finds no DataNodes; the group is how many there are.
var tooFewNodes = regexp.MustCompile(`could only be written to \d+ of the .* There are (\d+) datanode`)

// writeError gives an error of the client, or of a call that starts a file, its meaning.
func writeError(err error) error {
	if err == nil {
		return nil
	}
	var said client.Error
	if errors.As(err, &said) {
		err = namenode.NewRemoteError(said.Exception(), said.Message(), "the NameNode", said.Method())
	}
	var remote *namenode.RemoteError
	switch {
	case errors.As(err, &remote):
		return remoteWriteError(err, remote)
	case store.ClassOf(err) == store.ClassUnknown && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return err
}

func remoteWriteError(err error, remote *namenode.RemoteError) error {
	if m := tooFewNodes.FindStringSubmatch(remote.Message); m != nil {
		if m[1] == "0" {
			return fmt.Errorf("%w: no DataNode is there: %w", store.ErrUnavailable, err)
		}
		return fmt.Errorf("%w: no DataNode takes a block, most likely for want of room: %w", syscall.ENOSPC, err)
	}
	if strings.HasSuffix(remote.Class, ".UnknownCryptoProtocolVersionException") {
		return fmt.Errorf("%w: the folder lies in an encryption zone: write to another: %w", errors.ErrUnsupported, err)
	}
	return err
}
