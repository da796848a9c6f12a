package fleet

import "github.com/pluralsh/plural/internal/selector"

// Requirement is one condition on a tag.
type Requirement = selector.Requirement

// Matches says whether the selector picks c. An empty selector picks nothing.
func (s Selector) Matches(c *Cluster) bool {
	all := selector.Conditions{Names: s.Names, Labels: s.MatchLabels, Requirements: s.MatchExpressions}
	return all.Match(c.Metadata.Name, c.Spec.Tags)
}

// MatchesService says whether the selector picks s, by its name and its labels. An empty selector picks nothing.
func (s Selector) MatchesService(service *Service) bool {
	all := selector.Conditions{Names: s.Names, Labels: s.MatchLabels, Requirements: s.MatchExpressions}
	return all.Match(service.Metadata.Name, service.Metadata.Labels)
}
