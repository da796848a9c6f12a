package sync_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/api/tunnelapi"
)

// diff is what the agent says differs of a service, a line for each field, sorted as it came; digests are left out.
func (w *world) diff(service string) []string {
	w.Helper()
	reply, err := w.latest.Diff(w.Context(), &tunnelapi.DiffRequest{Service: service})
	if err != nil {
		w.Fatal(err)
	}
	if reply.GetError() != "" {
		return []string{"error: " + reply.GetError()}
	}
	var lines []string
	digits := regexp.MustCompile(`\(\w+\)`)
	for _, o := range reply.GetObjects() {
		name := o.GetKind() + " " + o.GetName() + " " + o.GetAction()
		if o.GetMessage() != "" {
			name += " (" + digits.ReplaceAllString(o.GetMessage(), "") + ")"
		}
		if len(o.GetFields()) == 0 {
			lines = append(lines, name)
		}
		for _, f := range o.GetFields() {
			lines = append(lines, digits.ReplaceAllString(fmt.Sprintf("%s %s: %s -> %s", name, f.GetPath(), f.GetLive(), f.GetDesired()), "()"))
		}
		if o.GetResource() == "" || o.GetVersion() == "" || o.GetNamespace() != w.ns {
			w.Errorf("object %v", o)
		}
	}
	return lines
}

func withoutHealing(d *api.Deployment) { d.Sync.SelfHeal = false }

func (w *world) patched(name, value string) {
	w.Helper()
	if _, err := w.objects.Patch(w.Context(), name, types.MergePatchType, fmt.Appendf(nil, `{"data":{"value":%q}}`, value), metav1.PatchOptions{}); err != nil {
		w.Fatal(err)
	}
}

func TestADiffSaysWhatIsLiveAndWhatShouldBe(t *testing.T) {
	w := newWorld(t)
	before := w.service("web", map[string]string{"a.yaml": manifest("changes", "one"), "b.yaml": manifest("goes", "one"), "c.yaml": manifest("stays", "one")}, withoutHealing)
	w.hub.asks("100%", before)
	w.start()
	w.becomes(before, api.Phase_HEALTHY)
	if got := w.diff("web"); got != nil {
		t.Errorf("differs where nothing does: %q", got)
	}
	w.patched("changes", "drifted")
	w.delete("goes")
	want := []string{
		"ConfigMap changes changed (data.value belongs to \"sync.test\") data.value: \"drifted\" -> \"one\"",
		`ConfigMap goes created data:  -> {"value":"one"}`,
		"ConfigMap goes created metadata: ",
	}
	got := w.diff("web")
	for i := range got {
		if strings.HasPrefix(got[i], want[2]) || strings.HasPrefix(got[i], "ConfigMap goes created metadata.labels: ") {
			got[i] = want[2]
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if w.live("changes") != "drifted" || w.live("goes") != "" {
		t.Error("the diff changed the cluster")
	}
}

func TestADiffShowsNothingThatWasSealed(t *testing.T) {
	w := newSealedWorld(t)
	web := w.ofOwn("web", map[string]string{
		"cm.yaml.tmpl": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {value: \"{{ .secrets.db.user }}:{{ .secrets.db.password }}\"}\n",
		"new.yaml":     w.sealed("web/new.yaml", "prod", fmt.Sprintf(secretManifest, "whole", canary)),
	},
		w.naming(&api.Secret{Name: "db", Path: "secrets/db.yaml"}, w.sealed("secrets/db.yaml", "prod", "user: admin\npassword: "+canary+"\n")), withoutHealing)
	w.hub.asks("", web)
	w.start()
	w.becomes(web, api.Phase_HEALTHY)
	w.patched("web", "admin:what-it-was-before")
	if _, err := w.secrets().Patch(t.Context(), "db", types.MergePatchType, []byte(`{"stringData":{"password":"what-it-was-before"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := w.secrets().Delete(t.Context(), "whole", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Join(w.diff("web"), "\n")
	for _, want := range []string{`data.value: "***" -> "***:***()"`, `Secret db changed`, `data.password: "***()" -> "***()"`, `Secret whole created data:  -> {"password":"***()"}`} {
		if !strings.Contains(lines, want) {
			t.Errorf("no %q in\n%s", want, lines)
		}
	}
	w.clean("the diff", lines)
	if strings.Contains(lines, "before") {
		t.Errorf("an older secret is shown:\n%s", lines)
	}
	w.silent()
}

func TestADiffOfWhatCannotBeRenderedSaysWhy(t *testing.T) {
	w := newWorld(t)
	broken := w.service("broken", map[string]string{"a.yaml": "kind: [\n"})
	w.hub.asks("", broken)
	w.start()
	w.becomes(broken, api.Phase_FAILED)
	for service, want := range map[string]string{"broken": "a.yaml", "unknown": `nothing asks for a service "unknown"`} {
		if got := w.diff(service); len(got) != 1 || !strings.HasPrefix(got[0], "error: ") || !strings.Contains(got[0], want) {
			t.Errorf("%s: %q", service, got)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.latest.Diff(gone, &tunnelapi.DiffRequest{Service: "broken"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
