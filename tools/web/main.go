// Web bundles the hub's page: it makes hubsvc/web/dist from web/, and web/src/v1.ts from the description of /v1.
//
// The same sources give the same bytes. Names of scripts and styles have a digest of what they hold, so that browsers may keep them for
// good; everything is compressed here, once.
package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "web:", err)
		os.Exit(1)
	}
}

func run() error {
	src := flag.String("src", "../../web", "the page's sources")
	out := flag.String("out", "../../hubsvc/web/dist", "the folder that the hub embeds")
	document := flag.String("types", "", "write src/v1.ts from this openapi.json, and nothing else")
	flag.Parse()
	if *document == "" {
		return bundle(*src, *out)
	}
	description, err := os.ReadFile(*document)
	if err != nil {
		return err
	}
	text, err := types(description)
	if err != nil {
		return fmt.Errorf("%s: %w", *document, err)
	}
	return os.WriteFile(filepath.Join(*src, "src", "v1.ts"), text, 0o644) //nolint:gosec // a source file
}

// bundle writes the page, and removes what was there of one before.
func bundle(src, out string) error {
	root, err := filepath.Abs(src)
	if err != nil {
		return err
	}
	built := api.Build(api.BuildOptions{
		AbsWorkingDir:     root,
		EntryPoints:       []string{"src/main.tsx", "src/style.css"},
		EntryNames:        "[name]-[hash]",
		Outdir:            "/assets", // nothing is written there
		Bundle:            true,
		MinifyWhitespace:  true,
		MinifyIdentifiers: true,
		MinifySyntax:      true,
		Format:            api.FormatESModule,
		Target:            api.ES2022,
		JSX:               api.JSXAutomatic,
		JSXImportSource:   "preact",
		LegalComments:     api.LegalCommentsNone,
		Charset:           api.CharsetUTF8,
		LogLevel:          api.LogLevelWarning,
	})
	if len(built.Errors) > 0 {
		return errors.New("the page cannot be bundled")
	}
	page, err := os.ReadFile(filepath.Join(src, "index.html"))
	if err != nil {
		return err
	}
	if err := clean(out); err != nil {
		return err
	}
	for _, file := range built.OutputFiles {
		name := filepath.Base(file.Path)
		kind, _, _ := strings.Cut(name, "-")
		marker := []byte("{{" + kind + filepath.Ext(name) + "}}")
		if !bytes.Contains(page, marker) {
			return fmt.Errorf("index.html has no place for %s: write %s there", name, marker)
		}
		page = bytes.ReplaceAll(page, marker, []byte("/assets/"+html.EscapeString(name)))
		if err := compress(filepath.Join(out, name), file.Contents); err != nil {
			return err
		}
	}
	return compress(filepath.Join(out, "index.html"), page)
}

// clean removes what an earlier run has made.
func clean(out string) error {
	old, err := filepath.Glob(filepath.Join(out, "*.gz"))
	if err != nil {
		return err
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return os.MkdirAll(out, 0o755) //nolint:gosec // a folder of sources
}

// compress writes a file with .gz behind its name. Its header has no time and no name.
func compress(path string, text []byte) error {
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(path+".gz", packed.Bytes(), 0o644) //nolint:gosec // as git has it
}
