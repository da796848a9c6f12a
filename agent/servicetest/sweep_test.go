package servicetest_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/kinds"
	"github.com/pluralsh/plural/agent/servicetest"
)

func TestASweepDeletesOnlyWhatATestMadeWhereTheServiceMayGo(t *testing.T) {
	w := start(t)
	w.target.Service = w.Namespace
	secret := func(name, labels, annotations string) {
		t.Helper()
		w.create("secrets", `
apiVersion: v1
kind: Secret
metadata:
  name: `+name+`
  labels: {plural.sh/test: `+w.target.Service+labels+`}
  annotations: {`+annotations+`}
`)
	}
	const made = "plural.sh/test-digest: abc"
	secret("of-a-test", "", made)
	secret("labelled-by-somebody", "", "")
	secret("of-another-service", ", plural.sh/service: another", made)
	w.target.Namespaces = []string{"default"}
	if _, err := w.Sweep(t.Context(), w.target, key); err != nil || !w.exists("secrets", "of-a-test") {
		t.Fatalf("a service that may not go there: %v, there is %v", err, w.exists("secrets", "of-a-test"))
	}
	w.create("serviceaccounts", `{apiVersion: v1, kind: ServiceAccount, metadata: {name: nobody}}`)
	w.target.Namespaces, w.target.Account = nil, w.Namespace+"/nobody"
	_, err := w.Sweep(t.Context(), w.target, key)
	const fix = "grant that account this verb, or delete it by hand"
	if err == nil || !strings.Contains(err.Error(), fix) || !w.exists("secrets", "of-a-test") {
		t.Fatalf("an account that may do nothing: %v, there is %v", err, w.exists("secrets", "of-a-test"))
	}
	w.target.Account = ""
	if notes, err := w.Sweep(t.Context(), w.target, key); err != nil || len(notes) > 0 {
		t.Fatal(notes, err)
	}
	for name, want := range map[string]bool{"of-a-test": false, "labelled-by-somebody": true, "of-another-service": true} {
		if got := w.exists("secrets", name); got != want {
			t.Errorf("%s is there: %v", name, got)
		}
	}
	if err := w.in("secrets").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}

// leave makes an object without a field of its own, as a test of the service leaves it.
func (w *world) leave(kind, name string) {
	w.Helper()
	w.create(kind, `
apiVersion: v1
kind: `+map[string]string{"configmaps": "ConfigMap", "secrets": "Secret"}[kind]+`
metadata:
  name: `+name+`
  labels: {plural.sh/test: `+w.target.Service+`}
  annotations: {plural.sh/test-digest: abc}
`)
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestWhatATestLeftOutlivesNoAccount(t *testing.T) {
	w := start(t)
	w.target.Account = w.Namespace + "/gone"
	w.leave("configmaps", "of-a-test")
	notes, err := w.Sweep(t.Context(), w.target, "")
	if err != nil || w.exists("configmaps", "of-a-test") {
		t.Fatalf("%v, there is %v", err, w.exists("configmaps", "of-a-test"))
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "of-a-test, which a test left, goes by the agent's own rights") {
		t.Errorf("it is not said who did it: %q", notes)
	}
}

func TestTheAgentSweepsNothingThatAdmissionDeniedToAnAccount(t *testing.T) {
	for name, account := range map[string]string{"the account is there": "default", "the account is gone": "gone"} {
		t.Run(name, func(t *testing.T) {
			w := start(t)
			w.target.Account = w.Namespace + "/" + account
			w.leave("configmaps", "of-a-test")
			var denied, own atomic.Int32
			w.RESTConfig.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return roundTrip(func(r *http.Request) (*http.Response, error) {
					switch {
					case r.Method != http.MethodDelete || !strings.Contains(r.URL.Path, "/configmaps/"):
						return next.RoundTrip(r)
					case r.Header.Get("Impersonate-User") == "":
						own.Add(1)
					}
					denied.Add(1)
					const denial = `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
						"message": "admission webhook \"keep.example.com\" denied the request: it is needed"}`
					return &http.Response{
						StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
						Body: io.NopCloser(strings.NewReader(denial)),
					}, nil
				})
			})
			w.restart()
			_, err := w.Sweep(t.Context(), w.target, "")
			if denied.Load() != 1 || own.Load() > 0 || !w.exists("configmaps", "of-a-test") {
				t.Errorf("%d requests were denied, %d of them the agent's own", denied.Load(), own.Load())
			}
			if err == nil || !strings.HasSuffix(err.Error(), "denied the request: it is needed") {
				t.Errorf("who denied it, and nothing else, is not said: %v", err)
			}
		})
	}
}

