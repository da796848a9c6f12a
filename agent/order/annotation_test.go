package order_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/order"
)

func annotated(annotations map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "batch/v1", "kind": "Job",
		"metadata": map[string]any{"name": "migrate", "namespace": "web", "annotations": annotations},
	}}
}

func TestAnnotationsMeanTheirTurns(t *testing.T) {
	sync := func(change func(*order.Turn)) []order.Turn {
		turn := order.Turn{Stage: order.Sync}
		change(&turn)
		return []order.Turn{turn}
	}
	hook := func(stage order.Stage, wave int) order.Turn {
		return order.Turn{Stage: stage, Wave: wave, Hook: true, BeforeCreation: true}
	}
	argo := func(stage order.Stage, wave int) order.Turn {
		turn := hook(stage, wave)
		turn.Family = order.Argo
		return turn
	}
	helm := func(stage order.Stage, wave int, only string) order.Turn {
		turn := hook(stage, wave)
		turn.Family, turn.Only = order.Helm, only
		return turn
	}
	skipped := []order.Turn{{Stage: order.Skip, Pause: true}}
	db := object.ID{Group: "apps", Kind: "Deployment", Namespace: "web", Name: "db"}
	ns := object.ID{Kind: "Namespace", Name: "web"}
	for _, test := range []struct {
		name        string
		annotations map[string]any
		want        []order.Turn
	}{
		{"none", nil, sync(func(*order.Turn) {})},
		{"of others", map[string]any{"a": "b", "c": 1, "argocd.argoproj.io/compare-options": "IgnoreExtraneous"}, sync(func(*order.Turn) {})},
		{"with no value", map[string]any{"plural.sh/wave": nil, "helm.sh/hook": nil}, sync(func(*order.Turn) {})},

		{"our wave", map[string]any{"plural.sh/wave": "-3"}, sync(func(t *order.Turn) { t.Wave = -3 })},
		{"our hook", map[string]any{"plural.sh/hook": "pre-sync"}, []order.Turn{hook(order.PreSync, 0)}},
		{
			"our hooks of all stages",
			map[string]any{"plural.sh/hook": "test,post-delete, pre-delete,sync-fail,post-sync,sync,pre-sync", "plural.sh/wave": "2"},
			[]order.Turn{
				hook(order.PreSync, 2), hook(order.Sync, 2), hook(order.PostSync, 2), hook(order.SyncFail, 2),
				hook(order.PreDelete, 2), hook(order.PostDelete, 2), hook(order.Test, 2),
			},
		},
		{"our skip", map[string]any{"plural.sh/hook": "skip"}, skipped},
		{
			"our policies",
			map[string]any{"plural.sh/hook": "sync", "plural.sh/hook-delete-policy": "succeeded,failed"},
			[]order.Turn{{Stage: order.Sync, Hook: true, Succeeded: true, Failed: true}},
		},
		{
			"a hook that stays",
			map[string]any{"plural.sh/hook": "sync", "plural.sh/hook-delete-policy": "never"},
			[]order.Turn{{Stage: order.Sync, Hook: true}},
		},
		{"our prune: never", map[string]any{"plural.sh/prune": "never"}, sync(func(t *order.Turn) { t.NoPrune = true })},
		{"our prune: allow", map[string]any{"plural.sh/prune": "allow"}, sync(func(*order.Turn) {})},
		{"our keep", map[string]any{"plural.sh/keep": "true"}, sync(func(t *order.Turn) { t.Keep = true })},
		{"our recreate", map[string]any{"plural.sh/recreate": "allow"}, sync(func(t *order.Turn) { t.Recreate = true })},
		{"our prune-last", map[string]any{"plural.sh/prune-last": "true"}, sync(func(t *order.Turn) { t.PruneLast = true })},
		{
			"our depends-on",
			map[string]any{"plural.sh/depends-on": "Deployment.apps web/db, /Namespace/web"},
			sync(func(t *order.Turn) { t.After = []object.ID{db, ns} }),
		},

		{"argo wave", map[string]any{"argocd.argoproj.io/sync-wave": " 5 "}, sync(func(t *order.Turn) { t.Wave = 5 })},
		{
			"argo hooks",
			map[string]any{"argocd.argoproj.io/hook": "SyncFail, PreSync", "argocd.argoproj.io/sync-wave": "-1"},
			[]order.Turn{argo(order.PreSync, -1), argo(order.SyncFail, -1)},
		},
		{
			"argo delete hooks",
			map[string]any{"argocd.argoproj.io/hook": "PostDelete,PreDelete"},
			[]order.Turn{argo(order.PreDelete, 0), argo(order.PostDelete, 0)},
		},
		{"argo skip", map[string]any{"argocd.argoproj.io/hook": "Skip"}, skipped},
		{"argo skip beside another", map[string]any{"argocd.argoproj.io/hook": "Skip,PostSync"}, []order.Turn{argo(order.PostSync, 0)}},
		{
			"argo policies",
			map[string]any{"argocd.argoproj.io/hook": "Sync", "argocd.argoproj.io/hook-delete-policy": "HookSucceeded,BeforeHookCreation"},
			[]order.Turn{{Stage: order.Sync, Hook: true, Family: order.Argo, Succeeded: true, BeforeCreation: true}},
		},
		{
			"argo never",
			map[string]any{"argocd.argoproj.io/hook": "Sync", "argocd.argoproj.io/hook-delete-policy": "Never"},
			[]order.Turn{{Stage: order.Sync, Hook: true, Family: order.Argo}},
		},
		{
			"argo options",
			map[string]any{"argocd.argoproj.io/sync-options": "Prune=false, Delete=false,PruneLast=true,SkipDryRunOnMissingResource=true,Validate=false"},
			sync(func(t *order.Turn) { t.NoPrune, t.Keep, t.PruneLast, t.Optional = true, true, true, true }),
		},
		{
			"argo confirmations",
			map[string]any{"argocd.argoproj.io/sync-options": "Prune=confirm,Delete=confirm"},
			sync(func(t *order.Turn) { t.NoPrune, t.Keep = true, true }),
		},
		{"argo force", map[string]any{"argocd.argoproj.io/sync-options": "Force=true,Replace=true"}, sync(func(t *order.Turn) { t.Recreate = true })},
		{"argo replace deletes nothing", map[string]any{"argocd.argoproj.io/sync-options": "Replace=true"}, sync(func(*order.Turn) {})},
		{"argo says both", map[string]any{"argocd.argoproj.io/sync-options": "Prune=true,Prune=false"}, sync(func(t *order.Turn) { t.NoPrune = true })},
		{"argo health", map[string]any{"argocd.argoproj.io/ignore-healthcheck": "true"}, sync(func(t *order.Turn) { t.IgnoreHealth = true })},

		{
			"helm hook",
			map[string]any{"helm.sh/hook": "pre-install,pre-upgrade", "helm.sh/hook-weight": "-5", "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded"},
			[]order.Turn{{Stage: order.PreSync, Wave: -5, Hook: true, Family: order.Helm, BeforeCreation: true, Succeeded: true}},
		},
		{"helm hook of an install", map[string]any{"helm.sh/hook": "Post-Install"}, []order.Turn{helm(order.PostSync, 0, "install")}},
		{
			"helm hooks of several events",
			map[string]any{"helm.sh/hook": "post-upgrade,pre-install,post-install,post-delete"},
			[]order.Turn{helm(order.PreSync, 0, "install"), helm(order.PostSync, 0, ""), helm(order.PostDelete, 0, "")},
		},
		{"helm tests", map[string]any{"helm.sh/hook": "test-success", "helm.sh/hook-weight": "1"}, []order.Turn{helm(order.Test, 1, "")}},
		{"helm crd-install", map[string]any{"helm.sh/hook": "crd-install", "helm.sh/hook-weight": "1"}, sync(func(*order.Turn) {})},
		{"helm rollback", map[string]any{"helm.sh/hook": "pre-rollback,post-rollback"}, skipped},
		{"helm rollback beside another", map[string]any{"helm.sh/hook": "post-rollback,post-upgrade"}, []order.Turn{helm(order.PostSync, 0, "upgrade")}},
		{"helm weight of no hook", map[string]any{"helm.sh/hook-weight": "7"}, sync(func(*order.Turn) {})},
		{"helm weight left empty", map[string]any{"helm.sh/hook": "test", "helm.sh/hook-weight": ""}, []order.Turn{helm(order.Test, 0, "")}},
		{"helm keep", map[string]any{"helm.sh/resource-policy": "Keep "}, sync(func(t *order.Turn) { t.NoPrune, t.Keep = true, true })},
		{"helm policy left empty", map[string]any{"helm.sh/resource-policy": ""}, sync(func(*order.Turn) {})},

		{"flux prune", map[string]any{"kustomize.toolkit.fluxcd.io/prune": "Disabled"}, sync(func(t *order.Turn) { t.NoPrune, t.Keep = true, true })},
		{"flux reconcile", map[string]any{"kustomize.toolkit.fluxcd.io/reconcile": "disabled"}, sync(func(t *order.Turn) { t.Pause = true })},
		{"flux ignore", map[string]any{"kustomize.toolkit.fluxcd.io/ssa": "Ignore"}, sync(func(t *order.Turn) { t.Pause = true })},
		{"flux merge", map[string]any{"kustomize.toolkit.fluxcd.io/ssa": "merge"}, sync(func(t *order.Turn) { t.Merge = true })},
		{"flux if not present", map[string]any{"kustomize.toolkit.fluxcd.io/ssa": "IfNotPresent"}, sync(func(t *order.Turn) { t.Once = true })},
		{"flux override", map[string]any{"kustomize.toolkit.fluxcd.io/ssa": "Override"}, sync(func(*order.Turn) {})},
		{"flux force", map[string]any{"kustomize.toolkit.fluxcd.io/force": "enabled"}, sync(func(t *order.Turn) { t.Recreate = true })},

		{
			"cli-utils depends-on",
			map[string]any{"config.kubernetes.io/depends-on": "apps/namespaces/web/Deployment/db,/Namespace/web,"},
			sync(func(t *order.Turn) { t.After = []object.ID{db, ns} }),
		},
		{"cli-utils on-remove", map[string]any{"cli-utils.sigs.k8s.io/on-remove": "keep"}, sync(func(t *order.Turn) { t.NoPrune, t.Keep = true, true })},
		{"cli-utils detach", map[string]any{"client.lifecycle.config.k8s.io/deletion": "detach"}, sync(func(t *order.Turn) { t.NoPrune, t.Keep = true, true })},
		{"mutation ignored", map[string]any{"client.lifecycle.config.k8s.io/mutation": "ignore"}, sync(func(t *order.Turn) { t.Once = true })},
		{"local", map[string]any{"config.kubernetes.io/local-config": "true"}, sync(func(t *order.Turn) { t.LocalOnly = true })},
		{"not local", map[string]any{"config.kubernetes.io/local-config": "false"}, sync(func(*order.Turn) {})},

		{
			"our hook beats argo's and helm's",
			map[string]any{"plural.sh/hook": "post-sync", "argocd.argoproj.io/hook": "PreSync", "helm.sh/hook": "test"},
			[]order.Turn{hook(order.PostSync, 0)},
		},
		{
			"argo's hook beats helm's, with its weight",
			map[string]any{"argocd.argoproj.io/hook": "PreSync", "helm.sh/hook": "test", "helm.sh/hook-weight": "9"},
			[]order.Turn{argo(order.PreSync, 0)},
		},
		{
			"policies of another vocabulary count where the first has none",
			map[string]any{"plural.sh/hook": "sync", "helm.sh/hook-delete-policy": "hook-failed"},
			[]order.Turn{{Stage: order.Sync, Hook: true, Failed: true}},
		},
		{
			"our wave beats argo's and helm's",
			map[string]any{"plural.sh/wave": "1", "argocd.argoproj.io/sync-wave": "2", "helm.sh/hook": "test", "helm.sh/hook-weight": "3"},
			[]order.Turn{helm(order.Test, 1, "")},
		},
		{
			"ours lets go what others hold", map[string]any{
				"plural.sh/prune": "allow", "plural.sh/keep": "false", "plural.sh/prune-last": "false", "plural.sh/recreate": "never",
				"helm.sh/resource-policy": "keep", "argocd.argoproj.io/sync-options": "PruneLast=true,Force=true",
			}, sync(func(*order.Turn) {}),
		},
		{
			"who forbids to recreate wins",
			map[string]any{"argocd.argoproj.io/sync-options": "Force=true", "kustomize.toolkit.fluxcd.io/force": "disabled"},
			sync(func(*order.Turn) {}),
		},
		{
			"dependencies of all are taken once",
			map[string]any{"plural.sh/depends-on": "Deployment.apps web/db", "config.kubernetes.io/depends-on": "apps/namespaces/web/Deployment/db"},
			sync(func(t *order.Turn) { t.After = []object.ID{db} }),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := order.Of(annotated(test.annotations))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("turns (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFluxAlsoSpeaksByLabels(t *testing.T) {
	obj := annotated(map[string]any{"kustomize.toolkit.fluxcd.io/ssa": "Merge"})
	obj.SetLabels(map[string]string{"kustomize.toolkit.fluxcd.io/ssa": "IfNotPresent", "kustomize.toolkit.fluxcd.io/prune": "disabled"})
	want := []order.Turn{{Stage: order.Sync, Merge: true, Once: true, NoPrune: true, Keep: true}}
	got, err := order.Of(obj)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, turns (-want +got):\n%s", err, diff)
	}
}

func TestWhatIsNotUnderstoodIsAnErrorThatSaysWhatIsAllowed(t *testing.T) {
	for _, test := range []struct {
		annotation string
		value      any
		want       string
	}{
		{"plural.sh/wave", "soon", "a whole number"},
		{"plural.sh/wave", "99999999999", "a whole number"},
		{"plural.sh/wave", int64(3), "quote numbers"},
		{"plural.sh/hook", "presync", "pre-sync, sync, post-sync"},
		{"plural.sh/hook", "skip,sync", "skip alone"},
		{"plural.sh/hook", "", "pre-sync"},
		{"plural.sh/prune", "no", "allow or never"},
		{"plural.sh/keep", "yes", "true or false"},
		{"plural.sh/keep", true, "quote numbers and booleans"},
		{"plural.sh/prune-last", "1", "true or false"},
		{"plural.sh/recreate", "true", "allow or never"},
		{"plural.sh/depends-on", "Deployment web/db/x", "GROUP/namespaces"},
		{"argocd.argoproj.io/sync-wave", "1.5", "a whole number"},
		{"argocd.argoproj.io/hook", "presync", "PreSync, Sync"},
		{"argocd.argoproj.io/hook", "", "PreSync, Sync"},
		{"argocd.argoproj.io/sync-options", "Prune=False", "Prune=true|false|confirm"},
		{"argocd.argoproj.io/sync-options", "Prun=false", "an option of Argo CD"},
		{"argocd.argoproj.io/sync-options", "PruneLast", "PruneLast=true|false"},
		{"argocd.argoproj.io/ignore-healthcheck", "yes", "true or false"},
		{"helm.sh/hook", "pre-instal", "pre-install"},
		{"helm.sh/resource-policy", "kept", "keep"},
		{"kustomize.toolkit.fluxcd.io/prune", "false", "enabled or disabled"},
		{"kustomize.toolkit.fluxcd.io/ssa", "Never", "override, merge, ifnotpresent or ignore"},
		{"kustomize.toolkit.fluxcd.io/reconcile", "off", "enabled or disabled"},
		{"kustomize.toolkit.fluxcd.io/force", "true", "enabled or disabled"},
		{"config.kubernetes.io/depends-on", "apps/Deployment", "GROUP/namespaces"},
		{"config.kubernetes.io/depends-on", "apps/namespaces//Deployment/db", "GROUP/namespaces"},
		{"config.kubernetes.io/depends-on", "apps/namespace/web/Deployment/db", "GROUP/namespaces"},
		{"config.kubernetes.io/depends-on", strings.Repeat("/Namespace/a", 1) + many(), "at most 1000 objects"},
		{"config.kubernetes.io/apply-time-mutation", "- sourceRef: {}", "not copied"},
		{"cli-utils.sigs.k8s.io/on-remove", "delete", "keep"},
		{"client.lifecycle.config.k8s.io/deletion", "keep", "detach"},
		{"client.lifecycle.config.k8s.io/mutation", "detach", "ignore"},
	} {
		t.Run(fmt.Sprintf("%s=%.20v", test.annotation, test.value), func(t *testing.T) {
			turns, err := order.Of(annotated(map[string]any{test.annotation: test.value}))
			var failed *order.Error
			if !errors.As(err, &failed) {
				t.Fatalf("got %+v, %v: want an error", turns, err)
			}
			for _, want := range []string{"Job.batch web/migrate", test.annotation, test.want} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in: %v", want, err)
				}
			}
			if len(failed.Value) > 300 {
				t.Errorf("it repeats %d bytes", len(failed.Value))
			}
		})
	}
}

