package order

import (
	"fmt"
	"strings"

	"github.com/pluralsh/plural/agent/object"
)

// Error says that an annotation, or a label that is read like one, does not say when or how its object is applied.
type Error struct {
	Object     object.ID
	Annotation string
	Value      string // as it stands there, clipped
	Want       string // what is allowed
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: annotation %s: %q: want %s", e.Object, e.Annotation, e.Value, e.Want)
}

// DependencyError says that objects wait for each other, so that none of them can be first.
type DependencyError struct {
	// Path holds the objects, each of which waits for the next one; the last waits for the first when Message is empty.
	Path []object.ID
	// Message says why the first can never wait for the second, when they are two that are in no circle.
	Message string
}

func (e *DependencyError) Error() string {
	const shown = 20
	names := make([]string, 0, shown+2)
	for i, id := range e.Path {
		if i == shown {
			names = append(names, "...")
			break
		}
		names = append(names, id.String())
	}
	if e.Message != "" {
		return strings.Join(names, " depends on ") + ": " + e.Message
	}
	return strings.Join(append(names, names[0]), " depends on ") + ": take one of these dependencies away"
}
