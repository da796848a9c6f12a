package kubeapi

import (
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"

	v1 "github.com/pluralsh/plural/api/v1"
)

// Record is what is written down of a request: at its end, and also at its beginning of what changes something or stays
// open. None of its strings is a secret.
type Record struct {
	v1.AuditRecord
	// Must says that the request may not happen without its record.
	Must bool
}

// Stages of a request, and what was decided about it.
const (
	stageStart = "start"
	stageEnd   = "end"

	decisionAllowed = "allowed"
	decisionDenied  = "denied"
	decisionLimited = "limited"
)

// Bounds of what a record repeats of what a client says, in bytes as they are written.
const (
	maxAgent     = 256
	maxForwarded = 256
	maxPath      = 512
	maxName      = 128 // a longer one, which objects may have, stands in the path
)

// Clip bounds what a client says, by the bytes that it takes in a record: there a quotation mark has two, and what is not
// printed as it is has six or twelve.
func Clip(s string, most int) string {
	left := most
	for at, r := range s {
		switch {
		case r == '"' || r == '\\':
			left -= 2
		case r > 0xffff:
			left -= 12
		case r < ' ' || r >= 0x7f:
			left -= 6
		default:
			left--
		}
		if left < 0 {
			return strings.ToValidUTF8(s[:at], "") + "..."
		}
	}
	return s
}

// clientID is what a client may call its own request: nothing that could be mistaken for more than a name.
var clientID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/=+-]{0,127}$`) })

// sender fills in where a request came from.
func (r *Record) sender(from *http.Request) {
	host, _, err := net.SplitHostPort(from.RemoteAddr)
	if err != nil {
		host = from.RemoteAddr
	}
	r.Source = host
	r.Forwarded = Clip(strings.Join(from.Header["X-Forwarded-For"], ", "), maxForwarded)
	r.UserAgent = Clip(from.UserAgent(), maxAgent)
	if id := from.Header.Get("X-Request-Id"); clientID().MatchString(id) {
		r.ClientID = id
	}
}
