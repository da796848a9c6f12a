package kubeaccess

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/fields"
)

// MaxTarget bounds path with query, in bytes.
const MaxTarget = 16 << 10

// PathError says why a request's target is not passed on: two programs on its way might read it as two different ones.
type PathError struct {
	// Target is the beginning of it, fit to be printed.
	Target     string
	Cause, Fix string
}

// Error has place, cause and fix.
func (e *PathError) Error() string {
	return fmt.Sprintf("request target %s: %s: %s", e.Target, e.Cause, e.Fix)
}

func pathError(target, cause, fix string) *PathError {
	const shown = 80
	if len(target) > shown {
		return &PathError{Target: fmt.Sprintf("%q...", target[:shown]), Cause: cause, Fix: fix}
	}
	return &PathError{Target: fmt.Sprintf("%q", target), Cause: cause, Fix: fix}
}

// Parse says what a request asks for. target is its path and query as the client wrote them, undecoded. Of header only what
// asks for an upgrade is read.
func Parse(method, target string, header http.Header) (Request, error) {
	raw, rawQuery, _ := strings.Cut(target, "?")
	path, err := decode(target, raw)
	if err != nil {
		return Request{}, err
	}
	query, err := parameters(target, rawQuery)
	if err != nil {
		return Request{}, err
	}
	if !knownMethod(method) {
		return Request{}, pathError(target, fmt.Sprintf("method %.20q", method), "use one that the Kubernetes API has")
	}
	q := Request{Verb: strings.ToLower(method), Path: path, Upgrade: upgrades(header)}
	rest, resource := q.locate(path)
	if !resource {
		if q.Upgrade && (q.Verb == "get" || q.Verb == "head") {
			q.Verb = "create" // behind the paths of aggregated APIs are servers that may agree to it
		}
		return q, nil
	}
	if err := q.interpret(method, target, rest, query); err != nil {
		return Request{}, err
	}
	return q, nil
}

func knownMethod(method string) bool {
	return slices.Contains([]string{
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions,
	}, method)
}

// decode undoes the escapes of a path that can be read in one way only.
func decode(target, raw string) (string, error) {
	switch {
	case len(target) > MaxTarget:
		return "", pathError(target, fmt.Sprintf("%d bytes", len(target)), fmt.Sprintf("write at most %d", MaxTarget))
	case !strings.HasPrefix(raw, "/"):
		return "", pathError(target, "does not begin with a slash", "write /api/... or /apis/...")
	}
	for i := range len(target) {
		if c := target[i]; c <= ' ' || c >= 0x7f || c == '#' {
			return "", pathError(target, fmt.Sprintf("byte %q", c), "write it with a percent sign")
		}
	}
	path, err := url.PathUnescape(raw)
	if err != nil {
		return "", pathError(target, "a percent sign without two digits behind it", "write a percent sign as %25")
	}
	if cause := ambiguity(raw, path); cause != "" {
		return "", pathError(target, cause, "write the path that is meant, without it")
	}
	return path, nil
}

// ambiguity says what in a path some programs resolve, and others do not.
func ambiguity(raw, path string) string {
	if cause := hidden(raw); cause != "" {
		return cause
	}
	for i := range len(path) {
		switch c := path[i]; {
		case c < ' ' || c == 0x7f:
			return fmt.Sprintf("the control byte %q", c)
		case c == ';' || c == '\\':
			return fmt.Sprintf("the byte %q", c)
		}
	}
	if !utf8.ValidString(path) {
		return "bytes that are no UTF-8"
	}
	inner := strings.TrimSuffix(path[1:], "/")
	for segment := range strings.SplitSeq(inner, "/") {
		if segment == "." || segment == ".." || segment == "" && path != "/" {
			return fmt.Sprintf("the path segment %q", segment)
		}
	}
	return ""
}

