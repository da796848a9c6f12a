package helmrepo

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/internal/httpclient"
	"github.com/pluralsh/plural/workspace/mirror"
)

func TestAChartBecomesTheSameTreeInEveryMirror(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.publish(t, "6.6.0", "old")
	data := s.publish(t, "6.7.0", "new")
	s.publish(t, "7.0.0-rc.1", "next")
	refs := []string{"podinfo@^6", "podinfo", "podinfo@6.6.0", "podinfo@>=7.0.0-0"}
	want := map[string]string{"podinfo@^6": "new", "podinfo": "new", "podinfo@6.6.0": "old", "podinfo@>=7.0.0-0": "next"}
	var commits, trees []string
	for range 2 {
		m := emptyMirror(t)
		mustFetch(t, m, upstreamOf(t, Options{URL: s.URL + "/charts"}), refs...)
		for _, ref := range refs {
			if got := values(t, m, ref); got != want[ref] {
				t.Errorf("%s: values %q, want %q", ref, got, want[ref])
			}
		}
		snap, err := m.Snapshot("podinfo@^6")
		if err != nil {
			t.Fatal(err)
		}
		tree, _, err := snap.Hash(".")
		if err != nil {
			t.Fatal(err)
		}
		inner, err := fs.ReadFile(snap.FS(), "charts/db-1.0.0.tgz")
		if err != nil || string(inner) != "an archive in the archive" {
			t.Errorf("vendored chart = %q, %v", inner, err)
		}
		tip := m.Tips()["podinfo@^6"]
		if tip.ID != "sha256:"+sum(data) || tip.Revision != "6.7.0@sha256:"+sum(data)[:12] || tip.Rewound != "" {
			t.Errorf("tip = %+v", tip)
		}
		commits, trees = append(commits, tip.Commit), append(trees, string(tree))
	}
	if commits[0] != commits[1] || trees[0] != trees[1] {
		t.Errorf("commits %q, trees %q", commits, trees)
	}
}

func TestAnUnchangedRepositoryCostsOneRequestWithoutBytes(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.publish(t, "6.7.0", "one")
	m, u := emptyMirror(t), upstreamOf(t, Options{URL: s.URL + "/charts/"})
	mustFetch(t, m, u, "podinfo", "podinfo@^6")
	if got := s.requests(); got != "/charts/index.yaml 200, /charts/podinfo-6.7.0.tgz 200" {
		t.Errorf("first: %s", got)
	}
	mustFetch(t, m, u, "podinfo", "podinfo@^6")
	if got := s.requests(); got != "/charts/index.yaml 304" {
		t.Errorf("second: %s", got)
	}
	s.publish(t, "6.8.0", "two")
	mustFetch(t, m, u, "podinfo", "podinfo@6.7.0")
	if got := s.requests(); got != "/charts/index.yaml 200, /charts/podinfo-6.8.0.tgz 200, /charts/podinfo-6.7.0.tgz 200" {
		t.Errorf("after a new version: %s", got)
	}
	if got := values(t, m, "podinfo"); got != "two" {
		t.Errorf("values = %q", got)
	}
	// A new process knows no validators, but need not bring what is there.
	mustFetch(t, m, upstreamOf(t, Options{URL: s.URL + "/charts/"}), "podinfo")
	if got := s.requests(); got != "/charts/index.yaml 200" {
		t.Errorf("new upstream: %s", got)
	}
	if n := u.Traffic(); n.Requests != 6 || n.Bytes == 0 {
		t.Errorf("traffic = %+v", n)
	}
}

func TestAVersionPublishedAgainIsFollowedAndSaid(t *testing.T) {
	t.Parallel()
	s := serve(t)
	first := s.publish(t, "6.7.0", "one")
	m, u := emptyMirror(t), upstreamOf(t, Options{URL: s.URL + "/charts"})
	mustFetch(t, m, u, "podinfo@^6")
	s.publish(t, "6.7.0", "other")
	for range 2 {
		mustFetch(t, m, u, "podinfo@^6")
		if tip := m.Tips()["podinfo@^6"]; !strings.Contains(tip.Rewound, "6.7.0 was sha256:"+sum(first)[:12]) || values(t, m, "podinfo@^6") != "other" {
			t.Errorf("tip = %+v", tip)
		}
	}
	s.publish(t, "6.8.0", "next")
	mustFetch(t, m, u, "podinfo@^6")
	if tip := m.Tips()["podinfo@^6"]; tip.Rewound != "" {
		t.Errorf("after a plain advance: %+v", tip)
	}
}

