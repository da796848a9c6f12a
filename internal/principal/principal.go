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
	// Name is unique among the fleet's users.
	Name string
	// Groups are sorted.
	Groups []string
	// Operator says that the hub's own token was shown: everything is allowed.
	Operator bool
	// Credential names what was shown, never is it. Two requests with one Credential showed the same.
	Credential string
	// Expires is when the credential does; zero means never.
	Expires time.Time
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
