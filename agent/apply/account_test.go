package apply_test

import (
	"context"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/apply"
)

// account is a service account of the world's namespace that may do anything there, with what makes it so.
func account() (serviceAccount, role, binding *unstructured.Unstructured) {
	serviceAccount = manifest(`{apiVersion: v1, kind: ServiceAccount, metadata: {name: deployer}}`)
	role = manifest(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: deployer}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]
`)
	binding = manifest(`
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: deployer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: deployer}
subjects: [{kind: ServiceAccount, name: deployer}]
`)
	return serviceAccount, role, binding
}

// deployed settles objects and a hook as the account, which makes it the service's.
func (w *world) deployed(objects ...*unstructured.Unstructured) {
	w.Helper()
	w.eventually("the account to be in force", func() bool {
		req := w.request(objects...)
		req.Account = w.namespace + "/deployer"
		return w.pass(req).Done
	})
}

// removed goes on with a removal to its end, and returns all that it noted.
func (w *world) removed() (notes string) {
	w.Helper()
	w.eventually("the removal to end", func() bool {
		result, err := w.engine.Remove(w.Context(), apply.Removal{Service: w.service, Namespace: w.namespace})
		if err != nil {
			w.Fatal(err)
		}
		notes += strings.Join(result.Notes, "\n")
		return result.Done
	})
	return notes
}

func TestAServiceThatBringsItsOwnAccountGoesWithAllThatItLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	serviceAccount, role, binding := account()
	settings := configMap("settings", "1")
	hook := annotated(configMap("made-by-a-hook", "1"), "plural.sh/hook", "pre-sync")
	w.settles(w.request(serviceAccount, role, binding))
	w.deployed(serviceAccount, role, binding, settings, hook)

	notes := w.removed()
	for _, obj := range []*unstructured.Unstructured{settings, hook, binding, role, serviceAccount} {
		if w.exists(obj) {
			t.Errorf("%s %s stays", obj.GetKind(), obj.GetName())
		}
	}
	for _, name := range []string{"settings", "made-by-a-hook"} {
		if strings.Contains(notes, name) {
			t.Errorf("%s went by the agent's own rights while the account had its own:\n%s", name, notes)
		}
	}
	if !strings.Contains(notes, "by the agent's own rights") { // which of the three: the API server forgets roles a little later
		t.Errorf("what the agent did by its own rights is not said: %q", notes)
	}
}

func TestWhatOutlivesAServicesAccountIsRemovedByTheAgentWhoSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	serviceAccount, role, binding := account()
	for _, obj := range []*unstructured.Unstructured{serviceAccount, role, binding} {
		w.create(obj)
	}
	settings := configMap("settings", "1")
	hook := annotated(configMap("made-by-a-hook", "1"), "plural.sh/hook", "pre-sync")
	w.deployed(settings, hook)
	w.delete(binding)
	w.eventually("the account to lose its rights", func() bool {
		result, err := w.engine.Remove(context.WithoutCancel(t.Context()), apply.Removal{Service: w.service, Namespace: w.namespace})
		return err == nil && !result.Complete() && w.exists(settings)
	})
	w.delete(serviceAccount)
	notes := w.removed()
	for _, obj := range []*unstructured.Unstructured{settings, hook} {
		if w.exists(obj) {
			t.Errorf("%s %s stays", obj.GetKind(), obj.GetName())
		}
		if !strings.Contains(notes, obj.GetName()+" goes by the agent's own rights") {
			t.Errorf("of %s it is not said: %q", obj.GetName(), notes)
		}
	}
}

// The account is not the service's own, and what lets it delete is what a hook left.
func TestWhatAnAccountLivesByGoesAfterAllElseThatHooksLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	serviceAccount, role, binding := account()
	for _, obj := range []*unstructured.Unstructured{serviceAccount, role} {
		w.create(obj)
	}
	w.settles(w.request(annotated(binding, "plural.sh/hook", "pre-sync")))
	hooks := configMaps("made-by-a-hook", 30)
	for i, hook := range hooks {
		hooks[i] = annotated(hook, "plural.sh/hook", "pre-sync")
	}
	w.deployed(hooks...)
	var mu sync.Mutex
	var deleted []string
	w.engine = w.newEngine(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodDelete && !strings.Contains(r.URL.Path, "plural-inventory-") {
				mu.Lock()
				deleted = append(deleted, path.Base(r.URL.Path))
				mu.Unlock()
			}
			return next.RoundTrip(r)
		})
	})
	w.removed()
	mu.Lock()
	defer mu.Unlock()
	if len(deleted) == 0 || deleted[len(deleted)-1] != binding.GetName() {
		t.Errorf("deleted in this order: %q, want the binding last", deleted)
	}
	for _, obj := range append(hooks, binding) {
		if w.exists(obj) {
			t.Errorf("%s %s stays", obj.GetKind(), obj.GetName())
		}
	}
}

func TestTheAgentDeletesNothingThatAdmissionDeniedToAnAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	serviceAccount, role, binding := account()
	w.settles(w.request(serviceAccount, role, binding))
	w.deployed(serviceAccount, role, binding)
	const denial = `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
		"message": "admission webhook \"keep.example.com\" denied the request: it is needed"}`
	var denied, own atomic.Int32
	engine := w.newEngine(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			switch {
			case r.Method != http.MethodDelete || !strings.Contains(r.URL.Path, "bindings/"):
				return next.RoundTrip(r)
			case r.Header.Get("Impersonate-User") == "":
				own.Add(1)
			}
			denied.Add(1)
			return &http.Response{
				StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
				Body: io.NopCloser(strings.NewReader(denial)),
			}, nil
		})
	})
	w.eventually("the binding's turn", func() bool {
		result, err := engine.Remove(t.Context(), apply.Removal{Service: w.service, Namespace: w.namespace})
		if err != nil || result.Done {
			t.Fatalf("the removal has ended: %+v, %v", result, err)
		}
		return denied.Load() > 0
	})
	if own.Load() > 0 || !w.exists(binding) {
		t.Error("the agent went around what denied it")
	}
}
