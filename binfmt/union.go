package binfmt

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"sort"
)

// A Member is a dataset of a Union under the name that it has there. One that is alone may have the
// empty name.
type Member struct {
	Name string
	Data *Dataset
}

// A Union is several datasets as one: its samples are those of the first member, then those of the
// second and so on, and so are its bins. It owns nothing: whoever opened the members closes them. All
// methods are safe for concurrent use.
type Union struct {
	members []Member
	samples []uint64 // of each member, the number of the first sample after it
	bins    []int    // likewise of bins
	id      [32]byte
}

// NewUnion returns the union of at least one dataset. It reads nothing.
func NewUnion(members []Member) *Union {
	u := &Union{members: members}
	var samples uint64
	var bins int
	names, ids := make([]string, len(members)), make([][32]byte, len(members))
	for i, m := range members {
		samples += uint64(m.Data.m.Samples())
		bins += len(m.Data.m.Bins)
		u.samples, u.bins = append(u.samples, samples), append(u.bins, bins)
		names[i], ids[i] = m.Name, m.Data.m.Identity()
	}
	u.id = UnionIdentity(names, ids)
	return u
}

// UnionIdentity returns the identity of a union of datasets with these names and identities: of one
// dataset with the empty name, its own; else the SHA-256 of "stepahead union 1\n" and, for each member,
// its name's length as u32le, the name and the 32 bytes of its identity.
func UnionIdentity(names []string, ids [][32]byte) [32]byte {
	if len(names) == 1 && names[0] == "" {
		return ids[0]
	}
	b := []byte("stepahead union 1\n")
	for i, name := range names {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(name)))
		b = append(append(b, name...), ids[i][:]...)
	}
	return sha256.Sum256(b)
}

// BeganAs tells whether a union with identity id, of the first so many members of this one, has the same samples under
// the same numbers: members were added at the end since.
func (u *Union) BeganAs(id [32]byte, members int) bool {
	if members < 1 || members > len(u.members) {
		return false
	}
	names, ids := make([]string, members), make([][32]byte, members)
	for i, m := range u.members[:members] {
		names[i], ids[i] = m.Name, m.Data.m.Identity()
	}
	return UnionIdentity(names, ids) == id
}

// Identity returns what UnionIdentity gives for the members.
func (u *Union) Identity() [32]byte { return u.id }

// Members returns the datasets in their order. The slice must not be changed.
func (u *Union) Members() []Member { return u.members }

// Samples returns the number of samples of all members.
func (u *Union) Samples() uint64 { return u.samples[len(u.samples)-1] }

// Number returns the union's number of a member's sample, which must be one that the member has.
func (u *Union) Number(member int, sample uint64) uint64 { return u.base(member) + sample }

// Own returns whose sample a number is, and which of the member's own.
func (u *Union) Own(number uint64) (member int, sample uint64, err error) {
	i := sort.Search(len(u.samples), func(i int) bool { return number < u.samples[i] })
	if i == len(u.samples) {
		return 0, 0, noSample(number, int64(u.Samples()))
	}
	return i, number - u.base(i), nil
}

// Bin returns whose bin the union's bin n is, and which of the member's own.
func (u *Union) Bin(n int) (member, bin int) {
	i := sort.SearchInts(u.bins, n+1)
	return i, n - u.baseBin(i)
}

func (u *Union) base(member int) uint64 {
	if member == 0 {
		return 0
	}
	return u.samples[member-1]
}

func (u *Union) baseBin(member int) int {
	if member == 0 {
		return 0
	}
	return u.bins[member-1]
}

// Find returns the bin of the union that holds a sample. It opens nothing.
func (u *Union) Find(number uint64) (bin int, err error) {
	m, sample, err := u.Own(number)
	if err != nil {
		return 0, err
	}
	bin, _, err = u.members[m].Data.Find(sample)
	return u.baseBin(m) + bin, err
}

// Part returns where a media field of a sample is; Bin is the union's.
func (u *Union) Part(ctx context.Context, number uint64, field string) (Part, error) {
	m, sample, err := u.Own(number)
	if err != nil {
		return Part{}, err
	}
	p, err := u.members[m].Data.Part(ctx, sample, field)
	p.Bin += u.baseBin(m)
	return p, err
}

// Scalar returns the value of a scalar field of a sample.
func (u *Union) Scalar(ctx context.Context, number uint64, field string) (Value, error) {
	m, sample, err := u.Own(number)
	if err != nil {
		return Value{}, err
	}
	return u.members[m].Data.Scalar(ctx, sample, field)
}

// Key returns the key of a sample in its own dataset.
func (u *Union) Key(ctx context.Context, number uint64) (string, error) {
	m, sample, err := u.Own(number)
	if err != nil {
		return "", err
	}
	return u.members[m].Data.Key(ctx, sample)
}
