package gateway

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
)

// wire says in the machines' vocabulary what resolve says in its own. The commit stays behind: it changes with every
// commit to the repository, and a poll must not.
func wire(d *resolve.Deployment) (*api.Deployment, error) {
	out := &api.Deployment{
		Service: d.Service, Key: d.Key, Bundle: d.Bundle, Inputs: d.Inputs, Path: d.Path, Renderer: d.Renderer,
		Namespace: d.Namespace, Parameters: d.Parameters, Version: d.Version,
		Sync: syncing(d), Health: healthRules(d.Health), ServiceAccount: d.ServiceAccount, AllowedNamespaces: d.AllowedNamespaces,
		SecretsBundle: d.SecretsBundle, SecretsInputs: d.SecretsInputs, OwnRepository: d.OwnRepository,
	}
	for _, dep := range d.DependsOn {
		out.DependsOn = append(out.DependsOn, dep.Service) // for agents that know no conditions
		out.Dependencies = append(out.Dependencies, &api.Dependency{Service: dep.Service, Condition: dep.Condition, Version: dep.Version})
	}
	for _, s := range d.Secrets {
		out.Secrets = append(out.Secrets, &api.Secret{Name: s.Name, Path: s.Path, TemplateOnly: s.TemplateOnly, Type: s.Type})
	}
	for _, m := range d.Mounts {
		out.Mounts = append(out.Mounts, &api.Mount{At: m.At, Bundle: m.Bundle, Inputs: m.Inputs, OwnRepository: m.OwnRepository})
	}
	if h := d.Helm; h != nil {
		out.Helm = &api.Helm{
			Release: h.Release, ValuesJson: h.ValuesJSON, ValuesFiles: h.ValuesFiles,
			Lookup: h.Lookup, ReleaseRecord: h.Record, SkipCrds: h.SkipCRDs,
		}
	}
	for i := range d.Tests {
		t, err := test(&d.Tests[i])
		if err != nil {
			return nil, err
		}
		out.Tests = append(out.Tests, t)
	}
	if d.Hold != nil {
		out.Hold = d.Hold.Error()
	}
	return out, nil
}

func syncing(d *resolve.Deployment) *api.Sync {
	out := &api.Sync{
		Prune: d.Prune, SelfHeal: d.SelfHeal, DeletionBudget: d.DeletionBudget,
		OnDelete: d.OnDelete, Conflicts: d.Conflicts, Recreate: d.Recreate, Acknowledged: d.Acknowledged,
		Suspended: d.Suspended,
	}
	for _, f := range d.Fields {
		kind, group := split(f.Kind)
		out.Fields = append(out.Fields, &api.FieldRule{
			Group: group, Kind: kind, Namespace: f.Namespace, Name: f.Name, Pointer: f.Pointer, Policy: f.Policy,
		})
	}
	return out
}

func healthRules(list []fleet.HealthRule) []*api.HealthRule {
	var out []*api.HealthRule
	for _, r := range list {
		kind, group := split(r.Kind)
		out = append(out, &api.HealthRule{
			Group: group, Kind: kind, Healthy: r.Healthy, Degraded: r.Degraded, Progressing: r.Progressing,
			Message: r.Message, Lua: r.Lua,
		})
	}
	return out
}

// split takes KIND.GROUP apart.
func split(kindGroup string) (kind, group string) {
	kind, group, _ = strings.Cut(kindGroup, ".")
	return kind, group
}

func test(t *fleet.Test) (*api.Test, error) {
	timeout, _ := time.ParseDuration(t.Timeout) // checked when the fleet was loaded; empty means the agent's own
	out := &api.Test{Name: t.Name, TimeoutMs: timeout.Milliseconds(), Retries: int32(t.Retries), Gate: t.Gate}
	switch {
	case t.HTTP != nil:
		h := t.HTTP
		out.Http = &api.HttpTest{
			Service: h.Service, Namespace: h.Namespace, Port: h.Port, Path: h.Path, Method: h.Method, Scheme: h.Scheme,
			Headers: h.Headers, Body: h.Body, Status: int32(h.Status), Contains: h.Contains, By: h.By,
		}
	case t.Job != nil:
		manifest, err := json.Marshal(job(t.Job))
		if err != nil {
			return nil, fmt.Errorf("test %s: %w", t.Name, err)
		}
		out.Job = &api.JobTest{ManifestJson: manifest}
	case t.CEL != nil:
		out.Cel = &api.CelTest{Assertions: assertions(t.CEL)}
	case t.Helm != nil:
		out.Helm = &api.HelmTest{Hooks: t.Helm.Hooks}
	}
	return out, nil
}

// job is a whole manifest, also where only a spec was written.
func job(written map[string]any) map[string]any {
	out := map[string]any{"apiVersion": "batch/v1", "kind": "Job"}
	if _, whole := written["spec"]; !whole {
		out["spec"] = written
		return out
	}
	for field, value := range written {
		out[field] = value
	}
	return out
}

func assertions(list []fleet.CELAssertion) []*api.CelAssertion {
	var out []*api.CelAssertion
	for _, a := range list {
		kind, group := split(a.Kind)
		out = append(out, &api.CelAssertion{
			Group: group, Version: a.Version, Kind: kind, Namespace: a.Namespace, Name: a.Name, Selector: a.Selector,
			Expression: a.Expression, Message: a.Message,
		})
	}
	return out
}
