package watchcache_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/health"
	"github.com/pluralsh/plural/agent/kinds"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/watchcache"
	"github.com/pluralsh/plural/internal/kubewatch"
)

func TestWhatExistsIsKnownWhenFollowReturns(t *testing.T) {
	w := newWorld(t)
	one, two := w.apply(configMap("one", "1")), w.apply(deployment("two", "image"))
	w.applyAs("theirs", configMap("theirs", "1"))
	w.follow("ConfigMap", "Deployment.apps", "Secret")
	if got := w.facts(one); got != watchcache.OfMetadata(one) {
		t.Errorf("facts %+v, want %+v", got, watchcache.OfMetadata(one))
	}
	if got := w.facts(two); got.Health.Phase == "" || got.Owner != w.service || got.Trace != watchcache.Of(two, nil).Trace {
		t.Errorf("facts %+v", got)
	}
	owned := w.Owned(w.service)
	if len(owned) != 2 || owned[w.id(one)] != w.facts(one) || owned[w.id(two)].UID == "" {
		t.Errorf("owned: %v", owned)
	}
	if _, ok := w.Get(w.id(configMap("theirs", ""))); ok {
		t.Error("an object without the label is known")
	}
	w.eventually("the service is told of both", func() bool { return w.tells(w.service, one) > 0 && w.tells(w.service, two) > 0 })
	for kind, want := range map[string]bool{"ConfigMap": true, "Deployment.apps": true, "Secret": true, "Pod": false} {
		if got := w.Followed(schema.ParseGroupKind(kind)); got != want {
			t.Errorf("followed %s: %t", kind, got)
		}
	}
}

func TestDriftAndDeletionAreToldAndStatusVersionsAreNot(t *testing.T) {
	w := newWorld(t)
	w.follow("ConfigMap")
	cm := w.apply(configMap("a", "1"))
	w.reached(cm)
	quiet := w.toldOnce(w.service, cm)
	w.reached(w.patch(cm, "theirs", `{"data":{"other":"x"}}`))
	if got := w.tells(w.service, cm); got != quiet {
		t.Errorf("told %d times of a change of what others own", got-quiet)
	}
	before := w.facts(cm).Trace
	w.patch(cm, "theirs", `{"data":{"key":"drifted"}}`)
	w.eventually("drift is told", func() bool { return w.tells(w.service, cm) == quiet+1 && w.facts(cm).Trace != before })
	w.delete(cm)
	w.eventually("deletion is told", func() bool {
		_, there := w.Get(w.id(cm))
		return !there && w.tells(w.service, cm) == quiet+2 && len(w.Owned(w.service)) == 0
	})
}

func TestLosingTheLabelIsToldToTheFormerOwnerAndANewOneToBoth(t *testing.T) {
	w := newWorld(t)
	w.follow("ConfigMap")
	cm := w.apply(configMap("a", "1"))
	w.reached(cm)
	first, next := w.service, w.service+"-next"
	quiet := w.toldOnce(first, cm)
	w.patch(cm, "theirs", fmt.Sprintf(`{"metadata":{"labels":{"plural.sh/service":%q}}}`, next))
	w.eventually("both are told", func() bool { return w.tells(first, cm) == quiet+1 && w.tells(next, cm) == 1 })
	if len(w.Owned(first)) != 0 || len(w.Owned(next)) != 1 {
		t.Errorf("owned: %v, %v", w.Owned(first), w.Owned(next))
	}
	w.patch(cm, "theirs", `{"metadata":{"labels":{"plural.sh/service":null}}}`)
	w.eventually("the owner is told", func() bool { return w.tells(next, cm) == 2 && len(w.Owned(next)) == 0 })
	w.reached(w.apply(configMap("a", "1")))
	w.eventually("the label's return is told", func() bool { return w.tells(first, cm) == quiet+2 })
}

