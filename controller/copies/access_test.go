package copies

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/store"
)

// person is somebody in some groups.
type person struct {
	name   string
	groups []string
}

// may tells what a file system lets a person do: the rules of POSIX access control lists, in which the group's bits of the mode are the mask of a list.
func may(p person, a store.Access, bit fs.FileMode) bool {
	letter := map[fs.FileMode]string{1: "x", 4: "r"}[bit]
	if p.name == a.Owner {
		return a.Mode&(bit<<6) != 0
	}
	mask := a.Mode&(bit<<3) != 0
	list := accessEntries(a.ACL)
	for _, e := range list {
		if rights, ok := strings.CutPrefix(e, "user:"+p.name+":"); ok {
			return mask && strings.Contains(rights, letter)
		}
	}
	in := false
	if slices.Contains(p.groups, a.Group) {
		in = true
		if len(list) == 0 && mask {
			return true
		}
	}
	for _, e := range list {
		parts := strings.Split(e, ":")
		if parts[0] != "group" {
			continue
		}
		if of := parts[1]; of == "" && slices.Contains(p.groups, a.Group) || of != "" && slices.Contains(p.groups, of) {
			in = true
			if mask && strings.Contains(parts[2], letter) {
				return true
			}
		}
	}
	return !in && a.Mode&bit != 0
}

// TestReaders: whoever may read a file of the copy may read all of the original; and where nothing but the folder says who, all of these may read the copy.
func TestReaders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var people []person
		for _, name := range []string{"ann", "bob", "eve"} {
			people = append(people, person{name, rapid.SliceOfDistinct(rapid.SampledFrom([]string{"g", "h"}), rapid.ID[string]).Draw(t, "groups")})
		}
		rights := rapid.SampledFrom([]string{"r-x", "---", "rwx", "r--", "--x"})
		list := rapid.Custom(func(t *rapid.T) (acl []string) {
			if rapid.IntRange(0, 2).Draw(t, "list") > 0 {
				return nil
			}
			acl = append(acl, "group::"+rights.Draw(t, "rights"))
			for _, who := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"user:eve", "user:bob", "group:h"}), rapid.ID[string]).Draw(t, "who") {
				acl = append(acl, who+":"+rights.Draw(t, "rights"))
			}
			slices.Sort(acl)
			return append(acl, "default:user:eve:rwx")
		})
		access := rapid.Custom(func(t *rapid.T) store.Access {
			mode := rapid.SampledFrom([]fs.FileMode{0o777, 0o755, 0o750, 0o700, 0o644, 0o640, 0o600, 0o705, 0o070, 0o711, 0o444, 0o005, 0})
			return store.Access{
				Owner: rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "owner"), Group: rapid.SampledFrom([]string{"g", "h"}).Draw(t, "group"),
				Mode: mode.Draw(t, "mode"), ACL: list.Draw(t, "acl"),
			}
		})
		own := access.Draw(t, "own")
		like := rapid.Custom(func(t *rapid.T) store.Access { // most often as the folder itself
			if rapid.IntRange(0, 2).Draw(t, "other") > 0 {
				a := own
				a.Mode = rapid.SampledFrom([]fs.FileMode{own.Mode, own.Mode &^ 0o111, 0o777}).Draw(t, "mode")
				return a
			}
			return access.Draw(t, "access")
		})
		some := func(what string) []store.Access { return rapid.SliceOfN(like, 0, 2).Draw(t, what) }
		bits, bit := enters, fs.FileMode(1)
		if rapid.Bool().Draw(t, "one file") {
			bits, bit = reads, 4
		}
		above, folders, files := some("above"), some("folders"), some("files")
		got, ok := readersOf(own, bits, above, folders, files)
		for _, offer := range offers(got, ok) {
			if offer.Owner == "" {
				offer.Owner = "controller"
			}
			if offer.Group == "" {
				offer.Group = "controllers"
			}
			for _, p := range people {
				original := may(p, own, bit)
				for _, a := range slices.Concat(above, folders) {
					original = original && may(p, a, 1)
				}
				for _, a := range files {
					original = original && may(p, a, 4)
				}
				if may(p, offer, 1) && !original {
					t.Fatalf("%+v may read the copy with %+v, and not the original", p, offer)
				}
				masked := len(accessEntries(own.ACL)) > 0 && own.Mode&(bit<<3) == 0
				if len(above)+len(folders)+len(files) == 0 && ok && !masked && offer.Owner == own.Owner && !may(p, offer, 1) && original {
					t.Fatalf("%+v may not read the copy with %+v", p, offer)
				}
			}
			if offer.Mode&0o022 != 0 {
				t.Fatalf("others may write: %+v", offer)
			}
		}
	})
}
