package yamledit

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/internal/boundread"
	"github.com/pluralsh/plural/workspace/fleet"
)

func TestFieldsAreSetAndNothingElseChanges(t *testing.T) {
	const body = "spec:\n  source: {path: web} # here\n  clusters:\n    # all of them\n    matchLabels:\n      env: prod\n"
	tests := map[string]struct {
		before string
		fields []Field
		after  string
	}{
		"the first parameter": {
			web + body,
			[]Field{{"spec.parameters.replicas", "3"}},
			web + body + "  parameters:\n    replicas: \"3\"\n",
		},
		"a parameter with dots in its name": {
			web + body,
			[]Field{{Key("spec", "parameters", "image.tag"), "1.0"}},
			web + body + "  parameters:\n    image.tag: \"1.0\"\n",
		},
		"a parameter that is there, with a comment": {
			web + body + "  parameters:\n    # how many\n    replicas: \"2\" # two\n    tag: 6.7.0\n",
			[]Field{{"spec.parameters.replicas", "3"}, {"spec.parameters.tag", "6.7.1"}},
			web + body + "  parameters:\n    # how many\n    replicas: \"3\" # two\n    tag: 6.7.1\n",
		},
		"one parameter less": {
			web + body + "  parameters:\n    replicas: \"2\"\n    tag: 6.7.0\n",
			[]Field{{"spec.parameters.replicas", nil}},
			web + body + "  parameters:\n    tag: 6.7.0\n",
		},
		"the last parameter goes with its mapping": {
			web + body + "  parameters:\n    replicas: \"2\"\n  namespace: x\n",
			[]Field{{"spec.parameters.replicas", nil}},
			web + body + "  namespace: x\n",
		},
		"one for another": {
			web + body + "  parameters:\n    replicas: \"2\"\n",
			[]Field{{"spec.parameters.replicas", nil}, {"spec.parameters.count", "2"}},
			web + body + "  parameters:\n    count: \"2\"\n",
		},
		"what is not there cannot go": {
			web + body, []Field{{"spec.parameters.replicas", nil}}, web + body,
		},
		"where it runs, by other tags": {
			web + body,
			[]Field{{"spec.clusters", map[string]any{"matchLabels": map[string]any{"env": "dev", "region": "eu"}}}},
			strings.Replace(web+body, "env: prod\n", "env: dev\n      region: eu\n", 1),
		},
		"where it runs, by name": {
			web + body,
			[]Field{{"spec.clusters", map[string]any{"names": []any{"edge-1"}}}},
			web + "spec:\n  source: {path: web} # here\n  clusters:\n    # all of them\n    names: [edge-1]\n",
		},
		"values of many types": {
			web + body + "  renderer: helm\n",
			[]Field{
				{"spec.helm.values.image.tag", "1.10"},
				{"spec.helm.values.replicas", 3},
				{"spec.helm.values.ratio", 0.5},
				{"spec.helm.values.live", true},
				{"spec.helm.values.hosts", []any{"a", map[string]any{"b": 1}}},
			},
			web + body + "  renderer: helm\n  helm:\n    values:\n      image:\n        tag: \"1.10\"\n      replicas: 3\n      ratio: 0.5\n" +
				"      live: true\n      hosts: [a, {b: 1}]\n",
		},
		"the second of two documents": {
			api + "---\n" + web + body,
			[]Field{{"spec.source.path", "site"}},
			api + "---\n" + strings.Replace(web+body, "path: web", "path: site", 1),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			edge := &fstest.MapFile{Data: []byte(header + "kind: Cluster\nmetadata: {name: edge-1}\n")}
			files := repo(test.before)
			files["clusters/edge-1.yaml"] = edge
			c, err := Set(files, Document{Service, "web"}, test.fields...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.after, string(c.After)); diff != "" {
				t.Error(diff)
			}
			files["services/all.yaml"] = &fstest.MapFile{Data: c.After}
			if again, err := Set(files, Document{Service, "web"}, test.fields...); err != nil || !again.Done() {
				t.Errorf("a second time it changes again: %v", err)
			}
		})
	}
}

