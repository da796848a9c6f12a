package channel

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// The same events come by both ways, each line byte for byte, by either version of HTTP; and the watch ends as it is asked to.
func TestWatchesAreTheSame(t *testing.T) {
	w := newWorld(t)
	w.configMaps(t, 3, "x")
	for name, query := range map[string]string{
		"from now on":                 "?watch=1&timeoutSeconds=4&resourceVersion=" + w.revision(t),
		"with what is there":          "?watch=true&timeoutSeconds=4&allowWatchBookmarks=true",
		"with a bookmark after it":    "?watch=true&timeoutSeconds=4&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
		"of one object":               "?watch=true&timeoutSeconds=4&fieldSelector=metadata.name%3Dcm-0001",
		"which nothing happens to":    "?watch=true&timeoutSeconds=1&labelSelector=nobody%3Dhas-this",
		"as a table":                  "?watch=true&timeoutSeconds=4&TABLE",
		"as metadata alone, in bytes": "?watch=true&timeoutSeconds=4&resourceVersion=" + w.revision(t) + "&PROTOBUF",
	} {
		t.Run(name, func(t *testing.T) { w.watchBoth(t, name, query) })
	}
}

func (w *world) watchBoth(t *testing.T, name, query string) {
	t.Helper()
	r := get(configMaps(w.Namespace) + query)
	switch name {
	case "as a table":
		r.header = headers("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	case "as metadata alone, in bytes":
		r.header = headers("Accept", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
	}
	// Names in the order of the map: the order of what is there already is the API server's.
	type watched struct {
		name string
		body io.ReadCloser
	}
	var open []watched
	for _, s := range []side{w.direct, w.through} {
		for protocol, client := range map[string]*http.Client{"HTTP/2": s.client, "HTTP/1.1": s.one} {
			response := s.open(t, client, r)
			defer response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Fatalf("%s: %s", s.name, response.Status)
			}
			open = append(open, watched{s.name + " by " + protocol, response.Body})
		}
	}
	w.change(t)
	var all []string
	for _, o := range open {
		body, err := io.ReadAll(o.body) // to the end that the watch has by itself
		if err != nil {
			t.Fatalf("%s: %v", o.name, err)
		}
		all = append(all, aged.ReplaceAllString(withoutBookmarks(string(body)), `$1"..."`))
	}
	for i, o := range open[1:] {
		if diff := cmp.Diff(all[0], all[i+1]); diff != "" {
			t.Errorf("%s (-%s +%s):\n%s", name, open[0].name, o.name, diff)
		}
	}
	if all[0] == "" && name != "which nothing happens to" {
		t.Error("nothing was seen")
	}
}

// withoutBookmarks leaves out the revisions of bookmarks, which come when the API server pleases, but for the one behind what
// was there at the beginning.
func withoutBookmarks(body string) string {
	return bookmark.ReplaceAllStringFunc(body, func(line string) string {
		if initialEnd.MatchString(line) {
			return "INITIAL EVENTS END\n"
		}
		return ""
	})
}

// change does something to a ConfigMap, of each kind of event.
func (w *world) change(t *testing.T) {
	t.Helper()
	maps := w.Dynamic.Resource(configMapsResource).Namespace(w.Namespace)
	made := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "made"}}}
	if _, err := maps.Create(t.Context(), made, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"made", "cm-0001"} {
		stamp, err := json.Marshal(time.Now().UnixNano())
		if err != nil {
			t.Fatal(err)
		}
		patch := []byte(`{"data": {"at": "` + string(stamp) + `"}}`)
		if _, err := maps.Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := maps.Delete(t.Context(), "made", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// An event is seen when it happens, not when more of them fill a buffer, and a client that leaves is enough to end a watch.
func TestEventsComeAtOnce(t *testing.T) {
	w := newWorld(t)
	w.configMaps(t, 2, "x")
	for _, s := range []side{w.direct, w.through} {
		for _, client := range []*http.Client{s.client, s.one} {
			ctx, leave := context.WithCancel(t.Context())
			request, err := http.NewRequestWithContext(ctx, http.MethodGet,
				s.base+configMaps(w.Namespace)+"?watch=1&resourceVersion="+w.revision(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			w.change(t)
			var seen []string
			for _, line := range lines(t, response.Body, 4) {
				var event struct{ Type string }
				decode(t, line, &event)
				seen = append(seen, event.Type)
			}
			if diff := cmp.Diff([]string{"ADDED", "MODIFIED", "MODIFIED", "DELETED"}, seen); diff != "" {
				t.Errorf("%s: %s", s.name, diff)
			}
			leave()
			response.Body.Close()
		}
	}
}
