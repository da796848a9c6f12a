package apply_test

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/health"
	"github.com/pluralsh/plural/agent/object"
)

func TestApplyCreatesThenLeavesAloneThenConfigures(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	web, settings := deployment("web", "nginx:1"), configMap("settings", "1")

	w.expect(w.apply(web, settings), "created ConfigMap/settings", "created Deployment/web")
	w.eventually("a healthy deployment", func() bool {
		result := w.apply(web, settings)
		return result.Objects[1].Health.Phase == health.Healthy
	})

	before := w.live(settings).GetResourceVersion()
	inventory := w.live(w.inventory()).GetResourceVersion()
	w.expect(w.apply(web, settings), "unchanged ConfigMap/settings", "unchanged Deployment/web")
	if got := w.live(settings).GetResourceVersion(); got != before {
		t.Errorf("a pass that changes nothing moved the resourceVersion from %s to %s", before, got)
	}
	if got := w.live(w.inventory()).GetResourceVersion(); got != inventory {
		t.Errorf("a pass that changes nothing wrote the inventory")
	}

	w.expect(w.apply(deployment("web", "nginx:2"), configMap("settings", "2")),
		"configured ConfigMap/settings", "configured Deployment/web")
}

func TestApplyLabelsWhatItOwnsAndReadsItsInputOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	settings := configMap("settings", "1")
	settings.SetResourceVersion("1")
	settings.SetUID("left over from an export")
	settings.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "somebody"}})
	input := settings.DeepCopy()

	w.expect(w.apply(settings), "created ConfigMap/settings")

	live := w.live(settings)
	if got := live.GetLabels()[object.ServiceLabel]; got != w.service {
		t.Errorf("label %s is %q, want %q", object.ServiceLabel, got, w.service)
	}
	if got := live.GetManagedFields()[0].Manager; got != object.Manager {
		t.Errorf("field manager is %q, want %q", got, object.Manager)
	}
	if !slices.Equal(must(settings.MarshalJSON()), must(input.MarshalJSON())) {
		t.Error("the input was changed")
	}
}

func TestApplyHealsWhatSomebodyDeletedOrEdited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	web, settings := deployment("web", "nginx:1"), configMap("settings", "1")
	w.apply(web, settings)

	w.delete(web)
	w.patch(settings, `{"data":{"key":"tampered","more":"kept"}}`)

	w.follows(w.request(web, settings), func(*apply.Result) bool { return w.exists(web) && w.value("settings") == "1" })
	data, _, _ := unstructured.NestedStringMap(w.live(settings).Object, "data")
	if data["more"] != "kept" {
		t.Errorf("data %v: want somebody else's field left alone", data)
	}
}

func TestApplyCreatesTheServicesNamespaceAndNeverDeletesIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	namespace := manifest(`{apiVersion: v1, kind: Namespace, metadata: {name: ` + w.namespace + `-own}}`)
	w.removeLater(namespace)
	req := w.request(configMap("settings", "1"))
	req.Namespace = namespace.GetName()

	w.expect(w.pass(req), "created ConfigMap/settings")
	if _, err := w.engine.Remove(t.Context(), apply.Removal{Service: w.service}); err != nil {
		t.Fatal(err)
	}
	w.mustExist(namespace)
}

func TestApplyCreatesTheNamespacesThatManifestsNameAndNeverDeletesThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	namespace := manifest(`{apiVersion: v1, kind: Namespace, metadata: {name: ` + w.namespace + `-named}}`)
	w.removeLater(namespace)
	there := configMap("settings", "1")
	there.SetNamespace(namespace.GetName())

	changes, err := w.engine.Diff(t.Context(), w.request(there))
	if err != nil || len(changes) != 1 || changes[0].Action != apply.Created || changes[0].Err != nil {
		t.Errorf("beforehand: %+v, %v", changes, err)
	}
	if w.exists(namespace) {
		t.Error("to ask made the namespace")
	}

	w.expect(w.apply(there, configMap("settings", "1")), "created ConfigMap/settings", "created ConfigMap/settings")
	w.settles(w.request(configMap("settings", "1")))
	if w.exists(there) {
		t.Error("what the render does not hold any more is left")
	}
	w.mustExist(namespace)
}

func TestTheAccountOfAServiceHasToHaveTheRightToMakeTheNamespacesThatManifestsName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	namespace := manifest(`{apiVersion: v1, kind: Namespace, metadata: {name: ` + w.namespace + `-named}}`)
	w.removeLater(namespace)
	account := manifest(`{apiVersion: v1, kind: ServiceAccount, metadata: {name: deployer}}`)
	role := manifest(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: ` + w.namespace + `}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, create, patch, delete]}]
