package deploy

import (
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/test/support/faultproxy"
)

// corpusTable says of each folder what it defines. One with nothing beside it is applied as it stands, and is done.
func corpusTable() map[string]corpusCase {
	missing := func(kind string) corpusCase {
		return corpusCase{expect: []string{"MissingKind " + kind, "install its CustomResourceDefinition"}}
	}
	notVendored := corpusCase{refused: "dependencies are not in charts/"}
	data := func(key, want string) func(*corpusScene) {
		return func(c *corpusScene) { c.holds("my-map", key, want) }
	}
	return map[string]corpusCase{
		".hidden-helm":                            {then: data("foo", "bar")},
		"aggregated-apiserver":                    {},
		"aggregated-apiserver-server":             {none: "its images would have to run: the API group that it registers stays silent, which a row of the fault table plays"},
		"always-outofsync":                        {then: calmsDown},
		"bad-servicecatalog":                      {none: "it registers an API group for the whole cluster that nobody serves, which a row of the fault table plays"},
		"cluster-role":                            {},
		"cluster-role-hook":                       {then: func(c *corpusScene) { c.before("clusterrolebindings", "my-pod") }},
		"config-map":                              {then: data("foo", "bar")},
		"crashing-guestbook":                      {},
		"crd-creation":                            {then: func(c *corpusScene) { c.before("dummies.argoproj.io", "dummy-crd-instance") }},
		"crd-subresource":                         {then: subresources},
		"crd-validation":                          {expect: []string{"Invalid Deployment/nginx-deployment", "containerPort"}},
		"crd-version-differences":                 {expect: []string{"CustomResourceDefinition/fakes.argoproj.io", "MissingKind DoesNotExist/", "MissingKind Fake/fake-crd-instance: ", "MissingKind Fake/fake-crd-instance-wronggroup"}},
		"cross-namespace-ownership":               {then: ownership},
		"declarative-apps":                        {refused: "declarative-apps/app.yaml:1"},
		"deployment":                              {},
		"deprecated-extensions":                   {expect: []string{"MissingKind PodSecurityPolicy/", "MissingKind NetworkPolicy/", "Invalid Ingress/", "Deployment/extensions-deployment"}},
		"duplicated-resources":                    {expect: []string{"Invalid ClusterDummy/cluster-dummy-crd-instance", "rendered twice", "created Dummy/dummy-crd-instance"}, then: duplicates},
		"empty-dir":                               {},
		"failure-during-sync":                     {expect: []string{"Invalid ServiceAccount/failure-during-sync", "has-inva/id-character!"}},
		"global-with-no-namespace":                missing("Console/cluster"),
		"guestbook":                               {then: prunesAll},
		"guestbook-logs":                          {},
		"guestbook-with-namespace":                {},
		"guestbook-with-namespace-manifest":       {then: func(c *corpusScene) { c.before("guestbook-ui-with-namespace-manifest", "guestbook-ui") }},
		"guestbook-with-plain-namespace-manifest": {none: "it is guestbook-with-namespace-manifest without annotations that Argo CD reads, and makes the same namespace"},
		"guestbook_local":                         {},
		"helm":                                    {then: data("foo", "bar")},
		"helm-api-versions":                       {inputs: func(in *render.Input) { in.APIVersions = []string{"v1", "sample/v1"} }, then: data("apiVersions", "sample/v1")},
		"helm-crd":                                {then: func(c *corpusScene) { c.before("crontabs.stable.example.com", "corpus-inst") }},
		"helm-glob-values":                        {then: data("foo", "b-value"), inputs: twoValuesFiles},
		"helm-guestbook":                          {},
		"helm-kube-version":                       {inputs: func(in *render.Input) { in.KubeVersion = "v1.30.11" }, then: data("kubeVersion", "v1.30.11")},
		"helm-namespace":                          {then: data("foo", "bar"), inputs: func(in *render.Input) { in.Namespace = "" }},
		"helm-oci-authed-with-dependencies":       notVendored,
		"helm-oci-with-dependencies":              notVendored,
		"helm-repo":                               {none: "a repository of charts, as a server would have it"},
		"helm-values":                             {inputs: func(in *render.Input) { in.Helm = &render.Helm{ValuesJSON: []byte(`{"foo": "baz"}`)} }, then: data("foo", "baz")},
		"helm-with-dependencies":                  notVendored,
		"helm-with-multiple-dependencies":         notVendored,
		"helm-with-multiple-dependencies-permission-denied": notVendored,
		"helm3-crd":           {then: func(c *corpusScene) { c.before("crontabs.stable.example.com", "my-map") }},
		"hook":                {expect: []string{"waiting", "Pod/hook"}, then: syncHook},
		"hook-and-deployment": {then: hookRunsOnce},
		"hook-custom-health":  {then: func(c *corpusScene) { c.before("configmaps", "guestbook-ui") }},
		"hook-resource-deleted-externally": {then: func(c *corpusScene) {
			c.eventually("the Job takes itself away", func() bool { return !c.there("Job", "hook") })
			c.stillDone()
		}},
		"https-kustomize-base":            {none: "its base lies on a server, and what is remote is refused (agent/render tests it)"},
		"hydrator-directory":              {},
		"hydrator-helm":                   {},
		"hydrator-kustomize":              {},
		"hydrator-plugin":                 missing("ConfigManagementPlugin/hydrator-plugin"),
		"invalid-kustomize":               {refused: "does-not-exist.yaml"},
		"kustomize":                       {},
		"kustomize-api-versions":          {inputs: func(in *render.Input) { in.APIVersions = []string{"v1", "sample/v1"} }, then: data("apiVersions", "sample/v1")},
		"kustomize-cm-gen":                {then: generated},
		"kustomize-kube-version":          {inputs: func(in *render.Input) { in.KubeVersion = "v1.30.11" }, then: data("kubeVersion", "v1.30.11")},
		"kustomize-with-version-override": {},
		"managed-by-url-test":             {},
		"multi-namespace":                 {then: twoNamespaces},
		"multi-namespace-hook":            {expect: []string{"waiting", "Pod/my-hook"}, then: hooksInTwoNamespaces},
		"multi-sync":                      {},
		"multiple-source-values":          {refused: "neither apiVersion nor kind"},
		"networking":                      {expect: []string{"Invalid Ingress/guestbook-ui: ", "Invalid Ingress/guestbook-ui-2", "Service/guestbook-ui-internal"}},
		"one-deployment":                  {},
		"openshift":                       missing("Project/test"),
		"post-delete-hook":                {then: postDelete},
		"pre-delete-hook":                 {then: preDelete},
		"progressive-sync":                {refused: "stands in this service twice"},
		"resource-actions":                {},
		"secrets":                         {then: secretValues},
		"self-managed-app":                {expect: []string{"MissingKind Application/test-self-managed-apps", "write a service in its place"}},
		"service":                         {},
		"shards-sync-assigned-apps":       {},
		"slow-manifest":                   {},
		"ssa-revision-history":            {expect: []string{"Invalid Deployment/guestbook-ui", "spec.selector"}},
		"ssh-kustomize-base":              {none: "its base lies on a server, and what is remote is refused (agent/render tests it)"},
		"sync-options-validate-false":     {expect: []string{"Invalid ConfigMap/invalid-cm", "invalidKey"}},
		"sync-waves":                      {then: func(c *corpusScene) { c.before("cm-1", "cm-2") }},
		"syncwaves-prune-order":           {then: pruneOrder},
		"tracking-instance-label":         {then: instanceLabel},
		"two-nice-pods":                   {},
	}
}

