// Package docs owns the documentation that is compiled in, with the schemas of what people write.
//
// It refuses to know who reads them. The schemas are generated from the types that the readers of those files fill in, by the
// tests of this package, which also keep both the same.
package docs

import (
	"embed"
	"io/fs"
)

//go:embed schema/*.json spec/*.md
var files embed.FS

// SchemaURL is the folder where editors find the schemas of what lies in no installation repo.
const SchemaURL = "https://raw.githubusercontent.com/pluralsh/plural/main/docs/schema/"

// Schemas are the JSON Schemas, NAME.json each.
func Schemas() fs.FS { return below("schema") }

// Spec is the reference: pages in Markdown, with examples as blocks of YAML.
func Spec() fs.FS { return below("spec") }

func below(folder string) fs.FS {
	sub, err := fs.Sub(files, folder)
	if err != nil {
		panic(err) // the name is a constant
	}
	return sub
}
