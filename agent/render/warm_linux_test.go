package render_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/test/support/needs"
)

// counted is a renderer that keeps children for an hour, and a function that gives the processes which it has started.
func counted(t *testing.T) (r *render.Renderer, started func() []int) {
	t.Helper()
	list := filepath.Join(t.TempDir(), "started")
	child := needs.Child(t, "render-child")
	r = &render.Renderer{
		Command: []string{"/bin/sh", "-c", `echo $$ >>"$1"; exec "$2" "$3"`, "sh", list, child[0], child[1]},
		Warm:    time.Hour,
	}
	t.Cleanup(r.Close)
	return r, func() (pids []int) {
		text, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		for word := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
		return pids
	}
}

func of(tenant string, in render.Input) render.Input {
	in.Tenant = tenant
	return in
}

// The second input changes what kustomize knows of kinds, for the whole process.
func assorted() map[string]render.Input {
	deployment := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {template: {spec: {containers: [{name: x, image: one}, {name: y, image: two}]}}}\n"
	patch := "-- app/kustomization.yaml --\nresources: [d.yaml]\npatches: [{path: p.yaml}]\n%s-- app/d.yaml --\n" + deployment +
		"-- app/p.yaml --\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {template: {spec: {containers: [{name: y, image: three}]}}}\n"
	schema := `-- app/s.json --` + "\n" + `{"definitions": {"v1.Deployment": {"properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}, "type": "object", "x-kubernetes-group-version-kind": [{"group": "apps", "kind": "Deployment", "version": "v1"}]}}}` + "\n"
	return map[string]render.Input{
		"raw":                     input(render.Raw, tree("-- app/x.yaml --\n"+configMap("a"))),
		"kustomize":               input(render.Kustomize, tree(strings.Replace(patch, "%s", "", 1))),
		"kustomize with a schema": input(render.Kustomize, tree(strings.Replace(patch, "%s", "openapi: {path: s.json}\n", 1)+schema)),
		"helm":                    chartOf(template(configMap("{{ .Release.Name }}"))),
		"helm that warns":         chartOf(template(configMap("a") + "data: {a: b}\ndata: {a: c}")),
		"what is refused":         input(render.Raw, tree("-- app/x.yaml --\n"+configMap("a")+"kind: Secret\n")),
		"what recurses":           chartOf(template(`{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}`)),
	}
}

func TestAWarmChildRendersWhatANewOneDoes(t *testing.T) {
	warm, started := counted(t)
	outcome := func(r *render.Renderer, in render.Input) string {
		out, err := r.Render(t.Context(), in)
		var failed *render.Error
		if errors.As(err, &failed) {
			return string(failed.Reason) + " " + failed.File
		}
		if err != nil {
			t.Fatal(err)
		}
		return text(t, out) + strings.Join(out.Warnings, "\n")
	}
	want := map[string]string{}
	for name, in := range assorted() {
		want[name] = outcome(newRenderer(t), in)
	}
	if want["kustomize"] == want["kustomize with a schema"] {
		t.Fatal("the schema changes nothing, so nothing would show that it is forgotten")
	}
	for range 3 { // in an order that differs each time
		for name, in := range assorted() {
			if diff := cmp.Diff(want[name], outcome(warm, of("a", in))); diff != "" {
				t.Errorf("%s (-new +warm):\n%s", name, diff)
			}
		}
	}
	if n := len(started()); n >= 3*len(want) {
		t.Errorf("%d children for %d renders", n, 3*len(want))
	}
}

func TestOneChildRendersForOneTenantAndNothingAfterASecret(t *testing.T) {
	plain := input(render.Raw, tree("-- app/x.yaml --\n"+configMap("a")))
	secret, looking := plain, plain
	secret.Secrets = map[string]map[string]string{"db": {"password": "x"}}
	looking.Lookup = (&cluster{}).lookup
	for name, test := range map[string]struct {
		inputs []render.Input
		want   int
	}{
		"one tenant":          {[]render.Input{of("a", plain), of("a", plain), of("a", plain)}, 1},
		"two tenants":         {[]render.Input{of("a", plain), of("b", plain), of("a", plain)}, 2},
		"nobody's":            {[]render.Input{plain, plain}, 2},
		"a secret":            {[]render.Input{of("a", secret), of("a", plain), of("a", secret), of("a", plain)}, 3},
		"an eye on a cluster": {[]render.Input{of("a", looking), of("a", plain)}, 2},
		"another schema":      {[]render.Input{of("a", assorted()["kustomize with a schema"]), of("a", plain)}, 2},
		"a failure":           {[]render.Input{of("a", assorted()["what recurses"]), of("a", plain)}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			r, started := counted(t)
			for _, in := range test.inputs {
				_, _ = r.Render(t.Context(), in) // what it gives is another test's
			}
			if got := started(); len(got) != test.want {
				t.Errorf("children %v, want %d", got, test.want)
			}
		})
	}
}

func TestAWarmChildThatIsGoneFailsNothing(t *testing.T) {
	r, started := counted(t)
	in := of("a", input(render.Raw, tree("-- app/x.yaml --\n"+configMap("a"))))
	mustRender(t, r, in)
	if err := syscall.Kill(started()[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	mustRender(t, r, in)
	if n := len(started()); n != 2 {
		t.Errorf("%d children, want another one", n)
	}
}

func TestAWarmChildEndsWhenNobodyAsks(t *testing.T) {
	r, started := counted(t)
	r.Warm = time.Millisecond
	mustRender(t, r, of("a", input(render.Raw, fstest.MapFS{"app/x.yaml": {Data: []byte(configMap("a"))}})))
	look, end := time.NewTicker(time.Millisecond), time.After(time.Minute)
	defer look.Stop()
	for syscall.Kill(started()[0], 0) == nil {
		select {
		case <-look.C:
		case <-end:
			t.Fatal("the child still waits after a minute")
		}
	}
}
