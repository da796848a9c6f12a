package object

import "strings"

// Denied tells that admission refused a request from what authorization and validation refuse. It goes by the text: a webhook or
// policy chooses its own code.
func Denied(err error) bool {
	for _, text := range []string{"denied the request", "exceeded quota", "denied request", "violates PodSecurity"} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}
