// Command minihdfs runs a small real HDFS until it is interrupted, or until its input ends: for a person who wants to try
// something (`make hdfs`), and for programs that are not Go tests.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "minihdfs:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var o hdfstest.Options
	var prepare, script bool
	var types []string
	cmd := &cobra.Command{
		Use:           "minihdfs",
		Short:         "Run a small real HDFS on this machine until Ctrl-C.",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if prepare {
				_, err := hdfstest.Prepare(cmd.Context())
				return err
			}
			for _, t := range types {
				o.StorageTypes = append(o.StorageTypes, strings.Split(t, "+"))
			}
			return run(cmd.Context(), o, script)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.DataNodes, "datanodes", 3, "how many DataNodes")
	f.IntVar(&o.NameNodes, "namenodes", 1, "1, or 2 for a nameservice with a standby")
	f.StringSliceVar(&o.Racks, "racks", nil, "racks of the DataNodes in turn (default: one each)")
	f.StringSliceVar(&types, "types", nil, "types of storage of the DataNodes in turn, such as DISK+ARCHIVE (default: a DISK each)")
	f.Int64SliceVar(&o.Capacities, "capacities", nil, "bytes of each storage of the DataNodes in turn (default: what this machine's disk has)")
	f.StringVar(&o.Kerberos, "kerberos", "", "a secure cluster: authentication, integrity or privacy")
	f.BoolVar(&o.Encrypt, "encrypt", false, "encrypt data transfer")
	f.BoolVar(&o.OneJVMEach, "processes", false, "a process for each DataNode")
	f.StringToStringVar(&o.Site, "set", nil, "further settings of Hadoop, KEY=VALUE")
	f.BoolVar(&prepare, "prepare", false, "only download and compile what is needed")
	f.BoolVar(&script, "json", false, `describe the cluster in one line of JSON, then run commands: {"op": "kill", "args": {"dn": 1}}, each answered by a line`)
	return cmd
}

func run(ctx context.Context, o hdfstest.Options, script bool) error {
	server, err := hdfstest.Launch(ctx, o)
	if err != nil {
		return err
	}
	home := map[string]any{"path": "/user/" + hdfstest.User, "owner": hdfstest.User, "mode": 0o755}
	err = server.Do(ctx, "folder", home, nil)
	switch {
	case err != nil:
	case script:
		err = converse(ctx, server, os.Stdin, os.Stdout)
	default:
		introduce(os.Stdout, server)
		<-ctx.Done()
		fmt.Println()
	}
	if closed := server.Close(); err == nil {
		err = closed
	}
	return err
}

// introduce tells a person how to use the cluster.
func introduce(w io.Writer, s *hdfstest.Server) {
	fmt.Fprintf(w, "%s is up, with a folder /user/%s; Ctrl-C ends it and removes all that it stores.\n\n", s.URL(), hdfstest.User)
	fmt.Fprintf(w, "  export HADOOP_CONF_DIR=%s HADOOP_USER_NAME=%s\n", s.ConfDir(), hdfstest.User)
	if realm := s.Realm(); realm != nil {
		fmt.Fprintf(w, "  export KRB5_CONFIG=%s   # keytab of %s@%s: %s\n", realm.Krb5Conf, hdfstest.User, realm.Realm, realm.Keytabs[hdfstest.User])
	}
	fmt.Fprintf(w, "  bin/stepahead pack FOLDER -o %s/user/%s/dataset\n", s.URL(), hdfstest.User)
	fmt.Fprintf(w, "\nThe NameNode's pages: http://%s\n", s.NameNodes()[0].HTTP)
}

// converse answers a program's commands until its input ends.
func converse(ctx context.Context, s *hdfstest.Server, in io.Reader, out io.Writer) error {
	enc := json.NewEncoder(out)
	tools, err := hdfstest.Prepare(ctx)
	if err != nil {
		return err
	}
	hello := map[string]any{
		"classPath": tools.ClassPath(),
		"url":       s.URL(), "conf": s.ConfDir(), "user": hdfstest.User, "nameNodes": s.NameNodes(), "kerberos": s.Realm(),
	}
	if err := enc.Encode(hello); err != nil {
		return err
	}
	var far links
	defer far.close()
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if err := enc.Encode(reply(ctx, s, &far, lines.Text())); err != nil {
			return err
		}
	}
	return lines.Err()
}

// links are those that a program asked for.
type links []*hdfstest.Link

func (l links) close() {
	for _, link := range l {
		_ = link.Close()
	}
}

// open makes a link to the cluster and returns the cluster's URL over it.
func (l *links) open(s *hdfstest.Server, arguments json.RawMessage) (json.RawMessage, error) {
	var a struct {
		Millis         int64 `json:"rttMillis"`
		BytesPerSecond int64 `json:"bytesPerSecond"`
	}
	if err := json.Unmarshal(arguments, &a); err != nil {
		return nil, err
	}
	link, at, err := s.Far(time.Duration(a.Millis)*time.Millisecond, a.BytesPerSecond)
	if err != nil {
		return nil, err
	}
	*l = append(*l, link)
	return json.Marshal("hdfs://" + at)
}

func reply(ctx context.Context, s *hdfstest.Server, far *links, line string) map[string]any {
	var request struct {
		Op   string          `json:"op"`
		Args json.RawMessage `json:"args"`
	}
	var result json.RawMessage
	err := json.NewDecoder(strings.NewReader(line)).Decode(&request)
	if err == nil {
		if request.Args == nil {
			request.Args = json.RawMessage("{}")
		}
		if request.Op == "link" { // ours: all others are the JVM's
			result, err = far.open(s, request.Args)
		} else {
			err = s.Do(ctx, request.Op, request.Args, &result)
		}
	}
	if err != nil {
		return map[string]any{"error": err.Error()}
	}
	if result == nil {
		result = json.RawMessage("null")
	}
	return map[string]any{"result": result}
}
