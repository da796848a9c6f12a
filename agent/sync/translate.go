package sync

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/health"
	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/agent/servicetest"
	"github.com/pluralsh/plural/api"
)

// What the wire says, in the words of the rooms that do it.

// input is what a render of a deployment depends on.
func (p *pass) input(d *api.Deployment, opened *opened) (render.Input, error) {
	in := render.Input{
		Renderer: d.GetRenderer(), Path: d.GetPath(), Namespace: d.GetNamespace(), Service: d.GetService(),
		Parameters: d.GetParameters(), Secrets: opened.named.ByName, Files: opened.files,
		Mounts: opened.mounts, ThirdParty: !d.GetOwnRepository(),
		KubeVersion: p.can.KubeVersion, APIVersions: p.can.APIVersions,
	}
	if !opened.sealed {
		in.Tenant = render.Tenant(p.Cluster.Name, d.GetServiceAccount(), d.GetAllowedNamespaces())
	}
	h := d.GetHelm()
	if h == nil {
		return in, nil
	}
	in.Helm = &render.Helm{
		Release: h.GetRelease(), ValuesJSON: h.GetValuesJson(), ValuesFiles: h.GetValuesFiles(),
		SkipCRDs: h.GetSkipCrds(), Record: h.GetReleaseRecord(),
	}
	if !h.GetLookup() || p.Lookup == nil {
		return in, nil
	}
	if d.GetServiceAccount() == "" { // what the agent itself can see is nobody's to render
		return in, errors.New("its chart may look objects up, and as nobody: set spec.serviceAccount")
	}
	var err error
	in.Lookup, err = p.Lookup(d.GetServiceAccount())
	return in, err
}

// policies is all of a request but the render.
func policies(d *api.Deployment) apply.Request {
	sync := d.GetSync()
	r := apply.Request{
		Service: d.GetService(), Namespace: d.GetNamespace(), OwnRepository: d.GetOwnRepository(), Revision: d.GetKey(),
		Heal: sync.GetSelfHeal(), Prune: sync.GetPrune(),
		Budget: sync.GetDeletionBudget(), Acknowledged: sync.GetAcknowledged(),
		Policies: apply.Policies{
			Conflicts: apply.Policy(sync.GetConflicts()), Recreate: sync.GetRecreate(), Account: d.GetServiceAccount(),
			Namespaces: d.GetAllowedNamespaces(), Orphan: sync.GetOnDelete() == "orphan",
		},
	}
	for _, f := range sync.GetFields() {
		r.Fields = append(r.Fields, apply.FieldRule{
			Group: f.GetGroup(), Kind: f.GetKind(), Namespace: f.GetNamespace(), Name: f.GetName(),
			Pointer: f.GetPointer(), Policy: apply.Policy(f.GetPolicy()),
		})
	}
	return r
}

// rulesOf are how a service is judged: as its newest deployment says, whichever one is applied. One that the hub holds says
// nothing.
func rulesOf(desired, good *api.Deployment) []health.Rule {
	if desired == nil || desired.GetHold() != "" {
		return healthRules(good.GetHealth())
	}
	return healthRules(desired.GetHealth())
}

func healthRules(list []*api.HealthRule) []health.Rule {
	var rules []health.Rule
	for _, r := range list {
		rules = append(rules, health.Rule{
			Group: r.GetGroup(), Kind: r.GetKind(), Healthy: r.GetHealthy(), Degraded: r.GetDegraded(),
			Progressing: r.GetProgressing(), Message: r.GetMessage(), Lua: r.GetLua(),
		})
	}
	return rules
}

// check is a test as its runner knows it.
func check(t *api.Test) (servicetest.Test, error) {
	out := servicetest.Test{Name: t.GetName(), Timeout: time.Duration(t.GetTimeoutMs()) * time.Millisecond, Retries: int(t.GetRetries())}
	switch {
	case t.GetHttp() != nil:
		h := t.GetHttp()
		out.HTTP = &servicetest.HTTP{
			Service: h.GetService(), Namespace: h.GetNamespace(), Port: h.GetPort(), Path: h.GetPath(), Method: h.GetMethod(),
			Scheme: h.GetScheme(), Headers: h.GetHeaders(), Body: h.GetBody(), Status: int(h.GetStatus()),
			Contains: h.GetContains(), ByName: h.GetBy() == "cluster",
		}
	case t.GetJob() != nil:
		out.Job = new(servicetest.Job)
		if err := json.Unmarshal(t.GetJob().GetManifestJson(), &out.Job.Manifest); err != nil {
			return out, fmt.Errorf("its Job is no JSON object: %w", err)
		}
	case t.GetCel() != nil:
		for _, a := range t.GetCel().GetAssertions() {
			out.CEL = append(out.CEL, servicetest.Assertion{
				Group: a.GetGroup(), Version: a.GetVersion(), Kind: a.GetKind(), Namespace: a.GetNamespace(), Name: a.GetName(),
				Selector: a.GetSelector(), Expression: a.GetExpression(), Message: a.GetMessage(),
			})
		}
	case t.GetHelm() != nil:
		out.Helm = &servicetest.Helm{Hooks: t.GetHelm().GetHooks()}
	default:
		return out, errors.New("this agent knows no way to run it: upgrade the agent")
	}
	return out, nil
}
