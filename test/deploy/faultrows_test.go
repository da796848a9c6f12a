package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/test/support/faultproxy"
)

// onInventory are requests for the service's inventory, allInventories the list that an engine begins with.
const (
	onInventory    = `/namespaces/plural-system/configmaps/plural-inventory-NS`
	allInventories = `/namespaces/plural-system/configmaps\?`
	onStale        = `/namespaces/NS/configmaps/stale(\?|$)`
	watchMaps      = `^/api/v1/configmaps\?`
)

func internal() faultproxy.Fault {
	return refusal(500, metav1.StatusReasonInternalError, "etcdserver: request timed out")
}

// inventoryRows are failures to read or write what the service owns.
func inventoryRows() []row {
	return []row{
		{name: "inventories cannot be listed", restart: true, fault: meeting(http.MethodGet, allInventories, internal()), expect: []string{"error: "}},
		{name: "the list of inventories is truncated", restart: true, fault: meeting(http.MethodGet, allInventories, faultproxy.Truncate(200)), expect: []string{"error: "}},
		{name: "the list of inventories breaks off", restart: true, fault: meeting(http.MethodGet, allInventories, faultproxy.BreakAfter(200)), expect: []string{"error: "}},
		{name: "the inventory cannot be written", fault: meeting("", onInventory, internal()), expect: []string{"error: "}, then: nothingUnnamed},
		{name: "the first inventory cannot be written", before: nothing, fault: meeting("", onInventory, internal()), expect: []string{"error: "}},
		{name: "the inventory may not be written", fault: meeting("", onInventory, refusal(403, metav1.StatusReasonForbidden, "forbidden")), expect: []string{"error: "}},
		{name: "somebody else writes the inventory", fault: once(http.MethodPut, onInventory, 1, refusal(409, metav1.StatusReasonConflict, "the object has been modified")), expect: []string{"done"}},
		{name: "the answer of writing the inventory is lost", fault: once(http.MethodPut, onInventory, 1, faultproxy.Lose()), expect: []string{"done"}},
		{name: "every answer of writing the inventory is lost", fault: meeting(http.MethodPut, onInventory, faultproxy.Lose()), expect: []string{"error: "}},
		{name: "the inventory hangs", timeout: time.Second, fault: meeting("", onInventory, faultproxy.Hang()), expect: []string{"error: "}},
		{
			name: "the inventory is damaged", restart: true, expect: []string{"held: ", "ConfigMap/stale"}, acknowledge: true,
			fault: func(s *scene) func() { s.damage(); return func() {} },
		},
		{
			name: "the inventory is deleted by hand", restart: true, expect: []string{"held: ", "ConfigMap/stale"}, acknowledge: true,
			fault: func(s *scene) func() {
				s.must(s.cluster.Dynamic.Resource(configMaps).Namespace("plural-system").Delete(s.Context(), s.inventory(), metav1.DeleteOptions{}))
				return func() {}
			},
		},
		{
			name: "inventories are listed as they were before somebody else applied", restart: true, expect: []string{"done"},
			fault: staleInventories, goes: []string{"ConfigMap/stale"},
		},
	}
}

// staleInventories answers the list as it was, after another engine has gone on.
func staleInventories(s *scene) func() {
	list, err := s.cluster.Dynamic.Resource(configMaps).Namespace("plural-system").List(s.Context(), metav1.ListOptions{LabelSelector: inventoryLabel + "=" + s.request.Service})
	s.must(err)
	before, err := list.MarshalJSON()
	s.must(err)
	s.elsewhere(changed + "\n---\n" + cmFor("d", ""))
	return s.meets(http.MethodGet, allInventories, faultproxy.Answer(200, "application/json", string(before)))
}

