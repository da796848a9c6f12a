package health

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// condition is one of status.conditions.
type condition struct {
	name, status, reason, message string
	// stale says that it speaks of an older generation of the object.
	stale bool
}

// conditionsOf reads status.conditions. Items that are no conditions are left out.
func conditionsOf(obj *unstructured.Unstructured) ([]condition, error) {
	field, found, err := unstructured.NestedFieldNoCopy(obj.Object, "status", "conditions")
	if err != nil || !found || field == nil {
		return nil, err
	}
	if _, other := field.(map[string]any); other {
		return nil, nil // a few kinds have a map of their own there
	}
	list, ok := field.([]any)
	if !ok {
		return nil, fmt.Errorf("status.conditions is a %T, not a list", field)
	}
	generation := obj.GetGeneration()
	if seen, ok := observed(obj); ok && seen >= generation {
		generation = 0 // the status says itself that it is about the newest, whatever its conditions say of themselves
	}
	conditions := make([]condition, 0, len(list))
	for _, item := range list {
		fields, _ := item.(map[string]any)
		c := condition{
			name: text(fields, "type"), status: truth(fields["status"]), reason: text(fields, "reason"), message: text(fields, "message"),
		}
		if c.name == "" {
			continue
		}
		if seen, ok := integer(fields["observedGeneration"]); ok && seen < generation {
			c.stale = true
		}
		conditions = append(conditions, c)
	}
	return conditions, nil
}

// observed is the generation that the status is about, if it says so.
func observed(obj *unstructured.Unstructured) (int64, bool) {
	field, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "status", "observedGeneration")
	return integer(field)
}

func integer(value any) (int64, bool) {
	switch n := value.(type) {
	case int64:
		return n, true
	case float64:
		return int64(n), true
	}
	return 0, false
}

// truth is the status of a condition. A few kinds have booleans there.
func truth(value any) string {
	if is, ok := value.(bool); ok {
		if is {
			return "True"
		}
		return "False"
	}
	word, _ := value.(string)
	return word
}

func text(fields map[string]any, name string) string {
	value, _ := fields[name].(string)
	return value
}

// outdated says that the status is about an older generation, or returns nothing.
func outdated(obj *unstructured.Unstructured) string {
	if seen, ok := observed(obj); ok && seen < obj.GetGeneration() {
		return fmt.Sprintf("generation %d was not looked at yet; the status is about %d", obj.GetGeneration(), seen)
	}
	return ""
}

// say is a condition in a line.
func (c condition) say() string {
	switch {
	case c.message != "":
		return c.message
	case c.reason != "":
		return c.name + " is " + c.status + ": " + c.reason
	}
	return c.name + " is " + c.status
}

// failing says whether the condition's reason speaks of a failure, rather than of work to be done.
func (c condition) failing() bool {
	return failure(c.reason)
}

func failure(reason string) bool {
	reason = strings.ToLower(reason)
	words := []string{"fail", "error", "invalid", "denied", "reject", "forbidden", "unauthori", "degraded", "unsupported"}
	for _, word := range words {
		if strings.Contains(reason, word) {
			return true
		}
	}
	return false
}
