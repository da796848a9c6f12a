// Package schema owns the JSON schemas that an installation repo keeps for editors.
//
// It refuses to know editors, and what the schemas say.
//
// The schemas lie in the repo, so that an editor has them without a network, of the version of the program that wrote the repo's
// files. A file names its schema in a comment of its first line, as yaml-language-server reads it, by a relative path.
package schema

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"

	"github.com/pluralsh/plural/docs"
)

// Folder is where a repo keeps them.
const Folder = ".plural/schema"

// The schemas of what lies in an installation repo.
const (
	Workspace    = "workspace"
	Cluster      = "cluster"
	Source       = "source"
	Service      = "service"
	Installation = "installation"
	Access       = "access"
	Notify       = "notify"
	Package      = "package"
	Views        = "views"
	Seal         = "seal"
)

// marker begins the comment that names a schema.
const marker = "# yaml-language-server: $schema="

// Files are the schemas by their paths in a repo.
func Files() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, name := range []string{Workspace, Cluster, Source, Service, Installation, Access, Notify, Package, Views, Seal} {
		text, err := fs.ReadFile(docs.Schemas(), name+".json")
		if err != nil {
			return nil, fmt.Errorf("read schema: %w", err)
		}
		files[path(name)] = text
	}
	return files, nil
}

func path(name string) string { return Folder + "/" + name + ".json" }

// Line is the first line of a file that names its schema. It is nothing where the repo does not keep that schema, so that no
// editor complains of one that is missing; plural init adds them.
func Line(repo fs.FS, file, name string) []byte {
	if _, err := fs.Stat(repo, path(name)); err != nil {
		return nil
	}
	return []byte(marker + strings.Repeat("../", strings.Count(file, "/")) + path(name) + "\n")
}

// Named is the line of a text that names its schema, when the text begins with it; otherwise nothing.
func Named(text []byte) []byte {
	if !bytes.HasPrefix(text, []byte(marker)) {
		return nil
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	return append(bytes.Clone(line), '\n')
}
