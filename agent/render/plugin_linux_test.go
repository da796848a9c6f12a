//go:build linux && (amd64 || arm64)

package render_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/agent/render"
)

// pluginName is the name under which the test binary is a plugin.
const pluginName = "tester"

// list is a KRM function's input, as a stranger's program would decode it.
type list struct {
	APIVersion, Kind string
	Items            []any
	FunctionConfig   struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
		Spec             struct {
			Service, Namespace, Path, KubeVersion string
			Parameters                            map[string]string
			Secrets                               map[string]map[string]any
			Files                                 map[string]any
			APIVersions                           []string
		}
	}
}

// plugin is the main of a plugin: what it does stands in the parameter "do".
func plugin() int {
	var in list
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	spec := in.FunctionConfig.Spec
	switch spec.Parameters["do"] {
	case "tell":
		told, _ := json.Marshal(in)
		fmt.Fprintf(os.Stdout, `{"apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList", "items": [{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": {"name": %q}, "data": {"told": %q}}]}`, spec.Service, told)
	case "trespass":
		_, dialled := net.Dial("tcp", spec.Parameters["address"])
		_, read := os.ReadFile("/etc/passwd")
		wrote := os.WriteFile("/tmp/render-plugin", nil, 0o600)
		_, forked := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
		for _, err := range []error{dialled, read, wrote, forked} {
			if !errors.Is(err, os.ErrPermission) {
				fmt.Fprintln(os.Stderr, "trespassed:", err)
				return 1
			}
		}
		fmt.Fprintf(os.Stdout, "{apiVersion: config.kubernetes.io/v1, kind: ResourceList, items: [], note: %q}", os.Environ())
	case "flood":
		for {
			_, _ = os.Stdout.WriteString(strings.Repeat("# words\n", 1000))
		}
	case "sleep":
		<-time.After(time.Hour)
	case "linger":
		_ = os.Stdout.Close()
		<-time.After(time.Hour)
	}
	return 0
}

