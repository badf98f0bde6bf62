package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

// hasACL is the flag of a FileStatus.
const hasACL = uint32(hproto.FileStatus_HAS_ACL)

// Access implements store.Protector. ACL has entries as hdfs dfs -setfacl takes them, such as "user:ada:r-x" or "default:group::r--", without
// those that Mode says: of a file with an ACL the group's bits of Mode are the mask. It is nil where the cluster keeps none
// (dfs.namenode.acls.enabled).
func (s *Store) Access(ctx context.Context, name string) (a store.Access, err error) {
	err = s.at(ctx, "Access", name, func(path string) error {
		a, err = s.access(ctx, path)
		return err
	})
	return a, err
}

func (s *Store) access(ctx context.Context, path string) (store.Access, error) {
	status, err := s.status(ctx, path)
	if err != nil {
		return store.Access{}, err
	}
	a := store.Access{Owner: status.GetOwner(), Group: status.GetGroup(), Mode: modeOf(status.GetPermission().GetPerm())}
	if status.GetFlags()&hasACL == 0 {
		return a, nil
	}
	acl, err := s.places.GetAclStatus(ctx, path)
	if err != nil {
		if err = aclError(err); errors.Is(err, errors.ErrUnsupported) {
			return a, nil
		}
		return store.Access{}, err
	}
	for _, e := range acl.GetEntries() {
		a.ACL = append(a.ACL, aclText(e))
	}
	slices.Sort(a.ACL)
	return a, nil
}

func modeOf(bits uint32) fs.FileMode {
	mode := fs.FileMode(bits) & fs.ModePerm
	if bits&0o1000 != 0 {
		mode |= fs.ModeSticky
	}
	return mode
}

// Protect implements store.Protector. Only superusers give owners away; groups are given by owners who belong to them. A cluster that keeps no
// ACLs is errors.ErrUnsupported where some are asked for, and nothing is changed.
func (s *Store) Protect(ctx context.Context, name string, a store.Access) error {
	return s.at(ctx, "Protect", name, func(path string) error { return s.protect(ctx, path, a) })
}

func (s *Store) protect(ctx context.Context, path string, a store.Access) error {
	entries, err := aclOf(a)
	if err != nil {
		return err
	}
	now, err := s.status(ctx, path)
	if err != nil {
		return err
	}
	if entries != nil {
		if _, err := s.places.GetAclStatus(ctx, path); err != nil {
			return aclError(err)
		}
	}
	// First what may be refused. What is as it should be is not asked for: a group can be one that its owner may not give.
	owner, group := unless(a.Owner, now.GetOwner()), unless(a.Group, now.GetGroup())
	if owner != "" || group != "" {
		if err := s.places.SetOwner(ctx, path, owner, group); err != nil {
			return err
		}
	}
	switch {
	case entries != nil:
		err = aclError(s.places.SetAcl(ctx, path, entries))
	case now.GetFlags()&hasACL != 0:
		err = aclError(s.places.RemoveAcl(ctx, path))
	}
	if err != nil {
		return err
	}
	return s.places.SetPermission(ctx, path, a.Mode)
}

// unless is what is wanted, or "" where it is so already.
func unless(want, now string) string {
	if want == now {
		return ""
	}
	return want
}

// aclError recognises a cluster that keeps no ACLs.
func aclError(err error) error {
	var remote *namenode.RemoteError
	if !errors.As(err, &remote) || !strings.HasSuffix(remote.Class, ".AclException") {
		return err
	}
	if strings.Contains(remote.Message, "Support for ACLs has been disabled") {
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	return fmt.Errorf("%w: %w", fs.ErrInvalid, err)
}

// aclOf is the whole access control list, with the entries that the mode says; nil where there is none.
func aclOf(a store.Access) ([]*hproto.AclEntry, error) {
	if len(a.ACL) == 0 {
		return nil, nil
	}
	bits := func(shift int) *uint32 { return proto.Uint32(uint32(a.Mode.Perm()) >> shift & 7) }
	access := hproto.AclEntry_ACCESS.Enum()
	entries := []*hproto.AclEntry{
		{Type: hproto.AclEntry_USER.Enum(), Scope: access, Permissions: bits(6)},
		{Type: hproto.AclEntry_MASK.Enum(), Scope: access, Permissions: bits(3)},
		{Type: hproto.AclEntry_OTHER.Enum(), Scope: access, Permissions: bits(0)},
	}
	group, named := false, false
	for _, text := range a.ACL {
		e, err := parseACL(text)
		if err != nil {
			return nil, err
		}
		if e.GetScope() == hproto.AclEntry_ACCESS {
			unnamed := e.GetType() == hproto.AclEntry_GROUP && e.GetName() == ""
			group, named = group || unnamed, true
		}
		entries = append(entries, e)
	}
	if !named { // default entries alone: the access is the mode, without a mask
		entries = slices.Delete(entries, 1, 2)
	}
	if !group {
		entries = append(entries, &hproto.AclEntry{Type: hproto.AclEntry_GROUP.Enum(), Scope: access, Permissions: bits(3)})
	}
	return entries, nil
}

var aclTypes = []string{hproto.AclEntry_USER: "user", hproto.AclEntry_GROUP: "group", hproto.AclEntry_MASK: "mask", hproto.AclEntry_OTHER: "other"}

const aclDefault = "default:"

func aclText(e *hproto.AclEntry) string {
	text := ""
	if e.GetScope() == hproto.AclEntry_DEFAULT {
		text = aclDefault
	}
	rights := []byte("rwx")
	for i := range rights {
		if e.GetPermissions()>>(2-i)&1 == 0 {
			rights[i] = '-'
		}
	}
	return fmt.Sprintf("%s%s:%s:%s", text, aclTypes[e.GetType()], e.GetName(), rights)
}

func parseACL(text string) (*hproto.AclEntry, error) {
	e := &hproto.AclEntry{Scope: hproto.AclEntry_ACCESS.Enum(), Permissions: new(uint32)}
	rest, ok := strings.CutPrefix(text, aclDefault)
	if ok {
		e.Scope = hproto.AclEntry_DEFAULT.Enum()
	}
	parts := strings.Split(rest, ":")
	if len(parts) == 3 {
		if i := slices.Index(aclTypes, parts[0]); i >= 0 {
			e.Type = hproto.AclEntry_Type(i).Enum()
		}
		if parts[1] != "" {
			e.Name = &parts[1]
		}
		for i, c := range parts[2] {
			if len(parts[2]) == 3 && rune("rwx"[i]) == c {
				*e.Permissions |= 4 >> i
			}
		}
	}
	if e.Type == nil || aclText(e) != text {
		return nil, fmt.Errorf("%w: ACL entry %.128q: write for example user:ada:r-x or default:group::r--", fs.ErrInvalid, text)
	}
	return e, nil
}