// elsewhere has another engine apply the service, past the proxy.
func (s *scene) elsewhere(text string) {
	s.Helper()
	other, stop := s.startEngine(s.cluster.RESTConfig)
	defer stop()
	request, objects := s.request, s.parse(text)
	request.Key = "elsewhere"
	request.Objects = func(context.Context) ([]*unstructured.Unstructured, error) { return objects, nil }
	_, err := other.Apply(s.Context(), request)
	s.must(err)
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// damage spoils the stored inventory, however it is stored.
func (s *scene) damage() {
	s.Helper()
	maps := s.cluster.Dynamic.Resource(configMaps).Namespace("plural-system")
	stored, err := maps.Get(s.Context(), s.inventory(), metav1.GetOptions{})
	s.must(err)
	for _, field := range []string{"data", "binaryData"} {
		values, _, _ := unstructured.NestedMap(stored.Object, field)
		for key := range values {
			values[key] = "AAAA"
		}
		if len(values) > 0 {
			s.must(unstructured.SetNestedMap(stored.Object, values, field))
		}
	}
	_, err = maps.Update(s.Context(), stored, metav1.UpdateOptions{})
	s.must(err)
}

// nothingUnnamed has the service removed at the end: what its inventory does not name stays then.
func nothingUnnamed(s *scene) {
	s.removed()
	if left := s.live(); len(left) > 0 {
		s.Errorf("left after the service was removed: %v", left)
	}
}

// removed takes the whole service away.
func (s *scene) removed() {
	s.Helper()
	removal := apply.Removal{Service: s.request.Service, Namespace: s.namespace, Objects: s.request.Objects}
	deadline := time.Now().Add(30 * time.Second)
	for {
		result, err := s.engine.Remove(s.Context(), removal)
		if err == nil && result.Done {
			return
		}
		if time.Now().After(deadline) {
			s.result, s.err = result, err
			s.Fatalf("it is never removed:\n%s", strings.Join(s.lines(), "\n"))
		}
		select {
		case <-s.engine.Changed():
			s.engine.Take()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// watchRows are watches that break, lie or are refused. Each begins with an engine that has to set them up.
func watchRows() []row {
	again := func(name, method string, fault faultproxy.Fault, expect ...string) row {
		return row{name: name, restart: true, fault: meeting(method, watchMaps, fault), expect: expect}
	}
	return []row{
		again("watches are cut each second", faultproxy.Watch, faultproxy.Cut(time.Second), "done"),
		again("watches are cut at once", faultproxy.Watch, faultproxy.Cut(50*time.Millisecond), "done"),
		again("watches break off in the middle of an event", faultproxy.Watch, breakWatch(700), "ConfigMap/a", "watch"),
		again("watches are too old", faultproxy.Watch, faultproxy.Expire(), "ConfigMap/a", "watch"),
		again("watches are forbidden", "", refusal(403, metav1.StatusReasonForbidden, "configmaps is forbidden"), "Forbidden ConfigMap/a", "watch"),
		again("watches fail inside the server", "", internal(), "ConfigMap/a", "watch"),
		{name: "watches are slowed down", restart: true, fault: once("", watchMaps, 2, slowDown(1)), expect: []string{"done"}},
		{name: "watches are silent", restart: true, fault: meeting(faultproxy.Watch, watchMaps, faultproxy.Silence(2*time.Second)), expect: []string{"ConfigMap/a", "watch"}},
		{name: "a server that streams no lists", restart: true, fault: meeting(faultproxy.Watch, streamedList, noStreaming), expect: []string{"done"}},
		listing("lists are refused", internal()),
		listing("lists break off", faultproxy.BreakAfter(300)),
		listing("lists are truncated", faultproxy.Truncate(300)),
		listing("lists are of another kind", faultproxy.Answer(200, "application/json", `{"kind":"Status","apiVersion":"v1","status":"Success"}`)),
		listing("lists are too old", refusal(410, metav1.StatusReasonExpired, "the provided continue parameter is too old")),
		{
			name: "drift is healed though watches are cut again and again", restart: true, expect: []string{"done"}, then: func(s *scene) { s.heals() },
			fault: func(s *scene) func() {
				s.meets(faultproxy.Watch, watchMaps, faultproxy.Cut(300*time.Millisecond))
				return func() {}
			},
		},
	}
}

// streamedList is a watch that begins with all there is. An older server does not know that.
const streamedList = watchMaps + `.*sendInitialEvents=true`

var noStreaming = refusal(422, metav1.StatusReasonInvalid, "sendInitialEvents is forbidden for watch", metav1.StatusCause{Type: metav1.CauseTypeForbidden, Field: "sendInitialEvents"})

// listing is a server that streams no lists, and fails to give them otherwise.
func listing(name string, fault faultproxy.Fault) row {
	return row{name: name, restart: true, expect: []string{"ConfigMap/a", "watch"}, fault: func(s *scene) func() {
		s.meets(faultproxy.Watch, streamedList, noStreaming)
		return s.meets(http.MethodGet, watchMaps, fault)
	}}
}

// breakWatch breaks a watch's connection after so many bytes.
func breakWatch(size int) faultproxy.Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		next.ServeHTTP(&bounded{w, size, cancel}, r.WithContext(ctx))
		panic(http.ErrAbortHandler)
	}
}

type bounded struct {
	http.ResponseWriter
	left int
	end  func()
}

func (b *bounded) Unwrap() http.ResponseWriter { return b.ResponseWriter }

func (b *bounded) Write(part []byte) (int, error) {
	n := min(len(part), b.left)
	written, err := b.ResponseWriter.Write(part[:n])
	if b.left -= n; b.left == 0 {
		b.end()
		return written, http.ErrAbortHandler
	}
	return written, err
}

// heals deletes an object and edits another, and wants both as they were.
func (s *scene) heals() {
	s.Helper()
	s.edit("ConfigMap", "a", `{"data": {"value": "drifted"}}`)
	s.must(s.of("ConfigMap").Delete(s.Context(), "b", metav1.DeleteOptions{}))
	healed := func() bool {
		a, errA := s.of("ConfigMap").Get(s.Context(), "a", metav1.GetOptions{})
		_, errB := s.of("ConfigMap").Get(s.Context(), "b", metav1.GetOptions{})
		if errA != nil || errB != nil {
			return false
		}
		value, _, _ := unstructured.NestedString(a.Object, "data", "value")
		return value == "2"
	}
	if !s.until(15*time.Second, healed) {
		s.Errorf("drift was not healed:\n%s", strings.Join(s.lines(), "\n"))
	}
}

// deletionRows are failures to delete what is no longer wanted.
func deletionRows() []row {
	remove := func(name string, fault faultproxy.Fault, expect ...string) row {
		return row{name: name, fault: meeting(http.MethodDelete, onStale, fault), expect: expect}
	}
	hanging := remove("a deletion hangs", faultproxy.Hang(), "ConfigMap/stale")
	hanging.timeout = 1500 * time.Millisecond
	return []row{
		hanging,
		remove("a deletion is forbidden", refusal(403, metav1.StatusReasonForbidden, "cannot delete resource"), "Forbidden ConfigMap/stale"),
		remove("a deletion is denied", refusal(403, metav1.StatusReasonForbidden, "admission webhook \"x\" denied the request"), "Denied ConfigMap/stale"),
		remove("a deletion fails inside the server", internal(), "Unavailable ConfigMap/stale"),
		remove("a deletion meets a change each time", refusal(409, metav1.StatusReasonConflict, "Precondition failed: ResourceVersion"), "Busy ConfigMap/stale"),
		remove("a deletion is slowed down", slowDown(1), "TooManyRequests ConfigMap/stale"),
		{name: "a deletion's answer is lost", fault: meeting(http.MethodDelete, onStale, faultproxy.Lose()), expect: []string{"ConfigMap/c"}, goes: []string{"ConfigMap/stale"}},
		{
			name: "an object waits for its finalizer", fault: func(s *scene) func() {
				s.edit("ConfigMap", "stale", `{"metadata": {"finalizers": ["example.com/block"]}}`)
				return func() { s.edit("ConfigMap", "stale", `{"metadata": {"finalizers": null}}`) }
			}, expect: []string{"deleted ConfigMap/stale", "example.com/block"},
		},
		{
			name: "a wanted object is being deleted, and waits for its finalizer", fault: func(s *scene) func() {
				s.edit("ConfigMap", "a", `{"metadata": {"finalizers": ["example.com/block"]}}`)
				s.must(s.of("ConfigMap").Delete(s.Context(), "a", metav1.DeleteOptions{}))
				return func() { s.edit("ConfigMap", "a", `{"metadata": {"finalizers": null}}`) }
			}, expect: []string{"waiting ConfigMap/a", "example.com/block"}, anew: []string{"ConfigMap/a"},
		},
		{
			name: "an unwanted object was made anew by somebody", expect: []string{"done", "kept ConfigMap/stale", "created it anew"},
			goes: []string{"ConfigMap/stale"}, more: []string{"ConfigMap/stale"},
			fault: func(s *scene) func() {
				s.must(s.of("ConfigMap").Delete(s.Context(), "stale", metav1.DeleteOptions{}))
				s.others("{apiVersion: v1, kind: ConfigMap, metadata: {name: stale, labels: {plural.sh/service: NS}}}")
				return func() {}
			},
		},
		{
			name: "an unwanted object lost its label", expect: []string{"done", "kept ConfigMap/stale", "taken off"}, goes: []string{"ConfigMap/stale"},
			fault: func(s *scene) func() {
				s.edit("ConfigMap", "stale", `{"metadata": {"labels": {"plural.sh/service": null}}}`)
				return func() {}
			},
			then: func(s *scene) {
				_, err := s.of("ConfigMap").Get(s.Context(), "stale", metav1.GetOptions{})
				s.must(err)
			},
		},
		{
			name: "somebody copies an object with our label", before: calm, expect: []string{"done"}, more: []string{"ConfigMap/copy"},
			fault: func(s *scene) func() {
				s.others("{apiVersion: v1, kind: ConfigMap, metadata: {name: copy, labels: {plural.sh/service: NS}}}")
				return func() {}
			},
		},
		{
			name: "pruning is off", request: func(r *apply.Request) { r.Prune = false }, release: func(r *apply.Request) { r.Prune = true },
			expect: []string{"done", "kept ConfigMap/stale"}, fixed: changed + "\n---\n" + cmFor("d", ""),
		},
	}
}

func cmFor(name, rest string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s%s}, data: {value: '1'}}", name, rest)
}

