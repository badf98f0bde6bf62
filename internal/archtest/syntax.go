package archtest

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
)

// drawers are package names that say nothing about what the package knows.
var drawers = []string{"util", "utils", "common", "base", "core", "types", "helper", "helpers", "misc", "shared"}

// rims are the packages that may read flags and the environment, and configure the log.
var rims = []string{"cmd", "pybind", "internal/testdata", "internal/archtest", "internal/hdfstest/minihdfs", "examples", "benchmarks", "binfmt/draft/drafttest"}

// cgoRooms are the packages that may use cgo; everything else is pure Go. The worker program bounds the stacks of its
// threads before the Go runtime starts, which only C can do.
var cgoRooms = []string{"transform/image", "transform/video", "transform/audio", "cmd/stepahead-worker", "pybind"}

// PackageComments finds packages without a package comment, or with more than one.
func PackageComments(packages []Package) []string {
	var found []string
	for _, p := range packages {
		n := 0
		for _, f := range p.Files {
			if f.Syntax.Doc != nil && !f.Generated {
				n++
			}
		}
		if n != 1 && !p.generated() {
			found = append(found, fmt.Sprintf("%s has %d package comments: one sentence, in one file, says what it knows", p.Path, n))
		}
	}
	return found
}

// Names finds packages named for a drawer.
func Names(packages []Package) []string {
	var found []string
	for _, p := range packages {
		if slices.Contains(drawers, p.Name) || slices.Contains(drawers, path.Base(p.Path)) {
			found = append(found, fmt.Sprintf("%s is named for a drawer: name it for what it knows", p.Path))
		}
	}
	return found
}

// Inits finds hand-written init functions.
func Inits(packages []Package) []string {
	return eachFile(packages, func(p Package, f File) []string {
		for _, decl := range f.Syntax.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				return []string{"has an init function: importing a package does nothing; register by hand in cmd or pybind"}
			}
		}
		return nil
	})
}

// Rims finds packages away from the rim that read the environment or flags, or configure the log.
func Rims(packages []Package) []string {
	calls := map[string][]string{
		"os":              {"Getenv", "LookupEnv", "Environ", "ExpandEnv", "Args"},
		"go.uber.org/zap": {"NewProduction", "NewDevelopment", "NewExample", "ReplaceGlobals", "L", "S"},
	}
	return eachFile(packages, func(p Package, f File) []string {
		if coveredBy(p.Path, rims) {
			return nil
		}
		var found []string
		for _, path := range []string{"flag", "github.com/spf13/cobra", "github.com/spf13/pflag"} {
			if importName(f, path) != "" {
				found = append(found, "imports "+path+": only programs read flags, others take options")
			}
		}
		for path, names := range calls {
			for _, used := range selectorsOf(f, path) {
				if slices.Contains(names, used) {
					found = append(found, fmt.Sprintf("uses %s.%s: only programs and the binding read the environment or configure the log", path, used))
				}
			}
		}
		return found
	})
}

// localRooms are the packages whose files on this host are named by whoever starts a program, or hold what must survive a crash.
var localRooms = []string{"cmd/daemon", "cmd/sites", "cmd/stepahead-agent", "cmd/stepahead-controller", "controller", "hints", "internal/auth", "store/address", "store/hdfs"}

// LocalFiles finds files of this host that are opened without looking what they are, or given their content without making it durable.
func LocalFiles(packages []Package) []string {
	calls := []string{"Open", "OpenFile", "ReadFile", "WriteFile", "Create", "Rename"}
	return eachFile(packages, func(p Package, f File) []string {
		if !coveredBy(p.Path, localRooms) {
			return nil
		}
		var found []string
		for _, used := range selectorsOf(f, "os") {
			if slices.Contains(calls, used) {
				found = append(found, fmt.Sprintf("uses os.%s: internal/localfile refuses what could be waited for for ever, and writes so that a crash leaves no half", used))
			}
		}
		return found
	})
}

