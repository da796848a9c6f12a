package httpclient

import "time"

// RetryError says that a server wants to be left alone for a while: 429, or 503 with Retry-After.
type RetryError struct {
	After time.Duration
	Err   error
}

func (e *RetryError) Error() string { return e.Err.Error() }
func (e *RetryError) Unwrap() error { return e.Err }
