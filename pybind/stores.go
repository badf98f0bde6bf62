package pybind

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"syscall"

	"github.com/stepahead-io/stepahead/checkpoint"
	"github.com/stepahead-io/stepahead/checkpoint/nodecache"
	"github.com/stepahead-io/stepahead/checkpoint/ranges"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/address"
)

// openStore is a store that Python has open, and what it has open in it.
type openStore struct {
	place *address.Place
	site  *address.Place   // nil: no copies are looked for
	cache *nodecache.Cache // nil: nothing is shared with other processes

	files       handles[store.File]
	writers     handles[*heldFile]
	saves       handles[*heldSave]
	checkpoints handles[*checkpoint.Checkpoint]

	// A call holds busy for reading, closing for writing: nobody closes a store under a call. Closing ends life, and calls with it.
	busy sync.RWMutex
	life context.Context
	end  context.CancelFunc
}

// stores is the one table of this process; see loaders.
var stores = handles[*openStore]{what: "the store"}

// storeOptions say how to open a store.
type storeOptions struct {
	URL         string      `json:"url"`
	Rank        int         `json:"rank"`
	World       int         `json:"world"`     // how many ranks there are; 0: not known
	Catalogue   string      `json:"catalogue"` // the URL of the store whose catalogue has copies; "": none, "off": no hot files either
	Shared      bool        `json:"shared"`    // with the processes of this host that read the same
	Environment environment `json:"environment"`
}

// storeOpened is what Python learns of a store.
type storeOpened struct {
	Store  int64  `json:"store"`
	Name   string `json:"name"`   // what the URL means in the store
	Root   string `json:"root"`   // the URL of the store's own root
	Remote bool   `json:"remote"` // its files are on other machines
}

func (s storeOpened) drop() { StoreClose(s.Store) }

// StoreOpen begins to open the store that a URL leads to, with options as JSON, as the call of a number that the caller has not used
// before; its result has the store's handle.
func StoreOpen(call int64, optionsJSON string) (err error) {
	defer caught("StoreOpen", &err)
	var o storeOptions
	if err := strictly(optionsJSON, &o); err != nil {
		return encode(&optionError{fmt.Errorf("pybind.StoreOpen: options: %w", err)})
	}
	return encode(calls.begin(call, "StoreOpen", o.open))
}

func strictly(text string, to any) error {
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	return decoder.Decode(to)
}

func (o storeOptions) open(ctx context.Context) (any, error) {
	place, err := address.Open(ctx, o.URL, address.Options{Getenv: o.Environment.get, Rank: o.Rank, Whole: true})
	if err != nil {
		return nil, &storeError{err}
	}
	site, err := o.through(ctx, place)
	if err != nil {
		return nil, errors.Join(err, place.Close())
	}
	s := &openStore{place: place, site: site}
	s.files.what, s.writers.what, s.saves.what, s.checkpoints.what = "the file", "the file", "the save", "the checkpoint"
	s.life, s.end = context.WithCancel(context.Background())
	if o.Shared && place.Remote {
		// Without it every process reads for itself.
		s.cache, _ = nodecache.Open(nodecache.Options{})
	}
	return storeOpened{Store: stores.add(s), Name: place.Name, Root: place.Store.Address("/"), Remote: place.Remote}, nil
}

// StoreClose ends the calls that use a store, and closes it and what is open in it. A second call does nothing.
func StoreClose(handle int64) (err error) {
	defer caught("StoreClose", &err)
	s, ok := stores.take(handle)
	if !ok {
		return nil
	}
	s.end()
	s.busy.Lock()
	defer s.busy.Unlock()
	var errs []error
	for _, w := range s.writers.takeAll() { // what a call that is cancelled now has opened, either this or CallCancel gives back
		errs = append(errs, w.abort())
	}
	for _, w := range s.saves.takeAll() {
		errs = append(errs, w.abort())
	}
	for _, f := range s.files.takeAll() {
		errs = append(errs, f.Close())
	}
	if s.cache != nil {
		errs = append(errs, s.cache.Close())
	}
	errs = append(errs, s.place.Close())
	if s.site != nil {
		errs = append(errs, s.site.Close())
	}
	return encode(errors.Join(errs...))
}

