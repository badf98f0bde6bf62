// Command start is one rank of a job that starts: for each line of standard input, which names a file, it reads the file whole and
// answers with a line that says what it took. README.md says what is claimed; __main__.py runs the contest.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"hash/crc32"
	"os"

	"golang.org/x/sys/unix"

	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/checkpoint/nodecache"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
)

// options say who reads, and how.
type options struct {
	url, conf, user string
	rank, world     int
	catalogue       bool
	host            string
}

// task is what a line of standard input says.
type task struct {
	Path string `json:"path"`
}

// result is what a line of standard output says.
type result struct {
	// Ended is when the last byte was there, in seconds of the host's monotonic clock, which all processes share.
	Ended float64 `json:"ended"`
	Bytes int64   `json:"bytes"`
	CRC32 uint32  `json:"crc32"`
}

func main() {
	var o options
	flag.StringVar(&o.url, "url", "", "the cluster, hdfs://host:port")
	flag.StringVar(&o.conf, "conf", "", "folder of its configuration")
	flag.StringVar(&o.user, "user", "trainer", "who reads")
	flag.IntVar(&o.rank, "rank", 0, "which of the readers this is")
	flag.IntVar(&o.world, "world", 0, "how many readers there are; 0: it is not known, and each chooses for itself")
	flag.BoolVar(&o.catalogue, "catalogue", false, "use the sources that the catalogue names")
	flag.StringVar(&o.host, "host", "", "folder in which the ranks of a host share what they read; none: they do not")
	flag.Parse()
	if err := serve(o); err != nil {
		fmt.Fprintln(os.Stderr, "start:", err)
		os.Exit(3)
	}
}

func serve(o options) error {
	ctx := context.Background()
	lines, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var t task
		if err := json.Unmarshal(lines.Bytes(), &t); err != nil {
			return err
		}
		r, err := read(ctx, o, t.Path)
		if err != nil {
			return fmt.Errorf("%s: %w", t.Path, err)
		}
		if err := out.Encode(r); err != nil {
			return err
		}
	}
	return lines.Err()
}

// read reads a file as a rank that was just started does.
func read(ctx context.Context, o options, path string) (r result, err error) {
	st, err := open(o)
	if err != nil {
		return r, err
	}
	defer st.Close()
	f, err := st.Open(ctx, path)
	if err != nil {
		return r, err
	}
	if st.host != nil {
		f = st.host.File(st.Address("/"), path, f)
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	buf := make([]byte, 8<<20)
	for off := int64(0); off < f.Size(); off += int64(len(buf)) {
		b := buf[:min(int64(len(buf)), f.Size()-off)]
		if err := f.ReadRanges(ctx, []store.Range{{Off: off, Buf: b}}); err != nil {
			return r, err
		}
		r.CRC32 = crc32.Update(r.CRC32, crc32.IEEETable, b)
		r.Bytes += int64(len(b))
	}
	r.Ended, err = monotonic()
	return r, err
}

// opened is the cluster as a rank reads from it.
type opened struct {
	store.Store
	cluster *hdfs.Store
	host    *nodecache.Cache // nil: the ranks of the host share nothing
}

func open(o options) (opened, error) {
	settings, err := conf.Load(func(key string) string { return map[string]string{"HADOOP_CONF_DIR": o.conf}[key] })
	if err != nil {
		return opened{}, err
	}
	cluster, _, err := hdfs.Open(o.url+"/", hdfs.Options{Conf: settings, User: o.user, Rank: o.rank})
	if err != nil {
		return opened{}, err
	}
	st := opened{Store: cluster, cluster: cluster}
	if o.catalogue {
		st.Store = catalogue.Wrap(cluster, catalogue.Options{Index: o.rank, Of: o.world})
	}
	if o.host != "" {
		st.host, err = nodecache.Open(nodecache.Options{Dir: o.host})
	}
	return st, err
}

// Close ends the use of the cluster.
func (s opened) Close() {
	if s.host != nil {
		s.host.Close()
	}
	s.cluster.Close()
}

func monotonic() (float64, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0, err
	}
	return float64(t.Nano()) / 1e9, nil
}
