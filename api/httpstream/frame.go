package httpstream

import (
	"fmt"
	"iter"
	"net/http"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"github.com/pluralsh/plural/api/tunnelapi"
)

// chunks cuts p into what one frame holds.
func chunks(p []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(p) > 0 {
			n := min(len(p), tunnelapi.MaxData)
			if !yield(p[:n]) {
				return
			}
			p = p[n:]
		}
	}
}

// checkHead is done on both sides.
func checkHead(head *tunnelapi.RequestHead) error {
	method, target := head.GetMethod(), head.GetTarget()
	switch {
	case !validID(head.GetId()):
		return violation(fmt.Sprintf("the request's id is %.40q", head.GetId()))
	case !httpguts.ValidHeaderFieldName(method) || len(method) > 32 || method == http.MethodConnect:
		return violation(fmt.Sprintf("the method is %.40q", method))
	case !validTarget(target):
		return violation(fmt.Sprintf("the target is %.80q", target))
	case head.GetContentLength() < -1:
		return violation(fmt.Sprintf("the length is %d", head.GetContentLength()))
	}
	switch head.GetClass() {
	case tunnelapi.Class_UNARY, tunnelapi.Class_WATCH, tunnelapi.Class_UPGRADE:
		return nil
	default:
		return violation(fmt.Sprintf("the class is %d", head.GetClass()))
	}
}

func validID(id string) bool {
	return id != "" && len(id) <= 128 && !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// validTarget says whether the target is one line that names no host.
func validTarget(target string) bool {
	if !strings.HasPrefix(target, "/") || len(target) > tunnelapi.MaxHeaders || !utf8.ValidString(target) {
		return false
	}
	return !strings.ContainsFunc(target, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '#' })
}
