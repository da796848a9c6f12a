package order_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/order"
	"github.com/pluralsh/plural/test/support/needs"
)

// manifests reads the objects of a folder that are plain YAML.
func manifests(t *testing.T, dir string) []*unstructured.Unstructured {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests in %s: %v", dir, err)
	}
	var objects []*unstructured.Unstructured
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
		for {
			obj := &unstructured.Unstructured{}
			err := decoder.Decode(&obj.Object)
			if err != nil {
				break // the end, a template, or a case of what is no YAML
			}
			if obj.GetKind() != "" && obj.GetName() != "" {
				objects = append(objects, obj)
			}
		}
	}
	return objects
}

// words says what is not the default of a turn.
func words(turn order.Turn) string {
	text := fmt.Sprintf("%s %d", turn.Stage, turn.Wave)
	for word, set := range map[string]bool{
		"hook": turn.Hook, "before-creation": turn.BeforeCreation, "succeeded": turn.Succeeded, "failed": turn.Failed,
		"no-prune": turn.NoPrune, "keep": turn.Keep,
	} {
		if set {
			text += "\n" + word
		}
	}
	lines := strings.Split(text, "\n")
	slices.Sort(lines[1:])
	return strings.Join(lines, " ")
}

func TestManifestsForArgoHaveTheTurnsThatArgoGivesThem(t *testing.T) {
	root := needs.Corpus(t)
	const plain = "sync 0"
	for dir, want := range map[string]map[string]string{
		"hook":                     {"Pod hook": "sync 0 before-creation hook", "Pod pod": plain},
		"hook-and-deployment":      {"Job.batch my-hook": "sync 0 before-creation hook", "Deployment.apps my-deployment": plain},
		"hook-custom-health":       {"ConfigMap my-map": "pre-sync 0 before-creation hook"},
		"cluster-role-hook":        {"ClusterRoleBinding.rbac.authorization.k8s.io cert-manager/my-cluster-role-binding": "pre-sync 0 before-creation hook", "Pod my-pod": plain},
		"pre-delete-hook":          {"Pod hook": "pre-delete 0 before-creation hook", "ConfigMap guestbook-ui": plain},
		"post-delete-hook":         {"Pod hook": "post-delete 0 before-creation hook"},
		"failure-during-sync":      {"ServiceAccount failure-during-sync": plain},
		"sync-waves":               {"ConfigMap cm-1": "sync 1", "ConfigMap cm-2": "sync 2"},
		"global-with-no-namespace": {"Console.config.openshift.io cluster": "sync 0 no-prune"},
		"syncwaves-prune-order": {
			"ServiceAccount modify-pods-sa": plain, "Role.rbac.authorization.k8s.io modify-pods-role": plain,
			"RoleBinding.rbac.authorization.k8s.io modify-pods-rolebinding": "sync 1", "Pod pod-with-finalizers": "sync 2",
		},
		"multi-namespace-hook": {
			"Namespace test-multi-ns-hook-second": plain, "Deployment.apps nginx-deployment": plain,
			"Pod my-hook":                           "post-sync 0 hook succeeded",
			"Pod test-multi-ns-hook-second/my-hook": "post-sync 0 hook succeeded",
		},
		"hook-resource-deleted-externally": {"Job.batch hook": "sync 0 before-creation hook", "Pod pod": plain},
		"helm-crd/crds":                    {"CustomResourceDefinition.apiextensions.k8s.io crontabs.stable.example.com": plain},
		"helm3-crd/crds":                   {"CustomResourceDefinition.apiextensions.k8s.io crontabs.stable.example.com": plain},
	} {
		t.Run(dir, func(t *testing.T) {
			got := map[string]string{}
			for _, obj := range manifests(t, filepath.Join(root, "argo-cd-e2e", "cases", filepath.FromSlash(dir))) {
				turns, err := order.Of(obj)
				if err != nil {
					t.Fatal(err)
				}
				for _, turn := range turns {
					got[object.Of(obj).String()] = words(turn)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("turns (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEveryManifestOfTheCorpusHasATurn(t *testing.T) {
	root, count := needs.Corpus(t), 0
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if files, _ := filepath.Glob(filepath.Join(path, "*.yaml")); len(files) == 0 {
			return nil
		}
		for _, obj := range manifests(t, path) {
			if turns, err := order.Of(obj); err != nil || len(turns) == 0 {
				t.Errorf("%s: %v, %v", path, turns, err)
			}
			count++
		}
		return nil
	})
	if err != nil || count < 100 {
		t.Errorf("%d manifests, %v", count, err)
	}
}

func TestManifestsForArgoAreAppliedInItsOrder(t *testing.T) {
	root := needs.Corpus(t)
	for dir, want := range map[string]string{
		"sync-waves": "sync 1: ConfigMap/cm-1\nawait\nsync 2: ConfigMap/cm-2\n",
		"syncwaves-prune-order": "sync 0: ServiceAccount/modify-pods-sa\nsync 0: Role/modify-pods-role\nawait\n" +
			"sync 1: RoleBinding/modify-pods-rolebinding\nawait\nsync 2: Pod/pod-with-finalizers\n",
		"multi-namespace-hook": "sync 0: Namespace/test-multi-ns-hook-second\nsync 0: Deployment/nginx-deployment\nawait\n" +
			"post-sync 0: Pod/my-hook Pod/my-hook\n",
		"cluster-role-hook": "pre-sync 0: ClusterRoleBinding/my-cluster-role-binding\nawait\nsync 0: Pod/my-pod\n",
	} {
		t.Run(dir, func(t *testing.T) {
			var items []order.Item
			for _, obj := range manifests(t, filepath.Join(root, "argo-cd-e2e", "cases", dir)) {
				turns, err := order.Of(obj)
				if err != nil {
					t.Fatal(err)
				}
				for _, turn := range turns {
					items = append(items, order.Item{ID: object.Of(obj), Turn: turn})
				}
			}
			steps, err := order.Plan(items)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, show(items, steps)); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}
