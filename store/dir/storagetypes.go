package dir

import (
	"maps"
	"slices"
	"strings"
)

// Types of storage that a node may have.
const (
	typeDisk    = "DISK"
	typeSSD     = "SSD"
	typeArchive = "ARCHIVE"
)

// storagePolicy says on which types of storage replicas go, as HDFS has it.
type storagePolicy struct {
	// types are those of the first replicas, the last of them also that of all others.
	types []string
	// fallback are types that serve where none of those is to be had.
	fallback []string
}

// usualPolicy is in effect where nobody has set one.
const usualPolicy = "HOT"

var storagePolicies = map[string]storagePolicy{
	"HOT":     {[]string{typeDisk}, []string{typeArchive}},
	"WARM":    {[]string{typeDisk, typeArchive}, []string{typeDisk, typeArchive}},
	"COLD":    {[]string{typeArchive}, nil},
	"ONE_SSD": {[]string{typeSSD, typeDisk}, []string{typeSSD, typeDisk}},
	"ALL_SSD": {[]string{typeSSD}, []string{typeDisk}},
}

func policyNames() string { return strings.Join(slices.Sorted(maps.Keys(storagePolicies)), ", ") }

// wanted are the types of n replicas.
func (p storagePolicy) wanted(n int) []string {
	types := make([]string, n)
	for i := range types {
		types[i] = p.types[min(i, len(p.types)-1)]
	}
	return types
}

// without returns a less what is in b, each as often as it is there.
func without(a, b []string) []string {
	left := slices.Clone(a)
	for _, t := range b {
		if i := slices.Index(left, t); i >= 0 {
			left = slices.Delete(left, i, i+1)
		}
	}
	return left
}

// missing are the types of the replicas that make n of those there are.
func (p storagePolicy) missing(n int, have []string) []string {
	return without(p.wanted(n), have)[:max(0, n-len(have))]
}

// excess are the types of replicas that go first where n are to stay.
func (p storagePolicy) excess(n int, have []string) []string { return without(have, p.wanted(n)) }
