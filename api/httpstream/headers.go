package httpstream

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"
	"google.golang.org/grpc/codes"

	"github.com/pluralsh/plural/api/tunnelapi"
)

const (
	// maxFields bounds the headers of one head: many short ones cost more than their bytes.
	maxFields = 1000
	// maxNamed bounds what Connection may say, in bytes: each header is looked for there.
	maxNamed = 1 << 10
)

// Request is what of a request's headers crosses the channel: neither what is for a single hop, nor what says who asks or
// from where. Duplicates stay, and stay in order. The error is an *Error.
func Request(h http.Header) ([]*tunnelapi.Header, error) { return toWire(h, asking) }

// Response is what of an answer's headers crosses the channel: nothing for a single hop, and nothing by which a cluster
// could speak to a browser for the hub's whole origin, or to a proxy before it. The error is an *Error.
func Response(h http.Header) ([]*tunnelapi.Header, error) { return toWire(h, answering) }

// CleanRequest removes from h what Request leaves out.
func CleanRequest(h http.Header) error { return clean(h, asking) }

// Upgrade is the protocol that a head asks, or agrees, to switch to; empty: none.
func Upgrade(h http.Header) string {
	token := h["Upgrade"]
	if len(token) != 1 || !validToken(token[0]) || !httpguts.HeaderValuesContainsToken(h["Connection"], "Upgrade") {
		return ""
	}
	return token[0]
}

// validToken says whether s can name a protocol, such as "SPDY/3.1".
func validToken(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool { return r != '/' && !httpguts.IsTokenRune(r) })
}

func setUpgrade(h http.Header, token string) {
	h["Connection"], h["Upgrade"] = []string{"Upgrade"}, []string{token}
}

// side is whose headers are looked at.
type side int

const (
	asking side = iota
	answering
)

// drops says whether a header stays behind, by its name in lower case with dashes for underscores.
func (s side) drops(name string) bool {
	if s == asking {
		return dropsRequest(name)
	}
	return dropsResponse(name)
}

func dropsRequest(name string) bool {
	switch name {
	case "authorization", "cookie", "cookie2", "forwarded", "via", "x-real-ip", "expect", "host":
		return true
	}
	return singleHop(name)
}

func dropsResponse(name string) bool {
	switch name {
	case "set-cookie", "set-cookie2", "refresh", "alt-svc", "clear-site-data", "strict-transport-security",
		"public-key-pins", "service-worker-allowed":
		return true
	}
	return strings.HasPrefix(name, "access-control-") || steers(name) || singleHop(name)
}

// steers says of an answer's header that it is an order to a proxy or cache that stands before the hub: to answer with another
// resource of its own, or to keep this one for others.
func steers(name string) bool {
	switch name {
	case "x-sendfile", "x-lighttpd-send-file", "x-reproxy-url", "surrogate-control", "cdn-cache-control", "edge-control":
		return true
	}
	return strings.HasPrefix(name, "x-accel-") || strings.HasPrefix(name, "x-litespeed-")
}

// singleHop is for both directions. The length goes beside the headers.
func singleHop(name string) bool {
	switch name {
	case "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "http2-settings", "content-length":
		return true
	}
	return strings.HasPrefix(name, "impersonate-") || strings.HasPrefix(name, "x-remote-") ||
		strings.HasPrefix(name, "x-forwarded-") || strings.HasPrefix(name, "proxy-") || strings.HasPrefix(name, "plural-")
}

// inspection is the judgement of one head's headers.
type inspection struct {
	side side
	// named are the values of Connection, which names more headers that are for this hop.
	named  []string
	fields int
	bytes  int
}

func inspect(h http.Header, s side) (inspection, error) {
	i := inspection{side: s}
	for name, values := range h {
		if strings.EqualFold(name, "Connection") {
			i.named = append(i.named, values...)
		}
	}
	length := 0
	for _, v := range i.named {
		length += len(v)
	}
	if length > maxNamed {
		return i, &Error{Code: codes.InvalidArgument, Message: fmt.Sprintf("header \"Connection\" is longer than %d bytes", maxNamed)}
	}
	return i, nil
}

