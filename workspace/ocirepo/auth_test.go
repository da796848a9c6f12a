package ocirepo

import (
	"encoding/base64"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pluralsh/plural/internal/httpclient"
)

func TestCredentialsGoToTheRegistryAndNowhereElse(t *testing.T) {
	t.Parallel()
	h := newHub(t, httptest.NewTLSServer)
	h.pushChart(t, "1.0.0", "good")
	storage := newHub(t, httptest.NewTLSServer)
	storage.handler = h.handler
	storage.guard(func(_ http.ResponseWriter, r *http.Request) bool {
		if got := r.Header.Get("Authorization"); got != "" {
			t.Errorf("the storage was shown %q", got)
		}
		return false
	})
	h.guard(func(w http.ResponseWriter, r *http.Request) bool {
		user, password, _ := r.BasicAuth()
		switch {
		case user != "me" || password != "s3cr3t-word":
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
		case strings.Contains(r.URL.Path, "/blobs/"):
			http.Redirect(w, r, storage.URL+r.URL.Path+"?signature=abc", http.StatusTemporaryRedirect)
		default:
			return false
		}
		return true
	})
	// Both servers have the certificate that httptest makes for 127.0.0.1.
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})
	login := base64.StdEncoding.EncodeToString([]byte("me:s3cr3t-word"))
	for name, c := range map[string]httpclient.Credentials{
		"password": {Username: "me", Password: "s3cr3t-word", CA: ca},
		"login":    {DockerConfig: []byte(`{"auths":{"https://` + h.Listener.Addr().String() + `/v1/":{"auth":"` + login + `"}}}`), CA: ca},
	} {
		m := emptyMirror(t)
		if err := fetchAll(t, m, h.upstream(t, Options{Credentials: c}), "1.0.0"); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := values(t, m, "1.0.0"); got != "good" {
			t.Errorf("%s: values %q", name, got)
		}
	}
	for name, c := range map[string]httpclient.Credentials{
		"nobody": {CA: ca}, "wrong": {Username: "me", Password: "wr0ng-word", CA: ca}, "no certificate": {Username: "me", Password: "s3cr3t-word"},
	} {
		err := fetchAll(t, emptyMirror(t), h.upstream(t, Options{Credentials: c}), "1.0.0")
		if err == nil || strings.Contains(err.Error(), "-word") {
			t.Errorf("%s: %v", name, err)
		}
		t.Log(name, err)
	}
	for name, config := range map[string]string{"other host": `{"auths":{"ghcr.io":{"auth":"` + login + `"}}}`, "no json": "s3cr3t-word"} {
		_, err := New(Options{URL: h.url(), Credentials: httpclient.Credentials{DockerConfig: []byte(config)}})
		if err == nil || !strings.Contains(err.Error(), ".dockerconfigjson") || strings.Contains(err.Error(), "-word") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestATokenIsFetchedOnceAndShownToTheRegistryAlone(t *testing.T) {
	t.Parallel()
	h := newHub(t, httptest.NewServer)
	h.pushChart(t, "1.0.0", "good")
	tokens := 0
	login := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens++
		if user, password, _ := r.BasicAuth(); user != "me" || password != "s3cr3t-word" || r.FormValue("scope") != "repository:team/app:pull" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"token":"t0ken-of-an-hour"}`)
	}))
	t.Cleanup(login.Close)
	h.guard(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == "Bearer t0ken-of-an-hour" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+login.URL+`/token",service="registry",scope="repository:team/app:pull"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	m, u := emptyMirror(t), h.upstream(t, Options{Credentials: httpclient.Credentials{Username: "me", Password: "s3cr3t-word"}})
	mustFetch(t, m, u, "1.0.0")
	h.requests()
	mustFetch(t, m, u, "1.0.0")
	if got := h.requests(); got != "HEAD manifests/1.0.0 200" || tokens != 1 || values(t, m, "1.0.0") != "good" {
		t.Errorf("%d tokens, then %s", tokens, got)
	}
	err := fetchAll(t, m, h.upstream(t, Options{Credentials: httpclient.Credentials{Username: "me", Password: "wr0ng-word"}}), "1.0.0")
	if err == nil || !strings.Contains(err.Error(), "401") || strings.Contains(err.Error(), "-word") {
		t.Errorf("with a wrong password: %v", err)
	}
	// A token that was handed out beforehand is shown without asking anybody.
	tokens = 0
	mustFetch(t, emptyMirror(t), h.upstream(t, Options{Credentials: httpclient.Credentials{Bearer: "t0ken-of-an-hour"}}), "1.0.0")
	if tokens != 0 {
		t.Errorf("%d tokens", tokens)
	}
}

func TestURLsThatMakeNoSenseSaySo(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"https://ghcr.io/team/app": "use oci", "oci://ghcr.io": "write oci://HOST/PATH", "oci://ghcr.io/team/app:1.0.0": "belongs into the ref",
		"oci://ghcr.io/Team/App": "lower case", "oci://me:word@ghcr.io/app": "credentials do not belong", "oci://169.254.169.254/x": "link-local",
		"oci://ghcr.io/app?x=y": "write oci://",
	} {
		if _, err := New(Options{URL: url}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "word") {
			t.Errorf("%q: %v", url, err)
		}
	}
	if _, err := New(Options{URL: "oci://registry.example.com/app", PlainHTTP: true}); err == nil {
		t.Error("HTTP to another machine was taken")
	}
}