func TestHealthAndStuckDeletionAreSeen(t *testing.T) {
	w := newWorld(t)
	w.follow("Deployment.apps", "ConfigMap")
	web := w.apply(deployment("web", "image"))
	w.eventually("the simulated nodes run it", func() bool { return w.facts(web).Health.Phase == health.Healthy })
	cm := configMap("stuck", "1")
	cm.SetFinalizers([]string{"example.com/hold", "example.com/more"})
	cm = w.apply(cm)
	w.reached(cm)
	w.delete(cm)
	w.eventually("it is going", func() bool { return w.facts(cm).Deleting })
	if f := w.facts(cm); f.Finalizers != "example.com/hold, example.com/more" || f.Health.Phase != health.Progressing {
		t.Errorf("facts %+v", f)
	}
	w.patch(cm, "theirs", `{"metadata":{"finalizers":null}}`)
	w.eventually("it is gone", func() bool { return w.facts(cm) == watchcache.Facts{} })
}

// held lets watch events wait at a gate, so that answers to own requests are ahead of them.
type held struct {
	http.RoundTripper
	gate atomic.Pointer[chan struct{}]
}

type heldBody struct {
	http.Response
	read func([]byte) (int, error)
	end  func() error
}

func (b heldBody) Read(p []byte) (int, error) { return b.read(p) }
func (b heldBody) Close() error               { return b.end() }

func (h *held) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := h.RoundTripper.RoundTrip(r)
	if err != nil || r.URL.Query().Get("watch") == "" {
		return response, err
	}
	body := response.Body
	response.Body = heldBody{read: func(p []byte) (int, error) {
		n, err := body.Read(p)
		if gate := h.gate.Load(); gate != nil {
			select {
			case <-*gate:
			case <-r.Context().Done():
			}
		}
		return n, err
	}, end: body.Close}
	return response, err
}

// hold keeps back what the watches say from now on, until the returned function is called.
func (h *held) hold() (release func()) {
	gate := make(chan struct{})
	h.gate.Store(&gate)
	return func() { close(gate); h.gate.Store(nil) }
}

func newHeldWorld(t *testing.T) (*world, *held) {
	h := &held{}
	return newWorldVia(t, func(config *rest.Config, _ *watchcache.Options) {
		config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
			h.RoundTripper = rt
			return h
		})
	}), h
}

func TestAnOwnAnswerIsNotUndoneByWhatTheWatchSaysLate(t *testing.T) {
	w, h := newHeldWorld(t)
	w.follow("ConfigMap")
	w.reached(w.apply(configMap("a", "1")))
	release := h.hold()
	w.patch(configMap("a", ""), "theirs", `{"data":{"key":"drifted"}}`) // the watch will tell of it late
	healed := w.apply(configMap("a", "1"))
	w.Note(w.id(healed), watchcache.Of(healed, nil))
	noted := w.facts(healed)
	if noted != watchcache.OfMetadata(healed) {
		t.Errorf("noted %+v", noted)
	}
	quiet := w.toldOnce(w.service, healed)
	release()
	last := w.reached(w.patch(healed, "theirs", `{"data":{"other":"x"}}`))
	if last.Trace != noted.Trace || w.tells(w.service, healed) != quiet {
		t.Errorf("told %d times of what was healed already", w.tells(w.service, healed)-quiet)
	}
}

func TestAnOwnAnswerThatComesLateDoesNotUndoTheWatch(t *testing.T) {
	w := newWorld(t)
	w.follow("ConfigMap")
	cm := w.apply(configMap("a", "1"))
	w.reached(cm)
	drifted := w.reached(w.patch(cm, "theirs", `{"data":{"key":"2"}}`))
	w.Note(w.id(cm), watchcache.Of(cm, nil))
	if got := w.facts(cm); got != drifted {
		t.Errorf("facts %+v, want %+v", got, drifted)
	}
	w.delete(cm)
	w.eventually("it is gone", func() bool { return w.facts(cm).UID == "" })
	w.Note(w.id(cm), watchcache.Of(cm, nil))
	if w.facts(cm).UID != "" {
		t.Error("a late answer brought back what the watch saw go")
	}
}

