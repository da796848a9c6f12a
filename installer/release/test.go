package release

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pluralsh/plural/agent/servicetest"
	"github.com/pluralsh/plural/workspace/fleet"
)

// test tries the tests that gate the deployment: what depends on it may rely on them. The others are the agent's to run.
func (r *release) test(ctx context.Context) error {
	var runner *servicetest.Runner
	for i := range r.d.Tests {
		t := &r.d.Tests[i]
		if !t.Gate {
			continue
		}
		if runner == nil {
			var err error
			if runner, err = servicetest.New(r.config, r.engine.Kinds()); err != nil {
				return err
			}
		}
		target := servicetest.Target{
			Service: r.d.Service, Namespace: r.d.Namespace, Namespaces: r.d.AllowedNamespaces, Key: r.d.Key, Account: r.d.ServiceAccount,
			Mask: r.hide,
		}
		if t.Helm != nil {
			if err := r.render(ctx, false); err != nil {
				return err
			}
			target.Hooks = servicetest.HooksOf(r.made.Objects, r.d.Key)
		}
		r.told("runs test " + t.Name)
		if result := runner.Run(ctx, target, check(t)); !result.Passed {
			return &NotReadyError{
				Cluster: r.name, Service: r.d.Service, Reason: Test,
				Message:  r.hide(fmt.Sprintf("test %s failed: %s", t.Name, oneLine(result.Message))),
				Solution: "look at what it printed: plural service get " + r.d.Service, Err: ctx.Err(),
			}
		}
	}
	return nil
}

// check is a test as its runner knows it.
func check(t *fleet.Test) servicetest.Test {
	timeout, _ := time.ParseDuration(t.Timeout) // checked when the fleet was loaded; empty means the runner's own
	out := servicetest.Test{Name: t.Name, Timeout: timeout, Retries: t.Retries}
	switch {
	case t.HTTP != nil:
		h := t.HTTP
		out.HTTP = &servicetest.HTTP{
			Service: h.Service, Namespace: h.Namespace, Port: h.Port, Path: h.Path, Method: h.Method, Scheme: h.Scheme,
			Headers: h.Headers, Body: h.Body, Status: h.Status, Contains: h.Contains, ByName: h.By == "cluster",
		}
	case t.Job != nil:
		out.Job = &servicetest.Job{Manifest: t.Job}
	case t.CEL != nil:
		for _, a := range t.CEL {
			kind, group, _ := strings.Cut(a.Kind, ".")
			out.CEL = append(out.CEL, servicetest.Assertion{
				Group: group, Version: a.Version, Kind: kind, Namespace: a.Namespace, Name: a.Name, Selector: a.Selector,
				Expression: a.Expression, Message: a.Message,
			})
		}
	case t.Helm != nil:
		out.Helm = &servicetest.Helm{Hooks: t.Helm.Hooks}
	}
	return out
}
