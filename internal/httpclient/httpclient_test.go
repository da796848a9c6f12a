package httpclient

import (
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// get asks a server; the caller has no need to close the body.
func get(t *testing.T, o Options, raw string) (*http.Response, string, error) {
	t.Helper()
	client, err := Client(o)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, raw, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res, string(text), err
}

func parse(t *testing.T, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// secure starts a TLS server, and gives credentials that trust it.
func secure(t *testing.T, h http.HandlerFunc) (*httptest.Server, []byte) {
	t.Helper()
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	return s, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

func TestCredentialsGoToTheirOwnHostAlone(t *testing.T) {
	var other, own []string
	storage, ca2 := secure(t, func(w http.ResponseWriter, r *http.Request) { other = append(other, r.Header.Get("Authorization")) })
	registry, ca := secure(t, func(w http.ResponseWriter, r *http.Request) {
		own = append(own, r.Header.Get("Authorization"))
		switch r.URL.Path {
		case "/blob":
			http.Redirect(w, r, storage.URL+"/x", http.StatusTemporaryRedirect)
		case "/moved":
			http.Redirect(w, r, "/here", http.StatusFound)
		}
	})
	for _, c := range []Credentials{{Username: "ada", Password: "hunter2"}, {Bearer: "hunter2"}} {
		c.CA = append(append([]byte{}, ca...), ca2...)
		o := Options{For: parse(t, registry.URL), Credentials: c, OtherHosts: true}
		other, own = nil, nil
		for _, path := range []string{"/blob", "/moved"} {
			if _, _, err := get(t, o, registry.URL+path); err != nil {
				t.Fatal(err)
			}
		}
		if len(other) != 1 || other[0] != "" || len(own) != 3 || own[0] == "" || own[2] != own[0] {
			t.Errorf("own host saw %q, the other one %q", own, other)
		}
		o.OtherHosts = false
		if _, _, err := get(t, o, registry.URL+"/blob"); err == nil || !strings.Contains(err.Error(), "another host") {
			t.Errorf("redirect to another host: %v", err)
		}
	}
}

func TestCredentialsInAURLAreForItsHostToo(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		_, _ = io.WriteString(w, user+":"+password)
	}))
	t.Cleanup(s.Close)
	u := parse(t, s.URL)
	u.User = url.UserPassword("ada", "hunter2")
	if _, text, err := get(t, Options{For: u}, s.URL); err != nil || text != "ada:hunter2" {
		t.Errorf("server saw %q, %v", text, err)
	}
}

func TestRedirectsNeverLeaveEncryptionOrReachLinkLocal(t *testing.T) {
	s, ca := secure(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusFound)
	})
	loop, loopCA := secure(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path+"x", http.StatusFound) })
	o := Options{For: parse(t, s.URL), Credentials: Credentials{CA: append(ca, loopCA...)}, OtherHosts: true}
	for to, want := range map[string]string{
		"http://127.0.0.1:1/": "unencrypted", "https://169.254.169.254/latest/meta-data": "link-local", "file:///etc/passwd": "unencrypted",
		loop.URL: "more than 5 redirects",
	} {
		if _, _, err := get(t, o, s.URL+"/?to="+url.QueryEscape(to)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("redirect to %s: %v, want %q", to, err, want)
		}
	}
}

func TestAStalledAnswerIsCutOffAndASlowOneIsNot(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 5 {
			_, _ = io.WriteString(w, "x")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-time.After(30 * time.Millisecond):
			case <-release:
			}
		}
		if r.URL.Path == "/stall" {
			<-release
		}
	}))
	t.Cleanup(s.Close)
	defer close(release)
	o := Options{For: parse(t, s.URL), Stall: 300 * time.Millisecond}
	if _, text, err := get(t, o, s.URL+"/slow"); err != nil || text != "xxxxx" {
		t.Errorf("slow answer: %q, %v", text, err)
	}
	var stall *StallError
	if _, _, err := get(t, o, s.URL+"/stall"); !errors.As(err, &stall) || !strings.Contains(err.Error(), "fell silent") {
		t.Errorf("stalled answer: %v", err)
	}
}