func TestWhatWeDeletedDoesNotComeBack(t *testing.T) {
	w, h := newHeldWorld(t)
	w.follow("ConfigMap")
	first := w.apply(configMap("a", "1"))
	w.reached(first)
	release := h.hold()
	w.patch(first, "theirs", `{"data":{"key":"2"}}`)
	w.delete(first)
	w.Gone(w.id(first), string(first.GetUID()))
	second := w.apply(configMap("a", "1"))
	w.Note(w.id(second), watchcache.Of(second, nil))
	if got := w.facts(first).UID; got != string(second.GetUID()) {
		t.Fatalf("uid %q", got)
	}
	quiet := w.toldOnce(w.service, first)
	release()
	w.reached(w.apply(configMap("later", "1")))
	w.eventually("the watch has caught up", func() bool { return w.tells(w.service, configMap("later", "")) == 1 })
	if got := w.facts(first).UID; got != string(second.GetUID()) || w.tells(w.service, first) != quiet {
		t.Errorf("uid %q, told %d times", got, w.tells(w.service, first)-quiet)
	}
	w.Gone(w.id(second), string(first.GetUID()))
	if w.facts(second).UID == "" {
		t.Error("the end of the first object took out the second")
	}
}

func TestAnotherServicesObjectThatWeTakeOverIsToldToIt(t *testing.T) {
	w, h := newHeldWorld(t)
	w.follow("ConfigMap")
	cm := w.reached(w.apply(configMap("a", "1")))
	defer h.hold()()
	quiet := w.toldOnce(w.service, configMap("a", ""))
	taken := cm
	taken.Owner, taken.ResourceVersion = "taker", "999999999"
	w.Note(w.id(configMap("a", "")), taken)
	if w.tells(w.service, configMap("a", "")) != quiet+1 || w.tells("taker", configMap("a", "")) != 0 {
		t.Errorf("told: %v", w.told)
	}
}

// TestForeignObjectsCostNothing counts what is kept, and what is told, while a cluster fills with what is not ours.
func TestForeignObjectsCostNothing(t *testing.T) {
	w := newWorld(t)
	w.follow("ConfigMap")
	for i := range 100 {
		w.applyAs("theirs", configMap(fmt.Sprintf("foreign-%03d", i), strings.Repeat("x", 1000)))
	}
	mine := w.apply(configMap("mine", "1"))
	w.reached(mine)
	w.mu.Lock()
	defer w.mu.Unlock()
	told := 0
	for what := range w.told { // of other tests' objects, it may be told as well
		if strings.Contains(what, w.service) {
			told++
		}
	}
	if told != 1 || len(w.Owned(w.service)) != 1 || len(w.Owned("")) != 0 {
		t.Errorf("told %v, owned %v", w.told, w.Owned(w.service))
	}
}

func TestValuesOfSecretsAreNotAskedFor(t *testing.T) {
	var whole atomic.Int64
	w := newWorldVia(t, func(config *rest.Config, o *watchcache.Options) {
		o.Ruled = func(schema.GroupKind) bool { return true }
		config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if strings.HasSuffix(r.URL.Path, "/secrets") && !strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata") {
					whole.Add(1)
				}
				return rt.RoundTrip(r)
			})
		})
	})
	secret := w.apply(parse(`{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {a: b}}`))
	w.follow("Secret")
	if whole.Load() != 0 || w.facts(secret) != watchcache.OfMetadata(secret) {
		t.Errorf("%d requests for whole secrets; facts %+v", whole.Load(), w.facts(secret))
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (w *world) definition() (crd, thing *unstructured.Unstructured) {
	group := w.Namespace + ".example.com"
	return parse(fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.%[1]s}
spec:
  group: %[1]s
  scope: Namespaced
  names: {kind: Thing, plural: things, singular: thing, listKind: ThingList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, group)), parse(fmt.Sprintf(`{apiVersion: %s/v1, kind: Thing, metadata: {name: one}, spec: {size: 1}}`, group))
}

func (w *world) define(crd *unstructured.Unstructured) {
	w.Helper()
	w.applyAs("theirs", crd)
	gvk := schema.GroupVersionKind{Group: w.Namespace + ".example.com", Version: "v1", Kind: "Thing"}
	w.eventually("the kind is served", func() bool { return w.catalog().Serves(gvk) })
}