func TestAVersionThatIsGoneIsNotReplacedByAnOlderOne(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.publish(t, "6.7.0", "one")
	s.publish(t, "6.8.0", "two")
	m, u := emptyMirror(t), upstreamOf(t, Options{URL: s.URL + "/charts"})
	mustFetch(t, m, u, "podinfo@^6", "podinfo@6.8.0")
	s.remove("6.8.0")
	err := fetchAll(t, m, u, "podinfo@^6", "podinfo@6.8.0", "podinfo@6.7.0", "missing", "podinfo@^9")
	for _, want := range []string{
		`"podinfo@^6": chart "podinfo": version 6.8.0, which is in use, is gone`, `"podinfo@6.8.0": chart "podinfo": no version matches`,
		`"missing": chart "missing" is not in`, `no version matches "^9": the newest of all is 6.7.0`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	for ref, want := range map[string]string{"podinfo@^6": "two", "podinfo@6.8.0": "two", "podinfo@6.7.0": "one"} {
		if got := values(t, m, ref); got != want {
			t.Errorf("%s: values %q, want %q", ref, got, want)
		}
	}
}

func TestAnArchiveThatIsNotTheOneInTheIndexIsNotTaken(t *testing.T) {
	t.Parallel()
	s := serve(t)
	good := s.publish(t, "6.7.0", "one")
	m, u := emptyMirror(t), upstreamOf(t, Options{URL: s.URL + "/charts"})
	mustFetch(t, m, u, "podinfo")
	swapped := pack(t, "podinfo", "6.8.0", "swapped")
	link := func() []byte {
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		_ = w.WriteHeader(&tar.Header{Name: "podinfo/Chart.yaml", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"})
		_ = w.Close()
		return out.Bytes()
	}()
	s.change(func() { s.files["/charts/swapped.tgz"], s.files["/charts/link.tgz"] = swapped, link })
	for name, tc := range map[string]struct{ url, digest, want string }{
		"swapped":    {"swapped.tgz", sum(good), "digest is sha256:" + sum(swapped)[:12] + ", the index says sha256:" + sum(good)[:12]},
		"no digest":  {"swapped.tgz", `""`, "gives no digest"},
		"bad digest": {"swapped.tgz", "md5:1234", "want a SHA-256"},
		"missing":    {"missing.tgz", sum(good), "404"},
		"link":       {"link.tgz", sum(link), `refuse "podinfo/Chart.yaml": a link`},
		"file":       {"file:///etc/passwd", sum(good), "unsupported scheme"},
		"metadata":   {"http://169.254.169.254/latest/meta-data/", sum(good), "link-local"},
		"plain":      {"http://charts.example.com/x.tgz", sum(good), "use https"},
		"no url":     {`"%zz"`, sum(good), "is none"},
	} {
		s.list("6.8.0", tc.url, tc.digest)
		err := fetchAll(t, m, u, "podinfo")
		var problem *mirror.RefError
		if !errors.As(err, &problem) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
		if got := values(t, m, "podinfo"); got != "one" {
			t.Errorf("%s: values %q", name, got)
		}
	}
}

func TestCredentialsGoToTheRepositoryAndNowhereElse(t *testing.T) {
	t.Parallel()
	s, other := serve(t), serve(t)
	data := pack(t, "podinfo", "6.7.0", "elsewhere")
	moved := pack(t, "podinfo", "6.6.0", "moved")
	other.change(func() {
		other.files["/p.tgz"], other.files["/moved.tgz"] = data, moved
		other.answer = func(w http.ResponseWriter, r *http.Request) bool {
			if got := r.Header.Get("Authorization"); got != "" {
				t.Errorf("the other host was shown %q", got)
			}
			return false
		}
	})
	s.publish(t, "6.5.0", "own")
	s.list("6.7.0", strings.Replace(other.URL, "http://", "http://user:word@", 1)+"/p.tgz", "sha256:"+sum(data))
	s.list("6.6.0", "moved.tgz", strings.ToUpper(sum(moved)))
	s.change(func() {
		s.answer = func(w http.ResponseWriter, r *http.Request) bool {
			if user, password, _ := r.BasicAuth(); user != "me" || password != "s3cr3t-word" {
				w.WriteHeader(http.StatusUnauthorized)
				return true
			}
			if r.URL.Path == "/charts/moved.tgz" {
				http.Redirect(w, r, other.URL+"/moved.tgz?signature=abc", http.StatusFound)
				return true
			}
			return false
		}
	})
	m := emptyMirror(t)
	u := upstreamOf(t, Options{URL: s.URL + "/charts", Credentials: httpclient.Credentials{Username: "me", Password: "s3cr3t-word"}})
	mustFetch(t, m, u, "podinfo@6.7.0", "podinfo@6.6.0", "podinfo@6.5.0")
	for ref, want := range map[string]string{"podinfo@6.7.0": "elsewhere", "podinfo@6.6.0": "moved", "podinfo@6.5.0": "own"} {
		if got := values(t, m, ref); got != want {
			t.Errorf("%s: values %q", ref, got)
		}
	}
	u = upstreamOf(t, Options{URL: s.URL + "/charts", Credentials: httpclient.Credentials{Username: "me", Password: "wr0ng-word"}})
	err := fetchAll(t, m, u, "podinfo@6.7.0")
	if err == nil || !strings.Contains(err.Error(), "401") || strings.Contains(err.Error(), "wr0ng") {
		t.Errorf("with a wrong password: %v", err)
	}
}

func TestAServerInTroubleLeavesTheLastGoodVersion(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.publish(t, "6.7.0", "one")
	m, u := emptyMirror(t), upstreamOf(t, Options{URL: s.URL + "/charts"})
	mustFetch(t, m, u, "podinfo")
	fetched := m.Fetched()
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"busy": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "600")
			w.WriteHeader(http.StatusTooManyRequests)
		}, "left alone for 10m"},
		"down":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, "502"},
		"login": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>Sign in</html>")) }, "index.yaml"},
		"cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5000")
			_, _ = w.Write([]byte("apiVersion: v1\nentries:\n  podinfo:\n"))
		}, "EOF"},
	} {
		s.change(func() { s.answer = func(w http.ResponseWriter, r *http.Request) bool { tc.answer(w, r); return true } })
		err := fetchAll(t, m, u, "podinfo")
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
		if after := (*mirror.RetryError)(nil); errors.As(err, &after) != (name == "busy") {
			t.Errorf("%s: %v", name, err)
		}
		if got := values(t, m, "podinfo"); got != "one" || !m.Fetched().Equal(fetched) {
			t.Errorf("%s: values %q, fetched %v", name, got, m.Fetched())
		}
	}
}

