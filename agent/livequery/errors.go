package livequery

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pluralsh/plural/internal/kubewatch"
)

// Error says why there is nothing to look at, in words for people.
type Error struct {
	// Code is what the channel calls it.
	Code    codes.Code
	Message string
	// Fix says what to do; empty when trying again is all that can be done.
	Fix string
}

func (e *Error) Error() string {
	if e.Fix == "" {
		return e.Message
	}
	return e.Message + ": " + e.Fix
}

// GRPCStatus is the error as it goes over the channel.
func (e *Error) GRPCStatus() *status.Status { return status.New(e.Code, e.Error()) }

// refusal is why a watch is not worth trying again; nil when it is.
func refusal(err *kubewatch.Error) *Error {
	switch {
	case err.Refused():
		return &Error{codes.PermissionDenied, err.Error(), err.Fix()}
	case err.Unserved():
		return &Error{codes.NotFound, err.Error(), err.Fix()}
	}
	return nil
}
