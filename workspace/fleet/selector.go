package fleet

import "slices"

// The operators of a Requirement.
const (
	OpIn           = "In"
	OpNotIn        = "NotIn"
	OpExists       = "Exists"
	OpDoesNotExist = "DoesNotExist"
)

// Matches says whether the selector picks c. An empty selector picks nothing: a forgotten condition must not reach the
// whole fleet.
func (s Selector) Matches(c *Cluster) bool {
	if len(s.Names) == 0 && len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0 {
		return false
	}
	if len(s.Names) > 0 && !slices.Contains(s.Names, c.Metadata.Name) {
		return false
	}
	for key, want := range s.MatchLabels {
		if got, ok := c.Spec.Tags[key]; !ok || got != want {
			return false
		}
	}
	return !slices.ContainsFunc(s.MatchExpressions, func(r Requirement) bool { return !r.holds(c.Spec.Tags) })
}

// holds follows Kubernetes: NotIn also holds where the tag is missing.
func (r Requirement) holds(tags map[string]string) bool {
	value, ok := tags[r.Key]
	switch r.Operator {
	case OpIn:
		return ok && slices.Contains(r.Values, value)
	case OpNotIn:
		return !ok || !slices.Contains(r.Values, value)
	case OpExists:
		return ok
	case OpDoesNotExist:
		return !ok
	}
	return false // refused at load
}
