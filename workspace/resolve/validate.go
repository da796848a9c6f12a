package resolve

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/workspace/fleet"
)

// Validate resolves once, with a Resolver of its own.
func Validate(ctx context.Context, f *fleet.Fleet, src Sources) ([]Problem, error) {
	return New().Validate(ctx, f, src)
}

// Validate lists what is wrong with any service on any cluster, each cause once, sorted by place. The files of services
// that no cluster selects are looked at too, and the secrets of sources. The error says that ctx ended; what was found out
// until then is remembered, so that another attempt goes on from there.
func (r *Resolver) Validate(ctx context.Context, f *fleet.Fleet, src Sources) ([]Problem, error) {
	all := r.validateHubs(f, src)
	for i := range f.Services {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("look at service %s: %w", f.Services[i].Metadata.Name, err)
		}
		all = append(all, r.validate(f, &f.Services[i], src)...)
	}
	slices.SortStableFunc(all, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Service, b.Service), cmp.Compare(a.Message, b.Message))
	})
	return all, nil
}

// Warnings are sentences about what services leave out of their files. Services that cannot be resolved have none.
func (r *Resolver) Warnings(f *fleet.Fleet, src Sources) []string {
	var list []string
	for i := range f.Services {
		d := settings(f, &f.Services[i])
		if r.addFiles(f, &d, &f.Services[i], src) != nil {
			continue
		}
		for _, warning := range d.Warnings {
			list = append(list, fmt.Sprintf("service %s: %s", d.Service, warning))
		}
	}
	return list
}

// validateHubs finds secrets of sources and providers, and signing keys, that are not sealed for the hub, which could not open them.
func (r *Resolver) validateHubs(f *fleet.Fleet, src Sources) []Problem {
	var list []Problem
	check := func(name, whose, field string, place func(field string) fleet.Position) {
		if name == "" {
			return
		}
		if fault := r.checkAccess(name, src); fault != nil {
			message := fmt.Sprintf("%s: %s: %s", whose, field, fault.message)
			list = append(list, Problem{Position: place("spec." + field), Message: message, Fix: fault.fix})
		}
	}
	check(f.Workspace.Spec.Hub.SigningKeys, "workspace", "hub.signingKeys", f.Workspace.Place)
	for i := range f.Providers {
		p := &f.Providers[i]
		check(p.Spec.Page.Secret, "provider "+p.Metadata.Name, "page.secret", p.Place)
	}
	for i := range f.Sources {
		if s := &f.Sources[i]; s.Spec.Auth != nil {
			check(s.Spec.Auth.Secret, "source "+s.Metadata.Name, "auth.secret", s.Place)
		}
	}
	return list
}

// checkAccess wants the policy to seal a file for the hub.
func (r *Resolver) checkAccess(name string, src Sources) *fault {
	own, err := src.Snapshot("", "")
	if err != nil {
		return unreadable(err)
	}
	fix := fmt.Sprintf("give the path a pattern in %s with groups: [%s]", policy.File, fleet.HubGroup)
	switch groups, must, f := r.sealedFor(own, name); {
	case f != nil:
		return f
	case !must:
		return &fault{message: fmt.Sprintf("no pattern of %s covers %q, so it is in clear", policy.File, name), fix: fix}
	case !slices.Contains(groups, fleet.HubGroup):
		return &fault{message: fmt.Sprintf("%q is sealed for %s, and the hub is in the group %s alone", name, strings.Join(groups, ", "), fleet.HubGroup), fix: fix}
	}
	return nil
}

// validate finds the problems with a service's files and secrets, or else each problem with its settings at the first
// cluster that has it.
func (r *Resolver) validate(f *fleet.Fleet, s *fleet.Service, src Sources) []Problem {
	d := settings(f, s)
	list := r.addSecrets(&d, s, src)
	if p := r.addFiles(f, &d, s, src); p != nil {
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
