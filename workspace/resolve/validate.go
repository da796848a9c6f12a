package resolve

import (
	"cmp"
	"slices"

	"github.com/pluralsh/plural/workspace/fleet"
)

// Validate resolves once, with a Resolver of its own.
func Validate(f *fleet.Fleet, src Sources) []Problem { return New().Validate(f, src) }

// Validate lists what is wrong with any service on any cluster, each cause once, sorted by place. The files of services
// that no cluster selects are looked at too.
func (r *Resolver) Validate(f *fleet.Fleet, src Sources) []Problem {
	var all []Problem
	for i := range f.Services {
		all = append(all, r.validate(f, &f.Services[i], src)...)
	}
	slices.SortStableFunc(all, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Service, b.Service), cmp.Compare(a.Message, b.Message))
	})
	return all
}

// validate finds the problems with a service's files and secrets, or else each problem with its settings at the first
// cluster that has it.
func (r *Resolver) validate(f *fleet.Fleet, s *fleet.Service, src Sources) []Problem {
	d := settings(f, s)
	list := r.addSecrets(&d, s, src)
	if p := r.addFiles(&d, s, src); p != nil {
		list = append(list, *p)
	}
	if len(list) > 0 {
		return list
	}
	for i := range f.Clusters {
		c := &f.Clusters[i]
		if !s.Spec.Clusters.Matches(c) {
			continue
		}
		for _, p := range []*Problem{checkDependencies(f, s, c), r.addParameters(&d, s, c)} {
			if p != nil && !slices.ContainsFunc(list, p.sameCause) {
				list = append(list, *p)
			}
		}
	}
	return list
}

func (p *Problem) sameCause(q Problem) bool {
	return p.Position == q.Position && p.Message == q.Message
}
