// Command hdfs reads from a cluster as one of the clients that are compared, in a process of its own: each line of
// standard input is a task, answered by a line with what it took. README.md says what is claimed; __main__.py runs the
// contest.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
)

// A client opens files of a cluster. It is safe for concurrent use.
type client interface {
	open(ctx context.Context, path string) (file, error)
	// shared tells whether one file serves many goroutines.
	shared() bool
	// wire is the connections that were made to DataNodes so far, by their address, and the bytes received from them.
	wire() (connections map[string]int, bytes int64)
	close()
}

// A file fills buf with the bytes at off. It is for one goroutine unless its client says that files are shared.
type file interface {
	readAt(ctx context.Context, buf []byte, off int64) error
	size() int64
	close()
}

// clients are made from the address of the cluster, its configuration and the number of the reader.
var clients = map[string]func(c cluster, reader int) (client, error){
	"stepahead": newStepahead,
	"colinmarc": newColinmarc,
	"bare":      newBare,
}

// cluster is where the files are.
type cluster struct{ url, conf, user string }

func main() {
	as := flag.String("as", "stepahead", "which client: stepahead, colinmarc or bare (a socket and CRC32C)")
	var c cluster
	flag.StringVar(&c.url, "url", "", "the cluster, hdfs://host:port")
	flag.StringVar(&c.conf, "conf", "", "folder of its configuration")
	flag.StringVar(&c.user, "user", "trainer", "who reads")
	flag.Parse()
	if err := serve(*as, c); err != nil {
		fmt.Fprintln(os.Stderr, "hdfs:", err)
		os.Exit(3)
	}
}

func serve(as string, c cluster) error {
	create := clients[as]
	if create == nil {
		return fmt.Errorf("no client %q", as)
	}
	k, err := create(c, 0)
	if err != nil {
		return err
	}
	defer k.close()
	r := racer{client: k, open: map[opened]file{}, create: func(reader int) (client, error) { return create(c, reader) }}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var t task
		if err := json.Unmarshal(lines.Bytes(), &t); err != nil {
			return err
		}
		answer, err := r.run(context.Background(), t)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", as, t.Do, err)
		}
		if err := out.Encode(answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

// task is what to do.
type task struct {
	// Do is stream (one file from end to end), ranges, many (whole files in one call, where the client can), readers (many
	// clients, each a whole file), memory (reads in flight), digest (of ranges; not timed).
	Do     string   `json:"do"`
	Path   string   `json:"path"`
	Step   int64    `json:"step"` // bytes a read, of stream and readers
	Ranges []extent `json:"ranges"`
	AtOnce int      `json:"at_once"`
	Count  int      `json:"count"` // readers, or reads in flight
}

type extent struct {
	Path string `json:"path"`
	Off  int64  `json:"off"`
	Len  int64  `json:"len"`
}

// result is what a task took.
type result struct {
	Wall   float64   `json:"wall"`             // seconds
	CPU    float64   `json:"cpu"`              // seconds of this process
	Bytes  int64     `json:"bytes"`            // asked for
	Wire   int64     `json:"wire"`             // received from DataNodes
	Most   int       `json:"most_connections"` // opened to one DataNode
	Millis []float64 `json:"millis,omitempty"` // of each range, in order of their ends
	Calls  int64     `json:"calls"`            // of the NameNode, where the client counts
	Peak   int64     `json:"peak"`             // memory
	Sha256 string    `json:"sha256,omitempty"`
}

// paths are the files of ranges, each once.
func paths(ranges []extent) []string {
	var list []string
	for _, r := range ranges {
		list = append(list, r.Path)
	}
	slices.SortFunc(list, strings.Compare)
	return slices.Compact(list)
}
