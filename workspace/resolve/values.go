package resolve

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/pluralsh/plural/workspace/fleet"
)

// templates fills in the texts of one service for one cluster.
type templates struct {
	r       *Resolver
	service *fleet.Service
	cluster string
	scope   scope
}

// text fills in one text, written at the given field.
func (t templates) text(s, field string) (string, *Problem) {
	if !strings.Contains(s, "{{") {
		return s, nil
	}
	c, ok := t.r.templates.get(s)
	if !ok {
		c = compile(s)
		if len(s) <= maxTemplate { // many longer ones would fill the memory
			t.r.templates.set(s, c)
		}
	}
	out, err := c.render(t.scope)
	if err != nil {
		return "", t.problem(field, err.Error(), templateFix(err))
	}
	return out, nil
}

func templateFix(err error) string {
	var missing *missingError
	switch {
	case errors.Is(err, errSecrets):
		return "use a *.tmpl file in the service's folder, which the agent fills in"
	case !errors.As(err, &missing):
		return "a template holds fields, texts in quotes, and the functions " + strings.Join(slices.Sorted(maps.Keys(functions())), ", ")
	case strings.HasPrefix(missing.name, ".cluster.tags."), strings.HasPrefix(missing.name, ".cluster.parameters."):
		return "set it in the cluster's file, or give it a default: {{ " + missing.name + ` | default "..." }}`
	}
	return `known are .cluster.name, .cluster.tags, .cluster.parameters and, in helm values, .parameters; for braces that a chart fills in write {{ "{{" }}`
}

func (t templates) problem(field, message, fix string) *Problem {
	return &Problem{
		Service: t.service.Metadata.Name, Cluster: t.cluster, Position: t.service.Place(field),
		Message: fmt.Sprintf("%s: %s", field, message), Fix: fix,
	}
}

// helm fills in a chart's settings.
func (t templates) helm(s *fleet.Service) (*Helm, *Problem) {
	h := &Helm{Release: s.Metadata.Name}
	if s.Spec.Helm == nil {
		return h, nil
	}
	h.Lookup, h.Record, h.SkipCRDs = s.Spec.Helm.Lookup, s.Spec.Helm.Record, s.Spec.Helm.SkipCRDs
	h.Release = cmp.Or(s.Spec.Helm.Release, h.Release)
	for _, name := range s.Spec.Helm.ValuesFiles {
		h.ValuesFiles = append(h.ValuesFiles, path.Clean(name))
	}
	if len(s.Spec.Helm.Values) == 0 {
		return h, nil
	}
	const field = "spec.helm.values"
	values, problem := t.value(s.Spec.Helm.Values, field)
	if problem != nil {
		return nil, problem
	}
	data, err := json.Marshal(values)
	if err != nil {
		return nil, t.problem(field, err.Error(), "")
	}
	h.ValuesJSON = data
	return h, nil
}

// value fills in every text inside v; keys stay as they are.
func (t templates) value(v any, field string) (any, *Problem) {
	switch v := v.(type) {
	case string:
		return t.text(v, field)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			var problem *Problem
			if out[i], problem = t.value(v[i], fmt.Sprintf("%s[%d]", field, i)); problem != nil {
				return nil, problem
			}
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			var problem *Problem
			if out[key], problem = t.value(v[key], field+"."+key); problem != nil {
				return nil, problem
			}
		}
		return out, nil
	}
	return v, nil
}