// Cgo finds uses of cgo outside the rooms that may link C.
func Cgo(packages []Package) []string {
	return eachFile(packages, func(p Package, f File) []string {
		if importName(f, "C") == "" || coveredBy(p.Path, cgoRooms) {
			return nil
		}
		return []string{"uses cgo: only worker codecs and the binding link C"}
	})
}

// pureRooms are the packages that hold nothing but decisions.
var pureRooms = []string{"sampler", "controller/plan"}

// PureDecisions finds clocks, goroutines and I/O in files that hold decisions: all of pureRooms, and every plan.go.
func PureDecisions(packages []Package) []string {
	impure := []string{"os", "net", "net/http", "os/exec", "syscall", "golang.org/x/sys/unix", "math/rand", "math/rand/v2"}
	return eachFile(packages, func(p Package, f File) []string {
		if !slices.Contains(pureRooms, p.Path) && f.Name != "plan.go" {
			return nil
		}
		var found []string
		for _, path := range impure {
			if importName(f, path) != "" {
				found = append(found, "imports "+path+": a decision is a pure function of its arguments")
			}
		}
		for _, used := range selectorsOf(f, "time") {
			if slices.Contains([]string{"Now", "Since", "Until", "After", "Sleep", "Tick", "NewTimer", "NewTicker", "AfterFunc"}, used) {
				found = append(found, "uses time."+used+": a decision takes the time as an argument")
			}
		}
		if p.Path == "sampler" && importName(f, "time") != "" {
			found = append(found, "imports time: the order is a pure function of the spec")
		}
		if hasGo(f) {
			found = append(found, "starts a goroutine: decisions do not")
		}
		return found
	})
}

// Goroutines finds what starts goroutines, go statements and calls of a group's method Go, in files
// that do not own goroutines. owners lists the files that do, or whole folders, as paths inside the
// module, each with the reason.
func Goroutines(packages []Package, owners map[string]string) []string {
	return eachFile(packages, func(p Package, f File) []string {
		file := path.Join(p.Path, f.Name)
		owned := func(path string) bool { return owners[path] != "" }
		if !hasGo(f) || slices.ContainsFunc(append(ancestors(file), file), owned) {
			return nil
		}
		return []string{"starts a goroutine and is not listed as an owner of goroutines"}
	})
}

func (p Package) generated() bool {
	return len(p.Files) > 0 && !slices.ContainsFunc(p.Files, func(f File) bool { return !f.Generated })
}

func eachFile(packages []Package, check func(Package, File) []string) []string {
	var found []string
	for _, p := range packages {
		for _, f := range p.Files {
			if f.Generated {
				continue
			}
			for _, message := range check(p, f) {
				found = append(found, fmt.Sprintf("%s %s", path.Join(p.Path, f.Name), message))
			}
		}
	}
	return found
}

// importName returns the name under which f imports path, or "".
func importName(f File, importPath string) string {
	for _, spec := range f.Syntax.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err != nil || p != importPath {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return importPath[strings.LastIndexByte(importPath, '/')+1:]
	}
	return ""
}

// selectorsOf returns the names that f uses of the package at importPath.
func selectorsOf(f File, importPath string) []string {
	name := importName(f, importPath)
	if name == "" {
		return nil
	}
	var used []string
	ast.Inspect(f.Syntax, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == name {
				used = append(used, s.Sel.Name)
			}
		}
		return true
	})
	return used
}

// hasGo tells whether f starts goroutines: by a go statement, or by the method Go of a sync.WaitGroup,
// an errgroup.Group or whatever else has one. Types are not resolved, so the name alone decides.
func hasGo(f File) bool {
	found := false
	ast.Inspect(f.Syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.CallExpr:
			method, ok := n.Fun.(*ast.SelectorExpr)
			found = found || ok && method.Sel.Name == "Go"
		}
		return !found
	})
	return found
}