func twoValuesFiles(in *render.Input) {
	in.Helm = &render.Helm{ValuesFiles: []string{"helm-glob-values/envs/a.yaml", "helm-glob-values/envs/b.yaml"}}
}

// holds wants a value in a ConfigMap of the scene's namespace.
func (c *corpusScene) holds(name, key, want string) {
	c.Helper()
	live, err := c.of("ConfigMap").Get(c.Context(), name, metav1.GetOptions{})
	c.must(err)
	if got, _, _ := unstructured.NestedString(live.Object, "data", key); !strings.Contains(got, want) {
		c.Errorf("%s of %s is %q, want %q", key, name, got, want)
	}
}

// stillDone wants another pass of the same revision to find nothing to do, though it is a new engine's.
func (c *corpusScene) stillDone() {
	c.Helper()
	c.restart()
	asked := len(c.proxy.Requests())
	c.becomes("the same revision again")
	for _, r := range c.proxy.Requests()[asked:] {
		if r.Method != http.MethodGet && r.Method != faultproxy.Watch {
			c.Errorf("a second pass sends %s %s", r.Method, r.Path)
		}
	}
}

// calmsDown is for manifests that the API server changes as it takes them: that is no drift.
func calmsDown(c *corpusScene) { c.stillDone() }

// subresources are not drift, and of a kind without them the status is like any other field.
func subresources(c *corpusScene) {
	c.before("statussubresources.argoproj.io", "status-subresource")
	c.before("nonstatussubresources.argoproj.io", "non-status-subresource")
	c.stillDone()
}

// ownership of what has no namespace is with the one service that came first.
func ownership(c *corpusScene) {
	first := c.request
	c.request.Service = c.namespace + "-b"
	c.shows("Conflict ClusterRole/test-cluster-role", first.Service)
	c.request = first
	c.stillDone()
}

// duplicates of what has no namespace are one object, others are as many as there are namespaces.
func duplicates(c *corpusScene) {
	c.before("clusterdummies.argoproj.io", "cluster-dummy-crd-instance")
	c.before("dummies.argoproj.io", "dummy-crd-instance")
}

// prunesAll takes everything but one object out, and wants the rest gone.
func prunesAll(c *corpusScene) {
	c.ask(cmB)
	c.becomes("the rest is pruned")
	c.exactly(cmB)
}

