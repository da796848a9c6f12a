package apiproxy_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/client-go/util/exec"
	kubestream "k8s.io/streaming/pkg/httpstream"

	"github.com/pluralsh/plural/agent/apiproxy"
	"github.com/pluralsh/plural/api/httpstream"
	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/test/support/kubetest"
)

// front is a server before the cluster, as people's clients have one at the hub. Everybody there is ana.
func front(t *testing.T, rt http.RoundTripper) *rest.Config {
	t.Helper()
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host = "http", "cluster"
			c := httpstream.Call{ID: "req-42", Identity: ana(), Class: tunnelapi.Class_UNARY}
			if httpstream.Upgrade(p.In.Header) != "" {
				c.Class = tunnelapi.Class_UPGRADE
			}
			p.Out = p.Out.WithContext(httpstream.WithCall(p.Out.Context(), c))
		},
		Transport: rt, FlushInterval: -1,
	}
	s := httptest.NewServer(proxy)
	t.Cleanup(s.Close)
	return &rest.Config{Host: s.URL}
}

// runPod has a pod named web run, in which ana may do everything.
func runPod(t *testing.T, kube *kubetest.Cluster) {
	t.Helper()
	apply(t, kube.Dynamic, `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: ana, namespace: `+kube.Namespace+`}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: "plural:ana"}]
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: `+kube.Namespace+`}
spec: {containers: [{name: web, image: web}]}
`)
	pods := kube.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(kube.Namespace)
	eventually(t, func() bool {
		pod, err := pods.Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
		return phase == "Running"
	})
}

// TestClientsOpenStreamsIntoPods has client-go's own clients run commands and forward ports, in both of the ways that they have.
func TestClientsOpenStreamsIntoPods(t *testing.T) {
	kube := kubetest.Start(t)
	runPod(t, kube)
	o, policy := options(kube.RESTConfig, apiproxy.Policy{})
	person := front(t, transport(hub(t, handler(t, o))))
	pod := person.Host + "/api/v1/namespaces/" + kube.Namespace + "/pods/web"
	t.Run("exec", func(t *testing.T) {
		at := pod + "/exec?container=web&stdin=true&stdout=true&stderr=true&" +
			url.Values{"command": {"sh", "-c", "cat; echo complaint >&2; exit 3"}}.Encode()
		said := strings.Repeat("input ", 100_000)
		for name, executor := range executors(t, person, at) {
			var out, complaints bytes.Buffer
			err := executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{
				Stdin: strings.NewReader(said), Stdout: &out, Stderr: &complaints,
			})
			exit, ok := errors.AsType[utilexec.ExitError](err)
			if !ok || exit.ExitStatus() != 3 || out.String() != said || complaints.String() != "complaint\n" {
				t.Errorf("%s: %d bytes, %q, %v", name, out.Len(), complaints.String(), err)
			}
		}
	})
	t.Run("port-forward", func(t *testing.T) {
		for name, dialer := range dialers(t, person, pod+"/portforward") {
			forward(t, name, dialer)
		}
	})
	t.Run("log", func(t *testing.T) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, pod+"/log?follow=true", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if _, err := io.ReadFull(response.Body, make([]byte, 10)); err != nil || response.StatusCode != http.StatusOK {
			t.Error(response.Status, err)
		}
	})
	t.Run("refused", func(t *testing.T) {
		policy.Store(&apiproxy.Policy{Mode: apiproxy.ReadOnly})
		for name, executor := range executors(t, person, pod+"/exec?command=ls&stdout=true") {
			err := executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: io.Discard})
			if err == nil || name == "SPDY" && !strings.Contains(err.Error(), "read-only") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func executors(t *testing.T, person *rest.Config, at string) map[string]remotecommand.Executor {
	t.Helper()
	websocket, err := remotecommand.NewWebSocketExecutor(person, http.MethodGet, at)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	overSPDY, err := remotecommand.NewSPDYExecutor(person, http.MethodPost, target)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]remotecommand.Executor{"websocket": websocket, "SPDY": overSPDY}
}

func dialers(t *testing.T, person *rest.Config, at string) map[string]kubestream.Dialer {
	t.Helper()
	target, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	rt, upgrader, err := spdy.RoundTripperFor(person)
	if err != nil {
		t.Fatal(err)
	}
	tunneled, err := portforward.NewSPDYOverWebsocketDialerForStreaming(target, person)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]kubestream.Dialer{
		"SPDY": spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: rt}, http.MethodPost, target), "websocket": tunneled,
	}
}

// forward has the pod's echo come back over a port of this machine.
func forward(t *testing.T, name string, dialer kubestream.Dialer) {
	t.Helper()
	stop, ready := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.NewOnAddressesForStreaming(dialer, []string{"127.0.0.1"}, []string{"0:7"}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatalf("%s: %v", name, err)
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	said := strings.Repeat("echo ", 10_000)
	go io.WriteString(conn, said)
	heard := make([]byte, len(said))
	if _, err := io.ReadFull(conn, heard); err != nil || string(heard) != said {
		t.Errorf("%s: %v", name, err)
	}
	close(stop)
	if err := <-ended; err != nil {
		t.Errorf("%s: %v", name, err)
	}
}