// with adds documents to the usual ones.
func with(documents ...string) string {
	return changed + "\n---\n" + strings.Join(documents, "\n---\n")
}

// bundleRows are renders that cannot be applied as they are, and are mended by a later one.
func bundleRows() []row {
	bad := func(name, document string, expect ...string) row {
		return row{name: name, wants: with(document), fixed: changed, expect: append(expect, "configured ConfigMap/a", "kept ConfigMap/stale")}
	}
	return []row{
		bad("an object has no name", "{apiVersion: v1, kind: ConfigMap, metadata: {}}", "Invalid ConfigMap/"),
		bad("an object has no kind", "{apiVersion: v1, metadata: {name: x}}", "Invalid /x"),
		bad("a name is impossible", cmFor("Not_A_Name", ""), "Invalid ConfigMap/Not_A_Name"),
		bad("a label is impossible", cmFor("x", ", labels: {bad: 'no/label/at all!'}"), "Invalid ConfigMap/x"),
		bad("an unknown field", "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, dataa: {}}", "Invalid ConfigMap/x"),
		bad("a wrong type", "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: [1]}", "Invalid ConfigMap/x"),
		bad("an object is rendered twice", cmB, "Invalid ConfigMap/b", "twice"),
		bad("an inventory's name", "{apiVersion: v1, kind: ConfigMap, metadata: {name: plural-inventory-x, namespace: plural-system}}", "Invalid ConfigMap/plural-inventory-x"),
		bad("a kind that is not there", "{apiVersion: NS.example.com/v1, kind: Thing, metadata: {name: x}}", "MissingKind Thing/x"),
		bad("a namespace that cannot be made", cmFor("x", ", namespace: Not_A_Name"), "Blocked ConfigMap/x"),
		bad("a hook's word is unknown", cmFor("x", ", annotations: {plural.sh/hook: sometimes}"), "Invalid ConfigMap/x", "sometimes"),
		bad("a wave is no number", cmFor("x", ", annotations: {argocd.argoproj.io/sync-wave: soon}"), "Invalid ConfigMap/x"),
		bad("a huge object", "{apiVersion: v1, kind: ConfigMap, metadata: {name: huge}, data: {value: "+strings.Repeat("x", 2<<20)+"}}", "Invalid ConfigMap/huge"),
		{
			name: "the render is empty", wants: nothing, fixed: changed, expect: []string{"held: ", "ConfigMap/a", "ConfigMap/b", "ConfigMap/stale"},
		},
		{
			name: "more is to go than the budget allows", before: manyMaps(30), wants: cmFor("map-000", ""),
			request: func(r *apply.Request) { r.Budget = "11" }, expect: []string{"held: ", "budget"},
			fixed: manyMaps(25), release: func(r *apply.Request) { r.Budget = "100%" },
		},
		{
			name: "a field cannot be changed", before: job("one"), wants: job("two"), fixed: job("one") + "\n---\n" + cmC, expect: []string{"Immutable Job/batch"},
		},
		{
			name: "a field cannot be changed, and the kind may be made anew", before: job("one"), wants: job("two"), goes: []string{"Job/batch"},
			request: func(r *apply.Request) { r.Recreate = []string{"Job.batch"} }, expect: []string{"recreated Job/batch"},
		},
		{
			name: "a definition comes later", before: calm, wants: with("{apiVersion: NS.example.com/v1, kind: Thing, metadata: {name: x}}"), expect: []string{"MissingKind Thing/x", "configured ConfigMap/a"},
			fault: func(s *scene) func() { return func() { s.others(thing) } },
		},
		{
			name: "a definition comes with its objects", before: nothing, wants: "{apiVersion: NS.example.com/v1, kind: Thing, metadata: {name: x}}\n---\n" + strings.TrimSpace(thing), expect: []string{"done"},
		},
		{
			name: "protected kinds are no longer rendered", before: calm + "\n---\n" + volumeClaim, wants: changed, goes: []string{"ConfigMap/stale"},
			expect: []string{"done", "kept PersistentVolumeClaim/disk"}, more: []string{"PersistentVolumeClaim/disk"},
		},
		{
			name: "an object stays by its annotation", before: calm + "\n---\n" + cmFor("kept", ", annotations: {helm.sh/resource-policy: keep}"), wants: changed,
			goes: []string{"ConfigMap/stale", "ConfigMap/kept"}, expect: []string{"kept ConfigMap/kept", "done"},
			then: func(s *scene) {
				_, err := s.of("ConfigMap").Get(s.Context(), "kept", metav1.GetOptions{})
				s.must(err)
			},
		},
	}
}

