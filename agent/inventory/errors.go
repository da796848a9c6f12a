package inventory

import (
	"errors"
	"fmt"

	"github.com/pluralsh/plural/agent/object"
)

// ErrConflict says that somebody else saved or removed the inventory since it was loaded.
var ErrConflict = errors.New("somebody else applies this service at the same time")

// Error says that a service's inventory cannot be trusted. Nothing is applied or deleted by it until it can.
type Error struct {
	Service   string
	ConfigMap string // the name of the one that is wrong, in object.SystemNamespace
	Fix       string
	cause     error
	version   string // of the head, empty when there is none
}

func (e *Error) Error() string {
	return fmt.Sprintf("read inventory of service %q: ConfigMap %s/%s: %v: %s",
		e.Service, object.SystemNamespace, e.ConfigMap, e.cause, e.Fix)
}

// Unwrap returns what is wrong with the ConfigMap.
func (e *Error) Unwrap() error { return e.cause }