// keep gives what crosses of one name's values. What does not is counted as well.
func (i *inspection) keep(name string, values []string) ([]string, error) {
	if !httpguts.ValidHeaderFieldName(name) {
		return nil, &Error{Code: codes.InvalidArgument, Message: fmt.Sprintf("header name %.40q is not valid", name)}
	}
	for _, v := range values {
		i.fields++
		i.bytes += len(name) + len(v)
	}
	if i.fields > maxFields || i.bytes > tunnelapi.MaxHeaders {
		return nil, tooMany()
	}
	if i.stays(name) || httpguts.HeaderValuesContainsToken(i.named, name) {
		return nil, nil
	}
	switch http.CanonicalHeaderKey(name) {
	case "Location", "Content-Location":
		values = slices.DeleteFunc(slices.Clone(values), leadsElsewhere)
	case "Sec-Websocket-Protocol":
		values = withoutBearer(values)
	}
	for _, v := range values {
		if !httpguts.ValidHeaderFieldValue(v) || !utf8.ValidString(v) {
			return nil, &Error{Code: codes.InvalidArgument, Message: fmt.Sprintf("the value of header %.40q is not valid", name)}
		}
	}
	return values, nil
}

func tooMany() *Error {
	return &Error{
		Code:    codes.InvalidArgument,
		Message: fmt.Sprintf("the headers are more than %d, or more than %d bytes: send less", maxFields, tunnelapi.MaxHeaders),
	}
}

// stays folds the name without allocating; no name that is dropped is longer than the buffer.
func (i *inspection) stays(name string) bool {
	var folded [64]byte
	n := min(len(name), len(folded))
	for at := range n {
		switch c := name[at]; {
		case 'A' <= c && c <= 'Z':
			folded[at] = c + 'a' - 'A'
		case c == '_':
			folded[at] = '-'
		default:
			folded[at] = c
		}
	}
	return i.side.drops(string(folded[:n]))
}

// leadsElsewhere is said of everything but a path on the same host.
func leadsElsewhere(location string) bool {
	return !strings.HasPrefix(location, "/") || strings.HasPrefix(location, "//") || strings.ContainsAny(location, "\\\t\r\n")
}

// bearerProtocol begins what a browser offers as a WebSocket protocol to carry a token, for want of headers.
const bearerProtocol = "base64url.bearer.authorization.k8s.io." //nolint:gosec // names a place for tokens, is none

func withoutBearer(values []string) []string {
	if !slices.ContainsFunc(values, func(v string) bool { return strings.Contains(strings.ToLower(v), bearerProtocol) }) {
		return values
	}
	var kept []string
	for _, v := range values {
		for protocol := range strings.SplitSeq(v, ",") {
			protocol = strings.Trim(protocol, " \t")
			if protocol != "" && !strings.HasPrefix(strings.ToLower(protocol), bearerProtocol) {
				kept = append(kept, protocol)
			}
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return []string{strings.Join(kept, ", ")}
}

func toWire(h http.Header, s side) ([]*tunnelapi.Header, error) {
	i, err := inspect(h, s)
	if err != nil {
		return nil, err
	}
	fields := 0
	for _, values := range h {
		fields += len(values)
	}
	if fields > maxFields {
		return nil, tooMany()
	}
	all, list := make([]tunnelapi.Header, fields), make([]*tunnelapi.Header, 0, fields)
	for name, values := range h {
		values, err := i.keep(name, values)
		if err != nil {
			return nil, err
		}
		for _, v := range values {
			field := &all[len(list)]
			field.Name, field.Value = name, v
			list = append(list, field)
		}
	}
	return list, nil
}

func clean(h http.Header, s side) error {
	i, err := inspect(h, s)
	if err != nil {
		return err
	}
	for name, values := range h {
		kept, err := i.keep(name, values)
		if err != nil {
			return err
		}
		if len(kept) == 0 {
			delete(h, name)
		} else {
			h[name] = kept
		}
	}
	return nil
}

// fromWire does not trust the other end to have left out what it must.
func fromWire(list []*tunnelapi.Header, s side) (http.Header, error) {
	if len(list) > maxFields {
		return nil, tooMany()
	}
	h, all := make(http.Header, len(list)+2), make([]string, len(list))
	for i, field := range list {
		name := http.CanonicalHeaderKey(field.GetName())
		if values := h[name]; values != nil {
			h[name] = append(values, field.GetValue())
			continue
		}
		all[i] = field.GetValue()
		h[name] = all[i : i+1 : i+1]
	}
	return h, clean(h, s)
}

// takeUpgrade finds the protocol in a list, where it stands only if the exchange is one that switches.
func takeUpgrade(list []*tunnelapi.Header) (string, error) {
	var found []string
	for _, field := range list {
		if strings.EqualFold(field.GetName(), "Upgrade") {
			found = append(found, field.GetValue())
		}
	}
	if len(found) != 1 || !validToken(found[0]) {
		return "", violation("an upgrade must name one protocol")
	}
	return found[0], nil
}
