package inspect_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/installer/inspect"
	"github.com/pluralsh/plural/installer/preview"
	"github.com/pluralsh/plural/test/support/needs"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/snapshot"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "render-child" {
		os.Exit(render.ChildMain(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// own has everything that services are made of in one snapshot.
type own struct{ files *snapshot.Snapshot }

func (o own) Snapshot(string, string) (*snapshot.Snapshot, error) { return o.files, nil }

// Of other people's manifests, only what an API server refuses is told. Each line was looked at: all of them are mistakes, most of
// them made on purpose.
func TestNothingIsWrongWithManifestsThatClustersTake(t *testing.T) {
	t.Parallel()
	corpus := needs.Corpus(t)
	cases, err := filepath.Glob(filepath.Join(corpus, "argo-cd-e2e", "cases", "*"))
	if err != nil || len(cases) == 0 {
		t.Fatal(cases, err)
	}
	folders := append(cases, filepath.Join(corpus, "podinfo", "kustomize"), filepath.Join(corpus, "podinfo", "charts", "podinfo"))
	var f fleet.Fleet
	versions := map[string]string{}
	for _, folder := range folders {
		path, err := filepath.Rel(corpus, folder)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.ReplaceAll(strings.TrimPrefix(strings.ToLower(path), "argo-cd-e2e/cases/"), "/", "-")
		// Each has a cluster of its own, for several make the same objects.
		versions[name] = "v1.35.4"
		f.Clusters = append(f.Clusters, fleet.Cluster{Metadata: fleet.Metadata{Name: name}})
		f.Services = append(f.Services, fleet.Service{
			Metadata: fleet.Metadata{Name: name},
			Spec:     fleet.ServiceSpec{Source: fleet.SourceRef{Path: filepath.ToSlash(path)}, Clusters: fleet.Selector{Names: []string{name}}},
		})
	}
	slices.SortFunc(f.Clusters, func(a, b fleet.Cluster) int { return strings.Compare(a.Metadata.Name, b.Metadata.Name) })
	files, err := snapshot.Worktree(corpus)
	if err != nil {
		t.Fatal(err)
	}
	renderer, err := preview.New(files, func() ([]age.Identity, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	report, err := inspect.Run(t.Context(), inspect.Inspection{
		Fleet: &f, Sources: own{files}, Resolver: resolve.New(), Renderer: renderer, Versions: versions,
	})
	if err != nil {
		t.Fatal(err)
	}
	if report.Objects < 130 {
		t.Errorf("only %d objects were looked at", report.Objects)
	}
	var got []string
	for _, e := range report.Errors {
		got = append(got, strings.TrimPrefix(e.Where, "argo-cd-e2e/cases/")+": "+e.Message[strings.Index(e.Message, ": ")+2:])
	}
	want := []string{
		"crd-validation/deployment.yaml:21: Deployment nginx-deployment: spec.template.spec.containers[0].ports[0].containerPort: is a string, and has to be an integer",
		"crd-version-differences/crd-v1alpha2-instance.yaml:1: Fake fake-crd-instance: fakes.argoproj.io of service crd-version-differences serves v1alpha1, and not v1alpha2",
		"deprecated-extensions/ingress.yaml:10: Ingress extensions-ingress: spec.rules[0].http.paths[0].pathType: is missing",
		"deprecated-extensions/ingress.yaml:11: Ingress extensions-ingress: spec.rules[0].http.paths[0].backend.serviceName: unknown field",
		"deprecated-extensions/ingress.yaml:12: Ingress extensions-ingress: spec.rules[0].http.paths[0].backend.servicePort: unknown field",
		"deprecated-extensions/network-policy.yaml:1: NetworkPolicy allow-default: NetworkPolicy of extensions/v1beta1 is gone since Kubernetes 1.16",
		"deprecated-extensions/pod-security-policy.yaml:1: PodSecurityPolicy pod-security-example: PodSecurityPolicy of extensions/v1beta1 is gone since Kubernetes 1.16",
		`failure-during-sync/failure-during-sync.yaml:7: ServiceAccount failure-during-sync: metadata.labels: is a map with my-label: "has-inva/id-character!": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character`,
		"networking/guestbook-ui-svc-ingress.yaml:15: Ingress guestbook-ui: spec.rules[0].http.paths[0].pathType: is missing",
		"networking/guestbook-ui-svc-ingress.yaml:17: Ingress guestbook-ui: spec.rules[0].http.paths[0].backend.serviceName: unknown field",
		"networking/guestbook-ui-svc-ingress.yaml:18: Ingress guestbook-ui: spec.rules[0].http.paths[0].backend.servicePort: unknown field",
		"networking/guestbook-ui-svc-ingress.yaml:33: Ingress guestbook-ui-2: spec.rules[0].http.paths[0].pathType: is missing",
		"networking/guestbook-ui-svc-ingress.yaml:35: Ingress guestbook-ui-2: spec.rules[0].http.paths[0].backend.serviceName: unknown field",
		"networking/guestbook-ui-svc-ingress.yaml:36: Ingress guestbook-ui-2: spec.rules[0].http.paths[0].backend.servicePort: unknown field",
		"ssa-revision-history/deployment.yaml:5: Deployment guestbook-ui: spec.selector: is missing",
		"ssa-revision-history/deployment.yaml:5: Deployment guestbook-ui: spec.template: is missing",
		"sync-options-validate-false/invalid-cm.yaml:8: ConfigMap invalid-cm: invalidKey: unknown field",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
