package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// mayImport says, for each top-level package, which packages of ours it may import. Children may
// import their parent and what their parent may; a permission covers the children of what it
// names, except those in reserved. What is not listed may import nothing of ours.
var mayImport = map[string][]string{
	"binfmt":               {},
	"binfmt/draft":         {"binfmt", "store"},
	"binfmt/pack":          {"binfmt", "store"},
	"binfmt/foreign":       {"binfmt", "store"},
	"sampler":              {},
	"transform":            {},
	"store":                {"internal/localfile"},
	"hints":                {"internal/auth", "internal/localfile", "internal/recent"},
	"hints/discovery":      {"store"},
	"hints/lifecycle":      {"store"},
	"agent/fetch":          {"transform", "internal/auth"},
	"agent":                {"binfmt", "sampler", "hints", "store", "transform", "agent/fetch", "internal/auth"},
	"checkpoint":           {"hints", "store"},
	"checkpoint/catalogue": {"store", "internal/auth"},
	"checkpoint/nodecache": {"store"},
	"checkpoint/ranges":    {"store"},
	"checkpoint/save":      {"store"},
	"controller":           {"hints", "store", "checkpoint", "internal/auth", "internal/localfile", "internal/recent"},
	"loader":               {"binfmt", "sampler", "hints", "store", "transform", "agent/fetch"},
	"loader/loadertest":    {"binfmt/pack", "store/dir"},
	"pybind":               {"binfmt", "loader", "checkpoint", "hints", "sampler", "transform", "store", "store/dir", "store/hdfs"},
	"internal/auth":        {"internal/localfile"},
	"internal/archtest":    {},
	"internal/localfile":   {},
	"internal/recent":      {},
	"internal/testdata":    {},
	"internal/hdfstest":    {"internal/testdata"},
	"cmd":                  {""},
	"examples":             {""},
	"benchmarks":           {""},
}

// reserved names packages that only some may import, whatever mayImport grants to their parents.
var reserved = []struct {
	path string
	by   []string
	why  string
}{
	{"transform/image", []string{"cmd/stepahead-worker"}, "only worker programs link media libraries: a decoder crash never reaches a daemon"},
	{"transform/video", []string{"cmd/stepahead-worker-av"}, "only worker programs link media libraries: a decoder crash never reaches a daemon"},
	{"transform/audio", []string{"cmd/stepahead-worker-av"}, "only worker programs link media libraries: a decoder crash never reaches a daemon"},
	{"store/address", []string{"cmd", "pybind"}, "only programs and the binding choose a concrete store"},
	{"store/dir", []string{"cmd", "pybind", "store/address", "binfmt/foreign/foreigntest", "loader/loadertest"}, "only programs and the binding choose a concrete store"},
	{"store/hdfs", []string{"cmd", "pybind", "store/address", "benchmarks"}, "only programs and the binding choose a concrete store"},
	{"store/s3", []string{"cmd", "pybind"}, "only programs and the binding choose a concrete store"},
	{"binfmt/draft", []string{"cmd", "binfmt/pack", "binfmt/foreign"}, "training jobs read datasets; only the command writes them"},
	{"binfmt/pack", []string{"cmd", "loader/loadertest"}, "training jobs read datasets; only the command writes them"},
	{"binfmt/foreign", []string{"cmd"}, "training jobs read datasets; only the command indexes them"},
	{"hints/hintspb", []string{"hints"}, "wire types stay with their owner"},
	{"agent/fetch/fetchpb", []string{"agent/fetch"}, "wire types stay with their owner"},
	{"controller/controllerpb", []string{"controller/control", "controller/service"}, "wire types stay with their owner"},
	{"binfmt/draft/drafttest", nil, "test code is not linked into programs"},
	{"binfmt/foreign/foreigntest", nil, "test code is not linked into programs"},
	{"loader/loadertest", nil, "test code is not linked into programs"},
	{"controller/service/servicetest", nil, "test code is not linked into programs"},
	{"store/storetest", nil, "test code is not linked into programs"},
	{"store/hdfs/internal/fakedn", nil, "test code is not linked into programs"},
	{"internal/testdata", []string{"internal/hdfstest"}, "test code is not linked into programs"},
	{"internal/hdfstest", nil, "test code is not linked into programs"},
	{"internal/archtest", nil, "test code is not linked into programs"},
}

// Imports finds imports between packages of ours that the table of rooms does not allow.
func Imports(packages []Package) []string {
	var found []string
	for _, p := range packages {
		for _, path := range p.ours() {
			if why := refuseImport(p.Path, path); why != "" {
				found = append(found, fmt.Sprintf("%s imports %s: %s", p.Path, path, why))
			}
		}
	}
	return found
}

// peers are modules that only measurements beside them may use.
var peers = []string{"github.com/colinmarc/hdfs"}

// Peers finds imports of peers.
func Peers(packages []Package) []string {
	var found []string
	for _, p := range packages {
		for _, path := range p.Imports {
			if coveredBy(path, peers) && !under(p.Path, "benchmarks") {
				found = append(found, fmt.Sprintf("%s imports %s: it is measured against in benchmarks, and linked nowhere else", p.Path, path))
			}
		}
	}
	return found
}

func refuseImport(from, to string) string {
	for _, r := range reserved {
		if under(to, r.path) && !under(from, r.path) && !coveredBy(from, r.by) {
			return r.why
		}
	}
	if to == "agent" && (under(from, "loader") || under(from, "agent/fetch")) {
		return "the wheel must not carry the agent's server; agent/fetch is what loader and agent share"
	}
	room, known := roomOf(from)
	if !known {
		return "the package has no place in the table of rooms: give it one in internal/archtest"
	}
	if coveredBy(to, append(ancestors(from), mayImport[room]...)) || under(to, from) {
		return ""
	}
	return fmt.Sprintf("%s may import %s only", room, strings.Join(mayImport[room], ", "))
}

// roomOf returns the innermost entry of mayImport that path lies in.
func roomOf(path string) (string, bool) {
	for _, p := range slices.Concat([]string{path}, ancestors(path)) {
		if _, ok := mayImport[p]; ok {
			return p, true
		}
	}
	return "", false
}

// ancestors returns the parents of path, innermost first.
func ancestors(path string) []string {
	var parents []string
	for i := strings.LastIndexByte(path, '/'); i > 0; i = strings.LastIndexByte(path[:i], '/') {
		parents = append(parents, path[:i])
	}
	return parents
}

func coveredBy(path string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool { return root == "" || under(path, root) })
}
