// Package archtest knows the rules that keep the packages of this module apart, and finds what
// breaks them. The rules are checked by its own tests.
package archtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
)

// Module is the import path of this module.
const Module = "github.com/stepahead-io/stepahead"

// A Package is what the rules look at: its place in the module, what it imports and its syntax.
// Test files are not part of it.
type Package struct {
	Path    string   // inside the module, "" for its root: "agent/fetch"
	Name    string   // as its package clause says
	Imports []string // full import paths
	Files   []File
}

// A File is one parsed source file.
type File struct {
	Name      string // without folder
	Generated bool   // says "Code generated ... DO NOT EDIT"
	Syntax    *ast.File
}

// Load reads every package of the module whose root folder is root.
func Load(root string) ([]Package, error) {
	listed, err := list(root, "-e", "./...")
	if err != nil {
		return nil, err
	}
	packages := make([]Package, 0, len(listed))
	for _, l := range listed {
		p, err := l.parse()
		if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
	return packages, nil
}

// Deps returns the import paths of everything that the package at path, inside the module whose
// root folder is root, is built from.
func Deps(root, path string) ([]string, error) {
	listed, err := list(root, "-deps", "./"+path)
	if err != nil {
		return nil, err
	}
	paths := make([]string, 0, len(listed))
	for _, l := range listed {
		paths = append(paths, l.ImportPath)
	}
	return paths, nil
}

// listed is the part of `go list -json` that is used.
type listed struct {
	Dir, ImportPath, Name string
	GoFiles, CgoFiles     []string
	Imports               []string
}

func list(root string, arguments ...string) ([]listed, error) {
	fields := "-json=Dir,ImportPath,Name,GoFiles,CgoFiles,Imports"
	cmd := exec.Command("go", append([]string{"list", fields}, arguments...)...)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return nil, fmt.Errorf("archtest: go list: %w: %s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("archtest: go list: %w", err)
	}
	var all []listed
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var l listed
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("archtest: go list: %w", err)
		}
		all = append(all, l)
	}
}

func (l listed) parse() (Package, error) {
	p := Package{
		Path:    strings.TrimPrefix(strings.TrimPrefix(l.ImportPath, Module), "/"),
		Name:    l.Name,
		Imports: l.Imports,
	}
	set := token.NewFileSet()
	for _, name := range append(append([]string(nil), l.GoFiles...), l.CgoFiles...) {
		syntax, err := parser.ParseFile(set, filepath.Join(l.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return Package{}, fmt.Errorf("archtest: %w", err)
		}
		p.Files = append(p.Files, File{Name: name, Generated: ast.IsGenerated(syntax), Syntax: syntax})
	}
	return p, nil
}

// under reports whether path is root or lies below it.
func under(path, root string) bool {
	return path == root || strings.HasPrefix(path, root+"/")
}

// ours returns the imports of p that belong to this module, as paths inside it.
func (p Package) ours() []string {
	var paths []string
	for _, path := range p.Imports {
		if under(path, Module) {
			paths = append(paths, strings.TrimPrefix(strings.TrimPrefix(path, Module), "/"))
		}
	}
	return paths
}