func TestWhatWouldBeAMistakeIsRefusedWithItsPlace(t *testing.T) {
	spec := web + "spec:\n  source: {path: web}\n  clusters: {}\n"
	files := repo(spec)
	tests := map[string]struct {
		change func() (*Change, error)
		where  string
	}{
		"a source that is not there": {
			func() (*Change, error) {
				return Set(files, Document{Service, "web"}, Field{"spec.source.name", "nowhere"})
			}, "services/all.yaml:5",
		},
		"a namespace that is none": {
			func() (*Change, error) {
				return Set(files, Document{Service, "web"}, Field{"spec.namespace", "Not A Name"})
			}, "services/all.yaml:7",
		},
		"a field that there is none of": {
			func() (*Change, error) { return Set(files, Document{Service, "web"}, Field{"spec.nameSpace", "x"}) }, "services/all.yaml:7",
		},
		"a service that others need": {
			func() (*Change, error) {
				return Delete(repo(spec+"---\n"+strings.Replace(api, "clusters: {}", "clusters: {}, dependsOn: [{service: web}]", 1)), Document{Service, "web"})
			}, "services/all.yaml:4",
		},
		"a source without an address": {
			func() (*Change, error) {
				return Create(files, &fleet.Source{Metadata: fleet.Metadata{Name: "x"}})
			}, "sources/x.yaml:5",
		},
		"a text that is no YAML": {
			func() (*Change, error) { return Rewrite(files, "services/all.yaml", []byte("a: [\n")) }, "services/all.yaml:",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := test.change()
			var invalid *InvalidError
			if !errors.As(err, &invalid) || !strings.HasPrefix(invalid.Mistakes[0].Position.String(), test.where) || invalid.Mistakes[0].Fix == "" {
				t.Errorf("want a mistake at %s: %v", test.where, err)
			}
		})
	}
}

func TestWhatCannotBeChangedHereSaysWhereItCan(t *testing.T) {
	made := repo(api)
	made["packages/redis/package.yaml"] = &fstest.MapFile{Data: []byte(header + "kind: Installation\nmetadata: {name: redis}\nspec: {}\n")}
	made["packages/redis/services.yaml"] = &fstest.MapFile{
		Data: []byte(header + "kind: Service\nmetadata: {name: redis}\nspec: {source: {path: x}, clusters: {}}\n"),
	}
	made["clusters/a.yaml"] = &fstest.MapFile{Data: []byte(header + "kind: Cluster\nmetadata: {name: a}\n")}
	tests := map[string]struct {
		document Document
		fix      string
	}{
		"a service of a package":        {Document{Service, "redis"}, "plural package set redis"},
		"a service that is not there":   {Document{Service, "nothing"}, "plural service list"},
		"a cluster by a service's name": {Document{Cluster, "api"}, "plural cluster list"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for verb, change := range map[string]func() error{
				"find":   func() error { _, err := Find(made, test.document); return err },
				"set":    func() error { _, err := Set(made, test.document, Field{"spec.parameters.a", "b"}); return err },
				"delete": func() error { _, err := Delete(made, test.document); return err },
			} {
				var told *Error
				if err := change(); !errors.As(err, &told) || !strings.Contains(told.Fix, test.fix) {
					t.Errorf("%s: %v", verb, err)
				}
			}
		})
	}
}

func TestADocumentIsWrittenFromWhatItSays(t *testing.T) {
	service := &fleet.Service{Metadata: fleet.Metadata{Name: "web"}, Spec: fleet.ServiceSpec{
		Source: fleet.SourceRef{Path: "apps/web"}, Clusters: fleet.Selector{MatchLabels: map[string]string{"env": "yes"}},
		Parameters: map[string]string{"replicas": "3", "text": "a: b\n- {c}"},
	}}
	c, err := Create(repo(api), service)
	if err != nil {
		t.Fatal(err)
	}
	want := header + `kind: Service
metadata:
  name: web
spec:
  source:
    path: apps/web
  clusters:
    matchLabels:
      env: "yes"
  parameters:
    replicas: "3"
    text: |-
      a: b
      - {c}
`
	if diff := cmp.Diff(want, string(c.After)); diff != "" || c.File != "services/web.yaml" || c.Before != nil {
		t.Errorf("%s:\n%s", c.File, diff)
	}
	var told *Error
	if _, err := Create(repo(web+"spec: {source: {path: x}, clusters: {}}\n"), service); !errors.As(err, &told) || !strings.Contains(told.Fix, "service edit web") {
		t.Errorf("a second one of its name: %v", err)
	}
	for _, name := range []string{"../web", "a/b", ".web", "", "..", "Web", strings.Repeat("x", 100)} {
		service.Metadata.Name = name
		if c, err := Create(repo(api), service); err == nil {
			t.Errorf("a service named %q is written to %s", name, c.File)
		}
	}
}

func TestADocumentIsWrittenBehindOthersOfItsFile(t *testing.T) {
	files := repo(api)
	files["services/web.yaml"] = &fstest.MapFile{Data: []byte(strings.Replace(api, "name: api", "name: old", 1) + "\n\n")}
	service := &fleet.Service{Metadata: fleet.Metadata{Name: "web"}, Spec: fleet.ServiceSpec{Source: fleet.SourceRef{Path: "web"}}}
	service.Spec.Clusters.MatchLabels = map[string]string{"a": "b"}
	c, err := Create(files, service)
	if err != nil || strings.Count(string(c.After), "---\n") != 1 || !strings.HasPrefix(string(c.After), string(files["services/web.yaml"].Data[:60])) {
		t.Errorf("%v\n%s", err, c.After)
	}
}

