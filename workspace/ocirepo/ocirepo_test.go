package ocirepo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pluralsh/plural/workspace/mirror"
)

func TestAnArtifactBecomesTheSameTreeInEveryMirror(t *testing.T) {
	t.Parallel()
	h := newHub(t, httptest.NewServer)
	h.pushChart(t, "6.6.0", "old")
	newest := h.pushChart(t, "6.7.0", "new")
	h.pushChart(t, "7.0.0-rc.1", "next")
	h.pushChart(t, "6.6.1_build.5", "built")
	h.push(t, "flux", "application/vnd.cncf.flux.config.v1+json", part{fluxLayer, zipped(t, "./values.yaml", "flux")})
	h.push(t, "plain", emptyType, part{"application/x-anything", tarred(t, "values.yaml", "plain", "d/x", "x")})
	h.push(t, "latest", emptyType, part{"text/plain", []byte("a note")}, part{ocispec.MediaTypeImageLayerGzip, zipped(t, "values.yaml", "typed")})
	refs := map[string]string{
		"": "new", "^6": "new", "6.6.0": "old", "~6.6": "built", ">=7.0.0-0": "next", "6.6.1_build.5": "built", "flux": "flux", "plain": "plain",
		"latest": "typed", newest: "new",
	}
	var list []string
	for ref := range refs {
		list = append(list, ref)
	}
	trees := map[string]string{}
	for range 2 {
		m := emptyMirror(t)
		mustFetch(t, m, h.upstream(t, Options{}), list...)
		for ref, want := range refs {
			if got := values(t, m, ref); got != want {
				t.Errorf("%q: values %q, want %q", ref, got, want)
			}
			snap, err := m.Snapshot(ref)
			if err != nil {
				t.Fatal(err)
			}
			tree, _, err := snap.Hash(".")
			if err != nil {
				t.Fatal(err)
			}
			at := m.Tips()[ref].Commit + " " + string(tree)
			if before := trees[ref]; before != "" && before != at {
				t.Errorf("%q: %s, then %s", ref, before, at)
			}
			trees[ref] = at
		}
		if tip := m.Tips()["^6"]; tip.ID != newest || tip.Revision != "6.7.0@"+newest[:19] || tip.Rewound != "" {
			t.Errorf("tip = %+v", tip)
		}
		if tip := m.Tips()[newest]; tip.Revision != newest[:19] || tip.Commit != m.Tips()["^6"].Commit {
			t.Errorf("tip of a digest = %+v", tip)
		}
	}
}

func TestOnePollOfAnUnchangedTagIsOneHead(t *testing.T) {
	t.Parallel()
	h := newHub(t, httptest.NewServer)
	d := h.pushChart(t, "6.7.0", "one")
	m, u := emptyMirror(t), h.upstream(t, Options{})
	mustFetch(t, m, u, "6.7.0")
	if got := h.requests(); !strings.HasPrefix(got, "HEAD manifests/6.7.0 200, GET manifests/sha256:") || strings.Count(got, ",") != 2 {
		t.Errorf("first: %s", got)
	}
	mustFetch(t, m, u, "6.7.0")
	if got := h.requests(); got != "HEAD manifests/6.7.0 200" {
		t.Errorf("second: %s", got)
	}
	mustFetch(t, m, u, "^6", "6.x")
	if got := h.requests(); strings.Count(got, "tags/list") != 1 || strings.Count(got, "blobs/") != 1 {
		t.Errorf("two ranges: %s", got)
	}
	mustFetch(t, m, u, d)
	h.requests()
	mustFetch(t, m, u, d)
	if got := h.requests(); got != "" {
		t.Errorf("a digest that is here: %s", got)
	}
	if n := u.Traffic(); n.Requests < 8 || n.Bytes == 0 {
		t.Errorf("traffic = %+v", n)
	}
}

func TestATagThatMovedIsFollowedAndAVersionsIsSaid(t *testing.T) {
	t.Parallel()
	h := newHub(t, httptest.NewServer)
	first := h.pushChart(t, "6.7.0", "one")
	h.pushChart(t, "main", "one")
	m, u := emptyMirror(t), h.upstream(t, Options{})
	refs := []string{"6.7.0", "^6", "main"}
	mustFetch(t, m, u, refs...)
	h.pushChart(t, "6.7.0", "other")
	h.pushChart(t, "main", "other")
	for range 2 {
		mustFetch(t, m, u, refs...)
		for _, ref := range refs {
			tip := m.Tips()[ref]
			if said := strings.Contains(tip.Rewound, "6.7.0 was "+first[:19]); said == (ref == "main") || tip.ID == first || values(t, m, ref) != "other" {
				t.Errorf("%s: %+v", ref, tip)
			}
		}
	}
	h.pushChart(t, "6.8.0", "next")
	mustFetch(t, m, u, refs...)
	if tip := m.Tips()["^6"]; tip.Rewound != "" || values(t, m, "^6") != "next" {
		t.Errorf("after a plain advance: %+v", tip)
	}
}

