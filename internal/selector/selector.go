// Package selector owns label selectors over the tags of clusters.
//
// It refuses to know what clusters are picked for.
package selector

import "slices"

// The operators of a Requirement.
const (
	In           = "In"
	NotIn        = "NotIn"
	Exists       = "Exists"
	DoesNotExist = "DoesNotExist"
)

// Requirement is one condition on a tag.
type Requirement struct {
	// Key is the tag's.
	Key string `yaml:"key" json:"key"`
	// Operator is In, NotIn, Exists or DoesNotExist.
	Operator string `yaml:"operator" json:"operator" enum:"In,NotIn,Exists,DoesNotExist"`
	// Values are what In and NotIn compare with; the others take none.
	Values []string `yaml:"values,omitempty" json:"values,omitempty"`
}

// Conditions must all hold, those of them that are given.
type Conditions struct {
	Names        []string
	Labels       map[string]string
	Requirements []Requirement
}

// Match says whether a cluster is picked. No conditions pick nothing: a forgotten one must not reach the whole fleet.
func (c Conditions) Match(cluster string, tags map[string]string) bool {
	if len(c.Names) == 0 && len(c.Labels) == 0 && len(c.Requirements) == 0 {
		return false
	}
	if len(c.Names) > 0 && !slices.Contains(c.Names, cluster) {
		return false
	}
	for key, want := range c.Labels {
		if got, ok := tags[key]; !ok || got != want {
			return false
		}
	}
	return !slices.ContainsFunc(c.Requirements, func(r Requirement) bool { return !r.holds(tags) })
}

// holds follows Kubernetes: NotIn also holds where the tag is missing.
func (r Requirement) holds(tags map[string]string) bool {
	value, ok := tags[r.Key]
	switch r.Operator {
	case In:
		return ok && slices.Contains(r.Values, value)
	case NotIn:
		return !ok || !slices.Contains(r.Values, value)
	case Exists:
		return ok
	case DoesNotExist:
		return !ok
	}
	return false // refused when it was read
}