func TestADeletedDocumentLeavesTheOthersOfItsFile(t *testing.T) {
	spec := "spec: {source: {path: web}, clusters: {}}\n"
	other := strings.Replace(api, "name: api", "name: other", 1)
	tests := map[string]struct{ before, after string }{
		"alone":           {web + spec, ""},
		"with a comment":  {"# mine\n---\n" + web + spec, ""},
		"the first":       {web + spec + "---\n" + api, api},
		"the middle":      {api + "---\n# the front\n" + web + spec + "--- # more\n" + other, api + "--- # more\n" + other},
		"the last":        {api + "---\n" + web + spec, api},
		"behind a marker": {"---\n" + web + spec + "---\n" + api, "---\n" + api},
		"lines of dashes in a text": {
			web + "spec: {source: {path: web}, clusters: {}, parameters: {a: \"x\\n---\\n\"}}\n---\n" + api, api,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := Delete(repo(test.before), Document{Service, "web"})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.after, string(c.After)); diff != "" || (c.After == nil) != (test.after == "") {
				t.Error(diff)
			}
		})
	}
}

func TestAPipeIsNotOpened(t *testing.T) {
	const pipe = "services/web.yaml"
	files := fstest.MapFS{"plural.yaml": {Data: []byte(workspace)}, pipe: {Data: []byte(web), Mode: fs.ModeNamedPipe | 0o644}}
	_, found := Find(files, Document{Service, "web"})
	_, rewritten := Rewrite(files, pipe, []byte(web))
	for what, err := range map[string]error{"find": found, "rewrite": rewritten} {
		if !errors.Is(err, boundread.ErrNotRegular) || !strings.Contains(err.Error(), pipe) {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

func TestAFileIsMendedStepByStep(t *testing.T) {
	spec := web + "spec:\n  source: {path: web}\n  clusters: {}\n"
	broken := repo(spec + "  nameSpace: x\n---\n" + strings.Replace(api, "path: api", "path: ../x", 1))
	at, err := Find(broken, Document{Service, "web"})
	if err != nil || at.File != "services/all.yaml" {
		t.Fatalf("%v %v", at, err)
	}
	half := []byte("# mended\n" + spec + "---\n" + strings.Replace(api, "path: api", "path: ../x", 1))
	c, err := Rewrite(broken, at.File, half)
	if err != nil || string(c.After) != string(half) {
		t.Errorf("the mistake that was there keeps another from being mended: %v", err)
	}
	worse := append(half, "---\n"+web+"spec: {}\n"...)
	var invalid *InvalidError
	if _, err := Rewrite(broken, at.File, worse); !errors.As(err, &invalid) {
		t.Errorf("a new mistake is taken: %v", err)
	}
	damaged := fstest.MapFS{"plural.yaml": {Data: []byte(workspace)}, "services/web.yaml": {Data: []byte("a: [\n")}}
	if at, err := Find(damaged, Document{Service, "web"}); err != nil || at.File != "services/web.yaml" {
		t.Errorf("a file that cannot be read is not found by its name: %v %v", at, err)
	}
}

// FuzzSet has no change touch another document, whatever stands around it and whatever is set.
func FuzzSet(f *testing.F) {
	f.Add("# x\n", "replicas", "3")
	f.Add("---\n", "a.b[0]", "x\n---\ny")
	f.Add("  parameters: {a: b}\n", `\`, "{{ .cluster.name }}")
	f.Fuzz(func(t *testing.T, more, key, value string) {
		files := repo(api + "---\n" + web + "spec:\n  source: {path: web}\n  clusters: {}\n" + more)
		before, err := fleet.Load(files)
		if err != nil {
			return
		}
		c, err := Set(files, Document{Service, "web"}, Field{Key("spec", "parameters", key), value})
		if err != nil {
			return
		}
		after, err := fleet.Load(repo(string(c.After)))
		if err != nil {
			t.Fatal(err)
		}
		got, _ := after.Service("web")
		if got.Spec.Parameters[key] != value {
			t.Errorf("%q is %q, not %q", key, got.Spec.Parameters[key], value)
		}
		for i := range before.Services {
			was, is := &before.Services[i], &after.Services[i]
			if was.Metadata.Name != "web" && !cmp.Equal(was.Spec, is.Spec) {
				t.Errorf("%s changed", was.Metadata.Name)
			}
		}
	})
}