func TestAnUnverifiedChartIsNotTaken(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.publish(t, "6.7.0", "one")
	data := s.publish(t, "6.8.0", "two")
	var asked []Chart
	check := func(_ context.Context, c Chart) error {
		asked = append(asked, c)
		if string(c.Provenance) != "signed "+c.Digest {
			return errors.New("nobody vouches for it")
		}
		return nil
	}
	m, u := emptyMirror(t), upstreamOf(t, Options{URL: s.URL + "/charts", Check: check})
	if err := fetchAll(t, m, u, "podinfo"); err == nil || !strings.Contains(err.Error(), "version 6.8.0 is not taken: nobody vouches for it") {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Chart{{Name: "podinfo", Version: "6.8.0", Digest: "sha256:" + sum(data)}}, asked); diff != "" {
		t.Error(diff)
	}
	s.change(func() { s.files["/charts/podinfo-6.8.0.tgz.prov"] = []byte("signed sha256:" + sum(data)) })
	mustFetch(t, m, u, "podinfo")
	s.requests()
	mustFetch(t, m, u, "podinfo")
	if got := s.requests(); got != "/charts/index.yaml 304" || values(t, m, "podinfo") != "two" {
		t.Errorf("an unchanged chart: %s", got)
	}
	// What was taken in under another policy is judged again, without bringing it again.
	asked = nil
	mustFetch(t, m, upstreamOf(t, Options{URL: s.URL + "/charts", Check: check}), "podinfo")
	if got := s.requests(); got != "/charts/index.yaml 200, /charts/podinfo-6.8.0.tgz.prov 200" || len(asked) != 1 {
		t.Errorf("a new upstream: %s, asked %d times", got, len(asked))
	}
	// With somebody who vouches for the digest, the index need not name it.
	s.list("6.8.0", "podinfo-6.8.0.tgz", `""`)
	mustFetch(t, m, u, "podinfo")
	if got := s.requests(); got != "/charts/index.yaml 200, /charts/podinfo-6.8.0.tgz.prov 200" {
		t.Errorf("without a digest: %s", got)
	}
	changed := pack(t, "podinfo", "6.8.0", "changed")
	s.change(func() {
		s.files["/charts/podinfo-6.8.0.tgz"] = changed
		s.files["/charts/podinfo-6.8.0.tgz.prov"] = []byte("signed sha256:" + sum(changed))
	})
	mustFetch(t, m, u, "podinfo")
	if got := values(t, m, "podinfo"); got != "changed" {
		t.Errorf("values = %q", got)
	}
}

func TestRefsAndURLsThatMakeNoSenseSaySo(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"oci://charts.example.com": "use https", "http://charts.example.com": "use https", "charts": "use https",
		"https://169.254.169.254/x": "link-local",
	} {
		if _, err := New(Options{URL: url}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", url, err)
		}
	}
	s := serve(t)
	u := upstreamOf(t, Options{URL: s.URL})
	err := fetchAll(t, emptyMirror(t), u, "", "@1.0.0", "../x@1", "podinfo@>>1")
	for _, want := range []string{`ref "": not a chart`, `ref "@1.0.0": not a chart`, `ref "podinfo@>>1": version range`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if got := s.requests(); got != "" {
		t.Errorf("asked %s", got)
	}
}