func TestATagThatIsGoneIsNotReplacedByAnOlderOne(t *testing.T) {
	t.Parallel()
	h := newHub(t, httptest.NewServer)
	h.pushChart(t, "6.7.0", "one")
	d := h.pushChart(t, "6.8.0", "two")
	m, u := emptyMirror(t), h.upstream(t, Options{})
	mustFetch(t, m, u, "^6", "", "6.8.0")
	h.guard(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.HasSuffix(r.URL.Path, "/tags/list"):
			_, _ = io.WriteString(w, `{"tags":["6.7.0","latest"]}`)
		case strings.Contains(r.URL.Path, "6.8.0") || strings.Contains(r.URL.Path, d):
			w.WriteHeader(http.StatusNotFound)
		default:
			return false
		}
		return true
	})
	err := fetchAll(t, m, u, "^6", "", "6.8.0", "6.7.0", "^9")
	for _, want := range []string{
		`"^6": version 6.8.0, which is in use, is gone`, `"": version 6.8.0, which is in use, is gone`, `"6.8.0": 127.0.0.1`, `404`,
		`no version matches "^9": the newest of all is 6.7.0`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	for ref, want := range map[string]string{"^6": "two", "": "two", "6.8.0": "two", "6.7.0": "one"} {
		if got := values(t, m, ref); got != want {
			t.Errorf("%q: values %q, want %q", ref, got, want)
		}
	}
}

func TestWithoutVersionsTheEmptyRefIsLatest(t *testing.T) {
	t.Parallel()
	h := newHub(t, httptest.NewServer)
	h.pushChart(t, "main", "main")
	m, u := emptyMirror(t), h.upstream(t, Options{})
	if err := fetchAll(t, m, u, ""); err == nil || !strings.Contains(err.Error(), "no semantic version is listed") {
		t.Error(err)
	}
	h.pushChart(t, "latest", "latest")
	mustFetch(t, m, u, "")
	if got := values(t, m, ""); got != "latest" {
		t.Errorf("values = %q", got)
	}
}

func TestTagsAreListedPageByPageAndNotForEver(t *testing.T) {
	t.Parallel()
	h := newHub(t, httptest.NewServer)
	h.pushChart(t, "6.7.0", "one")
	pages, endless := 0, false
	h.guard(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/tags/list") {
			return false
		}
		pages++
		page := map[string][]string{"tags": {"6.7.0"}}
		if endless || r.URL.Query().Get("last") == "" {
			w.Header().Set("Link", `</v2/team/app/tags/list?n=1000&last=x>; rel="next"`)
			page = map[string][]string{"tags": {"5.0.0", "sha256-1234.sig"}}
		}
		_ = json.NewEncoder(w).Encode(page)
		return true
	})
	m, u := emptyMirror(t), h.upstream(t, Options{})
	mustFetch(t, m, u, "*")
	if got := values(t, m, "*"); got != "one" || pages != 2 {
		t.Errorf("values %q after %d pages", got, pages)
	}
	endless = true
	if err := fetchAll(t, m, u, "*"); err == nil || pages > tagPages+2 {
		t.Errorf("%v after %d pages", err, pages)
	}
	h.guard(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Link", `<http://198.51.100.1/v2/team/app/tags/list>; rel="next"`)
		_, _ = io.WriteString(w, `{"tags":["5.0.0"]}`)
		return true
	})
	if err := fetchAll(t, m, u, "*"); err == nil || !strings.Contains(err.Error(), "same origin") {
		t.Errorf("pages on another host: %v", err)
	}
}