// operation is what StoreCall can do: it decodes its own arguments.
type operation func(s *openStore, arguments string) (func(context.Context) (any, error), error)

// with is an operation with arguments of a type.
func with[A any](do func(s *openStore, ctx context.Context, a A) (any, error)) operation {
	return func(s *openStore, arguments string) (func(context.Context) (any, error), error) {
		var a A
		if err := strictly(arguments, &a); err != nil {
			return nil, err
		}
		return func(ctx context.Context) (any, error) { return do(s, ctx, a) }, nil
	}
}

// operationOf is the operation of a name.
func operationOf(name string) operation {
	switch name {
	case "resolve":
		return with((*openStore).resolve)
	case "stat":
		return with((*openStore).stat)
	case "list":
		return with((*openStore).list)
	case "make folder":
		return with((*openStore).makeFolder)
	case "rename":
		return with((*openStore).rename)
	case "remove":
		return with((*openStore).remove)
	case "open":
		return with((*openStore).open)
	case "close":
		return with((*openStore).close)
	case "read":
		return with((*openStore).read)
	case "create":
		return with((*openStore).create)
	case "write":
		return with((*openStore).write)
	case "finish":
		return with((*openStore).finish)
	case "save":
		return with((*openStore).save)
	case "stored":
		return with((*openStore).stored)
	case "commit":
		return with((*openStore).commit)
	case "give up":
		return with((*openStore).giveUp)
	case "checkpoint":
		return with((*openStore).checkpoint)
	case "read boxes":
		return with((*openStore).readBoxes)
	case "read files":
		return with((*openStore).readFiles)
	case "sources":
		return with((*openStore).sources)
	case "latest":
		return with((*openStore).latest)
	case "release":
		return with((*openStore).release)
	}
	return nil
}

// StoreCall begins an operation of a store, with arguments as JSON, as the call of a number that the caller has not used before.
func StoreCall(call, handle int64, name, arguments string) (err error) {
	defer caught("StoreCall", &err)
	s, err := stores.get(handle)
	if err != nil {
		return encode(err)
	}
	op := operationOf(name)
	if op == nil {
		return encode(&optionError{fmt.Errorf("pybind.StoreCall: no operation %q", name)})
	}
	do, err := op(s, arguments)
	if err != nil {
		return encode(&optionError{fmt.Errorf("pybind.StoreCall: %s: %w", name, err)})
	}
	return encode(calls.begin(call, "StoreCall", func(ctx context.Context) (any, error) {
		s.busy.RLock()
		defer s.busy.RUnlock()
		if _, err := stores.get(handle); err != nil {
			return nil, err
		}
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		defer context.AfterFunc(s.life, stop)()
		return do(ctx)
	}))
}

// nameArguments name a file or folder.
type nameArguments struct {
	Name string `json:"name"`
}

// fileInfo is a store.Info for Python.
type fileInfo struct {
	Name     string  `json:"name"`
	Size     int64   `json:"size"`
	Dir      bool    `json:"dir"`
	Modified float64 `json:"modified"` // seconds since 1970
	Identity string  `json:"identity"`
	Owner    string  `json:"owner"`
}

func infoOf(i store.Info) fileInfo {
	modified := float64(i.ModTime.UnixNano()) / 1e9
	return fileInfo{Name: i.Name, Size: i.Size, Dir: i.Dir, Modified: modified, Identity: string(i.Identity), Owner: i.Owner}
}

func (s *openStore) resolve(_ context.Context, a struct {
	URL string `json:"url"`
}) (any, error) {
	name, err := s.place.Resolve(a.URL)
	if err != nil {
		return nil, &storeError{err}
	}
	return name, nil
}

func (s *openStore) stat(ctx context.Context, a nameArguments) (any, error) {
	info, err := s.place.Store.Stat(ctx, a.Name)
	return infoOf(info), err
}

func (s *openStore) list(ctx context.Context, a nameArguments) (any, error) {
	infos, err := s.place.Store.List(ctx, a.Name)
	out := make([]fileInfo, len(infos))
	for i, info := range infos {
		out[i] = infoOf(info)
	}
	return out, err
}