const volumeClaim = "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: disk}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}"

const thing = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.NS.example.com, labels: {scene: NS}}
spec:
  group: NS.example.com
  scope: Namespaced
  names: {kind: Thing, plural: things, singular: thing, listKind: ThingList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]`

func job(image string) string {
	return "{apiVersion: batch/v1, kind: Job, metadata: {name: batch}, spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: main, image: " + image + "}]}}}}"
}

// clusterRows are clusters that do not take what they are given.
func clusterRows() []row {
	return []row{
		{
			name: "a policy denies", expect: []string{"Denied ConfigMap/c", "configured ConfigMap/a", "kept ConfigMap/stale"}, fault: denyC,
		},
		{
			name: "a quota is full", expect: []string{"Denied ConfigMap/c", "kept ConfigMap/stale"}, fault: func(s *scene) func() {
				return s.fullQuota()
			},
		},
		{
			name: "a namespace is being deleted", before: calm, wants: with(cmFor("x", ", namespace: NS-going")), fixed: changed,
			expect: []string{"NamespaceTerminating ConfigMap/x", "configured ConfigMap/a"}, fault: goingNamespace,
		},
		{
			name: "an account without rights", request: func(r *apply.Request) { r.Account = r.Namespace + "/default" },
			release: func(r *apply.Request) { r.Account = "" }, expect: []string{"Forbidden ConfigMap/a", "Forbidden ConfigMap/c"},
		},
		{
			name: "a namespace out of bounds", wants: with(cmFor("x", ", namespace: default")), fixed: changed, expect: []string{"OutOfBounds ConfigMap/x", "configured ConfigMap/a"},
			request: func(r *apply.Request) { r.Namespaces = []string{r.Namespace} },
		},
		{
			name: "another service has the object", wants: with(cmFor("theirs", "")), expect: []string{"Conflict ConfigMap/theirs", "configured ConfigMap/a"}, fault: anotherService,
		},
		{
			name: "another manager has a field, and the policy is to fail", request: func(r *apply.Request) { r.Conflicts = apply.Fail },
			release: func(r *apply.Request) { r.Conflicts = apply.Own }, expect: []string{"Conflict ConfigMap/a", "somebody"},
			fault: func(s *scene) func() { s.edit("ConfigMap", "a", `{"data": {"value": "theirs"}}`); return func() {} },
		},
		{
			name: "another manager has a field, and the policy is to own", expect: []string{"done"},
			fault: func(s *scene) func() { s.edit("ConfigMap", "a", `{"data": {"value": "theirs"}}`); return func() {} },
		},
		{
			name: "another engine applies the same service", expect: []string{"done"}, goes: []string{"ConfigMap/stale"},
			fault: func(s *scene) func() { s.elsewhere(changed + "\n---\n" + cmFor("d", "")); return func() {} },
		},
	}
}

func denyC(s *scene) func() {
	remove := s.others(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: deny-NS}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]}
  validations: [{expression: "object.metadata.name != 'c'", message: c is not allowed here}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: deny-NS}
spec:
  policyName: deny-NS
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NS}}}`)
	// A policy takes a while to be in force.
	probe := s.parse("{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}")[0]
	s.eventually("the policy is in force", func() bool {
		_, err := s.of("ConfigMap").Create(s.Context(), probe.DeepCopy(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), "not allowed here")
	})
	return func() {
		remove()
		s.eventually("the policy is gone", func() bool {
			_, err := s.of("ConfigMap").Create(s.Context(), probe.DeepCopy(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err == nil
		})
	}
}

func (s *scene) eventually(what string, yes func() bool) {
	s.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-tick.C {
		if yes() {
			return
		}
	}
	s.Fatalf("never: %s", what)
}

// fullQuota lets no ConfigMap be made any more.
func (s *scene) fullQuota() func() {
	s.others("{apiVersion: v1, kind: ResourceQuota, metadata: {name: full}, spec: {hard: {configmaps: '0'}}}")
	probe := s.parse("{apiVersion: v1, kind: ConfigMap, metadata: {name: probe}}")[0]
	s.eventually("the quota is in force", func() bool {
		_, err := s.of("ConfigMap").Create(s.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), "exceeded quota")
	})
	return func() {
		s.must(s.of("ResourceQuota").Delete(s.Context(), "full", metav1.DeleteOptions{}))
		s.eventually("the quota is gone", func() bool {
			_, err := s.of("ConfigMap").Create(s.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err == nil
		})
	}
}

// goingNamespace is a namespace that is being deleted and cannot go, for what is in it has a finalizer.
func goingNamespace(s *scene) func() {
	s.others("{apiVersion: v1, kind: Namespace, metadata: {name: NS-going}}")
	maps := s.cluster.Dynamic.Resource(configMaps).Namespace(s.namespace + "-going")
	_, err := maps.Create(s.Context(), s.parse("{apiVersion: v1, kind: ConfigMap, metadata: {name: stuck, finalizers: [example.com/block]}}")[0], metav1.CreateOptions{})
	s.must(err)
	s.must(s.of("Namespace").Delete(s.Context(), s.namespace+"-going", metav1.DeleteOptions{}))
	return func() {
		_, err := maps.Patch(s.Context(), "stuck", "application/merge-patch+json", []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{})
		s.must(err)
	}
}

// anotherService owns the ConfigMap theirs, and gives it up when the fault is lifted.
func anotherService(s *scene) func() {
	request := s.request
	request.Service, request.Key = s.namespace+"-b", "first"
	objects := s.parse(cmFor("theirs", "") + "\n---\n" + cmFor("other", ""))
	request.Objects = func(context.Context) ([]*unstructured.Unstructured, error) { return objects, nil }
	for result := new(apply.Result); !result.Done; {
		var err error
		result, err = s.engine.Apply(s.Context(), request)
		s.must(err)
	}
	return func() {
		request.Key = "second"
		request.Objects = func(context.Context) ([]*unstructured.Unstructured, error) { return objects[1:], nil }
		_, err := s.engine.Apply(s.Context(), request)
		s.must(err)
	}
}

// orderRows are waves, hooks and dependencies whose turn does not come.
func orderRows() []row {
	second := cmFor("second", ", annotations: {argocd.argoproj.io/sync-wave: '2'}")
	return []row{
		{
			name: "a wave is never healthy", before: calm, wants: with(rollout(1), second), expect: []string{"waiting: ", "waiting ConfigMap/second", "kept ConfigMap/stale"},
			fault: func(s *scene) func() { return s.fullQuotaOfPods() },
		},
		{
			name: "a dependency is not there", before: calm, expect: []string{"waiting ConfigMap/late", "configured ConfigMap/a"},
			wants: with(cmFor("late", ", annotations: {config.kubernetes.io/depends-on: /namespaces/NS/ConfigMap/awaited}")),
			fault: func(s *scene) func() {
				return func() { s.others("{apiVersion: v1, kind: ConfigMap, metadata: {name: awaited}}") }
			},
		},
		{
			name: "objects depend on each other", before: calm, fixed: changed, expect: []string{"Invalid ConfigMap/x"},
			wants: with(cmFor("x", ", annotations: {config.kubernetes.io/depends-on: /namespaces/NS/ConfigMap/z}"),
				cmFor("z", ", annotations: {config.kubernetes.io/depends-on: /namespaces/NS/ConfigMap/x}")),
		},
		{
			name: "a hook fails", before: calm, wants: with(hookJob("PreSync", 0)), fixed: changed, expect: []string{"HookFailed Job/hook"},
			fault: func(s *scene) func() { return s.failingJobs() }, more: []string{"Job/hook"},
			then: func(s *scene) { s.hookRuns(1) },
		},
		{
			name: "a hook is created and the answer is lost", before: calm, wants: with(hookJob("PreSync", 1)), expect: []string{"done"},
			fault: meeting(http.MethodPost, `/namespaces/NS/jobs`, faultproxy.Lose()), goes: []string{"ConfigMap/stale"}, then: func(s *scene) { s.hookRuns(1) },
		},
		{
			name: "a hook cannot be created", before: calm, wants: with(hookJob("PreSync", 1)), expect: []string{"Forbidden Job/hook"},
			fault: meeting(http.MethodPost, `/namespaces/NS/jobs`, refusal(403, metav1.StatusReasonForbidden, "cannot create resource")), then: func(s *scene) { s.hookRuns(1) },
		},
		{
			name: "an engine ends between a hook and its end", before: calm, wants: with(hookJob("PreSync", 1)), expect: []string{"waiting: "},
			fault: func(s *scene) func() { return s.restart }, then: func(s *scene) { s.hookRuns(1) },
		},
		{
			name: "a newer revision comes while a wave is awaited", before: calm, wants: with(rollout(1), second), fixed: with(second),
			expect: []string{"waiting: "}, fault: func(s *scene) func() { return s.fullQuotaOfPods() },
		},
	}
}

func rollout(wave int) string {
	return fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, annotations: {argocd.argoproj.io/sync-wave: '%d'}}, spec: {replicas: 1,
  selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: main}]}}}}`, wave)
}

func hookJob(stage string, backoff int) string {
	return fmt.Sprintf(`{apiVersion: batch/v1, kind: Job, metadata: {name: hook, annotations: {argocd.argoproj.io/hook: %s}}, spec: {backoffLimit: %d,
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: main}]}}}}`, stage, backoff)
}

// fullQuotaOfPods lets no pod be made, so that nothing becomes ready.
func (s *scene) fullQuotaOfPods() func() {
	return s.others("{apiVersion: v1, kind: ResourceQuota, metadata: {name: no-pods}, spec: {hard: {pods: '0'}}}")
}

// failingJobs makes each Job of the scene's namespace fail, as one does whose container ends with an error.
func (s *scene) failingJobs() func() {
	w, err := s.of("Job").Watch(s.Context(), metav1.ListOptions{})
	s.must(err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range w.ResultChan() {
			job, ok := event.Object.(*unstructured.Unstructured)
			if !ok || event.Type != "ADDED" {
				continue
			}
			pause, _ := json.Marshal(map[string]any{"spec": map[string]any{"activeDeadlineSeconds": 1, "suspend": false}})
			_, _ = s.of("Job").Patch(s.Context(), job.GetName(), "application/merge-patch+json", pause, metav1.PatchOptions{})
		}
	}()
	quota := s.fullQuotaOfPods()
	return func() {
		w.Stop()
		<-done
		quota()
	}
}

// hookRuns wants the hook's Job to have been made so many times, as the proxy has seen it.
func (s *scene) hookRuns(times int) {
	s.Helper()
	list, err := s.cluster.Dynamic.Resource(jobs).Namespace(s.namespace).List(s.Context(), metav1.ListOptions{})
	s.must(err)
	if len(list.Items) != times {
		s.Errorf("%d Jobs are there, want %d", len(list.Items), times)
	}
	asked := slices.DeleteFunc(s.proxy.Requests(), func(r faultproxy.Request) bool {
		return r.Method != http.MethodDelete || !strings.Contains(r.Path, "/jobs/")
	})
	if len(asked) > 0 {
		s.Errorf("the hook was deleted: %v", asked)
	}
}