`)
	binding := manifest(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: ` + w.namespace + `}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: ` + w.namespace + `}
subjects: [{kind: ServiceAccount, name: deployer, namespace: ` + w.namespace + `}]
`)
	for _, o := range []*unstructured.Unstructured{account, role, binding} {
		w.create(o)
		w.removeLater(o)
	}
	there := configMap("settings", "1")
	there.SetNamespace(namespace.GetName())
	req := w.request(there)
	req.Account = w.namespace + "/deployer"

	var refused *apply.Error
	w.eventually("the role to be in force", func() bool {
		refused = w.pass(req).Objects[0].Err
		return refused != nil && refused.Reason == apply.MissingNamespace
	})

	if want := "kubectl create namespace " + namespace.GetName(); !strings.Contains(refused.Fix, want) {
		t.Errorf("fix %q, want %s", refused.Fix, want)
	}
	if w.exists(namespace) {
		t.Error("the agent made by its own rights what the account may not")
	}
}

func TestARemovedAPIVersionNamesItsSuccessorAndAMissingDefinitionItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := manifest(`{apiVersion: apps/v1beta1, kind: Deployment, metadata: {name: web}}`)
	_, custom := w.definition()

	result := w.apply(old, custom)

	w.expect(result, "MissingKind Deployment/web", "MissingKind Thing/one")
	for i, want := range [][]string{
		{"Kubernetes 1.16 removed it", "write apiVersion: apps/v1"}, {"does not serve Thing", "install its CustomResourceDefinition"},
	} {
		for _, text := range want {
			if got := result.Objects[i].Err.Error(); !strings.Contains(got, text) {
				t.Errorf("%q says nothing of %q", got, text)
			}
		}
	}
}

func TestApplyBringsNamespaceAndDefinitionBeforeWhatNeedsThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	namespace := manifest(`{apiVersion: v1, kind: Namespace, metadata: {name: ` + w.namespace + `-more}}`)
	w.removeLater(namespace)
	crd, custom := w.definition()
	custom.SetNamespace(namespace.GetName())

	result := w.apply(custom, configMap("settings", "1"), crd, namespace)

	w.expect(result, "created Namespace/"+namespace.GetName(), "created CustomResourceDefinition/"+crd.GetName(),
		"created ConfigMap/settings", "created Thing/one")
	if got := result.Objects[1].Health.Phase; got != health.Healthy {
		t.Errorf("the definition is %s, want established", got)
	}
	w.expect(w.apply(custom, configMap("settings", "1"), crd, namespace), "unchanged Namespace/"+namespace.GetName(),
		"unchanged CustomResourceDefinition/"+crd.GetName(), "unchanged ConfigMap/settings", "unchanged Thing/one")
}

func TestApplyGoesOnWithoutAKindThatIsMissingAndFindsItLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	crd, custom := w.definition()

	w.expect(w.apply(custom, configMap("settings", "1")), "created ConfigMap/settings", "MissingKind Thing/one")

	w.create(crd)
	w.eventually("the kind to be found", func() bool { return w.apply(custom, configMap("settings", "1")).Complete() })
	w.mustExist(custom)
}

func TestApplyBlocksOnlyWhatNeedsAFailedBarrier(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	crd, custom := w.definition()
	unstructured.RemoveNestedField(crd.Object, "spec", "names", "plural")
	namespace := manifest(`{apiVersion: v1, kind: Namespace, metadata: {name: Not_A_Name}}`)
	lost := configMap("lost", "1")
	lost.SetNamespace("Not_A_Name")

	w.expect(w.apply(crd, custom, namespace, lost, configMap("settings", "1")),
		"Invalid Namespace/Not_A_Name", "Invalid CustomResourceDefinition/"+crd.GetName(),
		"Blocked ConfigMap/lost", "created ConfigMap/settings", "Blocked Thing/one")
}

func TestApplyReportsEachBadObjectAndAppliesTheOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	job := func(image string) *unstructured.Unstructured {
		return manifest(`
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: "` + image + `"}]}}}`)
	}
	w.expect(w.apply(job("a")), "created Job/once")

	bad := configMaps("bad", 6)
	must(0, unstructured.SetNestedField(bad[0].Object, int64(7), "data", "key"))
	must(0, unstructured.SetNestedField(bad[1].Object, int64(7), "metadata", "labels", "a"))
	bad[2].SetName("")
	bad[3].SetName("a/b")
	bad[4].SetName("Not_A_Name")
	bad[5].SetName("good-000")
	objects := append(append(configMaps("good", 2), bad...), job("b"))

	result := w.apply(objects...)

	w.expect(result, "Invalid ConfigMap/Not_A_Name", "Invalid ConfigMap/bad-000", "created ConfigMap/good-000",
		"created ConfigMap/good-001", "Immutable Job/once", "Invalid ConfigMap/bad-001", "Invalid ConfigMap/",
		"Invalid ConfigMap/a/b", "Invalid ConfigMap/good-000")
	if got := result.Objects[4].Err.Error(); !strings.Contains(got, "spec.template") || !strings.Contains(got, "plural.sh/recreate=allow") {
		t.Errorf("error %q: want the field and what to do", got)
	}
}

