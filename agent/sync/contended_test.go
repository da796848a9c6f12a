package sync_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/api"
)

// roundTrip is a transport made of one function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAServiceThatSomebodyElseWorksOnHasNotFailed(t *testing.T) {
	w := newWorld(t)
	others, err := dynamic.NewForConfig(w.config)
	if err != nil {
		t.Fatal(err)
	}
	inventories := others.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("plural-system")
	var atWork atomic.Bool
	var touched atomic.Int32
	w.config = rest.CopyConfig(w.config)
	w.config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]; atWork.Load() && r.Method == http.MethodPut &&
				strings.HasPrefix(name, "plural-inventory-") {
				touch := fmt.Appendf(nil, `{"metadata":{"annotations":{"touched":"%d"}}}`, touched.Add(1))
				if _, err := inventories.Patch(r.Context(), name, types.MergePatchType, touch, metav1.PatchOptions{}); err != nil {
					return nil, err
				}
			}
			return next.RoundTrip(r)
		})
	})
	t.Cleanup(func() { atWork.Store(false) })
	first := w.configMap("web", "one")
	w.hub.asks("", first)
	w.start()
	w.becomes(first, api.Phase_HEALTHY)

	atWork.Store(true)
	second := w.configMap("web", "two")
	w.hub.asks("", second)
	s := w.becomes(second, api.Phase_PROGRESSING)
	if !strings.Contains(s.GetMessage(), "somebody else") {
		t.Errorf("status = %v", s)
	}
	atWork.Store(false)
	w.becomes(second, api.Phase_HEALTHY)

	atWork.Store(true)
	w.hub.asks("100%")
	w.eventually("it is on its way out", func() bool { return w.hub.status("web").GetPhase() == api.Phase_REMOVING })
	atWork.Store(false)
	w.eventually("it is gone", func() bool { return w.hub.last() != nil && w.hub.status("web") == nil && w.live("web") == "" })
	for _, r := range w.hub.said() {
		if slices.ContainsFunc(r.GetServices(), func(s *api.ServiceReport) bool { return s.GetPhase() == api.Phase_FAILED }) {
			t.Errorf("it was reported as failed: %v", r)
		}
	}
}

func TestAnAPIServerThatIsAwayIsReportedAsThatAndNotAsTheServicesFault(t *testing.T) {
	w := newWorld(t)
	var away atomic.Bool
	w.config = rest.CopyConfig(w.config)
	w.config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if away.Load() && strings.Contains(r.URL.Path, "/configmaps") {
				return nil, errors.New("connection refused")
			}
			return next.RoundTrip(r)
		})
	})
	t.Cleanup(func() { away.Store(false) })
	first := w.configMap("web", "one")
	w.hub.asks("", first)
	w.start()
	w.becomes(first, api.Phase_HEALTHY)

	away.Store(true)
	second := w.configMap("web", "two")
	w.hub.asks("", second)
	s := w.becomes(second, api.Phase_FAILED)
	const want = "the cluster's API server does not answer: connection refused"
	if s.GetMessage() != want || len(s.GetProblems()) != 1 || s.GetProblems()[0].GetReason() != "Unavailable" || s.GetProblems()[0].GetKind() != "" {
		t.Errorf("status = %v", s)
	}
	away.Store(false)
	if s := w.becomes(second, api.Phase_HEALTHY); len(s.GetProblems()) > 0 {
		t.Errorf("status = %v", s)
	}
}

// Nobody commits anything: the watches alone notice that the API server goes, and that it is back.
func TestAnAPIServerThatGoesAwayIsReportedWithoutACommitAndSoIsItsReturn(t *testing.T) {
	w := newWorld(t)
	var away atomic.Bool
	var mu sync.Mutex
	var streams []context.CancelFunc
	var asked atomic.Int32
	w.config = rest.CopyConfig(w.config)
	w.config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			watch := r.URL.Query().Get("watch") != ""
			if away.Load() {
				if !watch && r.URL.Query().Get("labelSelector") == "" { // the watches may list
					asked.Add(1)
				}
				return nil, syscall.ECONNREFUSED
			}
			if !watch {
				return next.RoundTrip(r)
			}
			ctx, cancel := context.WithCancel(r.Context())
			mu.Lock()
			streams = append(streams, cancel)
			mu.Unlock()
			return next.RoundTrip(r.WithContext(ctx))
		})
	})
	t.Cleanup(func() { away.Store(false) })
	web := w.configMap("web", "one")
	w.hub.asks("", web)
	w.start()
	w.becomes(web, api.Phase_HEALTHY)

	away.Store(true)
	mu.Lock()
	for _, cancel := range streams {
		cancel()
	}
	mu.Unlock()
	s := w.becomes(web, api.Phase_FAILED)
	const want = "the cluster's API server does not answer: connection refused"
	if s.GetMessage() != want || len(s.GetProblems()) != 1 || s.GetProblems()[0].GetReason() != "Unavailable" {
		t.Errorf("status = %v", s)
	}
	w.passes(10)
	if n := asked.Load(); n > 0 {
		t.Errorf("beside the watches, it was asked %d times", n)
	}
	away.Store(false)
	if s := w.becomes(web, api.Phase_HEALTHY); len(s.GetProblems()) > 0 {
		t.Errorf("status = %v", s)
	}
	w.healed("web", "one")
}
