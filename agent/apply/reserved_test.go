package apply_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/inventory"
	"github.com/pluralsh/plural/agent/object"
)

// The tests here share the one policy that the cluster has, and do not run beside each other.

// policy is what the cluster says of people who come by the hub.
func policy(mode string) *unstructured.Unstructured {
	return manifest(`
apiVersion: v1
kind: ConfigMap
metadata: {name: plural-agent-reach, namespace: plural-system}
data: {mode: "` + mode + `"}
`)
}

// takes has the service own an object as an engine left it that refused nothing.
func (w *world) takes(obj *unstructured.Unstructured) {
	w.Helper()
	w.patch(obj, `{"metadata": {"labels": {"plural.sh/service": "`+w.service+`"}}}`)
	w.intends(inventory.Entry{ID: w.id(obj), Version: "v1", UID: string(w.live(obj).GetUID())})
}

// A service that was taken over says anew what people may ask of the cluster, gives them its administrator's role, mints a token of the
// agent, and runs a pod with the agent's keys; in every shape that the engine takes. What else it renders is applied.
func TestADeliveredServiceCannotTakeOverTheAgent(t *testing.T) {
	w := newWorld(t)
	standing := policy("off")
	w.apply(configMap("first", "1")) // which makes the namespace of the inventories
	w.create(standing)
	const hook = "helm.sh/hook"
	mine := func(text string) *unstructured.Unstructured {
		return manifest(strings.ReplaceAll(text, "NAME", w.namespace))
	}
	attacks := map[string]*unstructured.Unstructured{
		"the policy": policy("full"),
		"the policy, as a hook": annotated(policy("full"), hook, "pre-install,pre-upgrade",
			"helm.sh/hook-delete-policy", "before-hook-creation"),
		"the policy, made anew": annotated(policy("full"), "plural.sh/recreate", "allow"),
		"the policy, once":      annotated(policy("full"), "plural.sh/sync", "once"),
		"a token of the agent": mine(`
apiVersion: v1
kind: Secret
type: kubernetes.io/service-account-token
metadata: {name: NAME, namespace: plural-system, annotations: {kubernetes.io/service-account.name: plural-agent}}
`),
		"a pod beside the agent": mine(`
apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: plural-system}
spec: {serviceAccountName: plural-agent, containers: [{name: a, image: a}]}
`),
		"a name that is made": annotated(mine(`
apiVersion: batch/v1
kind: Job
metadata: {generateName: plural-agent-, namespace: plural-system}
`), hook, "pre-install,pre-upgrade"),
		"people": mine(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: NAME}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "plural:operators"}]
`),
		"people in its namespace": mine(`
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: NAME}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: "plural:eve"}]
`),
	}
	for what, attack := range attacks {
		req := w.request(attack, configMap("innocent", what))
		req.OwnRepository = true // which makes none but the agent's package
		result := w.pass(req)
		refused := false
		for _, o := range result.Objects {
			if o.Name == "innocent" && o.Action == apply.Failed {
				t.Errorf("%s: what else it renders is not applied: %v", what, o.Err)
			}
			refused = refused || o.Err != nil && o.Err.Reason == apply.Reserved && o.Err.Fix != ""
		}
		if !refused {
			t.Errorf("%s is not refused: %v", what, lines(result))
		}
	}
	if mode, _, _ := unstructured.NestedString(w.live(standing).Object, "data", "mode"); mode != "off" {
		t.Errorf("the policy says %q", mode)
	}
	w.apply(configMap("innocent", "1"))
	list := manifest(`{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: List, items: []}]}`)
	list.SetName("list")
	w.expect(w.apply(list, configMap("innocent", "1")), "unchanged ConfigMap/innocent", "MissingKind List/list")
}

// What a service took before it was refused is not deleted with it, and the agent's package takes it back.
func TestWhatAServiceTookOfTheAgentIsNotDeletedAndGoesBack(t *testing.T) {
	w := newWorld(t)
	standing := policy("full")
	w.apply(configMap("settings", "1")) // which makes the namespace of the inventories
	w.create(standing)
	w.takes(standing)

	w.expect(w.apply(configMap("settings", "1")), "unchanged ConfigMap/settings", "kept ConfigMap/plural-agent-reach")
	w.mustExist(standing)
	w.takes(standing)
	must(w.engine.Remove(t.Context(), apply.Removal{Service: w.service}))
	w.mustExist(standing)

	w.patch(standing, `{"metadata": {"labels": {"plural.sh/service": "`+w.service+`"}, "annotations": {"plural.sh/run": "x/pre-sync"}}}`)
	store, inv := w.recorded()
	inv.Hooks[inventory.HookID{ID: w.id(standing)}] = inventory.Hook{Run: "x"}
	if err := store.Save(t.Context(), inv); err != nil {
		t.Fatal(err)
	}
	w.engine = w.newEngine(nil)
	must(w.engine.Remove(t.Context(), apply.Removal{Service: w.service}))
	w.mustExist(standing)

	w.takes(standing)
	asAgent := w.request(standing)
	asAgent.Service, asAgent.Namespace, asAgent.OwnRepository = "agent", object.SystemNamespace, true
	w.removeLater(manifest(`{apiVersion: v1, kind: ConfigMap, metadata: {namespace: plural-system, name: plural-inventory-agent}}`))
	w.expect(w.pass(asAgent), "configured ConfigMap/plural-agent-reach")
	if owner := w.live(standing).GetLabels()[object.ServiceLabel]; owner != "agent" {
		t.Errorf("it belongs to %q", owner)
	}
}

// What a service was allowed before goes with it, whatever it may not write any more.
func TestAServiceThatMayNotWriteWhatItHasIsRemovedAllTheSame(t *testing.T) {
	w := newWorld(t)
	beside := manifest(`{apiVersion: v1, kind: ConfigMap, metadata: {name: ` + w.namespace + `, namespace: plural-system}}`)
	w.apply(configMap("settings", "1")) // which makes the namespace of the inventories
	w.create(beside)
	w.takes(beside)
	for range 10 {
		result := must(w.engine.Remove(t.Context(), apply.Removal{
			Service: w.service, Namespace: w.namespace,
			Objects: func(context.Context) ([]*unstructured.Unstructured, error) {
				return []*unstructured.Unstructured{beside}, nil
			},
		}))
		if result.Done {
			if w.exists(beside) {
				t.Error("it stays")
			}
			return
		}
	}
	t.Error("the removal does not end")
}