func TestALongAnswerIsCutOffAtItsLimit(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 100_000)) }))
	t.Cleanup(s.Close)
	var long *TooLongError
	if _, _, err := get(t, Options{For: parse(t, s.URL), MaxBytes: 99_999}, s.URL); !errors.As(err, &long) || long.Max != 99_999 {
		t.Errorf("long answer: %v", err)
	}
	count := &Counter{}
	if _, text, err := get(t, Options{For: parse(t, s.URL), MaxBytes: 100_000, Counter: count}, s.URL); err != nil || len(text) != 100_000 {
		t.Errorf("answer of the limit's length: %d, %v", len(text), err)
	}
	if requests, bytes := count.Totals(); requests != 1 || bytes < 100_000 || bytes > 101_000 {
		t.Errorf("counted %d requests, %d bytes", requests, bytes)
	}
}

func TestRetryAfterIsPassedOn(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if after := r.URL.Query().Get("after"); after != "" {
			w.Header().Set("Retry-After", after)
		}
		status := map[string]int{"/429": 429, "/503": 503, "/403": 403, "/404": 404}[r.URL.Path]
		w.WriteHeader(status)
	}))
	t.Cleanup(s.Close)
	date := url.QueryEscape(time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
	for path, want := range map[string]time.Duration{
		"/429?after=600": 10 * time.Minute, "/503?after=600": 10 * time.Minute, "/403?after=7": 7 * time.Second, "/429": 0,
		"/429?after=" + date: time.Hour, "/429?after=-5": 0, "/429?after=9999999999999": 24 * time.Hour, "/429?after=soon": 0,
	} {
		var retry *RetryError
		_, _, err := get(t, Options{For: parse(t, s.URL)}, s.URL+path)
		if !errors.As(err, &retry) || (want-retry.After).Abs() > 5*time.Second {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, path := range []string{"/503", "/404?after=5", "/403"} {
		if res, _, err := get(t, Options{For: parse(t, s.URL)}, s.URL+path); err != nil || CheckStatus(res, Credentials{}) == nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestARefusalNamesTheCredentialsThatWereThere(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	t.Cleanup(s.Close)
	res, _, err := get(t, Options{For: parse(t, s.URL)}, s.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckStatus(res, Credentials{}); err == nil || !strings.Contains(err.Error(), "401 Unauthorized: no credentials") {
		t.Error(err)
	}
	err = CheckStatus(res, Credentials{Username: "ada", Password: "hunter2"})
	if err == nil || !strings.Contains(err.Error(), "username, password") || strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
}

func TestAServerOfAnotherAuthorityIsNotTrusted(t *testing.T) {
	s, ca := secure(t, func(http.ResponseWriter, *http.Request) {})
	if _, _, err := get(t, Options{For: parse(t, s.URL)}, s.URL); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without the CA: %v", err)
	}
	if _, _, err := get(t, Options{For: parse(t, s.URL), Credentials: Credentials{CA: ca}}, s.URL); err != nil {
		t.Errorf("with the CA: %v", err)
	}
	if _, err := Client(Options{Credentials: Credentials{CA: []byte("hunter2")}}); err == nil || !strings.Contains(err.Error(), "ca.crt") {
		t.Errorf("CA that is none: %v", err)
	}
}

func TestConnectionsAreKept(t *testing.T) {
	addresses := map[string]bool{}
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { addresses[r.RemoteAddr] = true }))
	t.Cleanup(s.Close)
	client, err := Client(Options{For: parse(t, s.URL)})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		res, err := client.Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
	if len(addresses) != 1 {
		t.Errorf("%d connections for 5 requests", len(addresses))
	}
}

func TestNamesThatResolveToLinkLocalAreNotDialled(t *testing.T) {
	if _, err := Dial(t.Context(), "169.254.169.254:80", false, &Counter{}); err == nil || !strings.Contains(err.Error(), "link-local") {
		t.Errorf("Dial: %v", err)
	}
}