func TestAKindThatIsDeletedAndDefinedAnewIsWatchedAgain(t *testing.T) {
	w := newWorld(t)
	crd, thing := w.definition()
	w.define(crd)
	kind := thing.GroupVersionKind().GroupKind()
	w.follow(kind.String())
	res := w.resources(kind.String())
	w.reached(w.apply(thing))
	w.delete(crd)
	w.eventually("its objects are gone", func() bool { return w.facts(thing) == watchcache.Facts{} })
	w.eventually("the kind is known to be gone", func() bool {
		var failed *kubewatch.Error
		return errors.As(w.Follow(t.Context(), res)[kind], &failed) && failed.Unserved() && !w.Followed(kind)
	})
	w.define(crd)
	w.eventually("the kind is followed again", func() bool { return len(w.Follow(t.Context(), res)) == 0 && w.Followed(kind) })
	w.reached(w.apply(thing))
	w.delete(crd)
}

func TestARefusedWatchIsATypedErrorAndIsTriedAgain(t *testing.T) {
	var refuse atomic.Bool
	refuse.Store(true)
	var logged journal
	w := newWorldVia(t, func(config *rest.Config, o *watchcache.Options) {
		o.Log = slog.New(slog.NewTextHandler(&logged, nil))
		config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if refuse.Load() { // as an account that may do nothing
					r = r.Clone(r.Context())
					r.Header.Set("Impersonate-User", "nobody")
				}
				return rt.RoundTrip(r)
			})
		})
	})
	kind := schema.GroupKind{Group: "apps", Kind: "Deployment"}
	res := w.resources("Deployment.apps", "ConfigMap")
	failed := w.Follow(t.Context(), res)
	var refused *kubewatch.Error
	if !errors.As(failed[kind], &refused) || !refused.Refused() || len(failed) != 2 {
		t.Fatalf("failed: %v", failed)
	}
	if text := refused.Error() + "; " + refused.Fix(); !strings.HasPrefix(text, "list deployments.apps: ") ||
		!strings.HasSuffix(text, "; allow the agent's account get, list and watch of deployments.apps") {
		t.Errorf("error %q", text)
	}
	refuse.Store(false)
	w.eventually("it works again", func() bool { return len(w.Follow(t.Context(), res)) == 0 })
	if n := strings.Count(logged.String(), "cannot be watched"); n != 2 {
		t.Errorf("logged %d times:\n%s", n, logged.String())
	}
}

// journal is a log that can be read while it is written.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func TestObjectsThatVanishedWhileTheWatchWasDownAreTold(t *testing.T) {
	for name, fault := range map[string]error{
		"an unreachable API server":     errors.New("no route to host"),
		"an API server that is stopped": syscall.ECONNREFUSED,
	} {
		t.Run(name, func(t *testing.T) { vanish(t, fault) })
	}
}

func vanish(t *testing.T, fault error) {
	var down atomic.Bool
	w, door := newWorldWithDoor(t, &down, fault)
	w.follow("ConfigMap")
	stays, goes := w.apply(configMap("stays", "1")), w.apply(configMap("goes", "1"))
	w.reached(stays)
	w.reached(goes)
	quietStays, quietGoes := w.toldOnce(w.service, stays), w.toldOnce(w.service, goes)
	down.Store(true)
	door.cut()
	w.delete(goes)
	comes := w.apply(configMap("comes", "1"))
	w.eventually("the break is felt", func() bool { return door.refused.Load() > 1 })
	down.Store(false)
	w.eventually("the one that went and the one that came are told", func() bool {
		return w.tells(w.service, goes) == quietGoes+1 && w.tells(w.service, comes) == 1
	})
	if got := w.tells(w.service, stays); got != quietStays || len(w.Owned(w.service)) != 2 {
		t.Errorf("told %d times of what stayed", got-quietStays)
	}
}

// door cuts the watches that pass through it.
type door struct {
	cancels chan context.CancelFunc
	refused atomic.Int64
}

func (d *door) cut() {
	for {
		select {
		case cancel := <-d.cancels:
			cancel()
		default:
			return
		}
	}
}

// newWorldWithDoor answers nothing but the fault while down.
func newWorldWithDoor(t *testing.T, down *atomic.Bool, fault error) (*world, *door) {
	d := &door{cancels: make(chan context.CancelFunc, 1000)}
	return newWorldVia(t, func(config *rest.Config, _ *watchcache.Options) {
		config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if down.Load() {
					d.refused.Add(1)
					return nil, fault
				}
				ctx, cancel := context.WithCancel(r.Context())
				if r.URL.Query().Get("watch") == "" {
					context.AfterFunc(r.Context(), cancel)
				} else {
					d.cancels <- cancel
				}
				return rt.RoundTrip(r.WithContext(ctx))
			})
		})
	}), d
}

