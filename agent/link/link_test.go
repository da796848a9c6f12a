package link_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/agent/link"
	"github.com/pluralsh/plural/api"
)

const secret = "the-token-of-this-agent"

func token([]byte) (string, error) { return secret, nil }

// serve is a hub over TLS, with a certificate that only its CA makes trusted.
func serve(t *testing.T, handler http.HandlerFunc) (url string, ca []byte) {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	return server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

func connect(t *testing.T, handler http.HandlerFunc) *link.Hub {
	t.Helper()
	url, ca := serve(t, handler)
	hub, err := link.New(link.Options{URL: url + "/", CA: ca, Token: token, UserAgent: "plural-agent/test"})
	if err != nil {
		t.Fatal(err)
	}
	return hub
}

func answer(t *testing.T, w http.ResponseWriter, poll *api.Poll) {
	body, err := proto.Marshal(poll)
	if err != nil {
		t.Error(err)
	}
	_, _ = w.Write(body)
}

func TestPollCarriesTheCredentialAndTheETag(t *testing.T) {
	hub := connect(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != api.PollPath || r.Header.Get("Authorization") != "Bearer "+secret ||
			r.UserAgent() != "plural-agent/test" || r.TLS == nil {
			t.Errorf("request = %s %s %v", r.Method, r.URL, r.Header)
		}
		if r.Header.Get("If-None-Match") == `"r1"` {
			w.Header().Set(api.EditionHeader, "s-8")
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("ETag", `"r1"`)
		w.Header().Set(api.EditionHeader, "s-7")
		answer(t, w, &api.Poll{Cluster: "edge-1"})
	})
	poll, etag, edition, err := hub.Poll(t.Context(), "")
	if err != nil || etag != `"r1"` || edition != "s-7" || poll.GetCluster() != "edge-1" {
		t.Fatalf("Poll = %v, %q, %q, %v", poll, etag, edition, err)
	}
	if poll, etag, edition, err = hub.Poll(t.Context(), etag); poll != nil || etag != `"r1"` || edition != "s-8" || err != nil {
		t.Errorf("Poll = %v, %q, %q, %v", poll, etag, edition, err)
	}
}

func TestReportIsPosted(t *testing.T) {
	var got api.Report
	hub := connect(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = proto.Unmarshal(body, &got)
		}
		if err != nil || r.Method != http.MethodPost || r.URL.Path != api.ReportPath || r.Header.Get("Content-Type") != api.ContentType {
			t.Errorf("request = %s %s %v, %v", r.Method, r.URL, r.Header, err)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	if err := hub.Report(t.Context(), &api.Report{Boot: "b", Sequence: 7}); err != nil {
		t.Fatal(err)
	}
	if got.GetBoot() != "b" || got.GetSequence() != 7 {
		t.Errorf("report = %v", &got)
	}
}

func TestBundleIsAskedForByKeyAlone(t *testing.T) {
	hub := connect(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, r.URL.EscapedPath())
	})
	for key, want := range map[string]string{"b1-a": "/bundles/b1-a", "../agent/v1/poll": "/bundles/..%2Fagent%2Fv1%2Fpoll"} {
		body, err := hub.Bundle(t.Context(), key)
		if err != nil || !strings.HasSuffix(string(body), want) {
			t.Errorf("Bundle(%q) asked for %s, %v", key, body, err)
		}
	}
}

func TestAStrangersCertificateIsRefused(t *testing.T) {
	url, _ := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the request arrived, with its token") })
	for name, ca := range map[string][]byte{"the system's CAs": nil, "another CA": otherCA(t)} {
		hub, err := link.New(link.Options{URL: url, CA: ca, Token: token})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := hub.Poll(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// otherCA is a certificate that signed nothing: httptest's servers share theirs.
func otherCA(t *testing.T) []byte {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	raw, err := x509.CreateCertificate(nil, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

func TestAddresses(t *testing.T) {
	for url, want := range map[string]string{
		"https://hub.example.com":        "",
		"https://hub.example.com/prefix": "",
		"http://127.0.0.1:8080":          "",
		"http://localhost:8080":          "",
		"http://[::1]:8080":              "",
		"http://hub.example.com":         "speaks https",
		"http://10.0.0.1":                "speaks https",
		"http://127.0.0.1.example.com":   "speaks https",
		"http://localhost.example.com":   "speaks https",
		"ftp://127.0.0.1":                "speaks https",
		"hub.example.com":                "want https://HOST",
		"":                               "want https://HOST",
		"https://":                       "want https://HOST",
		"https://hub/?a=b":               "want https://HOST",
		"https://me:hunter2@hub":         "carries a credential",
	} {
		_, err := link.New(link.Options{URL: url, Token: token})
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("New(%q): %v", url, err)
		case err != nil && strings.Contains(err.Error(), "hunter2"):
			t.Errorf("New(%q) repeats the credential: %v", url, err)
		}
	}
	if _, err := link.New(link.Options{URL: "https://hub", CA: []byte("not PEM"), Token: token}); err == nil {
		t.Error("a CA without certificates was taken")
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the redirect was followed, with %v", r.Header)
	}))
	defer other.Close()
	hub := connect(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	_, _, _, pollErr := hub.Poll(t.Context(), "")
	_, bundleErr := hub.Bundle(t.Context(), "b1-a")
	for _, err := range []error{pollErr, bundleErr, hub.Report(t.Context(), &api.Report{})} {
		var refused *link.Error
		if !errors.As(err, &refused) || refused.Code != http.StatusTemporaryRedirect {
			t.Errorf("err = %v", err)
		}
	}
}

func TestAnswersAreBounded(t *testing.T) {
	chunk := bytes.Repeat([]byte{1}, 1<<20)
	hub := connect(t, func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(chunk); err != nil {
				return // whoever asked hung up
			}
		}
	})
	if _, _, _, err := hub.Poll(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("Poll: %v", err)
	}
	if _, err := hub.Bundle(t.Context(), "b1-a"); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("Bundle: %v", err)
	}
	if err := hub.Report(t.Context(), &api.Report{}); err == nil {
		t.Error("Report took an endless answer")
	}
}