func (s *openStore) makeFolder(ctx context.Context, a nameArguments) (any, error) {
	m, ok := s.place.Store.(store.FolderMaker)
	if !ok {
		return nil, fmt.Errorf("%s: this store makes no empty folders: %w", s.place.Store.Address(a.Name), errors.ErrUnsupported)
	}
	return nil, m.MakeFolder(ctx, a.Name)
}

func (s *openStore) rename(ctx context.Context, a struct {
	From string `json:"from"`
	To   string `json:"to"`
}) (any, error) {
	return nil, s.place.Store.Rename(ctx, a.From, a.To)
}

// remove removes a file or an empty folder, or everything below a name.
func (s *openStore) remove(ctx context.Context, a struct {
	Name      string `json:"name"`
	Recursive bool   `json:"recursive"`
}) (any, error) {
	if a.Recursive {
		return nil, removeAll(ctx, s.place.Store, a.Name)
	}
	return nil, s.place.Store.Remove(ctx, a.Name)
}

// removeAll removes what has a name. It looks inside only where the store says that there is a folder with something in it: a symbolic link is
// removed itself, and nothing that it leads to. The store's root stays, with all that is in it.
func removeAll(ctx context.Context, st store.Store, name string) error {
	err := st.Remove(ctx, name)
	if !errors.Is(err, syscall.ENOTEMPTY) {
		return err
	}
	infos, listed := st.List(ctx, name)
	if listed != nil {
		return listed
	}
	if len(infos) == 0 { // what it holds cannot be listed: another writer's
		return err
	}
	for _, i := range infos {
		if err := removeAll(ctx, st, i.Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return st.Remove(ctx, name)
}

// fileOpened is what Python learns of a file.
type fileOpened struct {
	File     int64  `json:"file"`
	Size     int64  `json:"size"`
	Identity string `json:"identity"`

	s *openStore
}

func (f fileOpened) drop() {
	if file, ok := f.s.files.take(f.File); ok {
		file.Close()
	}
}

func (s *openStore) open(ctx context.Context, a nameArguments) (any, error) {
	f, err := s.place.Store.Open(ctx, a.Name)
	if err != nil {
		return nil, err
	}
	return fileOpened{File: s.files.add(f), Size: f.Size(), Identity: string(f.Identity()), s: s}, nil
}

func (s *openStore) close(_ context.Context, a struct {
	File int64 `json:"file"`
}) (any, error) {
	f, ok := s.files.take(a.File)
	if !ok {
		return nil, nil
	}
	return nil, f.Close()
}

// wantArgument is a range of a file and where it goes: file, offset, length, address.
type wantArgument [4]int64

func wantsOf(arguments []wantArgument) ([]ranges.Want, error) {
	wants := make([]ranges.Want, len(arguments))
	for i, a := range arguments {
		dst, err := memoryAt(a[3], a[2])
		if err != nil {
			return nil, &optionError{fmt.Errorf("want %d: %w", i, err)}
		}
		wants[i] = ranges.Want{File: int(a[0]), Off: a[1], Dst: dst}
	}
	return wants, nil
}

// read fills memory with ranges of open files; the file of a want is the place of its handle in Files.
func (s *openStore) read(ctx context.Context, a struct {
	Files  []int64        `json:"files"`
	Names  []string       `json:"names"`
	Wants  []wantArgument `json:"wants"`
	Shared bool           `json:"shared"`
}) (any, error) {
	files := make([]ranges.File, len(a.Files))
	for i, handle := range a.Files {
		f, err := s.files.get(handle)
		if err != nil {
			return nil, err
		}
		files[i] = ranges.File{File: f}
		if i < len(a.Names) {
			files[i].Name = s.place.Store.Address(a.Names[i])
		}
		if a.Shared && s.cache != nil {
			files[i].File = s.cache.File(s.place.Store.Address("/"), files[i].Name, f)
		}
	}
	wants, err := wantsOf(a.Wants)
	if err != nil {
		return nil, err
	}
	_, err = ranges.Read(ctx, files, wants, ranges.Options{})
	return nil, err
}