func many() string {
	var text strings.Builder
	for i := range 1001 {
		fmt.Fprintf(&text, ",/Namespace/n%d", i)
	}
	return text.String()
}

func TestUnknownPoliciesOfHooksAreErrors(t *testing.T) {
	for annotation, value := range map[string]string{
		"plural.sh/hook-delete-policy": "HookSucceeded", "argocd.argoproj.io/hook-delete-policy": "hook-succeeded",
		"helm.sh/hook-delete-policy": "before-hook-create",
	} {
		turns, err := order.Of(annotated(map[string]any{"plural.sh/hook": "sync", annotation: value}))
		if err == nil || !strings.Contains(err.Error(), annotation) {
			t.Errorf("%s: got %+v, %v", annotation, turns, err)
		}
	}
}

func TestAnnotationsThatAreNoMapAreAnError(t *testing.T) {
	obj := annotated(nil)
	obj.Object["metadata"].(map[string]any)["annotations"] = []any{"plural.sh/prune=never"}
	if turns, err := order.Of(obj); err == nil {
		t.Errorf("got %+v", turns)
	}
}

func FuzzOf(f *testing.F) {
	for _, seed := range [][2]string{
		{"plural.sh/hook", "pre-sync,test"},
		{"argocd.argoproj.io/hook", "PreSync"},
		{"helm.sh/hook", "pre-install,post-upgrade"},
		{"argocd.argoproj.io/sync-options", "Prune=false,Force=true"},
		{"argocd.argoproj.io/sync-wave", "-1"},
		{"config.kubernetes.io/depends-on", "apps/namespaces/web/Deployment/db"},
		{"plural.sh/depends-on", "Deployment.apps web/db"},
		{"kustomize.toolkit.fluxcd.io/ssa", "IfNotPresent"},
	} {
		f.Add(seed[0], seed[1], "plural.sh/wave", "1")
	}
	f.Fuzz(func(t *testing.T, key, value, otherKey, otherValue string) {
		turns, err := order.Of(annotated(map[string]any{key: value, otherKey: otherValue}))
		if err != nil {
			var failed *order.Error
			if !errors.As(err, &failed) {
				t.Fatalf("error %T", err)
			}
			return
		}
		if len(turns) == 0 {
			t.Fatal("no turn")
		}
		items := make([]order.Item, 0, len(turns))
		for i, turn := range turns {
			if i > 0 && turns[i-1].Stage >= turn.Stage {
				t.Fatalf("stages %s, %s", turns[i-1].Stage, turn.Stage)
			}
			for _, id := range turn.After {
				if id.Kind == "" || id.Name == "" {
					t.Fatalf("depends on %+v", id)
				}
			}
			items = append(items, order.Item{ID: object.ID{Group: "batch", Kind: "Job", Namespace: "web", Name: "migrate"}, Turn: turn})
		}
		if _, err := order.Plan(items); err != nil {
			var circle *order.DependencyError
			if !errors.As(err, &circle) {
				t.Fatalf("error %T", err)
			}
		}
	})
}

// What is read of a dependency names an object, and is written back as what reads the same.
func FuzzDependsOn(f *testing.F) {
	for _, seed := range []string{
		"apps/namespaces/web/Deployment/db", "/namespaces/web/Secret/db", "/Namespace/web, apps/namespaces/web/Deployment/db",
		"Deployment.apps web/db", "Namespace web,", "a/b/c/d", "//",
	} {
		f.Add(seed)
	}
	after := func(t *testing.T, annotation, value string) []object.ID {
		turns, err := order.Of(annotated(map[string]any{annotation: value}))
		if err != nil {
			return nil
		}
		return turns[0].After
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, annotation := range []string{"plural.sh/depends-on", "config.kubernetes.io/depends-on"} {
			var again []string
			ids := after(t, annotation, text)
			for _, id := range ids {
				place := id.Group
				if id.Namespace != "" {
					place += "/namespaces/" + id.Namespace
				}
				again = append(again, place+"/"+id.Kind+"/"+id.Name)
			}
			if diff := cmp.Diff(ids, after(t, "plural.sh/depends-on", strings.Join(again, ","))); diff != "" {
				t.Errorf("%s: %q (-read +again):\n%s", annotation, text, diff)
			}
		}
	})
}
