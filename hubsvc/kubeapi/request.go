package kubeapi

import (
	"encoding/base64"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/internal/kubeaccess"
)

// maxClusterName is how long a cluster's name in a path may be, in bytes.
const maxClusterName = 253

// destination splits what a client asked for into the cluster and its own target, as they were written. Nothing is decoded:
// a cluster whose name has to be escaped is none.
func destination(r *http.Request) (cluster, target string, ok bool) {
	raw := r.RequestURI
	if !strings.HasPrefix(raw, "/") { // in absolute form, or of a request that was made in this process
		raw = r.URL.RequestURI()
	}
	rest, ok := strings.CutPrefix(raw, Prefix)
	if !ok {
		return "", "", false
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	cluster, target = rest[:end], rest[end:]
	if !strings.HasPrefix(target, "/") {
		target = "/" + target
	}
	return cluster, target, plainName(cluster)
}

// plainName says whether a name has nothing in it that a path would hide.
func plainName(name string) bool {
	if name == "" || len(name) > maxClusterName || name[0] == '.' {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.'
	})
}

// tokenProtocol is the beginning of the subprotocol by which a browser's websocket carries a token.
const tokenProtocol = "base64url.bearer.authorization.k8s.io." // #nosec G101 -- what stands before a token

const (
	protocolHeader = "Sec-Websocket-Protocol"
	bearerPrefix   = "Bearer "
)

// credentials is the request as whoever judges credentials is to see it: a token may come as a websocket's subprotocol, and
// cookies are none. The request itself loses the token.
func credentials(r *http.Request) (*http.Request, bool) {
	if len(r.Header["Cookie"]) == 0 && len(r.Header[protocolHeader]) == 0 {
		return r, len(r.Header["Authorization"]) == 1
	}
	seen := r.Clone(r.Context())
	seen.Header.Del("Cookie")
	var tokens, protocols []string
	for _, value := range r.Header[protocolHeader] {
		for protocol := range strings.SplitSeq(value, ",") {
			protocol = strings.TrimSpace(protocol)
			if encoded, ok := strings.CutPrefix(protocol, tokenProtocol); ok {
				tokens = append(tokens, encoded)
			} else if protocol != "" {
				protocols = append(protocols, protocol)
			}
		}
	}
	if len(tokens) == 0 {
		return seen, len(r.Header["Authorization"]) == 1
	}
	// Without another one to agree on a browser would refuse the answer.
	if len(tokens) > 1 || len(protocols) == 0 || len(r.Header["Authorization"]) > 0 {
		return nil, false
	}
	token, err := base64.RawURLEncoding.DecodeString(tokens[0])
	if err != nil || !httpguts.ValidHeaderFieldValue(string(token)) {
		return nil, false
	}
	seen.Header.Set("Authorization", bearerPrefix+string(token))
	r.Header.Set(protocolHeader, strings.Join(protocols, ", "))
	return seen, true
}

// sameOrigin says whether a request with an Origin comes from a page of this host. Programs send none; a page of another
// host has no business with a connection into a cluster.
func sameOrigin(r *http.Request) bool {
	origins := r.Header["Origin"]
	if len(origins) == 0 {
		return true
	}
	origin, err := url.Parse(origins[0])
	return err == nil && len(origins) == 1 && origin.Host != "" && strings.EqualFold(origin.Host, r.Host) &&
		(origin.Scheme == "https" || origin.Scheme == "http")
}

// upgradable says what is wrong with an upgrade that cannot become a connection.
func upgradable(r *http.Request) *apierrors.StatusError {
	switch {
	case r.ProtoMajor != 1:
		return badRequest("a connection that becomes another protocol needs HTTP/1.1")
	case r.ContentLength != 0:
		return badRequest("a request that becomes another protocol has no body")
	case len(r.Header["Upgrade"]) != 1 || !httpguts.ValidHeaderFieldName(r.Header.Get("Upgrade")) &&
		!strings.EqualFold(r.Header.Get("Upgrade"), "SPDY/3.1"):
		return badRequest("one protocol to become, such as websocket, was expected")
	case !sameOrigin(r):
		return forbidden("connections into clusters are not for pages of other hosts")
	}
	return nil
}

// class says what a request may cost.
func class(q kubeaccess.Request) tunnelapi.Class {
	switch {
	case q.Upgrade:
		return tunnelapi.Class_UPGRADE
	case q.Endless:
		return tunnelapi.Class_WATCH
	}
	return tunnelapi.Class_UNARY
}

// changes says whether a request may leave a cluster other than it was, or shows what is secret there. What oneself may do is asked
// by creating something, and changes nothing.
func changes(q kubeaccess.Request) bool {
	if kubeaccess.Discovery(q) {
		return false
	}
	reading := []string{"get", "list", "watch", "head", "options"}
	return !slices.Contains(reading, q.Verb) || q.Upgrade || q.Kind == "secrets" && q.Group == ""
}

// impersonates says whether a client asks to be somebody else.
func impersonates(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, "Impersonate-") {
			return true
		}
	}
	return false
}

// outgoing are the headers of a request as they are passed on. Those of single hops and of identity are taken out where they
// are put on the wire, and at the agent again.
func outgoing(in http.Header) http.Header {
	out := maps.Clone(in)
	for _, name := range []string{"Authorization", "Origin", "Referer"} {
		delete(out, name)
	}
	return out
}
