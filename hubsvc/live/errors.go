package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Refusal says why somebody gets nothing, in words for them.
type Refusal struct {
	// Status is of HTTP.
	Status       int
	Message, Fix string
}

func (e *Refusal) Error() string {
	if e.Fix == "" {
		return e.Message
	}
	return e.Message + ": " + e.Fix
}

// partialAnswerError ends an answer of which the beginning has been sent.
type partialAnswerError struct{ error }

func (e *partialAnswerError) Unwrap() error { return e.error }

func notFound(what, name string) error {
	return &Refusal{Status: http.StatusNotFound, Message: fmt.Sprintf("no %s %s", what, strconv.Quote(clip(name))), Fix: "plural " + what + " list"}
}

func bad(format string, args ...any) error {
	return &Refusal{Status: http.StatusBadRequest, Message: fmt.Sprintf(format, args...), Fix: "see GET /v1/openapi.json"}
}

// clip bounds what is repeated of what somebody wrote.
func clip(text string) string {
	const most = 100
	if len(text) <= most {
		return text
	}
	return text[:most] + "..."
}

// refusalOf finds out what an error means to whoever asked.
func refusalOf(err error) *Refusal {
	var no *Refusal
	if errors.As(err, &no) {
		return no
	}
	var said apierrors.APIStatus
	if errors.As(err, &said) {
		return statusRefusal(said.Status())
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &Refusal{Status: http.StatusGatewayTimeout, Message: "the cluster takes too long to answer"}
	}
	if s, ok := status.FromError(err); ok {
		return wireRefusal(s)
	}
	return &Refusal{Status: http.StatusServiceUnavailable, Message: err.Error()}
}

// wireRefusal is what an agent, or the way to it, says.
func wireRefusal(s *status.Status) *Refusal {
	code, ok := map[codes.Code]int{
		codes.InvalidArgument: http.StatusBadRequest, codes.NotFound: http.StatusNotFound, codes.PermissionDenied: http.StatusForbidden,
		codes.ResourceExhausted: http.StatusTooManyRequests, codes.DeadlineExceeded: http.StatusGatewayTimeout,
		codes.Unavailable: http.StatusServiceUnavailable, codes.Canceled: http.StatusServiceUnavailable,
	}[s.Code()]
	switch {
	case s.Code() == codes.Unimplemented:
		return &Refusal{Status: http.StatusNotImplemented, Message: "the cluster's agent cannot do that yet", Fix: "upgrade the agent"}
	case s.Code() == codes.Unavailable: // what is said of a connection that was lost names addresses of the hub's own network
		return &Refusal{Status: http.StatusServiceUnavailable, Message: "the connection to the cluster's agent broke off", Fix: "try again"}
	case !ok:
		code = http.StatusBadGateway
	}
	return &Refusal{Status: code, Message: "the cluster's agent says: " + s.Message()}
}

func statusRefusal(s metav1.Status) *Refusal {
	code := int(s.Code)
	if code < 400 || code > 599 {
		code = http.StatusBadGateway
	}
	if code == http.StatusUnauthorized { // it speaks of the hub's own credential, not of the person's
		code = http.StatusBadGateway
	}
	return &Refusal{Status: code, Message: s.Message}
}

// refused is why an API server did not do what it was asked; nil when it did.
func refused(resp *http.Response) error {
	if resp.StatusCode < 300 {
		return nil
	}
	var said metav1.Status
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil || json.Unmarshal(text, &said) != nil || said.Message == "" {
		said.Message = "the cluster's API server answers " + strconv.Itoa(resp.StatusCode)
	}
	said.Code = int32(resp.StatusCode)
	return statusRefusal(said)
}
