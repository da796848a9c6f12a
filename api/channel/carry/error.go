package carry

import (
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Error says why an exchange was not carried, or not to its end. What a cluster answers is never one.
type Error struct {
	// Code is what the channel calls it.
	Code codes.Code
	// Message says what happened, for people.
	Message string
}

func (e *Error) Error() string { return e.Message }

// GRPCStatus lets the error cross a stream.
func (e *Error) GRPCStatus() *status.Status { return status.New(e.Code, e.Message) }

// HTTPStatus is the code of the answer that a client gets for want of the cluster's own.
func (e *Error) HTTPStatus() int {
	switch e.Code {
	case codes.InvalidArgument, codes.OutOfRange:
		return http.StatusBadRequest
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.Unimplemented:
		return http.StatusNotImplemented
	case codes.Unavailable, codes.Canceled:
		return http.StatusServiceUnavailable
	case codes.DeadlineExceeded:
		return http.StatusGatewayTimeout
	default: // the other end did what it must not
		return http.StatusBadGateway
	}
}

// fromStream is what ended a stream, as an Error.
func fromStream(err error) *Error {
	s := status.Convert(err)
	return &Error{s.Code(), s.Message()}
}

// violation is what an end does that speaks another protocol than this.
func violation(text string) *Error {
	return &Error{codes.InvalidArgument, "channel protocol violated: " + text}
}
