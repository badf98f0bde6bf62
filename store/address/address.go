// Package address knows which store a URL leads to, and what another URL means in that store.
package address

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"strings"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
)

// Options say who asks. The zero value reads from everywhere alike.
type Options struct {
	// Getenv gives the variables of the environment that stores are configured by, as os.Getenv. Default:
	// none is set.
	Getenv func(name string) string
	// Node is the storage node that the reader runs on: its own replicas come first. A node that the store
	// does not have is ErrNode. Default: none.
	Node string
	// Rank tells readers of the same files apart, as ranks of a training job are: of replicas that are equally
	// near, readers of different ranks read different ones. Default 0.
	Rank int
	// Whole opens a path in the whole file system, where nothing marks a folder as a store's root: see dir.Options. Name then has the names of all
	// folders, and symbolic links are followed wherever they lead.
	Whole bool

	testing struct {
		lookup func(ctx context.Context, host string) ([]string, error)
	}
}

// ErrNode: Options.Node is no node of the store.
var ErrNode = dir.ErrNode

// ErrCluster: nothing is known of the cluster that an address names. The address may be right and the configuration missing.
var ErrCluster = errors.New("unknown cluster")

// Place is an open store, and a name in it.
type Place struct {
	// Store has the optional interfaces of the concrete store.
	Store store.Store
	// Name is what the URL that was opened means in Store.
	Name string
	// Node is Options.Node as the store's locations call it.
	Node string
	// Simulated: the nodes are simulated and share this machine.
	Simulated bool
	// Remote: files are on other machines, and every look at a name is a call of a service that many share.
	Remote bool

	kind kind
}

// kind is what differs between the stores.
type kind interface {
	// resolve returns the name that a URL means, without asking the store.
	resolve(url string) (name string, err error)
	// root is the same text however an address of the store is written.
	root() string
	Close() error
}

// schemes are what a URL may begin with, for messages.
const schemes = "a path, file:///path, dir:///path or hdfs://cluster/path"

// Open opens the store that a URL leads to: a path, file:///path (with %XX for special bytes, as other
// programs write such URLs) or dir:///path (where every byte stands for itself); hdfs://nameservice/path,
// hdfs://host:port/path, or hdfs:///path in the cluster that Hadoop's configuration names (every byte stands for
// itself here too).
func Open(ctx context.Context, url string, o Options) (*Place, error) {
	scheme, err := schemeOf(url)
	if err != nil {
		return nil, err
	}
	switch scheme {
	case "", "dir", "file":
		return openDir(url, o)
	case "hdfs":
		return openHDFS(ctx, url, o)
	}
	if scheme == "stepahead" { // what fsspec calls our stores
		return nil, fmt.Errorf("%w: %q: stepahead:// is for fsspec alone: write hdfs://cluster/path, or a path", store.ErrName, url)
	}
	return nil, fmt.Errorf("%w: %q: no store has the scheme %s: give %s", store.ErrName, url, scheme, schemes)
}

// schemeOf returns what stands before ://, "" for a path.
func schemeOf(url string) (string, error) {
	scheme, _, ok := strings.Cut(url, "://")
	if ok && !strings.Contains(scheme, "/") {
		return scheme, nil
	}
	for _, s := range []string{"file", "dir", "hdfs"} {
		if rest, ok := strings.CutPrefix(url, s+":/"); ok {
			if s == "hdfs" {
				return "", fmt.Errorf("%w: %q: write hdfs:///%s, in the cluster of Hadoop's configuration, or, where a Path of Python has joined slashes, the text hdfs://%s", store.ErrName, url, rest, rest)
			}
			return "", fmt.Errorf("%w: %q: write %s:///%s", store.ErrName, url, s, rest)
		}
	}
	return "", nil
}

// Resolve returns the name in the store that another URL means, as a job on another host writes it: it
// must be absolute, and in this store.
func (p *Place) Resolve(url string) (string, error) { return p.kind.resolve(url) }

// Root tells the store from others on this host: it is the same text however the URL was written, relative or over symbolic links, by the nameservice or its NameNode.
func (p *Place) Root() string { return p.kind.root() }

// Close frees what the store holds. Files that are open must be closed before.
func (p *Place) Close() error { return p.kind.Close() }

func openDir(url string, o Options) (*Place, error) {
	url, err := dirURL(url)
	if err != nil {
		return nil, err
	}
	st, name, err := dir.Open(url, dir.Options{Node: o.Node, Whole: o.Whole})
	if err != nil {
		return nil, err
	}
	return &Place{Store: st, Name: name, Node: o.Node, Simulated: len(st.Topology().Nodes) > 1, kind: folder{st}}, nil
}

// dirURL turns file:///path into dir:///path.
func dirURL(text string) (string, error) {
	rest, ok := strings.CutPrefix(text, "file://")
	if !ok {
		return text, nil
	}
	rest = strings.TrimPrefix(rest, "localhost")
	if !strings.HasPrefix(rest, "/") {
		return "", fmt.Errorf("%w: %q: a file URL names no other host: write file:///absolute/path", store.ErrName, text)
	}
	name, err := url.PathUnescape(rest)
	if err != nil {
		return "", fmt.Errorf("%w: %q: %w: in a file URL %%XX stands for a byte, and %%25 for the percent sign", store.ErrName, text, err)
	}
	return "dir://" + name, nil
}

// folder is a folder store's kind.
type folder struct{ *dir.Store }

func (f folder) root() string { return "dir://" + resolved(f.Root()) }

func (f folder) resolve(url string) (string, error) {
	local, err := dirURL(url)
	if err != nil {
		return "", err
	}
	file := strings.TrimPrefix(local, "dir://")
	if strings.Contains(file, "://") || !filepath.IsAbs(file) {
		return "", fmt.Errorf("%q: not an absolute path, file:///path or dir:///path: this store is the folder %s", url, f.Root())
	}
	for _, pair := range [][2]string{{f.Root(), file}, {resolved(f.Root()), resolved(file)}} {
		rel, err := filepath.Rel(pair[0], pair[1])
		if err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			return path.Join("/", filepath.ToSlash(rel)), nil
		}
	}
	return "", fmt.Errorf("%q is outside the store at %s", url, f.Root())
}

// resolved follows symbolic links; a job may know the store under another path.
func resolved(file string) string {
	if target, err := filepath.EvalSymlinks(file); err == nil {
		return target
	}
	return file
}