// hidden finds an escape of what must be plain to see: a dot, a slash, or the percent sign of one more escape.
func hidden(raw string) string {
	for rest := raw; ; {
		_, after, found := strings.Cut(rest, "%")
		if !found || len(after) < 2 {
			return ""
		}
		switch escape := strings.ToLower(after[:2]); escape {
		case "2e", "2f", "25":
			return "the escape %" + escape
		}
		rest = after
	}
}

// parameters reads the query. What Go's programs silently leave out of it others may not.
func parameters(target, raw string) (url.Values, error) {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return nil, pathError(target, "a query that cannot be read", "write it as name=value&name=value, with escapes")
	}
	return query, nil
}

// upgrades says whether the headers ask for another protocol.
func upgrades(header http.Header) bool {
	return len(header["Upgrade"]) > 0 && httpguts.HeaderValuesContainsToken(header["Connection"], "upgrade")
}

// locate finds the API in a path, and what is behind it; false when the path is of no resource.
func (q *Request) locate(path string) (rest []string, resource bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		q.Version, rest = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		q.Group, q.Version, rest = parts[1], parts[2], parts[3:]
	default:
		return nil, false
	}
	q.Resource = true
	return rest, true
}

// interpret reads what stands behind the API's version, as the API server does.
func (q *Request) interpret(method, target string, rest []string, query url.Values) error {
	q.Verb = verb(method)
	prefix := rest[0]
	if prefix == "watch" || prefix == "proxy" {
		if rest = rest[1:]; len(rest) == 0 {
			return pathError(target, "no resource behind /"+prefix, "write the resource")
		}
	}
	if rest[0] == "namespaces" && len(rest) > 1 {
		q.Namespace = rest[1]
		if len(rest) > 2 && rest[2] != "status" && rest[2] != "finalize" {
			rest = rest[2:]
		}
	}
	q.Kind = rest[0]
	if len(rest) > 1 {
		q.Name = rest[1]
	}
	if len(rest) > 2 {
		q.Subresource = rest[2]
	}
	switch prefix {
	case "watch":
		q.Verb = "watch"
	case "proxy":
		q.Subresource = "proxy"
	default:
		q.collection(query)
	}
	if q.connects() {
		q.Verb = "create"
	}
	q.Endless = q.Verb == "watch" || q.Subresource == "log" && truth(query["follow"]) || q.Subresource == "proxy"
	return nil
}

func verb(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead:
		return "get"
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	}
	return strings.ToLower(method)
}

// collection changes the verb of what names no object.
func (q *Request) collection(query url.Values) {
	if q.Name != "" {
		return
	}
	switch q.Verb {
	case "get":
		q.Verb = "list"
		if truth(query["watch"]) {
			q.Verb = "watch"
		}
		q.Name = selected(query.Get("fieldSelector"))
	case "delete":
		q.Verb = "deletecollection"
	}
}

// selected is the one object that a field selector lets through, for the record.
func selected(selector string) string {
	if selector == "" {
		return ""
	}
	parsed, err := fields.ParseSelector(selector)
	if err != nil {
		return ""
	}
	name, _ := parsed.RequiresExactMatch("metadata.name")
	if len(content.IsPathSegmentName(name)) > 0 {
		return ""
	}
	return name
}

// truth reads a parameter as the API server does: it is set unless it says that it is not.
func truth(values []string) bool {
	return len(values) > 0 && values[0] != "0" && !strings.EqualFold(values[0], "false")
}

// connects says whether the request opens a connection into a pod, onto a node or a service, or to whatever else an
// aggregated API offers by an upgrade. Any other method keeps its verb: an upgrade that nobody answers changes nothing.
func (q *Request) connects() bool {
	return connection(q.Subresource) || q.Upgrade && q.Verb == "get" && !plain(q.Subresource)
}

func connection(subresource string) bool {
	switch subresource {
	case "exec", "attach", "portforward", "proxy":
		return true
	}
	return false
}

// plain is what an upgrade does not make another thing of: watches and logs may come by websocket too.
func plain(subresource string) bool { return subresource == "" || subresource == "log" }