func TestHeadersAreBounded(t *testing.T) {
	hub := connect(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", strings.Repeat("x", 1<<20))
	})
	if _, _, _, err := hub.Poll(t.Context(), ""); err == nil {
		t.Error("a header of 1 MiB was taken")
	}
}

func TestAFewBytesThatAreNoPoll(t *testing.T) {
	for _, body := range []string{"\x0a", "<html>", "\xff\xff\xff"} {
		hub := connect(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		if _, _, _, err := hub.Poll(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "is this the hub?") {
			t.Errorf("%q: %v", body, err)
		}
	}
}

func TestAnAnswerThatBreaksOffIsAnError(t *testing.T) {
	hub := connect(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "99 %")
	})
	if body, err := hub.Bundle(t.Context(), "b1-a"); err == nil {
		t.Errorf("Bundle = %q", body)
	}
}

func TestAStalledAnswerEndsWithTheContext(t *testing.T) {
	stall := make(chan struct{})
	defer close(stall)
	hub := connect(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != api.PollPath { // a poll stalls before its header, the rest after it
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
		}
		select {
		case <-stall:
		case <-r.Context().Done():
		}
	})
	for name, ask := range map[string]func(context.Context) error{
		"poll":   func(ctx context.Context) error { _, _, _, err := hub.Poll(ctx, ""); return err },
		"bundle": func(ctx context.Context) error { _, err := hub.Bundle(ctx, "b1-a"); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if err := ask(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}

func TestErrorsSayWhatTheHubSaidAndNeverTheToken(t *testing.T) {
	for code, want := range map[int]string{
		http.StatusUnauthorized:       "is the cluster's file in git",
		http.StatusNotFound:           "404",
		http.StatusServiceUnavailable: "503",
	} {
		hub := connect(t, func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no\x1b[31m "+strings.Repeat("long ", 1000), code)
		})
		_, _, _, pollErr := hub.Poll(t.Context(), "")
		_, bundleErr := hub.Bundle(t.Context(), "b1-a")
		for _, err := range []error{pollErr, bundleErr, hub.Report(t.Context(), &api.Report{})} {
			var refused *link.Error
			if !errors.As(err, &refused) || refused.Code != code || !strings.Contains(err.Error(), want) {
				t.Errorf("%d: %v", code, err)
				continue
			}
			if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "\x1b") || len(err.Error()) > 1000 {
				t.Errorf("%d: %q", code, err)
			}
		}
	}
	gone, err := link.New(link.Options{URL: "https://127.0.0.1:1", Token: token})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := gone.Poll(t.Context(), ""); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("a hub that is not there: %v", err)
	}
}

func TestHowLongTheHubAsksToWaitIsTold(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, "-7": 0, "1e9": 0, "99999999999999999999": 0, "Fri, 31 Dec 1999 23:59:59 GMT": 0,
	} {
		hub := connect(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", header)
			http.Error(w, "too many reports", http.StatusTooManyRequests)
		})
		var refused *link.Error
		if err := hub.Report(t.Context(), &api.Report{}); !errors.As(err, &refused) || refused.RetryAfter() != want {
			t.Errorf("%q: %v", header, err)
		}
	}
}

func TestAConflictIsToldFromOtherRefusals(t *testing.T) {
	for code, want := range map[int]bool{http.StatusConflict: true, http.StatusServiceUnavailable: false} {
		hub := connect(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", code) })
		var refused *link.Error
		if err := hub.Report(t.Context(), &api.Report{}); !errors.As(err, &refused) || refused.Conflict() != want {
			t.Errorf("%d: %v", code, err)
		}
	}
}

func TestWithoutATokenNothingIsSent(t *testing.T) {
	url, ca := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	broken := errors.New("no key")
	hub, err := link.New(link.Options{URL: url, CA: ca, Token: func([]byte) (string, error) { return "", broken }})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := hub.Poll(t.Context(), ""); !errors.Is(err, broken) {
		t.Errorf("Poll: %v", err)
	}
}

func TestAnEmptyAnswerIsNoPoll(t *testing.T) {
	hub := connect(t, func(http.ResponseWriter, *http.Request) {})
	if poll, _, _, err := hub.Poll(t.Context(), ""); err == nil {
		t.Errorf("nothing was taken for %v", poll)
	}
}
