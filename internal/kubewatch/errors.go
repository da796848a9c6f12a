package kubewatch

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Error says that a watch could not be kept up for now.
type Error struct {
	// Verb is the request that failed: "list" or "watch".
	Verb     string
	Resource schema.GroupResource
	Err      error
}

// Refused says that this account may not watch the resource. Somebody has to allow it.
func (e *Error) Refused() bool {
	return apierrors.IsForbidden(e.Err) || apierrors.IsUnauthorized(e.Err)
}

// Unserved says that the API server does not know the resource, or does not let it be watched.
func (e *Error) Unserved() bool {
	return apierrors.IsNotFound(e.Err) || apierrors.IsMethodNotSupported(e.Err)
}

// passing says that the Reflector would wait until the reason is gone.
func (e *Error) passing() bool {
	return utilnet.IsConnectionRefused(e.Err) || apierrors.IsTooManyRequests(e.Err)
}

// Fix says who has to do what; empty when trying again is all that can be done.
func (e *Error) Fix() string {
	switch {
	case e.Refused():
		return fmt.Sprintf("allow the agent's account get, list and watch of %s", e.Resource)
	case e.Unserved():
		return fmt.Sprintf("define %s in the cluster", e.Resource)
	default:
		return ""
	}
}

func (e *Error) Error() string { return fmt.Sprintf("%s %s: %v", e.Verb, e.Resource, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// failure finds in the Reflector's error what was asked, and hides that the Reflector asked it.
func (w *Watch[T]) failure(err error) *Error {
	if err == nil {
		return nil // the watch ended, which it does
	}
	var hidden opaque
	if errors.As(err, &hidden) {
		err = hidden.error
	}
	if failed, ok := errors.AsType[*Error](err); ok {
		return failed
	}
	return &Error{"watch", w.Source.resource, err}
}