func TestWhatCannotBeDeletedKeepsNothingElseOfItsKind(t *testing.T) {
	w := start(t)
	for _, name := range []string{"first", "second", "third"} {
		w.leave("configmaps", name)
	}
	w.create("serviceaccounts", `{apiVersion: v1, kind: ServiceAccount, metadata: {name: sweeper}}`)
	w.create("roles", `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: sweeper}
rules: [{apiGroups: [""], resources: [configmaps], resourceNames: [second, third], verbs: [delete]}]
`)
	w.create("rolebindings", `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: sweeper}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: sweeper}
subjects: [{kind: ServiceAccount, name: sweeper}]
`)
	w.target.Account = w.Namespace + "/sweeper"
	eventually(t, "all is swept that may be", func() bool {
		_, err := w.Sweep(t.Context(), w.target, "")
		if err == nil || !strings.Contains(err.Error(), `"first" is forbidden`) {
			t.Fatalf("what stays is not said: %v", err)
		}
		return !w.exists("configmaps", "second") && !w.exists("configmaps", "third")
	})
	if !w.exists("configmaps", "first") {
		t.Error("what the account may not delete is gone")
	}
}

// What is forbidden is mostly so for all of a kind, and a try of a removal follows another.
func TestASweepAsksLittleWhereAllIsForbidden(t *testing.T) {
	w := start(t)
	w.target.Account = w.Namespace + "/default"
	for i := range 12 {
		w.leave("configmaps", fmt.Sprintf("forbidden-%d", i))
	}
	w.leave("secrets", "allowed")
	w.create("roles", `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: sweeper}
rules: [{apiGroups: [""], resources: [secrets], verbs: [delete]}]
`)
	w.create("rolebindings", `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: sweeper}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: sweeper}
subjects: [{kind: ServiceAccount, name: default}]
`)
	var deletes, looks atomic.Int32
	w.RESTConfig.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			switch {
			case r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/configmaps/"):
				deletes.Add(1)
			case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/serviceaccounts/default"):
				looks.Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	w.restart()
	eventually(t, "the other kinds are swept", func() bool { // once the role is known
		deletes.Store(0)
		looks.Store(0)
		_, err := w.Sweep(t.Context(), w.target, "")
		if err == nil || !strings.Contains(err.Error(), "stop after 10 failures: there may be more") {
			t.Fatalf("that it stops is not said: %v", err)
		}
		return !w.exists("secrets", "allowed")
	})
	if deletes.Load() != 10 || looks.Load() != 1 {
		t.Errorf("%d deletions were tried, and the account was looked for %d times", deletes.Load(), looks.Load())
	}
}

func TestASweepEndsWhereTheAPIServerNeverAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		runner, err := servicetest.New(&rest.Config{Host: "https://silent.example.com", Transport: silent}, kinds.New(nil))
		if err != nil {
			t.Fatal(err)
		}
		_, err = runner.Sweep(t.Context(), servicetest.Target{Service: "web", Namespace: "web"}, "")
		if err == nil || err.Error() != `sweep jobs of tests of "web": not done after 2m0s` {
			t.Error(err)
		}
	})
}

// The service account goes with the service: what it could not list is nobody's to find later.
func TestNoServiceGoesWhileNobodyMayListWhatItsTestsRun(t *testing.T) {
	w := start(t)
	w.target.Account = w.Namespace + "/default"
	w.RESTConfig.Impersonate = rest.ImpersonationConfig{UserName: "an-agent-that-may-do-nothing"}
	w.restart()
	unlisted := func(kind string) string {
		return "neither the service account " + w.target.Account + " nor the agent may list " + kind + " in " + w.Namespace +
			": grant list on them to the agent"
	}
	byHand := ", or delete those labelled plural.sh/test=" + w.target.Service + " by hand"

	notes, err := w.Sweep(t.Context(), w.target, key)
	if err != nil || len(notes) != 8 || !slices.Contains(notes, unlisted("jobs")+byHand) {
		t.Errorf("before a test: %v, notes %q", err, notes)
	}
	notes, err = w.Sweep(t.Context(), w.target, "")
	if len(notes) != 6 || !slices.Contains(notes, unlisted("secrets")+byHand) {
		t.Errorf("when the service goes: notes %q", notes)
	}
	for _, kind := range []string{"jobs", "pods"} {
		want := "sweep " + kind + " of tests of \"" + w.target.Service + "\": " + unlisted(kind)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("when the service goes: %v, want %s", err, want)
		}
	}
}