func TestAnArtifactThatCannotBeUsedIsNotTaken(t *testing.T) {
	t.Parallel()
	h := newHub(t, httptest.NewServer)
	h.pushChart(t, "1.0.0", "good")
	m, u := emptyMirror(t), h.upstream(t, Options{})
	mustFetch(t, m, u, "*")
	archive := zipped(t, "values.yaml", "x")
	layer := part{ocispec.MediaTypeImageLayerGzip, archive}
	second := part{ocispec.MediaTypeImageLayerGzip, zipped(t, "values.yaml", "y")}
	h.push(t, "image", ocispec.MediaTypeImageConfig, layer, second)
	h.push(t, "chartless", chartConfig, part{"text/plain", []byte("x")}, part{chartLayer, archive})
	h.push(t, "note", emptyType, part{"text/plain", []byte("just text")})
	h.push(t, "empty", emptyType)
	h.push(t, "traversal", emptyType, part{"x/y", zipped(t, "../../etc/passwd", "x")})
	h.push(t, "git", emptyType, part{"x/y", zipped(t, ".git/config", "x")})
	big := ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Config: h.blob(t, part{emptyType, []byte("{}")})}
	big.SchemaVersion = 2
	big.Layers = []ocispec.Descriptor{{MediaType: fluxLayer, Digest: digest.FromString("large"), Size: 1 << 40}}
	h.manifest(t, "big", big)
	big.Layers[0] = ocispec.Descriptor{MediaType: fluxLayer, Digest: "sha512:" + digest.Digest(strings.Repeat("ab", 64)), Size: 10}
	h.manifest(t, "sha512", big)
	index, err := json.Marshal(ocispec.Index{MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{}})
	if err != nil {
		t.Fatal(err)
	}
	index = bytes.Replace(index, []byte(`"schemaVersion":0`), []byte(`"schemaVersion":2`), 1)
	d := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageIndex, Digest: digest.FromBytes(index), Size: int64(len(index))}
	if err := h.repository(t).Manifests().PushReference(t.Context(), d, bytes.NewReader(index), "index"); err != nil {
		t.Fatal(err)
	}
	for tag, want := range map[string]string{
		"image": "it has 2 layers", "chartless": "stands beside the one folder", "note": "not a tar file", "empty": "no layers",
		"traversal": `refuse "../../etc/passwd"`,
		"git":       ".git", "big": "more than the limit of 33554432", "sha512": "no SHA-256", "index": "an index of several artifacts", "missing": "404",
		"sha256:" + strings.Repeat("0", 64): "404", "sha256:12": "not a digest", "../x": "not a tag",
	} {
		err := fetchAll(t, m, u, "*", tag)
		var problem *mirror.RefError
		if !errors.As(err, &problem) || problem.Ref != tag || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", tag, err, want)
		}
	}
	if got := values(t, m, "*"); got != "good" {
		t.Errorf("values = %q", got)
	}
}

func TestWhatTheRegistryExchangesOnTheWayIsNotTaken(t *testing.T) {
	t.Parallel()
	h := newHub(t, httptest.NewServer)
	d := h.pushChart(t, "1.0.0", "good")
	other := zipped(t, "app/Chart.yaml", "name: evil\n")
	for name, tc := range map[string]struct {
		path string
		door http.HandlerFunc
		want string
	}{
		"other layer": {"/blobs/", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(other) }, "Content-Length"},
		"other stream": {"/blobs/", func(w http.ResponseWriter, _ *http.Request) {
			w.(*recordedStatus).ResponseWriter.(http.Flusher).Flush()
			_, _ = w.Write(other)
		}, "layer sha256"},
		"other manifest": {"/manifests/sha256", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
			w.(*recordedStatus).ResponseWriter.(http.Flusher).Flush()
			_, _ = io.WriteString(w, `{"schemaVersion":2}`)
		}, "manifest"},
		"large manifest": {"/manifests/1.0.0", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
			w.Header().Set("Docker-Content-Digest", d)
			w.Header().Set("Content-Length", "1000000000")
		}, "more than the limit"},
		"no digest": {"/manifests/1.0.0", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
			w.Header().Set("Content-Length", "100")
		}, "Docker-Content-Digest"},
	} {
		h.guard(func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, tc.path) {
				return false
			}
			tc.door(w, r)
			return true
		})
		m := emptyMirror(t)
		if err := fetchAll(t, m, h.upstream(t, Options{}), "1.0.0"); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
		if _, err := m.Snapshot("1.0.0"); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestARegistryInTroubleLeavesTheLastGoodArtifact(t *testing.T) {
	t.Parallel()
	h := newHub(t, httptest.NewServer)
	h.pushChart(t, "1.0.0", "good")
	m, u := emptyMirror(t), h.upstream(t, Options{})
	mustFetch(t, m, u, "1.0.0")
	fetched := m.Fetched()
	for name, status := range map[string]int{"busy": 429, "down": 502, "denied": 403} {
		h.guard(func(w http.ResponseWriter, _ *http.Request) bool {
			if status == 429 {
				w.Header().Set("Retry-After", "600")
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"errors":[{"code":"TROUBLE","message":"\u001b[31m"}]}`)
			return true
		})
		err := fetchAll(t, m, u, "1.0.0", "^1")
		if err == nil || !strings.Contains(err.Error(), fmt.Sprint(status)) || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%s: %v", name, err)
		}
		if after := (*mirror.RetryError)(nil); errors.As(err, &after) != (name == "busy") {
			t.Errorf("%s: %v", name, err)
		}
		if got := values(t, m, "1.0.0"); got != "good" || !m.Fetched().Equal(fetched) {
			t.Errorf("%s: values %q, fetched %v", name, got, m.Fetched())
		}
	}
}
