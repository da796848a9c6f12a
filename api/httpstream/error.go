package httpstream

import (
	"cmp"
	"log/slog"
	"net/http"
	"regexp"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pluralsh/plural/api/tunnelapi"
)

// Error says why an exchange was not carried, or not to its end. What a cluster answers is never one.
type Error struct {
	// Code is what the channel calls it.
	Code codes.Code
	// Message says what happened, for people.
	Message string
	// Unsent says that nothing of the request reached the cluster: it may be made again, whatever it asks for.
	Unsent bool
	// detail is the message with what only logs are to have; empty: there is no more.
	detail string
}

func (e *Error) Error() string { return e.Message }

// LogValue is the message with what only logs are to have.
func (e *Error) LogValue() slog.Value { return slog.StringValue(cmp.Or(e.detail, e.Message)) }

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

// endpoints is how package net names both ends of a connection in its errors.
var endpoints = regexp.MustCompile(`\b(read|write|dial|close) (tcp|udp|unix)[46]? \S+: `)

// fromStream is what ended a stream, as an Error. The error of a connection that was lost names addresses of the hub's and of the
// agent's network, which are nobody else's business.
func fromStream(err error) *Error {
	s := status.Convert(err)
	e := &Error{Code: s.Code(), Message: endpoints.ReplaceAllString(s.Message(), "")}
	if e.Code == tunnelapi.NotPassedOn {
		e.Code, e.Unsent = codes.Unavailable, true
	}
	if e.Message != s.Message() {
		e.detail = s.Message()
	}
	return e
}

// violation is what an end does that speaks another protocol than this.
func violation(text string) *Error {
	return &Error{Code: codes.InvalidArgument, Message: "channel protocol violated: " + text}
}
