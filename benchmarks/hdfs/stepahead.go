package main

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
)

// ours is store/hdfs as programs use it.
type ours struct {
	*meter
	store *hdfs.Store
}

func newStepahead(c cluster, reader int) (client, error) {
	settings, err := conf.Load(func(key string) string { return map[string]string{"HADOOP_CONF_DIR": c.conf}[key] })
	if err != nil {
		return nil, err
	}
	m := newMeter()
	nameNode := strings.TrimPrefix(c.url, "hdfs://")
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr == nameNode {
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
		return m.dial(ctx, network, addr)
	}
	s, _, err := hdfs.Open(c.url+"/", hdfs.Options{Conf: settings, User: c.user, Rank: reader, Dial: dial})
	if err != nil {
		return nil, err
	}
	return &ours{meter: m, store: s}, nil
}

func (*ours) shared() bool { return true }
func (o *ours) close()     { o.store.Close() }

func (o *ours) calls() (n int64) {
	for _, k := range o.store.ReadStats().Calls {
		n += k
	}
	return n
}

type ourFile struct{ store.File }

func (o *ours) open(ctx context.Context, path string) (file, error) {
	f, err := o.store.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	return ourFile{f}, nil
}

func (f ourFile) size() int64 { return f.Size() }
func (f ourFile) close()      { f.File.Close() }

func (f ourFile) readAt(ctx context.Context, buf []byte, off int64) error {
	return f.ReadRanges(ctx, []store.Range{{Off: off, Buf: buf}})
}

// readMany implements vectored.
func (o *ours) readMany(ctx context.Context, open func(path string) (file, error), ranges []extent, bufs [][]byte) error {
	at := map[string]int{}
	var files []store.FileRanges
	for i, x := range ranges {
		k, ok := at[x.Path]
		if !ok {
			f, err := open(x.Path)
			if err != nil {
				return err
			}
			k = len(files)
			at[x.Path], files = k, append(files, store.FileRanges{File: f.(ourFile).File})
		}
		files[k].Ranges = append(files[k].Ranges, store.Range{Off: x.Off, Buf: bufs[i]})
	}
	errs := []error{o.store.ReadMany(ctx, files)}
	for _, f := range files {
		errs = append(errs, f.Err)
	}
	return errors.Join(errs...)
}
