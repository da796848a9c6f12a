package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"testing"

	sigs "sigs.k8s.io/yaml"
)

func seeds(f *testing.F) {
	for _, seed := range []string{
		"", "---\n---\n", "a: &x {b: *x}\n", "a: &x [1,1]\nb: *x\nc: *x\n", "a: 1\n...\nb: 2\n", "\uFEFFa: 1\r\n---\r\nb: 2\r\n",
		"%YAML 1.1\n---\na: b\n", "a: |\n  ---\n  b\n", "<<: &x {a: b}\nc: *x\n", "{\"kind\":\"List\",\"items\":[null]}", "? [a]\n: b\n",
		"resources: [http://x]\npatches: [{path: y}]\nhelmCharts: [{}]\n", "resources: &r [a]\ncomponents: *r\n", "kind: ''\napiVersion: v1\n",
	} {
		f.Add([]byte(seed))
	}
}

// Whatever decode lets pass is JSON, at a line of the file, and small beside its input.
func FuzzDecode(f *testing.F) {
	seeds(f)
	limits := Limits{Document: 4 << 10}.orDefaults()
	f.Fuzz(func(t *testing.T, data []byte) {
		docs, err := decode("x.yaml", data, limits, nil)
		if err != nil {
			return
		}
		for _, doc := range docs {
			if !json.Valid(doc.json) || doc.line < 1 || doc.line > bytes.Count(data, []byte("\n"))+1 {
				t.Errorf("line %d: %s", doc.line, doc.json)
			}
			_, _ = manifests(doc)
		}
	})
}

// A document that is not refused decodes as any reader of YAML would, or fails there; it never hangs.
func FuzzKustomization(f *testing.F) {
	seeds(f)
	t := newTree(map[string][]byte{"app/kustomization.yaml": nil})
	f.Fuzz(func(_ *testing.T, data []byte) {
		if checkKustomization(t, "app/kustomization.yaml", data) == nil {
			var v any
			_ = sigs.Unmarshal(data, &v)
		}
	})
}

// The parent reads what a child it does not trust says.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"at":"x"}` + "\n" + `{"done":true,"objects":[{"apiVersion":"v1","kind":"A","metadata":{"name":"b"}}]}`))
	f.Add([]byte(`{"done":true,"error":{"reason":"Invalid","message":"\u001b[2J"}}`))
	f.Fuzz(func(_ *testing.T, data []byte) {
		if last, _, err := receive(json.NewDecoder(bytes.NewReader(data)), func(*lookup) error { return nil }); err == nil {
			_, _ = last.output()
		}
	})
}

// Whatever a plugin prints ends as objects that are JSON, or as an error that puts no file's name before a reader that is none.
func FuzzPluginOutput(f *testing.F) {
	for _, seed := range []string{
		`{"apiVersion":"config.kubernetes.io/v1","kind":"ResourceList","items":[{"apiVersion":"v1","kind":"A","metadata":{"name":"a"}}]}`,
		"apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems:\n- metadata: {annotations: {config.kubernetes.io/path: a/b, internal.config.kubernetes.io/index: 0}}\n",
		"apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nresults: [{severity: error, message: x, file: {path: ../y}, field: {path: z}}]\n",
		"apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems: [{kind: List, items: [1, null, {}]}]\n", "", "---\n", "- a\n",
	} {
		f.Add([]byte(seed))
	}
	limits := Limits{Document: 64 << 10}.orDefaults()
	f.Fuzz(func(t *testing.T, data []byte) {
		j := &job{limits: limits, tree: newTree(map[string][]byte{printedFile: data}), lookupClient: &lookupClient{reporter: &reporter{}}}
		all, err := renderPrinted(j)
		var flawed *Error
		if errors.As(err, &flawed) && flawed.File != "" && !fs.ValidPath(flawed.File) {
			t.Errorf("error in %q", flawed.File)
		}
		for _, m := range all {
			if !json.Valid(m.json) || m.origin.File != "" && !fs.ValidPath(m.origin.File) {
				t.Errorf("%q from %q", m.json, m.origin.File)
			}
		}
	})
}

// Whatever a reply says of the cluster is a map, or an error.
func FuzzLookupReply(f *testing.F) {
	for _, seed := range []string{`{"found":{"items":[{"a":1.5e3,"b":9007199254740993}]}}`, `{"error":"no"}`, `{"found":[]}`, `{"found":null}`, `{}`, `{"found":{}} {`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		replies := make(chan reply)
		go func() {
			defer close(replies)
			hear(bytes.NewReader(data), replies)
		}()
		for r := range replies {
			if found, err := r.content(); err == nil && found == nil {
				t.Errorf("reply %s holds no map", r.Found)
			}
		}
	})
}
