package apply_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/apply"
)

// roundTrip is a transport made of one function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// isApply recognises the requests that change a ConfigMap of the service.
func isApply(r *http.Request) bool {
	return r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/configmaps/")
}

func TestAPassKilledHalfwayLeavesASupersetAndTheNextOneConverges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	objects := configMaps("a", 40)
	stale := configMap("stale", "1")
	w.apply(stale)
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	var applied atomic.Int32
	engine := w.newEngine(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if isApply(r) && applied.Add(1) == 15 {
				kill()
			}
			return next.RoundTrip(r)
		})
	})

	result, err := engine.Apply(ctx, w.request(objects...))

	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want a cancelled pass", err)
	}
	if result.Complete() {
		t.Error("a killed pass looks complete")
	}
	w.mustExist(stale)
	// What was created has no uid in the inventory yet. Dropped from the render, it must go all the same.
	w.engine = w.newEngine(nil)
	req := w.request(objects[20:]...)
	req.Budget = "100%"
	final := w.pass(req)
	if !final.Done {
		t.Errorf("the next pass does not converge: %+v", final)
	}
	w.mustExist(objects[20:]...)
	for _, obj := range append(objects[:20:20], stale) {
		if w.exists(obj) {
			t.Errorf("%s was orphaned", obj.GetName())
		}
	}
}

func TestAnOutageIsAnErrorAndDeletesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	objects := configMaps("a", 60)
	w.apply(objects...)
	var out atomic.Bool
	var tries, deletions atomic.Int32
	engine := w.newEngine(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if isApply(r) {
				out.Store(true)
			}
			if r.Method == http.MethodDelete {
				deletions.Add(1)
			}
			if !out.Load() {
				return next.RoundTrip(r)
			}
			tries.Add(1)
			return nil, errors.New("no route to host")
		})
	})

	changed := configMaps("a", 60)
	for _, obj := range changed {
		must(0, unstructured.SetNestedField(obj.Object, "2", "data", "key"))
	}
	result, err := engine.Apply(t.Context(), w.request(changed[1:]...))

	if err == nil || !strings.Contains(err.Error(), "API server does not answer: no route to host") {
		t.Errorf("error %v: want one that says what is wrong", err)
	}
	if got := result.Objects[0].Err; got == nil || got.Reason != apply.Unavailable {
		t.Errorf("the first object has error %v, want %s", got, apply.Unavailable)
	}
	if tries.Load() >= 59 {
		t.Errorf("%d requests went to a server that is away", tries.Load())
	}
	if deletions.Load() > 0 {
		t.Error("something was deleted")
	}
	w.mustExist(objects...)
}

func TestRequestsThatGotNoAnswerAreSentAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	objects := configMaps("a", 20)
	var count atomic.Int32
	engine := w.newEngine(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if isApply(r) && count.Add(1)%4 == 0 {
				return nil, errors.New("connection reset by peer")
			}
			return next.RoundTrip(r)
		})
	})
	w.eventually("all objects to be applied", func() bool {
		result, err := engine.Apply(t.Context(), w.request(objects...))
		return err == nil && result.Complete()
	})
	w.mustExist(objects...)
}

func TestARefusedDeleteStaysInTheInventoryAndIsTriedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	objects := configMaps("a", 2)
	w.apply(objects...)
	var refuse atomic.Bool
	refuse.Store(true)
	w.engine = w.newEngine(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodDelete && refuse.Load() {
				// The API server itself refuses: nobody may impersonate like this.
				r.Header.Set("Impersonate-User", "nobody")
			}
			return next.RoundTrip(r)
		})
	})

	w.expect(w.apply(objects[0]), "unchanged ConfigMap/a-000", "Forbidden ConfigMap/a-001")
	w.mustExist(objects...)
	refuse.Store(false)
	w.follows(w.request(objects[0]), isDone)
	if w.exists(objects[1]) {
		t.Error("it is still there")
	}
}

func TestAKindTheAgentMayNotTouchFailsAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.engine = w.newEngine(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if strings.Contains(r.URL.Path, "/serviceaccounts") {
				r.Header.Set("Impersonate-User", "nobody")
			}
			return next.RoundTrip(r)
		})
	})
	account := manifest(`{apiVersion: v1, kind: ServiceAccount, metadata: {name: robot}}`)

	w.expect(w.apply(account, configMap("settings", "1")), "Forbidden ServiceAccount/robot", "created ConfigMap/settings")
}

func TestAValueThatDoesNotFitIsToldAsPeopleWroteIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for text, want := range map[string]string{
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {port: {a: [80]}}": `.data.port: expected string, got {"a":[80]}`,
		"apiVersion: v1\nkind: Secret\nmetadata: {name: b}\nstringData: {pin: 4711}"://
		".stringData.pin: expected string, got a value that is not repeated",
		"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: c}\nautomountServiceAccountToken: \"never\"": `.automountServiceAccountToken: ` +
			`expected boolean, got "never"`,
	} {
		result, err := w.engine.Apply(t.Context(), w.request(manifest(text)))
		if err != nil || len(result.Objects) == 0 || result.Objects[0].Err == nil || result.Objects[0].Err.Message != want {
			t.Errorf("%v, %+v, want %s", err, result.Objects, want)
		}
	}
}
