package probe_test

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/installer/probe"
	"github.com/pluralsh/plural/test/support/kubetest"
	"github.com/pluralsh/plural/workspace/packages"
)

func TestAnAddressIsAskedUntilItAnswersAsItShould(t *testing.T) {
	for name, tt := range map[string]struct {
		codes []int // one after the other, the last for ever
		want  int
		asked int64
		seen  string
	}{
		"at once":                {codes: []int{204}, asked: 1},
		"later":                  {codes: []int{503, 200}, asked: 2},
		"a status that is named": {codes: []int{200, 401}, want: 401, asked: 2},
		"a redirect, as asked":   {codes: []int{302}, want: 302, asked: 1},
		"a redirect on the way":  {codes: []int{302, 200}, asked: 2},
		"never":                  {codes: []int{503}, seen: "it answers 503 Service Unavailable, not any of 200 to 299"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				at := min(int(asked.Add(1)), len(tt.codes)) - 1
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(tt.codes[at])
			}))
			defer server.Close()
			timeout := "20s"
			if tt.seen != "" {
				timeout = "300ms"
			}
			_, err := probe.Wait(t.Context(), &packages.Wait{
				Timeout: timeout,
				HTTP:    &packages.WaitHTTP{URL: server.URL, Status: tt.want},
			}, probe.Target{}, nil)
			var late *probe.TimeoutError
			switch {
			case tt.seen == "" && (err != nil || asked.Load() != tt.asked):
				t.Errorf("asked %d times: %v", asked.Load(), err)
			case tt.seen != "" && (!errors.As(err, &late) || late.Seen != tt.seen || late.Fix() == "" || !errors.Is(err, context.DeadlineExceeded)):
				t.Errorf("%v", err)
			}
		})
	}
}

func TestWhyAnAddressDoesNotAnswerIsToldApart(t *testing.T) {
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for name, tt := range map[string]struct{ url, seen, fix string }{
		"nobody":      {gone.URL, "does not answer: dial tcp", "runs"},
		"certificate": {secure.URL, "certificate is not good", "issued"},
		"name":        {"http://nobody.invalid/", "name does not resolve", "DNS record of nobody.invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := probe.Wait(t.Context(), &packages.Wait{Timeout: "2s", HTTP: &packages.WaitHTTP{URL: tt.url}}, probe.Target{}, nil)
			var late *probe.TimeoutError
			if !errors.As(err, &late) || !strings.Contains(late.Seen, tt.seen) || !strings.Contains(late.Fix(), tt.fix) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestAnAddressIsBelievedByTheAuthoritiesThatAreTrusted(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	trusted := x509.NewCertPool()
	trusted.AddCert(server.Certificate())
	if _, err := probe.Wait(t.Context(), &packages.Wait{HTTP: &packages.WaitHTTP{URL: server.URL}}, probe.Target{Trusted: trusted}, nil); err != nil {
		t.Error(err)
	}
}

func TestServicesAreTheCallersToJudge(t *testing.T) {
	var asked []string
	on := probe.Target{Services: func(ctx context.Context, steps []string) error {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("nothing bounds it")
		}
		asked = steps
		return nil
	}}
	w := &packages.Wait{Services: []string{"chart", "app"}}
	if outputs, err := probe.Wait(t.Context(), w, on, nil); err != nil || outputs == nil || len(asked) != 2 {
		t.Errorf("%v, %v, %v", outputs, err, asked)
	}
	ill := errors.New("ill")
	on.Services = func(context.Context, []string) error { return ill }
	if _, err := probe.Wait(t.Context(), w, on, nil); !errors.Is(err, ill) || !strings.Contains(err.Error(), "chart, app") {
		t.Error(err)
	}
}

// cluster is a real API server, with one kind of object in it.
type cluster struct {
	*testing.T
	*kubetest.Cluster
}

func (c cluster) create(resource, text string) {
	c.Helper()
	object := new(unstructured.Unstructured)
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		c.Fatal(err)
	}
	if _, err := c.of(resource).Create(c.Context(), object, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
}

func (c cluster) of(resource string) interface {
	Create(context.Context, *unstructured.Unstructured, metav1.CreateOptions, ...string) (*unstructured.Unstructured, error)
	Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*unstructured.Unstructured, error)
	Delete(context.Context, string, metav1.DeleteOptions, ...string) error
} {
	return c.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).Namespace(c.Namespace)
}

func (c cluster) wait(w packages.WaitObject, timeout string, told func(string)) (map[string]any, error) {
	w.APIVersion, w.Namespace = "v1", c.Namespace
	return probe.Wait(c.Context(), &packages.Wait{Timeout: timeout, Object: &w}, probe.Target{Config: c.RESTConfig}, told)
}

