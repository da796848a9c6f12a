package fieldpath

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kjson "k8s.io/apimachinery/pkg/util/json"
)

const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","labels":{"app.kubernetes.io/name":"web"}},"spec":{"containers":[
{"name":"a","image":"one","args":["x","y"],"ports":[{"containerPort":80,"protocol":"TCP"}]},{"name":"b]\"","image":"two"}]}}`

func TestAFieldOfThePrintedNameIsFoundInTheManifest(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]string{
		`.spec.containers[name="a"].image`:                                  "spec/containers/0/image",
		`.spec.containers[name="b]\""].image`:                               "spec/containers/1/image",
		`.spec.containers[name="a"].ports[containerPort=80,protocol="TCP"]`: "spec/containers/0/ports/0",
		`.spec.containers[name="a"].ports[containerPort=80,protocol="UDP"]`: "",
		`.spec.containers[name="a"].args[1]`:                                "spec/containers/0/args/1",
		`.spec.containers[name="a"].args[="y"]`:                             "spec/containers/0/args/1",
		`.metadata.labels.app.kubernetes.io/name`:                           "metadata/labels/app.kubernetes.io/name",
		`.spec.containers[name="a"`:                                         "",
		`.spec.replicas`:                                                    "",
		`[0]`:                                                               "",
	} {
		path, ok := Find(parsed(t, pod), field)
		if got := strings.Join(path, "/"); strings.ReplaceAll(want, "\x00", "/") != got || ok != (want != "") {
			t.Errorf("%s: %q, %t; want %q", field, got, ok, want)
		}
	}
}

func TestFieldsAreTakenOutWhicheverOrderTheyAreNamedIn(t *testing.T) {
	t.Parallel()
	paths := [][]string{{"spec", "containers", "0"}, {"spec", "containers", "1", "image"}, {"spec", "containers", "7"}, {"nowhere"}}
	want := parsed(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","labels":{"app.kubernetes.io/name":"web"}},"spec":{"containers":[{"name":"b]\""}]}}`)
	for range 2 {
		manifest := parsed(t, pod)
		Remove(manifest, paths)
		if diff := cmp.Diff(want, manifest); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		slices.Reverse(paths)
	}
}

func TestAFieldIsHandedOverFromWhereItIsLive(t *testing.T) {
	t.Parallel()
	live := parsed(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"n","uid":"u"},"spec":{"containers":[
{"name":"injected","image":"proxy"},{"name":"a","image":"edited","args":["x"]}]}}`)
	manifest := parsed(t, pod)

	want := parsed(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"n"},"spec":{"containers":[{"name":"a","image":"edited"}]}}`)
	if diff := cmp.Diff(want, Excerpt(manifest, live, Match(manifest, "/spec/containers/*/image"))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// FuzzFields has pointers, and names as an API server might print them, meet manifests: what is found is there, what is taken
// out is not there any more, and everything else is as it was.
func FuzzFields(f *testing.F) {
	for _, field := range []string{
		`.spec.containers[name="a"].image`, `.spec.containers[name="b]\""]`, `.spec.containers[0].args[="y"]`, `.metadata.labels.app.kubernetes.io/name`, `[`, `.`,
	} {
		f.Add([]byte(pod), field, "/spec/containers/*/image", "/spec/containers/0")
	}
	f.Add([]byte(`{"a":{"b":1,"b.c":{"d":[[1],[2]]}},"a.b":{"c":2}}`), ".a.b.c.d[1][0]", "/a.b/~0~1", "/*/*")
	f.Fuzz(func(t *testing.T, text []byte, field, pointer, other string) {
		var manifest map[string]any
		if kjson.Unmarshal(text, &manifest) != nil {
			return
		}
		if path, ok := Find(manifest, field); ok && len(path) > 0 && len(at(manifest, path)) != 1 {
			t.Errorf("%q is found at %q, where nothing is", field, path)
		}
		paths := slices.Concat(Match(manifest, pointer), Match(manifest, other))
		checkPared(t, text, manifest, paths)
		checkExcerpt(t, manifest, paths)
	})
}

// checkPared compares taking out at once with taking out one by one, the last first.
func checkPared(t *testing.T, text []byte, manifest map[string]any, paths [][]string) {
	got := parsed(t, string(text))
	Remove(got, paths)
	want := clone(t, manifest)
	for _, path := range slices.SortedFunc(slices.Values(paths), func(a, b []string) int { return -compareDeep(manifest, a, b) }) {
		Remove(want, [][]string{path})
	}
	if len(paths) > 0 && !reflect.DeepEqual(want, got) {
		t.Errorf("without %q:\n%v\nwant\n%v", paths, got, want)
	}
}

// compareDeep sorts by place, what lies deeper last.
func compareDeep(node any, a, b []string) int {
	order := map[string]int{}
	for i := 0; i < len(a) && i < len(b); i++ {
		if a[i] == b[i] {
			node = at(node, a[i:i+1])[0]
			continue
		}
		clear(order)
		n := 0
		each(node, func(key string, _ any) { n++; order[key] = n })
		return order[a[i]] - order[b[i]]
	}
	return len(a) - len(b)
}

// checkExcerpt finds every field of a live object in its excerpt, whose lists have lost what is not named.
func checkExcerpt(t *testing.T, live map[string]any, paths [][]string) {
	before := clone(t, live)
	_ = located(live, live, treeOf(paths))
	part := excerpt(live, treeOf(paths))
	for _, path := range paths {
		value := at(live, path)[0]
		if slices.ContainsFunc(path, isIndex) || value == nil || path[0] == "metadata" || hasNull(live, path) {
			continue
		}
		if got := at(part, path); len(got) != 1 || !reflect.DeepEqual(got[0], value) {
			t.Errorf("%q is not in the excerpt %v", path, part)
		}
	}
	if !reflect.DeepEqual(before, live) {
		t.Error("the live object was changed")
	}
}

func hasNull(node any, path []string) bool {
	for i := range path {
		if at(node, path[:i+1])[0] == nil {
			return true
		}
	}
	return false
}

func isIndex(token string) bool { return token != "" && strings.Trim(token, "0123456789") == "" }

// at returns the value at a path, if there is one.
func at(node any, path []string) []any {
	found := []any{node}
	for _, token := range path {
		var inner []any
		each(found[0], func(key string, child any) {
			if key == token {
				inner = []any{child}
			}
		})
		if found = inner; len(found) == 0 {
			return nil
		}
	}
	return found
}

func parsed(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := kjson.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func clone(t *testing.T, of map[string]any) map[string]any {
	t.Helper()
	text, err := json.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	return parsed(t, string(text))
}
