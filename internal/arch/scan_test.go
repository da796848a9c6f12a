package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

const module = "github.com/pluralsh/plural"

// nested are modules of their own inside the tree. Each is one room, whatever packages it has.
var nested = []string{"localkube"}

// pkg is one folder of Go files, of all operating systems together.
type pkg struct {
	dir, name string
	docs      []string // the package comments, of which there should be one
	lines     int      // of the program, without what is generated
	code      []string // rooms imported by the program
	tests     []string // rooms imported by test files only
}

// room is the row of the table that a folder belongs to.
func room(dir string) string {
	for _, n := range nested {
		if matches(n+"/...", dir) {
			return n
		}
	}
	return dir
}

// scan reads the package and import clauses of every Go file in the tree.
func scan(fsys fs.FS) ([]*pkg, error) {
	found := make(map[string]*pkg)
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return enter(fsys, name)
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		return add(fsys, name, found)
	})
	if err != nil {
		return nil, err
	}
	for _, p := range found {
		p.code = slices.Compact(slices.Sorted(slices.Values(p.code)))
		p.tests = slices.Compact(slices.Sorted(slices.Values(p.tests)))
		p.tests = slices.DeleteFunc(p.tests, func(r string) bool { return slices.Contains(p.code, r) })
	}
	return slices.SortedFunc(maps.Values(found), func(a, b *pkg) int { return strings.Compare(a.dir, b.dir) }), nil
}

// enter skips what the go command skips too, and modules that are not ours to hold.
func enter(fsys fs.FS, dir string) error {
	base := path.Base(dir)
	if dir == "." || dir == "tools" {
		return nil
	}
	if base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return fs.SkipDir
	}
	if _, err := fs.Stat(fsys, path.Join(dir, "go.mod")); err == nil && !slices.Contains(nested, dir) {
		return fs.SkipDir
	}
	return nil
}

func add(fsys fs.FS, name string, found map[string]*pkg) error {
	src, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return fmt.Errorf("parse %s: %w", name, err)
	}
	dir := path.Dir(name)
	p := found[dir]
	if p == nil {
		p = &pkg{dir: dir}
		found[dir] = p
	}
	if strings.HasSuffix(name, "_test.go") {
		p.tests = append(p.tests, imports(file, dir)...)
		return nil
	}
	if !ast.IsGenerated(file) {
		p.lines += bytes.Count(src, []byte("\n"))
	}
	p.name = file.Name.Name
	p.code = append(p.code, imports(file, dir)...)
	if file.Doc != nil {
		p.docs = append(p.docs, file.Doc.Text())
	}
	return nil
}

// imports returns the rooms that a file of a folder imports, itself left out.
func imports(file *ast.File, dir string) []string {
	var rooms []string
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		within, ours := strings.CutPrefix(imported, module+"/")
		if ours && room(within) != room(dir) {
			rooms = append(rooms, room(within))
		}
	}
	return rooms
}