func TestAnObjectIsWatchedUntilItsConditionHolds(t *testing.T) {
	c := cluster{t, kubetest.Start(t)}
	var told []string
	steps := map[string]func(){
		"it is not there": func() {
			c.create("configmaps", "{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {ready: 'no'}}")
		},
		"its condition is not true yet: object.data.ready == 'yes'": func() {
			if _, err := c.of("configmaps").Patch(t.Context(), "one", types.MergePatchType, []byte(`{"data":{"ready":"yes"}}`), metav1.PatchOptions{}); err != nil {
				t.Error(err)
			}
		},
		"output all is not there yet: no such key: host": func() {
			if _, err := c.of("configmaps").Patch(t.Context(), "one", types.MergePatchType, []byte(`{"data":{"host":"example.com","size":"3"}}`), metav1.PatchOptions{}); err != nil {
				t.Error(err)
			}
		},
	}
	outputs, err := c.wait(packages.WaitObject{
		Kind: "ConfigMap", Name: "one", Condition: "object.data.ready == 'yes'",
		Outputs: map[string]string{
			"host": "object.data.host", "size": "int(object.data.size)", "all": "[object.data.host, 'x']",
			"half": "0.5", "is": "true",
		},
	}, "1m", func(text string) {
		told = append(told, text)
		_, seen, _ := strings.Cut(text, ": ")
		if step := steps[seen]; step != nil {
			delete(steps, seen)
			step()
		}
	})
	want := map[string]any{"host": "example.com", "size": int64(3), "all": []any{"example.com", "x"}, "half": 0.5, "is": true}
	if diff := cmp.Diff(want, outputs); err != nil || diff != "" {
		t.Errorf("%v\n%s\n%s", err, diff, strings.Join(told, "\n"))
	}
}

func TestWhatWasSeenLastIsToldWhenTimeIsOver(t *testing.T) {
	c := cluster{t, kubetest.Start(t)}
	c.create("configmaps", "{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {ready: 'no'}}")
	c.create("secrets", "{apiVersion: v1, kind: Secret, metadata: {name: one}, stringData: {password: hunter2}}")
	c.create("pods", "{apiVersion: v1, kind: Pod, metadata: {name: one}, spec: {nodeSelector: {no: where}, containers: [{name: main, image: main}]}}")
	for name, tt := range map[string]struct {
		object packages.WaitObject
		seen   string
	}{
		"not there":    {packages.WaitObject{Kind: "ConfigMap", Name: "two"}, "it is not there"},
		"no such kind": {packages.WaitObject{Kind: "Nothing", Name: "one"}, "the cluster does not serve this kind"},
		"not true": {
			packages.WaitObject{Kind: "ConfigMap", Name: "one", Condition: "object.data.ready == 'yes'"},
			"its condition is not true yet",
		},
		"its conditions": {
			packages.WaitObject{Kind: "Pod", Name: "one", Condition: "object.status.phase == 'Running'"},
			"PodScheduled is False",
		},
		"not yet": {
			packages.WaitObject{Kind: "ConfigMap", Name: "one", Condition: "object.status.ready"},
			"no such key: status",
		},
		"a secret": {packages.WaitObject{
			Kind: "Secret", Name: "one",
			Outputs: map[string]string{"a": "int(string(base64(object.data.password)))"},
		}, ""},
		"a secret's": {packages.WaitObject{
			Kind: "Secret", Name: "one",
			Outputs: map[string]string{"a": "int(object.data.password)"},
		}, "output a is not there yet"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.wait(tt.object, "2s", nil)
			var late *probe.TimeoutError
			switch {
			case tt.seen == "":
				if err == nil || errors.As(err, &late) || !strings.Contains(err.Error(), "output a") {
					t.Errorf("%v", err)
				}
			case !errors.As(err, &late) || !strings.Contains(late.Seen, tt.seen) || !strings.Contains(late.Fix(), "kubectl describe -n "+c.Namespace):
				t.Errorf("%v", err)
			case strings.Contains(err.Error(), "aHVudGVyMg"):
				t.Errorf("it repeats the secret: %v", err)
			}
		})
	}
}

func TestWhoMayNotLookIsToldAtOnce(t *testing.T) {
	c := cluster{t, kubetest.Start(t)}
	config := rest.CopyConfig(c.RESTConfig)
	config.Impersonate = rest.ImpersonationConfig{UserName: "mallory", Groups: []string{"system:authenticated"}}
	w := &packages.Wait{Object: &packages.WaitObject{APIVersion: "v1", Kind: "ConfigMap", Namespace: c.Namespace, Name: "one"}}
	if _, err := probe.Wait(t.Context(), w, probe.Target{Config: config}, nil); err == nil || !strings.Contains(err.Error(), "mallory") {
		t.Error(err)
	}
	var none *probe.NoClusterError
	if _, err := probe.Wait(t.Context(), w, probe.Target{}, nil); !errors.As(err, &none) || none.Fix() == "" {
		t.Error(err)
	}
}
