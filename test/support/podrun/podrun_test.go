package podrun

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/test/support/kubetest"
	"github.com/pluralsh/plural/test/support/needs"
)

func TestArgumentsAreWhatTheyAreOnThisMachine(t *testing.T) {
	n := newNames(&Node{log: t.Logf})
	n.ctx = t.Context()
	t.Cleanup(func() {
		for _, c := range n.closers {
			_ = c.Close()
		}
	})
	own, other := n.pod("ns", "web-0", 8080), n.pod("ns", "web-1", 6222)
	s := &scene{
		names: n, namespace: "ns", name: "web-0", ports: []int{8080},
		folders: map[string]string{"/etc/app": "/here/app", "/etc/app/tls": "/here/tls"},
		env:     map[string]string{"POD": "web-1"},
	}
	for text, want := range map[string]string{
		":8080": own, "--listen=:8080": "--listen=" + own, "--listen=0.0.0.0:8080": "--listen=" + own,
		":9090": ":9090", "--at=192.0.2.1:8080": "--at=192.0.2.1:8080",
		"--routes=$(POD).peers.ns.svc:6222,web-1.peers.ns.svc.cluster.local:6222": "--routes=" + other + "," + other,
		"--url=http://web.ns.svc:8080":                                            "--url=http://web.ns.svc:8080",
		"--file=/etc/app/token":                                                   "--file=/here/app/token", "/etc/app/tls/tls.crt": "/here/tls/tls.crt", "/etc/apple": "/etc/apple",
		"/etc/ssl/certs:/etc/app": "/etc/ssl/certs:/here/app", "$(NOBODY) $$(POD)": "$(NOBODY) $(POD)", "--plain": "--plain",
	} {
		if got := s.argument(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	if first := n.service("ns", "web", 80); first != n.service("ns", "web", 80) || n.pod("ns", "web-0", 8080) != own {
		t.Error("an address changes")
	}
}

func TestRepositoryIsTheImageWithoutItsTag(t *testing.T) {
	for image, want := range map[string]string{
		"a": "a", "a:1": "a", "host:5000/a/b": "host:5000/a/b", "host:5000/a/b:1@sha256:00": "host:5000/a/b", "a@sha256:00": "a",
	} {
		if got := repository(image); got != want {
			t.Errorf("%s is %s", image, got)
		}
	}
}

// create makes the objects of a manifest in the test's namespace.
func create(t *testing.T, c *kubetest.Cluster, manifests string) {
	t.Helper()
	plurals := map[string]string{"Pod": "pods", "Secret": "secrets", "Service": "services", "ConfigMap": "configmaps"}
	for text := range strings.SplitSeq(manifests, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			t.Fatal(err)
		}
		object.SetAPIVersion("v1")
		if _, err := c.Dynamic.Resource(resourceOf("", plurals[object.GetKind()])).Namespace(c.Namespace).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func read(t *testing.T, c *kubetest.Cluster, name string) (pod corev1.Pod) {
	t.Helper()
	object, err := c.Dynamic.Resource(resourceOf("", "pods")).Namespace(c.Namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err == nil {
		err = convert(object, &pod)
	}
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for !is() {
		select {
		case <-deadline:
			t.Fatalf("not after a minute: %s", what)
		case <-ticker.C:
		}
	}
}

func ready(pod corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

const script = `
kind: Secret
metadata: {name: keys}
stringData: {token: canary, other: unused}
---
kind: Pod
metadata: {name: teller, labels: {app: teller}}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: example.com/shell:1
    args: [-c, 'echo "$NAME $FROM $(cat $0) $(ls $1)"; exit 3', /etc/keys/token, /etc/keys]
    env:
    - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: FROM, valueFrom: {secretKeyRef: {name: keys, key: token}}}
    volumeMounts: [{name: keys, mountPath: /etc/keys}]
  volumes:
  - name: keys
    secret: {secretName: keys, items: [{key: token, path: token}], defaultMode: 0400}
---
kind: Pod
metadata: {name: other}
spec:
  containers: [{name: main, image: example.com/other:1}]
---
kind: Pod
metadata: {name: late}
spec:
  containers:
  - name: main
    image: example.com/shell:1
    args: [-c, 'echo begun; sleep 1000']
    volumeMounts: [{name: config, mountPath: /etc/config}]
  volumes: [{name: config, configMap: {name: late}}]
---
kind: Pod
metadata: {name: none}
spec:
  containers: [{name: main, image: "example.com/shell:none"}]
`

func TestPodsRunAsTheirManifestsSay(t *testing.T) {
	shell := needs.Program(t, "sh", "a shell")
	c := kubetest.Start(t)
	n := Start(t, Options{Kube: c.RESTConfig, Programs: []Program{
		{Image: "example.com/shell", Command: []string{shell}}, {Image: "example.com/shell:none"},
	}})
	create(t, c, script)
	eventually(t, "the pod that fails has failed", func() bool { return read(t, c, "teller").Status.Phase == corev1.PodFailed })
	if code := read(t, c, "teller").Status.ContainerStatuses[0].State.Terminated.ExitCode; code != 3 {
		t.Errorf("it ended with %d", code)
	}
	if log := n.Log(c.Namespace, "teller"); !strings.Contains(log, "\nteller canary canary token\n") {
		t.Errorf("it said %q", log)
	}
	eventually(t, "a pod of an image that nothing stands for is ready", func() bool { return ready(read(t, c, "other")) })
	eventually(t, "a pod of an image that is not there waits", func() bool {
		s := read(t, c, "none").Status
		return len(s.ContainerStatuses) == 1 && s.ContainerStatuses[0].State.Waiting != nil && s.ContainerStatuses[0].State.Waiting.Reason == "ImagePullBackOff"
	})
	eventually(t, "a pod waits for what it mounts", func() bool {
		s := read(t, c, "late").Status
		return len(s.ContainerStatuses) == 1 && s.ContainerStatuses[0].State.Waiting != nil && strings.Contains(s.ContainerStatuses[0].State.Waiting.Message, "late")
	})
	create(t, c, "kind: ConfigMap\nmetadata: {name: late}\ndata: {a: b}\n")
	eventually(t, "it has begun", func() bool { return ready(read(t, c, "late")) && strings.Contains(n.Log(c.Namespace, "late"), "begun") })
	n.Kill(c.Namespace, "late")
	eventually(t, "it is started again", func() bool {
		return read(t, c, "late").Status.ContainerStatuses[0].RestartCount == 1 && ready(read(t, c, "late"))
	})
}

func TestServicesAreReachedByName(t *testing.T) {
	python := needs.Program(t, "python3", "python3")
	c := kubetest.Start(t)
	n := Start(t, Options{Kube: c.RESTConfig, Programs: []Program{{Image: "example.com/web", Command: []string{python}}}})
	before := n.ServiceAddress(c.Namespace, "web", 80)
	create(t, c, `
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}
---
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers:
  - name: main
    image: example.com/web:1
    args: [-c, "import http.server as h, sys; a = sys.argv[1].split(':'); h.HTTPServer((a[0], int(a[1])), h.SimpleHTTPRequestHandler).serve_forever()", ":8080"]
    ports: [{name: http, containerPort: 8080}]
    readinessProbe: {httpGet: {path: /, port: http}}
`)
	eventually(t, "the pod is ready", func() bool { return ready(read(t, c, "web")) })
	proxy, err := url.Parse(n.Proxy())
	if err != nil {
		t.Fatal(err)
	}
	byName := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy), DisableKeepAlives: true}}
	for where, client := range map[string]*http.Client{
		"http://" + before: http.DefaultClient, "http://" + n.Address(c.Namespace, "web", 8080): http.DefaultClient,
		"http://web." + c.Namespace + ".svc": byName, "http://web." + c.Namespace + ".svc.cluster.local:80/": byName,
	} {
		if status := get(t, client, where); status != http.StatusOK {
			t.Errorf("%s answers %d", where, status)
		}
	}
	if status := get(t, byName, "http://nobody."+c.Namespace+".svc"); status != http.StatusBadGateway {
		t.Errorf("a Service that is not there answers %d", status)
	}
	outside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	defer outside.Close()
	if status := get(t, byName, outside.URL); status != http.StatusTeapot {
		t.Errorf("what is not the cluster's answers %d", status)
	}
}

func get(t *testing.T, client *http.Client, url string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		t.Log(err)
		return 0
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		t.Log(err)
	}
	return answer.StatusCode
}

func TestTheClustersOwnNodesTakePodsAgainAfterwards(t *testing.T) {
	c := kubetest.Start(t)
	t.Run("with a node of ours", func(t *testing.T) { Start(t, Options{Kube: c.RESTConfig}) })
	list, err := c.Dynamic.Resource(resourceOf("", "nodes")).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range list.Items {
		if shut, _, _ := unstructured.NestedBool(node.Object, "spec", "unschedulable"); shut || strings.HasPrefix(node.GetName(), "podrun-") {
			t.Errorf("node %s is there, and takes no pods: %s", node.GetName(), strconv.FormatBool(shut))
		}
	}
}
