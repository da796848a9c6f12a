package principal

import (
	"errors"
	"net/http"
)

// Rejected is why a credential is not taken, where there is more to say than that nobody is known by it.
type Rejected struct {
	Message, Fix string
	// Later says that it may be good: it cannot be told now.
	Later bool
	Err   error
}

// Error is the message, with its cause.
func (r *Rejected) Error() string {
	if r.Err == nil {
		return r.Message
	}
	return r.Message + ": " + r.Err.Error()
}

// Unwrap is the cause, which is for the log alone.
func (r *Rejected) Unwrap() error { return r.Err }

// Answer is what somebody is told whose request comes from nobody that is known.
func Answer(err error) (status int, message, fix string) {
	rejected := new(Rejected)
	switch {
	case !errors.As(err, &rejected):
		return http.StatusUnauthorized, "not logged in to this hub", "plural auth login"
	case rejected.Later:
		return http.StatusServiceUnavailable, rejected.Message, rejected.Fix
	}
	return http.StatusUnauthorized, rejected.Message, rejected.Fix
}
