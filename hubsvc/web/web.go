// Package web owns the files of the hub's page, as the hub's program carries them.
//
// It knows nothing of the fleet and of who looks: the page is the same for everybody, and asks /v1 for what it shows. Its sources are in
// web/ at the top of the repository; `make web` writes what is embedded here. A program that was built without them has no page.
package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
)

//go:embed all:dist
var dist embed.FS

// index is the page itself; the other files are what it loads.
const index = "index.html"

// Policy is what the page may load, run and be shown in. Scripts that somebody else has written into it do not run, and it sends nothing
// elsewhere.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; font-src 'self'; " +
	"manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// places are the first names of the page's addresses.
var places = []string{ //nolint:gochecknoglobals // a list that does not change
	"fleet", "deployments", "clusters", "services", "sources", "packages", "events", "history", "audit", "hub", "me",
}

// file is one that was compressed when it was built.
type file struct {
	kind, tag string
	packed    []byte
	// plain is for readers that do not unpack, which are few.
	plain func() []byte
}

// Page is the files, by name.
type Page struct{ files map[string]*file }

// Open is the page that this program was built with; nil: it was built without one.
func Open() *Page { return open(dist) }

func open(from fs.FS) *Page {
	names, err := fs.Glob(from, "dist/*.gz")
	if err != nil {
		return nil
	}
	p := &Page{files: map[string]*file{}}
	for _, name := range names {
		packed, err := fs.ReadFile(from, name)
		if err != nil {
			return nil
		}
		own := strings.TrimSuffix(path.Base(name), ".gz")
		sum := sha256.Sum256(packed)
		p.files[own] = &file{
			kind: mime.TypeByExtension(path.Ext(own)), tag: `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`,
			packed: packed, plain: sync.OnceValue(func() []byte { return unpacked(packed) }),
		}
	}
	if p.files[index] == nil {
		return nil
	}
	return p
}

// unpacked is what the build has packed.
func unpacked(packed []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return nil
	}
	return text
}

// Routes adds the page's paths to mux.
func (p *Page) Routes(mux *http.ServeMux) {
	page := func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, index) }
	mux.HandleFunc("GET /{$}", page)
	for _, place := range places {
		mux.HandleFunc("GET /"+place, page)
		mux.HandleFunc("GET /"+place+"/", page)
	}
	mux.HandleFunc("GET /assets/{name}", func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, r.PathValue("name")) })
}

// serve answers with a file. What the page loads has a digest in its name, and is good for ever.
func (p *Page) serve(w http.ResponseWriter, r *http.Request, name string) {
	f := p.files[name]
	if f == nil || name == index && strings.HasPrefix(r.URL.Path, "/assets/") {
		http.Error(w, "this is of another version of the page: load the page again", http.StatusNotFound)
		return
	}
	header := w.Header()
	header.Set("Content-Type", f.kind)
	header.Set("ETag", f.tag)
	header.Set("Vary", "Accept-Encoding")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "public, max-age=31536000, immutable")
	if name == index {
		header.Set("Cache-Control", "no-cache")
		header.Set("Content-Security-Policy", Policy)
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Referrer-Policy", "no-referrer")
	}
	if r.Header.Get("If-None-Match") == f.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := f.packed
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		header.Set("Content-Encoding", "gzip")
	} else {
		body = f.plain()
	}
	_, _ = w.Write(body) // a browser that went away asks again
}
