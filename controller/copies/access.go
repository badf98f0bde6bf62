package copies

import (
	"io/fs"
	"slices"
	"strings"

	"github.com/stepahead-io/stepahead/store"
)

// private is the mode of a folder that nobody but its owner may enter.
const private fs.FileMode = 0o700

// classes are the bits of owner, group and others that let them through a folder, or read a file.
type classes struct{ owner, group, others fs.FileMode }

var (
	enters = classes{0o100, 0o010, 0o001}
	reads  = classes{0o400, 0o040, 0o004}
)

func (c classes) all() fs.FileMode { return c.owner | c.group | c.others }

// readersOf is who may read a whole checkpoint, as the access of one folder with all of it in it: whom its own folder (of a checkpoint that is one file: the
// file) lets in, less those whom a folder above, a folder in it or a file keeps out. Where that cannot be said with one owner, one group and one list, fewer
// may. Nobody writes but the owner. ok is false where not even the owner may read all.
func readersOf(own store.Access, bits classes, above, folders, files []store.Access) (a store.Access, ok bool) {
	r := readers{Access: store.Access{Owner: own.Owner, Group: own.Group, ACL: entering(accessEntries(own.ACL), bits)}}
	r.owner, r.group, r.others = own.Mode&bits.owner != 0, own.Mode&bits.group != 0, own.Mode&bits.others != 0
	if len(r.ACL) > 0 && !r.group { // the mask keeps all of the list out, who are others without it
		r.ACL, r.others = nil, false
	}
	for _, a := range above {
		r.keepOut(a, enters, false)
	}
	for _, a := range folders {
		r.keepOut(a, enters, true)
	}
	for _, a := range files {
		r.keepOut(a, reads, true)
	}
	return r.access()
}

// readers are those who may read.
type readers struct {
	store.Access         // without Mode
	owner, group, others bool
}

// keepOut leaves those whom a folder or file lets through. inside tells that it may have got its list from the checkpoint's folder.
func (r *readers) keepOut(a store.Access, bits classes, inside bool) {
	list := accessEntries(a.ACL)
	switch {
	case len(list) == 0 && a.Mode&bits.all() == bits.all():
		return
	case inside && a.Owner == r.Owner && a.Group == r.Group && a.Mode&bits.group != 0 && sameList(r.ACL, list, bits),
		len(list) == 0 && len(r.ACL) == 0 && a.Owner == r.Owner && a.Group == r.Group:
		r.owner, r.group, r.others = r.owner && a.Mode&bits.owner != 0, r.group && a.Mode&bits.group != 0, r.others && a.Mode&bits.others != 0
		return
	}
	r.owner = r.owner && a.Owner == r.Owner && a.Mode&bits.owner != 0
	r.group = r.group && len(list) == 0 && len(r.ACL) == 0 && a.Group == r.Group && a.Mode&bits.group != 0
	r.others, r.ACL = false, nil
}

// access is that of a folder that lets in just these.
func (r *readers) access() (store.Access, bool) {
	a := r.Access
	a.Mode = private
	if !r.owner {
		return store.Access{Mode: private}, false
	}
	if r.group {
		a.Mode |= 0o050
	}
	if r.others {
		a.Mode |= 0o005
	}
	return a, true
}

// accessEntries are those of a list that say who may do something, and not what new files get; sorted.
func accessEntries(list []string) (entries []string) {
	for _, e := range list {
		if !strings.HasPrefix(e, "default:") {
			entries = append(entries, e)
		}
	}
	slices.Sort(entries)
	return entries
}

// letsIn tells whether an entry has the right of some classes. name is whose it is.
func letsIn(entry string, bits classes) (name string, in bool) {
	i := strings.LastIndexByte(entry, ':') + 1
	right := "x"
	if bits == reads {
		right = "r"
	}
	return entry[:i], strings.Contains(entry[i:], right)
}

// entering makes the entries of a folder that lets in whom these do.
func entering(list []string, bits classes) (entries []string) {
	for _, e := range list {
		name, in := letsIn(e, bits)
		if in {
			entries = append(entries, name+"r-x")
		} else {
			entries = append(entries, name+"---")
		}
	}
	return entries
}

// sameList tells whether a list below names the same users and groups as that of the folder, and lets through whom that lets in.
func sameList(folder, below []string, bits classes) bool {
	if len(folder) != len(below) {
		return false
	}
	for i := range folder {
		name, in := letsIn(folder[i], enters)
		other, through := letsIn(below[i], bits)
		if name != other || in && !through {
			return false
		}
	}
	return true
}

// sameAccess tells whether two folders have the same owner, group and readers.
func sameAccess(a, b store.Access) bool {
	return a.Owner == b.Owner && a.Group == b.Group && a.Mode == b.Mode && slices.Equal(a.ACL, b.ACL)
}

// offers are the ways to let in those readers, or fewer, from best to last: the owner may not be given away, nor the group, where the controller has no right to.
func offers(a store.Access, ok bool) []store.Access {
	var all []store.Access
	if ok {
		all = append(all, a)
		if a.Group != "" && a.Mode&0o070 != 0 {
			all = append(all, store.Access{Group: a.Group, Mode: a.Mode, ACL: a.ACL})
		}
		if a.Mode&0o055 == 0o055 && len(a.ACL) == 0 {
			all = append(all, store.Access{Mode: a.Mode})
		}
	}
	return append(all, store.Access{Mode: private})
}
