package unseal_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/agent/unseal"
	"github.com/pluralsh/plural/api"
)

func TestANamedFileBecomesKeysAndValues(t *testing.T) {
	r := newRepo(t)
	r.group("prod", nil, edge)
	manifest := "apiVersion: v1\nkind: Secret\nmetadata: {name: another, labels: {a: b}}\ntype: kubernetes.io/basic-auth\ndata: {username: YWRtaW4=}\nstringData: {password: \"0123\"}\n"
	for _, c := range []struct {
		path, text string
		want       map[string]string
		kind       string
	}{
		{path: "s/db.yaml", text: "user: admin\nport: 5432\nratio: 1.50\non: true\nquoted: \"0123\"\nkey.with.dots: x\nlong: |\n  a\n  b\n", want: map[string]string{
			"user": "admin", "port": "5432", "ratio": "1.50", "on": "true", "quoted": "0123", "key.with.dots": "x", "long": "a\nb\n",
		}},
		{path: "s/db.json", text: `{"user":"admin","port":5432,"emoji":"\ud83d\ude00"}`, want: map[string]string{"user": "admin", "port": "5432", "emoji": "😀"}},
		{path: "s/db.env", text: "# words\nUSER=admin\nPASS=\"a b\"\n", want: map[string]string{"USER": "admin", "PASS": "a b"}},
		{path: "s/.env.prod", text: "USER=admin\n", want: map[string]string{"USER": "admin"}},
		{path: "s/manifest.yaml", text: manifest, want: map[string]string{"username": "admin", "password": "0123"}, kind: "kubernetes.io/basic-auth"},
		{path: "s/nested.yaml", text: "a: {b: c}\n", want: map[string]string{"nested.yaml": "a: {b: c}\n"}},
		{path: "s/list.yaml", text: "[a, b]\n", want: map[string]string{"list.yaml": "[a, b]\n"}},
		{path: "s/two.yaml", text: "a: b\n---\nc: d\n", want: map[string]string{"two.yaml": "a: b\n---\nc: d\n"}},
		{path: "s/tls.key", text: "\x00\xff: binary\n", want: map[string]string{"tls.key": "\x00\xff: binary\n"}},
		{path: "s/config", text: "a: b\n", want: map[string]string{"config": "a: b\n"}},
	} {
		files := fstest.MapFS{c.path: file(r.sealed(c.path, "prod", c.text))}
		named, err := unseal.Secrets(files, []*api.Secret{{Name: "db", Path: c.path}, {Name: "again", Path: c.path, TemplateOnly: true}}, r.keys())
		if err != nil {
			t.Errorf("%s: %v", c.path, err)
			continue
		}
		if diff := cmp.Diff(map[string]map[string]string{"db": c.want, "again": c.want}, named.ByName); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.path, diff)
		}
		data := map[string]any{}
		for key, value := range c.want {
			data[key] = base64.StdEncoding.EncodeToString([]byte(value))
		}
		if c.kind == "" {
			c.kind = "Opaque"
		}
		object := map[string]any{"apiVersion": "v1", "kind": "Secret", "type": c.kind, "metadata": map[string]any{"name": "db"}, "data": data}
		if len(named.Objects) != 1 {
			t.Errorf("%s: %d objects", c.path, len(named.Objects))
		} else if diff := cmp.Diff(object, named.Objects[0].Object); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.path, diff)
		}
	}
}

func TestANamedTypeWins(t *testing.T) {
	r := newRepo(t)
	r.group("prod", nil, edge)
	files := fstest.MapFS{"pull.json": file(r.sealed("pull.json", "prod", `{".dockerconfigjson":"{}"}`))}
	named, err := unseal.Secrets(files, []*api.Secret{{Name: "pull", Path: "pull.json", Type: "kubernetes.io/dockerconfigjson"}}, r.keys())
	if err != nil {
		t.Fatal(err)
	}
	if got := named.Objects[0].Object["type"]; got != "kubernetes.io/dockerconfigjson" {
		t.Errorf("type = %v", got)
	}
}

func TestABadNamedFileIsRefusedWithoutItsContent(t *testing.T) {
	r := newRepo(t)
	r.group("prod", nil, edge)
	long := "a: " + strings.Repeat("x", 1<<20) + "\n"
	for name, c := range map[string]struct {
		path, text, want string
		clear, only      bool
	}{
		"in clear":      {path: "a.yaml", text: "a: " + canary, clear: true, want: "a.yaml is not sealed"},
		"too large":     {path: "a.yaml", text: long, want: "more than 1024 KiB"},
		"a bad key":     {path: "a.yaml", text: "a b: " + canary, want: "a key of it cannot be one of a Secret"},
		"a telling key": {path: "a.yaml", text: canary + "/token: alice", want: "a key of it cannot be one of a Secret"},
		"key twice":     {path: "a.yaml", text: canary + ".x: 1\n" + canary + ".x: 2\n", want: "a.yaml:2: the key \"***\" is written twice"},
		"no manifest":   {path: "a.yaml", text: "apiVersion: v1\nkind: Secret\ndata: {a: " + canary + "!}\n", want: "no valid manifest of a Secret"},
		"unknown":       {path: "a.yaml", text: "apiVersion: v1\nkind: Secret\nstringDate: {a: " + canary + "}\n", want: "no valid manifest of a Secret"},
		"missing":       {path: "b.yaml", text: "a: b", want: "read a.yaml"},
	} {
		data := []byte(c.text)
		if !c.clear {
			data = r.sealed(c.path, "prod", c.text)
		}
		_, err := unseal.Secrets(fstest.MapFS{c.path: file(data)}, []*api.Secret{{Name: "db", Path: "a.yaml"}}, r.keys())
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `secret "db"`) || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v", name, err)
		}
	}
	twice := []*api.Secret{{Name: "db", Path: "a"}, {Name: "db", Path: "a"}}
	if _, err := unseal.Secrets(fstest.MapFS{"a": file(r.sealed("a", "prod", "x"))}, twice, r.keys()); err == nil || !strings.Contains(err.Error(), "named twice") {
		t.Errorf("twice: %v", err)
	}
}
