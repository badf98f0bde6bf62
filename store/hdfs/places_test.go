package hdfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

// records are a NameNode's attributes, policies and rights, of which calls can fail.
type records struct {
	placeCalls
	status map[string]*hproto.FileStatus
	fail   map[string]error // by method
	inodes error            // of what is asked for by inode
	xattrs []*hproto.XAttr
	calls  []string
}

func (r *records) called(method string) error {
	r.calls = append(r.calls, method)
	return r.fail[method]
}

func (r *records) GetFileInfo(_ context.Context, name string) (*hproto.FileStatus, error) {
	if strings.HasPrefix(name, inodes) && r.inodes != nil {
		return nil, r.inodes
	}
	if s := r.status[name]; s != nil {
		return s, r.fail["getFileInfo"]
	}
	return nil, missing(name)
}

func (r *records) GetXAttrs(context.Context, string, ...*hproto.XAttr) ([]*hproto.XAttr, error) {
	return r.xattrs, r.called("getXAttrs")
}

func (r *records) SetXAttr(context.Context, string, *hproto.XAttr, hproto.SetXAttrRequest_Flag) error {
	return r.called("setXAttr")
}

func (r *records) RemoveXAttr(context.Context, string, *hproto.XAttr) error {
	return r.called("removeXAttr")
}

func (r *records) GetStoragePolicies(context.Context) ([]*hproto.BlockStoragePolicy, error) {
	return []*hproto.BlockStoragePolicy{{PolicyId: proto.Uint32(7), Name: proto.String("HOT")}, {PolicyId: proto.Uint32(2), Name: proto.String("COLD")}}, r.called("getStoragePolicies")
}

func (r *records) SetStoragePolicy(context.Context, string, string) error {
	return r.called("setStoragePolicy")
}

func (r *records) GetAclStatus(context.Context, string) (*hproto.AclStatus, error) {
	return nil, r.called("getAclStatus")
}

func (r *records) SetOwner(context.Context, string, string, string) error {
	return r.called("setOwner")
}

func (r *records) SetAcl(context.Context, string, []*hproto.AclEntry) error {
	return r.called("setAcl")
}
func (r *records) RemoveAcl(context.Context, string) error { return r.called("removeAcl") }
func (r *records) SetPermission(context.Context, string, fs.FileMode) error {
	return r.called("setPermission")
}

// statusOnly are the records as a Store reads them.
type statusOnly struct {
	nameNode
	*records
}

func (s statusOnly) GetFileInfo(ctx context.Context, name string) (*hproto.FileStatus, error) {
	return s.records.GetFileInfo(ctx, name)
}

func newRecords(t *testing.T) (*Store, *records) {
	r := &records{fail: map[string]error{}, status: map[string]*hproto.FileStatus{}}
	for _, name := range []string{"/", "/f"} {
		kind := hproto.FileStatus_FILE
		if name == "/" {
			kind = hproto.FileStatus_DIR
		}
		r.status[name] = &hproto.FileStatus{
			FileType: &kind, Owner: proto.String("ada"), Group: proto.String("hopper"), Permission: &hproto.FsPermission{Perm: proto.Uint32(0o640)},
		}
	}
	s := newWriteStore(newLake(t))
	s.o.Root = "/"
	s.names, s.places = statusOnly{records: r}, r
	return s, r
}

// TestAttributeErrors: what HDFS says, in this and in older versions, of an attribute that is not there, and else.
func TestAttributeErrors(t *testing.T) {
	s, r := newRecords(t)
	for _, c := range []struct {
		said error
		want error // nil: no attribute, and no error
	}{
		{said("hdfs.protocol.XAttrNotFoundException", "whatever"), nil},
		{&namenode.RemoteError{Class: "java.io.IOException", Message: "At least one of the attributes provided was not found."}, nil},
		{&namenode.RemoteError{Class: "java.io.IOException", Message: "No matching attributes found for remove operation"}, nil},
		{&namenode.RemoteError{Class: "java.io.IOException", Message: "The XAttr operation has been rejected.  Support for XAttrs has been disabled by setting dfs.namenode.xattrs.enabled to false."}, errors.ErrUnsupported},
		{&namenode.RemoteError{Class: "java.io.IOException", Message: "Cannot add additional XAttr to inode, would exceed limit of 32"}, fs.ErrInvalid},
		{said("security.AccessControlException", "Permission denied"), fs.ErrPermission},
		{said("hdfs.server.namenode.SafeModeException", "Cannot set XAttr"), store.ErrUnavailable},
		{missing("/f"), fs.ErrNotExist},
	} {
		for _, method := range []string{"getXAttrs", "setXAttr", "removeXAttr"} {
			r.fail[method] = c.said
		}
		_, ok, read := s.Attribute(t.Context(), "/f", "stepahead.test")
		removed := s.SetAttribute(t.Context(), "/f", "stepahead.test", nil)
		for what, err := range map[string]error{"read": read, "removed": removed} {
			if ok || !errors.Is(err, c.want) {
				t.Errorf("%v: %s: %v, %v, want %v", c.said, what, ok, err, c.want)
			}
		}
		if set := s.SetAttribute(t.Context(), "/f", "stepahead.test", []byte("v")); c.want != nil && !errors.Is(set, c.want) {
			t.Errorf("%v: set: %v, want %v", c.said, set, c.want)
		}
	}
}

