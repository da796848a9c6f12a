package live

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"github.com/pluralsh/plural/api/tunnelapi"
)

// place is one kind of object, in one namespace or in all.
type place struct{ group, version, resource, namespace string }

// word is a name that means the same in every path. Longer ones there are none.
var word = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9_.:]{0,252}$`) })

// newPlace checks the parts of a place.
func newPlace(group, version, resource, namespace string) (place, error) {
	if version == "" {
		version = "v1"
	}
	for what, text := range map[string]string{"group": group, "version": version, "resource": resource, "namespace": namespace} {
		optional := what == "group" || what == "namespace"
		if !(optional && text == "") && !word().MatchString(text) {
			return place{}, bad("%s %q is no name", what, clip(text))
		}
	}
	return place{group, version, resource, namespace}, nil
}

// path is where API servers have the place; names may follow.
func (p place) path(names ...string) string {
	segments := []string{"", "apis", p.group, p.version}
	if p.group == "" {
		segments = []string{"", "api", p.version}
	}
	if p.namespace != "" {
		segments = append(segments, "namespaces", p.namespace)
	}
	segments = append(append(segments, p.resource), names...)
	for i := range segments {
		segments[i] = url.PathEscape(segments[i])
	}
	return strings.Join(segments, "/")
}

// request asks an API server about the place, or about what names name below it. It has no host: whoever sends it knows where to.
func (p place) request(ctx context.Context, method string, query url.Values, body io.Reader, names ...string) (*http.Request, error) {
	target := p.path(names...)
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, method, target, body) //nolint:gosec // without a host it leads nowhere by itself
	if err != nil {
		return nil, bad("%v", err)
	}
	return r, nil
}

// placeOf is where an object is one of many.
func placeOf(o *tunnelapi.Object) place {
	return place{o.GetGroup(), o.GetVersion(), o.GetResource(), o.GetNamespace()}
}