// syncHook runs together with what it is a hook of, and the sync is over when it is.
func syncHook(c *corpusScene) {
	c.isThere("Pod", "pod", true)
	c.eventually("the hook runs", func() bool { return c.runs(c.namespace, "hook") })
	if c.until(500*time.Millisecond, func() bool { return c.result.Done }) {
		c.Error("the sync is over while its hook runs")
	}
	c.ends(c.namespace, "hook")
	c.becomes("the hook has ended")
	first := c.live()
	c.stillDone()
	c.stay("the same revision again", first)
	c.askFor(c.objects...)
	c.shows("Pod/hook")
	c.eventually("a new revision runs the hook again", func() bool {
		c.pass()
		uid := c.live()["Pod/hook"]
		return uid != "" && uid != first["Pod/hook"]
	})
	c.ends(c.namespace, "hook")
	c.becomes("the hook has ended again")
}

func hookRunsOnce(c *corpusScene) {
	first := c.live()
	c.stillDone()
	c.stay("the same revision again", first)
}

// twoNamespaces has an object in a namespace that is not the service's; it goes with the rest.
func twoNamespaces(c *corpusScene) {
	system := c.cluster.Dynamic.Resource(deployments).Namespace("kube-system")
	_, err := system.Get(c.Context(), "helm-guestbook", metav1.GetOptions{})
	c.must(err)
	c.removed()
	c.isThere("Deployment", "helm-guestbook", false)
	if _, err := system.Get(c.Context(), "helm-guestbook", metav1.GetOptions{}); !isGone(err) {
		c.Errorf("the one in kube-system: %v", err)
	}
}

// hooksInTwoNamespaces run after the sync, and are deleted when they have ended well.
func hooksInTwoNamespaces(c *corpusScene) {
	if !c.until(20*time.Second, func() bool { return c.runs(c.namespace, "my-hook") && c.runs("test-multi-ns-hook-second", "my-hook") }) {
		c.Fatal("the hooks never run")
	}
	c.before("nginx-deployment", "pods")
	c.ends(c.namespace, "my-hook")
	c.ends("test-multi-ns-hook-second", "my-hook")
	c.becomes("the hooks have ended")
	second := c.cluster.Dynamic.Resource(pods).Namespace("test-multi-ns-hook-second")
	c.eventually("the hooks are deleted", func() bool {
		_, err := second.Get(c.Context(), "my-hook", metav1.GetOptions{})
		return isGone(err) && !c.there("Pod", "my-hook")
	})
	c.stillDone()
	c.isThere("Pod", "my-hook", false)
}

// postDelete runs when everything is gone, and goes as well.
func postDelete(c *corpusScene) {
	c.isThere("Pod", "hook", false)
	done := c.removing()
	c.eventually("the hook runs", func() bool { return c.there("Pod", "hook") })
	c.ends(c.namespace, "hook")
	<-done
	c.isThere("Pod", "hook", false)
}

// preDelete runs before anything goes.
func preDelete(c *corpusScene) {
	c.isThere("Pod", "hook", false)
	done := c.removing()
	c.eventually("the hook runs", func() bool { return c.there("Pod", "hook") })
	c.isThere("ConfigMap", "guestbook-ui", true)
	c.ends(c.namespace, "hook")
	<-done
	c.isThere("ConfigMap", "guestbook-ui", false)
	c.isThere("Pod", "hook", false)
}

// removing removes the service while the test goes on.
func (c *corpusScene) removing() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.removed()
	}()
	return done
}

func generated(c *corpusScene) {
	list, err := c.of("ConfigMap").List(c.Context(), metav1.ListOptions{LabelSelector: serviceLabel})
	c.must(err)
	if len(list.Items) != 1 || !strings.HasPrefix(list.Items[0].GetName(), "my-map-") {
		c.Errorf("generated: %d ConfigMaps", len(list.Items))
	}
}

// secretValues are given in two forms; a second pass changes neither.
func secretValues(c *corpusScene) {
	live, err := c.of("Secret").Get(c.Context(), "test-secret", metav1.GetOptions{})
	c.must(err)
	values, _, _ := unstructured.NestedStringMap(live.Object, "data")
	if len(values) != 2 {
		c.Errorf("the Secret has %d values", len(values))
	}
	c.stillDone()
}

func instanceLabel(c *corpusScene) {
	live, err := c.of("ConfigMap").Get(c.Context(), "my-map", metav1.GetOptions{})
	c.must(err)
	if got := live.GetLabels()["app.kubernetes.io/instance"]; got != "my-release" {
		c.Errorf("the chart's own label is %q", got)
	}
}

// pruneOrder is the reverse of the waves: the pod goes first, and what it needs to go stays until it has gone.
func pruneOrder(c *corpusScene) {
	c.before("modify-pods-sa", "modify-pods-rolebinding")
	c.before("modify-pods-rolebinding", "pod-with-finalizers")
	c.ask(cmB)
	c.shows("deleted Pod/pod-with-finalizers", "example.com/block-delete")
	for kind, name := range map[string]string{"ServiceAccount": "modify-pods-sa", "Role": "modify-pods-role", "RoleBinding": "modify-pods-rolebinding"} {
		c.isThere(kind, name, true)
	}
	c.edit("Pod", "pod-with-finalizers", `{"metadata": {"finalizers": null}}`)
	c.becomes("everything has gone")
	c.exactly(cmB)
}
