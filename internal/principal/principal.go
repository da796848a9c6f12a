// Package principal owns the principal of a request.
//
// It knows neither how that was found out nor what the person may do.
package principal

import (
	"slices"
	"time"
)

// Person is somebody who is logged in to the hub.
type Person struct {
	// Name is unique: a user's of the fleet, or PROVIDER:SUBJECT of somebody whom only an identity provider knows.
	Name string
	// Shown is what an identity provider calls the person; empty: nothing. Others may be called so too, and nothing is decided by it.
	Shown string
	// Groups are sorted.
	Groups []string
	// Operator says that the hub's own token was shown: everything is allowed.
	Operator bool
	// Credential names what was shown, never is it. Two requests with one Credential showed the same.
	Credential string
	// Expires is when the credential does; zero means never.
	Expires time.Time
	// Session is of whoever logged in with a token from elsewhere, or to the page; nil: a token of the fleet's was shown.
	Session *Session
}

// Session is what is known of a login with a token from elsewhere, or of one to the page. Whoever is logged in carries it, signed by the
// hub, which keeps nothing of it.
type Session struct {
	// ID is random.
	ID string `json:"id"`
	// Provider or Federation names what let them in, and Trust is a digest of what the fleet said of that then. Token is the Credential of
	// whoever logged in to the page with a token of the fleet's, or with the hub's own; then there is neither.
	Provider   string `json:"prv,omitempty"`
	Federation string `json:"fed,omitempty"`
	Token      string `json:"tok,omitempty"`
	Trust      string `json:"trt"`
	// User is the fleet's whose account or token it was then; empty: nobody's.
	User string `json:"usr,omitempty"`
	// Subject is whom the token was about, Shown what that is called, Groups those that the fleet knew then.
	Subject string   `json:"sub"`
	Shown   string   `json:"nam,omitempty"`
	Groups  []string `json:"grp,omitempty"`
	// Email is an address that the provider has verified, for applications that want one. Nobody is known by it.
	Email string `json:"eml,omitempty"`
	// Began is when the token was made, Issued when the session was; they and Expires are in seconds since 1970.
	Began   int64 `json:"beg"`
	Issued  int64 `json:"iat"`
	Expires int64 `json:"exp"`
}

// ThroughToken is how people log in to the page who have a token.
const ThroughToken = "token"

// Through says what let the person in, such as provider/corp.
func (s *Session) Through() string {
	switch {
	case s.Token != "":
		return ThroughToken
	case s.Federation != "":
		return "federation/" + s.Federation
	}
	return "provider/" + s.Provider
}

// Key tells people apart: a user may have the operator's name.
func (p *Person) Key() string {
	if p.Operator {
		return "\x00operator" // no user can be named so
	}
	return p.Name
}

// In says whether the person is a member of one of the groups.
func (p *Person) In(groups []string) bool {
	return slices.ContainsFunc(groups, func(g string) bool { return slices.Contains(p.Groups, g) })
}
