package login

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	authentication "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/internal/oidcflow"
	"github.com/pluralsh/plural/test/support/kubetest"
)

// ofAPIServers has people log in to a cluster without the hub between: its API server takes the hub's ID tokens. It wants TLS of whoever
// makes them, which another hub of the fleet serves.
func ofAPIServers(t *testing.T, w *world) {
	operator, fleet := w.person("operator"), w.path("fleet")
	const redirect = "http://127.0.0.1/callback"
	for _, name := range []string{"kubectl", "other"} {
		operator.plural("application", "create", name, "--public", "--redirect-uri", redirect, "--group", "platform", "-C", fleet)
	}
	hub, client, ca := w.serveTLS("hub-2")
	issuer := hub + "/oidc"
	config := w.path("authentication.yaml")
	text := fmt.Sprintf(`apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
- issuer: {url: %q, audiences: [kubectl], certificateAuthority: %q}
  claimMappings:
    username: {claim: sub, prefix: "plural:"}
    groups: {claim: groups, prefix: "plural:"}
`, issuer, ca)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster := kubetest.StartApart(t, "--authentication-config", config)
	var (
		session string
		err     error
	)
	defer func() {
		if t.Failed() {
			t.Logf("the last error: %v", err)
		}
	}()
	w.until("the hub serves the fleet", func() bool { session, err = w.exchanged(client, hub); return err == nil })
	idToken := func(application string) string {
		t.Helper()
		const verifier = "a verifier of at least forty-three characters"
		sum := sha256.Sum256([]byte(verifier))
		query := url.Values{
			"client_id": {application}, "redirect_uri": {redirect}, "response_type": {"code"}, "scope": {"openid"},
			"code_challenge_method": {"S256"}, "code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])},
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, issuer+"/authorize?"+query.Encode(), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+session)
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		landed, err := url.Parse(answer.Header.Get("Location"))
		if err != nil || !landed.Query().Has("code") {
			t.Fatalf("%s %s", answer.Status, answer.Header.Get("Location"))
		}
		given, err := client.PostForm(issuer+"/token", url.Values{
			"grant_type": {"authorization_code"}, "code": {landed.Query().Get("code")}, "redirect_uri": {redirect},
			"code_verifier": {verifier}, "client_id": {application},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer given.Body.Close()
		var tokens struct {
			ID string `json:"id_token"`
		}
		if err := json.NewDecoder(io.LimitReader(given.Body, 1<<20)).Decode(&tokens); err != nil || tokens.ID == "" {
			t.Fatal(given.Status, err)
		}
		return tokens.ID
	}
	whoami := func(token string) (*authentication.UserInfo, error) {
		as := rest.AnonymousClientConfig(cluster.RESTConfig)
		as.BearerToken = token
		client, err := dynamic.NewForConfig(as)
		if err != nil {
			t.Fatal(err)
		}
		kind := schema.GroupVersionResource{Group: "authentication.k8s.io", Version: "v1", Resource: "selfsubjectreviews"}
		question := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}}
		review, err := client.Resource(kind).Create(t.Context(), question, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		var told authentication.SelfSubjectReview
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(review.Object, &told)
		return &told.Status.UserInfo, err
	}
	good := idToken("kubectl")
	var who *authentication.UserInfo
	w.until("the API server takes an ID token", func() bool { who, err = whoami(good); return err == nil })
	if who.Username != "plural:ada" || !slices.Contains(who.Groups, "plural:platform") || slices.Contains(who.Groups, "plural:chess") {
		t.Errorf("%+v", who)
	}
	parts := strings.Split(good, ".")
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	parts[1] = base64.RawURLEncoding.EncodeToString(bytes.Replace(claims, []byte(`"sub":"ada"`), []byte(`"sub":"eve"`), 1))
	for name, token := range map[string]string{"of another application": idToken("other"), "that was changed": strings.Join(parts, "."), "of the hub itself": session} {
		if who, err := whoami(token); err == nil {
			t.Errorf("a token %s: the API server takes it for %s", name, who.Username)
		}
	}
}

// serveTLS starts a hub that ends TLS itself. It returns the hub's URL, a client that trusts it and follows nothing, and its certificate.
func (w *world) serveTLS(name string) (at string, client *http.Client, certificate []byte) {
	w.Helper()
	before := httptest.NewTLSServer(http.NotFoundHandler()) // leaves its port, its certificate and its key to the hub
	before.Close()
	key, err := x509.MarshalPKCS8PrivateKey(before.TLS.Certificates[0].PrivateKey)
	if err != nil {
		w.Fatal(err)
	}
	certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: before.Certificate().Raw})
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
	for file, text := range map[string][]byte{"tls.crt": certificate, "tls.key": private} {
		if err := os.WriteFile(w.path(file), text, 0o600); err != nil {
			w.Fatal(err)
		}
	}
	w.serve(name, before.Listener.Addr().String(), before.URL, "--tls-cert", w.path("tls.crt"), "--tls-key", w.path("tls.key"))
	client = before.Client()
	client.Timeout = patience
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return before.URL, client, certificate
}

// exchanged is a session of ada's at a hub.
func (w *world) exchanged(client *http.Client, hub string) (string, error) {
	flow, err := oidcflow.Discover(w.Context(), oidcflow.Options{Name: "corp", Issuer: w.corp.Issuer, ClientID: "plural"})
	if err != nil {
		return "", err
	}
	own := httptest.NewServer(http.NotFoundHandler())
	defer own.Close()
	attempt := oidcflow.Begin(own.URL + "/callback")
	at, _ := w.corp.Browser(w, "ada-l").Open(flow.URL(attempt)) // there is no page
	landed, err := url.Parse(at)
	if err != nil {
		return "", err
	}
	code, err := flow.Code(attempt, landed.Query())
	if err != nil {
		return "", err
	}
	tokens, err := flow.Exchange(w.Context(), attempt, code)
	if err != nil {
		return "", err
	}
	answer, err := client.PostForm(hub+"/v1/auth/exchange", url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "subject_token": {tokens.ID},
		"subject_token_type": {"urn:ietf:params:oauth:token-type:id_token"},
	})
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	var session struct {
		Token string `json:"access_token"`
	}
	err = json.NewDecoder(io.LimitReader(answer.Body, 1<<20)).Decode(&session)
	if err == nil && session.Token == "" {
		err = fmt.Errorf("no session: %s", answer.Status)
	}
	return session.Token, err
}