func TestRulesMakeAKindWithoutStatusBeJudged(t *testing.T) {
	rules, err := health.NewJudge([]health.Rule{{Kind: "ConfigMap", Degraded: `self.data.key == "bad"`}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var ruled atomic.Bool
	w := newWorldVia(t, func(_ *rest.Config, o *watchcache.Options) {
		o.Judge = func(string) *health.Judge {
			if ruled.Load() {
				return rules
			}
			return nil
		}
		o.Ruled = func(gk schema.GroupKind) bool { return ruled.Load() && gk.Kind == "ConfigMap" }
	})
	cm := w.apply(configMap("a", "bad"))
	w.follow("ConfigMap")
	if got := w.facts(cm).Health.Phase; got != health.Healthy {
		t.Errorf("without rules: %s", got)
	}
	quiet := w.toldOnce(w.service, cm)
	ruled.Store(true)
	w.Rejudge(map[schema.GroupKind]bool{{Kind: "ConfigMap"}: true})
	w.eventually("it is judged by the rules", func() bool { return w.facts(cm).Health.Phase == health.Degraded })
	w.eventually("that is told", func() bool { return w.tells(w.service, cm) == quiet+1 })
}

func TestKeepEndsOtherWatchesAndForgetsTheirObjects(t *testing.T) {
	w := newWorld(t)
	cm, web := w.apply(configMap("a", "1")), w.apply(deployment("web", "image"))
	w.follow("ConfigMap", "Deployment.apps")
	w.Keep(map[schema.GroupKind]bool{{Kind: "ConfigMap"}: true})
	if _, there := w.Get(w.id(web)); there || w.Followed(schema.GroupKind{Group: "apps", Kind: "Deployment"}) || len(w.Owned(w.service)) != 1 {
		t.Errorf("owned: %v", w.Owned(w.service))
	}
	w.Note(w.id(web), watchcache.Of(web, nil))
	if _, there := w.Get(w.id(web)); there {
		t.Error("a note of a kind that is not watched is kept")
	}
	w.follow("Deployment.apps")
	if w.facts(web).UID == "" || w.facts(cm).UID == "" {
		t.Error("not known again")
	}
}

// TestManyObjectsComeInPages lists where streams are refused, as older API servers do.
func TestManyObjectsComeInPages(t *testing.T) {
	var pages atomic.Int64
	w := newWorldVia(t, func(config *rest.Config, _ *watchcache.Options) {
		config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				query := r.URL.Query()
				if query.Get("sendInitialEvents") != "" {
					query.Set("resourceVersionMatch", "Exact") // which may not be asked of a stream
					r = r.Clone(r.Context())
					r.URL.RawQuery = query.Encode()
				}
				if query.Get("limit") == "500" {
					pages.Add(1)
				}
				return rt.RoundTrip(r)
			})
		})
	})
	const many = 600
	for i := range many {
		cm := w.labelled(configMap(fmt.Sprintf("a-%04d", i), "1"))
		client, _ := w.resource(cm)
		if _, err := client.Create(t.Context(), cm, metav1.CreateOptions{FieldManager: object.Manager}); err != nil {
			t.Fatal(err)
		}
	}
	w.follow("ConfigMap")
	if got := len(w.Owned(w.service)); got != many || pages.Load() < 2 {
		t.Errorf("%d objects in %d pages", got, pages.Load())
	}
	late := w.apply(configMap("late", "1"))
	w.reached(late)
}

func TestFollowGivesUpWithItsContextAndAfterTheEnd(t *testing.T) {
	res := map[schema.GroupKind]kinds.Resource{{Kind: "ConfigMap"}: {GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}}}
	o := watchcache.New(watchcache.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := o.Follow(ctx, res)[schema.GroupKind{Kind: "ConfigMap"}]; !errors.Is(err, context.Canceled) {
		t.Errorf("before Run: %v", err)
	}
	if err := o.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v", err)
	}
	if err := o.Follow(t.Context(), res)[schema.GroupKind{Kind: "ConfigMap"}]; !errors.Is(err, watchcache.ErrStopped) {
		t.Errorf("after Run: %v", err)
	}
}
