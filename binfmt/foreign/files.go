package foreign

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/stepahead-io/stepahead/store"
)

// Files describes the files of a source: those that are named, and, of each folder that is named, those directly in it that keep
// takes, sorted by bytes. Of a folder, names that begin with a dot or an underscore (_SUCCESS) are left out.
func Files(ctx context.Context, src Source, keep func(name string) bool) ([]store.Info, error) {
	var files []store.Info
	for _, name := range src.Names {
		info, err := src.Store.Stat(ctx, name)
		if err != nil {
			return nil, err
		}
		if !info.Dir {
			files = append(files, info)
			continue
		}
		infos, err := src.Store.List(ctx, name)
		if err != nil {
			return nil, err
		}
		for _, i := range infos {
			if base := path.Base(i.Name); !i.Dir && !strings.HasPrefix(base, ".") && !strings.HasPrefix(base, "_") && keep(i.Name) {
				files = append(files, i)
			}
		}
	}
	return files, nil
}

// Head reads the first n bytes of a file, or all of a shorter one.
func Head(ctx context.Context, st store.Store, name string, n int64) (head []byte, err error) {
	f, err := st.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	head = make([]byte, min(n, f.Size()))
	return head, f.ReadRanges(ctx, []store.Range{{Buf: head}})
}

// Exists describes a file, nil if there is none of that name.
func Exists(ctx context.Context, st store.Store, name string) (*store.Info, error) {
	info, err := st.Stat(ctx, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case info.Dir:
		return nil, nil
	}
	return &info, nil
}
