package kubeapi

import (
	"mime"
	"net/http"
	"strings"

	"github.com/pluralsh/plural/internal/kubeaccess"
)

// protect says to browsers that nothing from here is a page, a script, or to be guessed at.
func protect(h http.Header) {
	all := [...]string{"nosniff", "default-src 'none'; sandbox; frame-ancestors 'none'", "same-origin"}
	h["X-Content-Type-Options"], h["Content-Security-Policy"], h["Cross-Origin-Resource-Policy"] = all[:1:1], all[1:2:2], all[2:]
}

// answer makes an answer's headers what the client gets. What a cluster says must not act on the hub's own address: no
// cookies, no instructions to browsers, no page that would be shown.
func answer(h http.Header, mount string) http.Header {
	for name := range h {
		if instructs(name) {
			delete(h, name)
		}
	}
	protect(h)
	if page(h.Get("Content-Type")) {
		h.Set("Content-Disposition", "attachment")
	}
	for _, name := range []string{"Location", "Content-Location"} {
		path := h.Get(name)
		h.Del(name)
		if path != "" && oneReading(path) {
			h.Set(name, mount+path)
		}
	}
	return h
}

// oneReading says whether a path is one of the cluster's, however a client resolves it: to "/../prod/api" some add the name of
// the cluster that answers, and go on to another, with the method, the body and the token of whoever asked. It has to be one
// that the hub lets in.
func oneReading(path string) bool {
	_, err := kubeaccess.Parse(http.MethodGet, path, nil)
	return err == nil
}

// instructs says whether a header tells a browser what to do besides showing the answer, or asks people for passwords. What
// cannot be good for anybody does not cross the channel in the first place.
func instructs(name string) bool {
	switch name {
	case "Link", "Report-To", "Reporting-Endpoints", "Nel", "Sourcemap", "X-Sourcemap", "Www-Authenticate":
		return true
	}
	return false
}

// page says whether a browser would show content as something that can run scripts. What cannot be read may be one.
func page(contentType string) bool {
	switch contentType {
	case "": // it is not guessed at: nosniff
		return false
	case "application/json", "application/vnd.kubernetes.protobuf": // nearly all
		return false
	}
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return true
	}
	return kind == "text/html" || kind == "text/xml" || kind == "application/xml" || kind == "application/pdf" ||
		strings.HasSuffix(kind, "+xml") || strings.Contains(kind, "javascript") || strings.HasPrefix(kind, "multipart/")
}