// withPlugins is a renderer that has the test binary for a plugin, and scripts by their names.
func withPlugins(t testing.TB, scripts map[string]string) *render.Renderer {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The plugin is this binary too, and what bounds it has to know whether the race detector is in it.
	r := &render.Renderer{Command: []string{self, "render-child"}, Plugins: t.TempDir()}
	from, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(filepath.Join(r.Plugins, pluginName), os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Close()); err != nil {
		t.Fatal(err)
	}
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(r.Plugins, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// printing is a script that prints a text.
func printing(text string) string {
	return "while read -r line; do :; done\nprintf '%s' '" + strings.ReplaceAll(text, "'", `'\''`) + "'\n"
}

const resourceList = "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\n"

func TestAPluginIsToldEverythingAndGivesObjects(t *testing.T) {
	in := with(map[string]string{"do": "tell"}, input(pluginName, fstest.MapFS{
		"app/main.cue": {Data: []byte("a: \"<b>\"\n")}, "app/logo": {Data: []byte{0xff, 0}}, "lib/x.cue": {Data: []byte("x: 1\n")},
	}))
	in.Mounts = []render.Mount{{At: "common", Path: "lib", Files: in.Files}}
	in.Secrets = map[string]map[string]string{"db": {"password": "hunter2", "raw": "\xff"}}
	in.KubeVersion, in.APIVersions = "v1.35.4", []string{"v1"}
	out := mustRender(t, withPlugins(t, nil), in)
	var told list
	if err := json.Unmarshal([]byte(data(out, "told").(string)), &told); err != nil {
		t.Fatal(err)
	}
	config := told.FunctionConfig
	if told.APIVersion != "config.kubernetes.io/v1" || told.Kind != "ResourceList" || len(told.Items) != 0 ||
		config.APIVersion != "plural.sh/v1alpha1" || config.Kind != "Render" || config.Metadata.Name != "web" {
		t.Errorf("list %+v", told)
	}
	want := list{}.FunctionConfig.Spec
	want.Service, want.Namespace, want.Path, want.KubeVersion, want.APIVersions = "web", "shop", "app", "v1.35.4", []string{"v1"}
	want.Parameters = map[string]string{"do": "tell"}
	want.Secrets = map[string]map[string]any{"db": {"password": "hunter2", "raw": map[string]any{"base64": "/w=="}}}
	want.Files = map[string]any{
		"app/main.cue": "a: \"<b>\"\n", "app/logo": map[string]any{"base64": "/wA="}, "lib/x.cue": "x: 1\n", "common/x.cue": "x: 1\n",
	}
	if diff := cmp.Diff(want, config.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if !out.Capabilities || len(out.Objects) != 1 || len(out.Origins) != 1 {
		t.Errorf("%d objects, %d origins, capabilities noted: %v", len(out.Objects), len(out.Origins), out.Capabilities)
	}
}

func TestAShellScriptIsAPluginToo(t *testing.T) {
	r := withPlugins(t, map[string]string{"script": printing(resourceList + `items:
- apiVersion: v1
  kind: ConfigMap
  metadata:
    name: a
    annotations: {config.kubernetes.io/path: app/a.cue, internal.config.kubernetes.io/index: '0', keep: 'yes'}
  data: {big: 9007199254740993}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: b, annotations: {internal.config.kubernetes.io/path: ../b}}}
results:
- {severity: warning, message: is deprecated, file: {path: app/a.cue}, field: {path: spec.x}}
- {severity: info, message: all well}
`)})
	out := mustRender(t, r, input("script", tree("-- app/a.cue --\n")))
	want := `apiVersion: v1
data:
  big: 9007199254740993
kind: ConfigMap
metadata:
  annotations:
    keep: "yes"
  name: a
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: b
`
	if diff := cmp.Diff(want, text(t, out)); diff != "" {
		t.Errorf("render (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]render.Origin{{File: "app/a.cue"}, {}}, out.Origins); diff != "" {
		t.Errorf("origins (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"app/a.cue: spec.x: is deprecated"}, out.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestAPluginNeedNotListen(t *testing.T) {
	r := withPlugins(t, map[string]string{"constant": "printf '" + strings.ReplaceAll(resourceList, "\n", `\n`) + "items: []'\n"})
	files := fstest.MapFS{"app/large": {Data: make([]byte, 4<<20)}}
	for range 5 {
		mustRender(t, r, input("constant", files))
	}
}

func TestAPluginCannotTrespass(t *testing.T) {
	t.Setenv("RENDER_SECRET", "hunter2")
	address, connections := listener(t)
	in := with(map[string]string{"do": "trespass", "address": address}, input(pluginName, tree("-- app/x --\n")))
	mustRender(t, withPlugins(t, nil), in)
	if n := connections.Load(); n != 0 {
		t.Errorf("the listener saw %d connections", n)
	}
}

func TestAPluginThatFailsIsATypedError(t *testing.T) {
	scripts := map[string]string{
		"exits":      "echo broken at line 3 >&2; exit 3\n",
		"exits-mute": "exit 4\n",
		"shouts":     "while :; do echo 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' >&2; n=$((n+1)); [ $n -gt 2000 ] && exit 1; done\n",
		"steers":     `printf '\033[2J' >&2; exit 1` + "\n",
		"silent":     "exit 0\n",
		"deaf":       "exec <&-\n" + printing(resourceList+"items: [{apiVersion: v1, kind: ConfigMap}]\n"),
		"no-list":    printing("apiVersion: v1\nkind: ConfigMap\n"),
		"no-items":   printing(resourceList + "items: words\n"),
		"two":        printing(resourceList + "---\n" + resourceList),
		"words":      printing("just words"),
		"syntax":     printing(resourceList + "items: [\n"),
		"bomb":       printing(strings.Replace(bomb(9), "ConfigMap", "ResourceList", 1)),
		"twice":      printing(resourceList + "kind: ResourceList\n"),
		"nameless":   printing(resourceList + "items: [{apiVersion: v1, kind: ConfigMap}]\n"),
		"null":       printing(resourceList + "items: [null]\n"),
		"same":       printing(resourceList + "items: [{apiVersion: v1, kind: A, metadata: {name: a}}, {apiVersion: v1, kind: A, metadata: {name: a}}]\n"),
		"error":      printing(resourceList + "results: [{severity: error, message: must be positive, file: {path: app/x}, field: {path: spec.size}}]\n"),
		"error-bare": printing(resourceList + "results: [{message: too small}]\n"),
		"killed":     "kill -9 $$\n",
		"imitates":   "echo pretence >&2; exit 125\n",
	}
	r := withPlugins(t, scripts)
	for name, test := range map[string]struct {
		reason render.Reason
		file   string
		want   string
	}{
		"exits":      {render.Invalid, "", `the plugin "exits" fails: exit status 3: broken at line 3`},
		"exits-mute": {render.Invalid, "", `the plugin "exits-mute" fails: exit status 4`},
		"shouts":     {render.Invalid, "", `the plugin "shouts" fails: exit status 1: aaa`},
		"steers":     {render.Invalid, "", `the plugin "steers" fails: exit status 1: ` + "\ufffd[2J"},
		"silent":     {render.Invalid, "", "the plugin prints 0 documents: print one ResourceList"},
		"deaf":       {render.Invalid, "", "a ConfigMap has no metadata.name"},
		"no-list":    {render.Invalid, "", `the plugin prints apiVersion "v1", kind "ConfigMap"`},
		"no-items":   {render.Invalid, "", "the plugin prints what does not decode"},
		"two":        {render.Invalid, "", "the plugin prints 2 documents"},
		"words":      {render.Invalid, "", "the plugin prints what does not decode"},
		"syntax":     {render.Invalid, "", "line 4 of what the plugin prints: invalid YAML"},
		"bomb":       {render.Invalid, "", "line 8 of what the plugin prints: aliases add more than"},
		"twice":      {render.Invalid, "", `line 3 of what the plugin prints: the key "kind" stands here already`},
		"nameless":   {render.Invalid, "", "a ConfigMap has no metadata.name"},
		"null":       {render.Invalid, "", "item 1 of what the plugin prints: is not a Kubernetes object"},
		"same":       {render.Invalid, "", "A/a stands in this service twice"},
		"error":      {render.Invalid, "app/x", "app/x: spec.size: must be positive"},
		"error-bare": {render.Invalid, "", "too small"},
		"killed":     {render.Limit, "", "rendering was killed by the system"},
		"imitates":   {render.Refused, "", `the plugin "imitates" cannot run here: pretence`},
		"gone":       {render.Invalid, "", `unknown renderer "gone": raw, kustomize, helm or a plugin that is installed`},
		"../x":       {render.Invalid, "", `unknown renderer "../x": raw, kustomize or helm`},
		".":          {render.Invalid, "", `unknown renderer ".": raw`},
		"":           {render.Invalid, "", `unknown renderer "": raw`},
	} {
		t.Run(name, func(t *testing.T) {
			failed := failure(t, r, input(name, tree("-- app/x --\n")))
			if failed.Reason != test.reason || failed.File != test.file || !strings.HasPrefix(failed.Error(), test.want) || len(failed.Error()) > 5<<10 {
				t.Errorf("%s: %s: %q\nwant %s: %q…", failed.Reason, failed.File, failed, test.reason, test.want)
			}
		})
	}
	stillRenders(t, r)
}

func TestAPluginIsBounded(t *testing.T) {
	r := withPlugins(t, map[string]string{"loops": "while :; do :; done\n", "forks": ":() { : | : & }; :\n" + printing(resourceList+"items: []\n")})
	r.Limits = render.Limits{Output: 1 << 20}
	flood := with(map[string]string{"do": "flood"}, input(pluginName, tree("-- app/x --\n")))
	if failed := failure(t, r, flood); failed.Reason != render.Limit || !strings.Contains(failed.Message, "prints more than 1 MiB") {
		t.Errorf("%s: %v", failed.Reason, failed)
	}
	if failed := failure(t, r, input("forks", tree("-- app/x --\n"))); !strings.Contains(failed.Message, "fork") {
		t.Errorf("a fork bomb ended with: %v", failed)
	}
	r.Limits.Wall = time.Second
	for name, test := range map[string]struct {
		in   render.Input
		want string
	}{
		"sleep":  {with(map[string]string{"do": "sleep"}, input(pluginName, tree("-- app/x --\n"))), "takes longer than 1s"},
		"linger": {with(map[string]string{"do": "linger"}, input(pluginName, tree("-- app/x --\n"))), "takes longer than 1s"},
		"loops":  {input("loops", tree("-- app/x --\n")), "takes longer than 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			if failed := failure(t, r, test.in); failed.Reason != render.Limit || !strings.Contains(failed.Message, test.want) {
				t.Errorf("%s: %v", failed.Reason, failed)
			}
		})
	}
	r.Limits = render.Limits{}
	stillRenders(t, r)
}

func TestAPluginsInputIsCheckedAsAnyOther(t *testing.T) {
	r := withPlugins(t, map[string]string{"script": printing(resourceList + "items: []\n")})
	r.Limits.Files = 2
	for want, files := range map[string]string{
		"app: there is no such folder":    "-- other/x --\n",
		"app/p: is a Git LFS pointer":     "-- app/p --\nversion https://git-lfs.github.com/spec/v1\n",
		"app/c: the service has more tha": "-- app/a --\n-- app/b --\n-- app/c --\n",
	} {
		if failed := failure(t, r, input("script", tree(files))); !strings.HasPrefix(failed.Error(), want) {
			t.Errorf("%v, want %s", failed, want)
		}
	}
	mustRender(t, r, input("script", tree("-- app/a --\n-- app/b --\n")))
}

func TestAPluginsDigestChangesWithItsFile(t *testing.T) {
	r := withPlugins(t, map[string]string{"script": "echo\n"})
	before, err := r.PluginDigest("script")
	if err != nil || len(before) != 64 {
		t.Fatalf("digest %q: %v", before, err)
	}
	if err := os.WriteFile(filepath.Join(r.Plugins, "script"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if after, err := r.PluginDigest("script"); err != nil || after == before {
		t.Errorf("digest %q, before %q: %v", after, before, err)
	}
	if none, err := r.PluginDigest(render.Raw); err != nil || none != "" {
		t.Errorf("raw: digest %q: %v", none, err)
	}
	var unknown *render.Error
	if _, err := r.PluginDigest("gone"); !errors.As(err, &unknown) {
		t.Errorf("gone: %v", err)
	}
	if err := os.Chmod(filepath.Join(r.Plugins, "script"), 0o644); err != nil {
		t.Fatal(err)
	}
	if failed := failure(t, r, input("script", tree("-- app/x --\n"))); !strings.Contains(failed.Message, "no executable file") {
		t.Error(failed)
	}
}

func TestOnlyPluginsThatWereAgreedToRender(t *testing.T) {
	r := withPlugins(t, map[string]string{"agreed": printing(resourceList + "items: []\n"), "other": printing(resourceList + "items: []\n")})
	digest, err := r.PluginDigest("agreed")
	if err != nil {
		t.Fatal(err)
	}
	r.PluginDigests = map[string]string{"agreed": digest}
	files := tree("-- app/x --\n")
	mustRender(t, r, input("agreed", files))
	if failed := failure(t, r, input("other", files)); failed.Reason != render.Refused || !strings.Contains(failed.Message, "not the program") {
		t.Errorf("one that nobody agreed to: %v", failed)
	}
	if _, err := r.PluginDigest("other"); err == nil {
		t.Error("it has a digest to render by")
	}
	if err := os.WriteFile(filepath.Join(r.Plugins, "agreed"), []byte(printing(resourceList+"items: []\n")+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if failed := failure(t, r, input("agreed", files)); failed.Reason != render.Refused {
		t.Errorf("one that was replaced: %v", failed)
	}
}