// TestAttributeOfTheName: another of the same name in another namespace is not it, and a value is the caller's.
func TestAttributeOfTheName(t *testing.T) {
	s, r := newRecords(t)
	name := proto.String("stepahead.test")
	r.xattrs = []*hproto.XAttr{{Namespace: hproto.XAttr_TRUSTED.Enum(), Name: name, Value: []byte("no")}}
	if v, ok, err := s.Attribute(t.Context(), "/f", *name); ok || err != nil {
		t.Errorf("%q, %v, %v", v, ok, err)
	}
	r.xattrs = append(r.xattrs, &hproto.XAttr{Namespace: hproto.XAttr_USER.Enum(), Name: name})
	if v, ok, err := s.Attribute(t.Context(), "/f", *name); !ok || err != nil || v == nil || !bytes.Equal(v, nil) {
		t.Errorf("an empty value: %q, %v, %v", v, ok, err)
	}
}

// TestWhosePolicy: a policy is the file's own where the folder has another, or none.
func TestWhosePolicy(t *testing.T) {
	s, r := newRecords(t)
	for _, c := range []struct {
		file, folder uint32
		want         store.StoragePolicy
	}{
		{0, 0, store.StoragePolicy{Name: "HOT"}}, {7, 0, store.StoragePolicy{Name: "HOT", Own: true}}, {2, 7, store.StoragePolicy{Name: "COLD", Own: true}},
		{2, 2, store.StoragePolicy{Name: "COLD"}},
	} {
		r.status["/f"].StoragePolicy, r.status["/"].StoragePolicy = &c.file, &c.folder
		if got, err := s.StoragePolicy(t.Context(), "/f"); err != nil || got != c.want {
			t.Errorf("%d in %d: %+v, %v, want %+v", c.file, c.folder, got, err, c.want)
		}
	}
	r.status["/f"].StoragePolicy = proto.Uint32(99)
	if got, err := s.StoragePolicy(t.Context(), "/f"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a policy without a name: %+v, %v", got, err)
	}
	r.status["/"].StoragePolicy = proto.Uint32(2)
	if got, err := s.StoragePolicy(t.Context(), "/"); err != nil || got != (store.StoragePolicy{Name: "COLD", Own: true}) {
		t.Errorf("the root: %+v, %v", got, err)
	}
}

// TestTrack: what cannot be found by its inode is not tracked; where that cannot be told now, it is not said.
func TestTrack(t *testing.T) {
	for _, c := range []struct {
		found uint64 // by the inode 7
		fail  error
		want  error
	}{
		{7, nil, nil}, {8, nil, errors.ErrUnsupported}, {0, nil, errors.ErrUnsupported}, {7, said("security.AccessControlException", "no"), errors.ErrUnsupported},
		{7, &namenode.RemoteError{Class: "java.io.IOException", Message: "Cannot find locations for /.reserved/.inodes/7"}, errors.ErrUnsupported},
		{7, said("hdfs.server.namenode.SafeModeException", "later"), store.ErrUnavailable},
	} {
		s, r := newRecords(t)
		r.status["/f"].FileId = proto.Uint64(7)
		if c.found > 0 {
			r.status["/.reserved/.inodes/7"] = &hproto.FileStatus{FileType: hproto.FileStatus_FILE.Enum(), FileId: &c.found}
		}
		r.inodes = c.fail
		handle, err := s.Track(t.Context(), "/f")
		if !errors.Is(err, c.want) || (err == nil) != (handle == "7") {
			t.Errorf("%+v: %q, %v", c, handle, err)
		}
	}
	s, _ := newRecords(t)
	for _, handle := range []string{"", "0", "-1", "07", "+7", "7/..", "/f", "18446744073709551616"} {
		if _, err := s.Tracked("/f", handle); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%q: %v", handle, err)
		}
	}
	if _, err := s.Tracked("/.reserved/x", "7"); !errors.Is(err, store.ErrName) {
		t.Error(err)
	}
}

// TestProtectOrder: what may be refused comes first, and what is as it should be is not asked for.
func TestProtectOrder(t *testing.T) {
	acl := []string{"group::r--", "user:bob:r--"}
	for _, c := range []struct {
		a     store.Access
		flags uint32
		fail  string
		want  string // calls
	}{
		{store.Access{Owner: "ada", Group: "hopper"}, 0, "", "[setPermission]"},
		{store.Access{Group: "others"}, 0, "", "[setOwner setPermission]"},
		{store.Access{Group: "others"}, 0, "setOwner", "[setOwner]"},
		{store.Access{}, hasACL, "", "[removeAcl setPermission]"},
		{store.Access{Owner: "bob", ACL: acl}, 0, "", "[getAclStatus setOwner setAcl setPermission]"},
		{store.Access{Owner: "bob", ACL: acl}, 0, "setOwner", "[getAclStatus setOwner]"},
		{store.Access{Owner: "bob", ACL: acl}, 0, "getAclStatus", "[getAclStatus]"},
		{store.Access{Owner: "bob", ACL: []string{"user:bob"}}, 0, "", "[]"},
	} {
		s, r := newRecords(t)
		r.status["/f"].Flags = &c.flags
		if c.fail != "" {
			r.fail[c.fail] = said("security.AccessControlException", "no")
		}
		err := s.Protect(t.Context(), "/f", c.a)
		if fmt.Sprint(r.calls) != c.want || c.fail != "" && !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%+v: calls %v, want %s; %v", c.a, r.calls, c.want, err)
		}
	}
}

func FuzzACL(f *testing.F) {
	for _, text := range []string{"user:ada:r-x", "default:group::r--", "mask::rwx", "default:default:x", "user:a:b:rwx", "group::rw", "other::ééé"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := parseACL(text)
		if err != nil {
			if !errors.Is(err, fs.ErrInvalid) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if got := aclText(e); got != text {
			t.Fatalf("%q is read as %q", text, got)
		}
		if _, err := aclOf(store.Access{ACL: []string{text}}); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
	})
}
