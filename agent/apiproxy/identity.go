package apiproxy

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/pluralsh/plural/api/httpstream"
	"github.com/pluralsh/plural/api/tunnelapi"
)

const (
	// maxNames bounds groups, and values of extra; maxName one of them, in bytes.
	maxNames = 500
	maxName  = 1 << 10
	// requestID is the extra by which the cluster's own audit log names an exchange.
	requestID = "plural.sh/request-id"
	// extraKeys begins the keys of all extras: others mean something to clusters.
	extraKeys = "plural.sh/"
)

// doubt says why an identity is not one to impersonate in this cluster; empty: it is.
func (h *Handler) doubt(who *tunnelapi.Identity) string {
	switch {
	case who == nil:
		return "the request came without an identity"
	case who.GetCluster() != h.cluster:
		return fmt.Sprintf("the identity is for cluster %.100q, and this is %q", who.GetCluster(), h.cluster)
	case !h.now().Before(time.UnixMilli(who.GetExpiresUnixMs())):
		return "the identity has expired"
	case len(who.GetGroups()) > maxNames || len(who.GetExtra()) > maxNames:
		return fmt.Sprintf("the identity has more than %d groups or extras", maxNames)
	case who.GetUid() != "" && !plain(who.GetUid()):
		return "the identity's uid is not valid"
	}
	if cause := doubtName(who.GetUser()); cause != "" {
		return cause
	}
	for _, name := range who.GetGroups() {
		if cause := doubtName(name); cause != "" {
			return cause
		}
	}
	return doubtExtra(who.GetExtra())
}

func doubtName(name string) string {
	bare, ok := strings.CutPrefix(name, tunnelapi.Prefix)
	switch {
	case !ok || bare == "":
		return fmt.Sprintf("the identity has the name %.100q, which does not begin with %q", name, tunnelapi.Prefix)
	case strings.HasPrefix(strings.ToLower(bare), "system:"):
		return fmt.Sprintf("the identity has the name %.100q, which is Kubernetes' own", name)
	case !plain(name):
		return fmt.Sprintf("the identity has the name %.100q, which is not valid", name)
	}
	return ""
}

func doubtExtra(extra []*tunnelapi.Extra) string {
	for _, e := range extra {
		key := e.GetKey()
		if !strings.HasPrefix(key, extraKeys) || key == requestID || !plain(key) || key != strings.ToLower(key) {
			return fmt.Sprintf("the identity has the extra %.100q, which is not for the hub to set", key)
		}
		if len(e.GetValues()) > maxNames || slices.ContainsFunc(e.GetValues(), func(v string) bool { return !plain(v) }) {
			return fmt.Sprintf("the identity's extra %.100q is not valid", key)
		}
	}
	return ""
}

// plain says whether a value arrives in a header as it was sent.
func plain(s string) bool {
	return s != "" && len(s) <= maxName && httpguts.ValidHeaderFieldValue(s) && strings.TrimSpace(s) == s
}

// impersonate sets who asks. Nothing of the kind is in the header before.
func impersonate(header http.Header, call httpstream.Call) {
	who := call.Identity
	header["Impersonate-User"] = []string{who.GetUser()}
	if len(who.GetGroups()) > 0 {
		header["Impersonate-Group"] = slices.Clone(who.GetGroups())
	}
	if who.GetUid() != "" {
		header["Impersonate-Uid"] = []string{who.GetUid()}
	}
	for _, e := range who.GetExtra() {
		name := extraHeader(e.GetKey())
		header[name] = append(header[name], e.GetValues()...)
	}
	header[extraHeader(requestID)] = []string{call.ID}
	header["Audit-Id"] = []string{call.ID}
}

const hexDigits = "0123456789ABCDEF"

// extraHeader is the header of an extra: what a header's name cannot hold is written as in a URL.
func extraHeader(key string) string {
	var name strings.Builder
	name.WriteString("Impersonate-Extra-")
	for i := range len(key) {
		if c := key[i]; c == '%' || !httpguts.IsTokenRune(rune(c)) {
			name.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
		} else {
			name.WriteByte(c)
		}
	}
	return http.CanonicalHeaderKey(name.String())
}