func TestApplyReportsWhatAdmissionDenies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	policy := manifest(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: ` + w.namespace + `}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
  validations: [{expression: "!object.metadata.name.startsWith('forbidden')", message: "not here"}]`)
	binding := manifest(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: ` + w.namespace + `}
spec:
  policyName: ` + w.namespace + `
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ` + w.namespace + `}}}`)
	w.create(policy)
	w.create(binding)

	probe := configMap("forbidden-probe", "1")
	w.eventually("the policy to bite", func() bool {
		_, err := w.resource(probe).Create(t.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil
	})

	result := w.apply(configMap("settings", "1"), configMap("forbidden", "1"))

	w.expect(result, "Denied ConfigMap/forbidden", "created ConfigMap/settings")
	if got := result.Objects[0].Err.Error(); !strings.Contains(got, "not here") {
		t.Errorf("error %q does not repeat the policy's words", got)
	}
}

func TestApplyReportsATerminatingNamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	namespace := manifest(`{apiVersion: v1, kind: Namespace, metadata: {name: ` + w.namespace + `-going}}`)
	w.create(namespace)
	stuck := configMap("stuck", "1")
	stuck.SetNamespace(namespace.GetName())
	stuck.SetFinalizers([]string{"example.com/wait"})
	w.create(stuck)
	w.Cleanup(func() { w.patch(stuck, `{"metadata":{"finalizers":null}}`) })
	if err := w.resource(namespace).Delete(t.Context(), namespace.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	late := configMap("late", "1")
	late.SetNamespace(namespace.GetName())

	w.expect(w.apply(late, configMap("settings", "1")),
		"created ConfigMap/settings", "NamespaceTerminating ConfigMap/late")
}

func TestApplyNeverStealsFromAnotherService(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	shared := configMap("shared", "first")
	w.expect(w.apply(shared), "created ConfigMap/shared")
	second := w.request(configMap("shared", "second"), configMap("own", "1"))
	second.Service = w.service + "-2"

	result := w.pass(second)

	w.expect(result, "created ConfigMap/own", "Conflict ConfigMap/shared")
	if got := result.Objects[1].Err.Error(); !strings.Contains(got, `"`+w.service+`"`) {
		t.Errorf("error %q does not name the owner", got)
	}
	if value, _, _ := unstructured.NestedString(w.live(shared).Object, "data", "key"); value != "first" {
		t.Errorf("value is %q: the second service wrote", value)
	}

	if _, err := w.engine.Remove(t.Context(), apply.Removal{Service: second.Service}); err != nil {
		t.Fatal(err)
	}
	w.mustExist(shared)
}

func TestTwoServicesThatWantTheSameNewObjectsAtOnceShareNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	results := make(chan *apply.Result, 2)
	for _, service := range []string{"a", "b"} {
		go func() {
			req := w.request(configMaps("shared", 30)...)
			req.Service = w.service + "-" + service
			result, err := w.engine.Apply(t.Context(), req)
			if err != nil {
				t.Error(err)
			}
			results <- result
		}()
	}
	created := 0
	for range 2 {
		for _, o := range (<-results).Objects {
			if o.Action == apply.Created {
				created++
			} else if o.Err == nil || o.Err.Reason != apply.Conflict {
				t.Errorf("%s: %s %v", o.Name, o.Action, o.Err)
			}
		}
	}
	if created != 30 {
		t.Errorf("%d objects were created, want 30", created)
	}
}

func TestApplyAdoptsWhatNobodyOwns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(configMap("settings", "by hand"))

	w.expect(w.apply(configMap("settings", "1")), "configured ConfigMap/settings")
	w.expect(w.apply(configMap("settings", "1")), "unchanged ConfigMap/settings")
}

func TestApplyRefusesToTouchInventories(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	forged := configMap("plural-inventory-other", "x")
	forged.SetNamespace(object.SystemNamespace)

	w.expect(w.apply(forged, configMap("settings", "1")), "created ConfigMap/settings", "Invalid ConfigMap/plural-inventory-other")
}

func TestApplyRefusesBadRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, req := range []apply.Request{
		{Service: "Not A Name"},
		{Service: w.service, Budget: "half"},
		{Service: w.service, Policies: apply.Policies{Conflicts: "fight"}},
		{Service: w.service, Policies: apply.Policies{Fields: []apply.FieldRule{{Pointer: "spec", Policy: apply.Own}}}},
		{Service: w.service, Policies: apply.Policies{Account: "deployer"}},
	} {
		if _, err := w.engine.Apply(t.Context(), req); err == nil {
			t.Errorf("%+v was accepted", req)
		}
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
