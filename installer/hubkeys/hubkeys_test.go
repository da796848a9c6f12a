package hubkeys_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/pluralsh/plural/crypto/trust"
	"github.com/pluralsh/plural/crypto/verify"
	"github.com/pluralsh/plural/installer/hubkeys"
	"github.com/pluralsh/plural/test/support/kubetest"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/rekey"
)

func secrets(kube dynamic.Interface) dynamic.ResourceInterface {
	return kube.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(hubkeys.Namespace)
}

// start is a cluster whose hub was told nothing.
func start(t *testing.T) dynamic.Interface {
	t.Helper()
	kube := kubetest.Start(t).Dynamic
	t.Cleanup(func() {
		err := secrets(kube).Delete(context.WithoutCancel(t.Context()), hubkeys.SecretName, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	return kube
}

func prepare(t *testing.T, kube dynamic.Interface, r hubkeys.Request) *hubkeys.Keys {
	t.Helper()
	k, err := hubkeys.Prepare(t.Context(), kube, r)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func install(t *testing.T, kube dynamic.Interface, r hubkeys.Request) *hubkeys.Keys {
	t.Helper()
	k := prepare(t, kube, r)
	if err := k.Install(t.Context(), kube); err != nil {
		t.Fatal(err)
	}
	return k
}

// stored is what the Secret holds.
func stored(t *testing.T, kube dynamic.Interface) map[string]string {
	t.Helper()
	secret, err := secrets(kube).Get(t.Context(), hubkeys.SecretName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	texts, _, _ := unstructured.NestedStringMap(secret.Object, "data")
	for key, text := range texts {
		value, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		texts[key] = string(value)
	}
	return texts
}

func TestAHubIsToldEverythingOnceAndTheSameFromThenOn(t *testing.T) {
	kube := start(t)
	first := install(t, kube, hubkeys.Request{Repo: map[string]string{"username": "git", "password": "canary"}})
	if !slices.Equal(first.Made(), hubkeys.Parts()) {
		t.Errorf("made %v", first.Made())
	}
	before := stored(t, kube)
	want := []string{
		"hook-secret", "identity", "replica-ca.crt", "replica-ca.key", "replica.crt", "replica.key", "repo.password", "repo.username",
		"signing-key", "signing-key.pub", "token",
	}
	if got := slices.Sorted(maps.Keys(before)); !slices.Equal(got, want) {
		t.Errorf("the Secret has %v", got)
	}
	if len(first.Token()) < 32 || first.Token() != before["token"] || first.HookSecret() != before["hook-secret"] {
		t.Error("the token or the hook secret is not what is stored")
	}
	id, err := age.ParseX25519Identity(strings.TrimSpace(before["identity"]))
	if err != nil {
		t.Fatal(err)
	}
	if recipient, err := first.Recipient(); err != nil || recipient != id.Recipient().String() {
		t.Errorf("the public half is %s, %v", recipient, err)
	}
	if signer, err := verify.ParseSigner([]byte(before["signing-key"])); err != nil || string(signer.Public()) != before["signing-key.pub"] {
		t.Errorf("the public half of the signing key is %q, %v", before["signing-key.pub"], err)
	}
	second := prepare(t, kube, hubkeys.Request{})
	if second.Changed() || len(second.Made()) > 0 || !second.HasRepo() {
		t.Errorf("a second time: changed %v, made %v", second.Changed(), second.Made())
	}
	for _, printed := range []string{fmt.Sprint(second), fmt.Sprintf("%+v %#v", second, second)} {
		for key, value := range before {
			if strings.Contains(printed, strings.TrimSpace(value)) {
				t.Errorf("%s is printed: %s", key, printed)
			}
		}
	}
	labels := func() map[string]string {
		n, err := kube.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Get(t.Context(), hubkeys.Namespace,
			metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return n.GetLabels()
	}()
	if labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Errorf("the namespace has the labels %v", labels)
	}
}

func TestOnlyWhatIsAskedForIsMadeAnew(t *testing.T) {
	of := map[hubkeys.Part][]string{
		hubkeys.Token: {"token"}, hubkeys.Identity: {"identity"}, hubkeys.HookSecret: {"hook-secret"},
		hubkeys.SigningKey: {"signing-key", "signing-key.pub"},
		hubkeys.Replicas:   {"replica-ca.crt", "replica-ca.key", "replica.crt", "replica.key"},
	}
	kube := start(t)
	install(t, kube, hubkeys.Request{})
	for _, part := range hubkeys.Parts() {
		before := stored(t, kube)
		if k := install(t, kube, hubkeys.Request{Rotate: []hubkeys.Part{part}}); !slices.Equal(k.Made(), []hubkeys.Part{part}) {
			t.Errorf("%s: made %v", part, k.Made())
		}
		after := stored(t, kube)
		for key := range before {
			if changed := before[key] != after[key]; changed != slices.Contains(of[part], key) {
				t.Errorf("rotate %s: %s changed: %v", part, key, changed)
			}
		}
	}
	if _, err := hubkeys.Prepare(t.Context(), kube, hubkeys.Request{Rotate: []hubkeys.Part{"tokens"}}); err == nil {
		t.Error("what nobody knows was made anew")
	}
}

func TestCredentialsThatNoHostWouldTakeAreRefused(t *testing.T) {
	kube := start(t)
	for want, r := range map[string]hubkeys.Request{
		"unknown key":                  {Repo: map[string]string{"pasword": "canary"}},
		"username without password":    {Edit: map[string]string{"username": "git"}},
		"belong together":              {TLSCert: []byte("canary")},
		"the hub's certificate":        {TLSCert: []byte("canary"), TLSKey: []byte("canary")},
		"credentials to push to the r": {Edit: map[string]string{"token": "canary"}},
	} {
		if _, err := hubkeys.Prepare(t.Context(), kube, r); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("want %s: %v", want, err)
		}
	}
}

func TestCredentialsAreReplacedAsAWholeAndTakenAway(t *testing.T) {
	kube := start(t)
	install(t, kube, hubkeys.Request{
		Repo: map[string]string{"username": "git", "password": "old"}, Edit: map[string]string{"bearerToken": "push"},
	})
	install(t, kube, hubkeys.Request{
		Repo: map[string]string{"identity": "KEY", "known_hosts": "host ssh-ed25519 AAAA"},
		Edit: map[string]string{},
	})
	var got []string
	for key := range stored(t, kube) {
		if strings.HasPrefix(key, "repo.") || strings.HasPrefix(key, "edit.") {
			got = append(got, key)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, []string{"repo.identity", "repo.known_hosts"}) {
		t.Errorf("there is %v", got)
	}
}

func TestAnIdentityThatCannotBeReadIsNotReplacedUnasked(t *testing.T) {
	kube := start(t)
	install(t, kube, hubkeys.Request{})
	patch := []byte(`{"data":{"identity":"` + base64.StdEncoding.EncodeToString([]byte("canary")) + `"}}`)
	if _, err := secrets(kube).Patch(t.Context(), hubkeys.SecretName, "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := hubkeys.Prepare(t.Context(), kube, hubkeys.Request{}); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("prepared: %v", err)
	}
	install(t, kube, hubkeys.Request{Rotate: []hubkeys.Part{hubkeys.Identity}})
}

func TestASigningKeyThatCannotBeReadIsNotReplacedUnasked(t *testing.T) {
	kube := start(t)
	install(t, kube, hubkeys.Request{})
	patch := []byte(`{"data":{"signing-key":"` + base64.StdEncoding.EncodeToString([]byte("canary")) + `"}}`)
	if _, err := secrets(kube).Patch(t.Context(), hubkeys.SecretName, "application/merge-patch+json", patch,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := hubkeys.Prepare(t.Context(), kube, hubkeys.Request{})
	if err == nil || !strings.Contains(err.Error(), `"signing-key"`) || strings.Contains(err.Error(), "canary") {
		t.Errorf("prepared: %v", err)
	}
	install(t, kube, hubkeys.Request{Rotate: []hubkeys.Part{hubkeys.SigningKey}})
}

func TestTheHubsTokenIsRenewedBeforeItExpires(t *testing.T) {
	kube := start(t)
	now := time.Now()
	at := func(after time.Duration) hubkeys.Request {
		return hubkeys.Request{Now: func() time.Time { return now.Add(after) }}
	}
	first := install(t, kube, at(0))
	if expires, ok := fleet.OperatorExpiry(first.Token()); !ok || expires.Sub(now).Round(time.Minute) != fleet.OperatorLifetime {
		t.Errorf("it expires %v, %v", expires, ok)
	}
	if k := prepare(t, kube, at(fleet.OperatorLifetime-fleet.OperatorRenewal-time.Hour)); k.Changed() {
		t.Errorf("long before its end: made %v", k.Made())
	}
	for name, after := range map[string]time.Duration{
		"soon before its end": fleet.OperatorLifetime - fleet.OperatorRenewal, "after it": 2 * fleet.OperatorLifetime,
	} {
		if k := prepare(t, kube, at(after)); !slices.Equal(k.Made(), []hubkeys.Part{hubkeys.Token}) || k.Token() == first.Token() {
			t.Errorf("%s: made %v", name, k.Made())
		}
	}
	secret, err := secrets(kube).Get(t.Context(), hubkeys.SecretName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	old := base64.StdEncoding.EncodeToString([]byte("OFANEARLIERRELEASEWITHOUTANEND"))
	if err := unstructured.SetNestedField(secret.Object, old, "data", "token"); err != nil {
		t.Fatal(err)
	}
	if _, err := secrets(kube).Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if k := prepare(t, kube, at(0)); !slices.Equal(k.Made(), []hubkeys.Part{hubkeys.Token}) {
		t.Errorf("one of an earlier release: made %v", k.Made())
	}
}

func TestTwoWhoInstallAtOnceDoNotOverwriteEachOther(t *testing.T) {
	kube := start(t)
	first, second := prepare(t, kube, hubkeys.Request{}), prepare(t, kube, hubkeys.Request{})
	if err := first.Install(t.Context(), kube); err != nil {
		t.Fatal(err)
	}
	if err := second.Install(t.Context(), kube); !errors.Is(err, hubkeys.ErrRace) {
		t.Errorf("the second says %v", err)
	}
	third, fourth := prepare(t, kube, hubkeys.Request{HookSecret: "a"}), prepare(t, kube, hubkeys.Request{HookSecret: "b"})
	if err := third.Install(t.Context(), kube); err != nil {
		t.Fatal(err)
	}
	if err := fourth.Install(t.Context(), kube); !errors.Is(err, hubkeys.ErrRace) {
		t.Errorf("the fourth says %v", err)
	}
	if now := stored(t, kube); now["token"] != first.Token() || now["hook-secret"] != "a" {
		t.Error("something was lost")
	}
}

// handshake has two replicas with these keys meet, the server by the name of its pod.
func handshake(t *testing.T, server, client map[string]string) error {
	t.Helper()
	config := func(keys map[string]string) *tls.Config {
		pair, err := tls.X509KeyPair([]byte(keys["replica.crt"]), []byte(keys["replica.key"]))
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM([]byte(keys["replica-ca.crt"]))
		return &tls.Config{
			Certificates: []tls.Certificate{pair}, RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
			MinVersion: tls.VersionTLS13, ServerName: "plural-hub-2.plural-hub-replicas.plural-system.svc",
		}
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config(server))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	met := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			_, err = conn.Write([]byte{1})
			_ = conn.Close()
		}
		met <- err
	}()
	conn, err := tls.Dial("tcp", listener.Addr().String(), config(client))
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
		_ = conn.Close()
	}
	return errors.Join(err, <-met)
}

func TestReplicasGetOnWithOneWhoseCertificateWasRenewed(t *testing.T) {
	kube := start(t)
	install(t, kube, hubkeys.Request{})
	old := stored(t, kube)
	if err := handshake(t, old, old); err != nil {
		t.Errorf("two replicas: %v", err)
	}
	later := func() time.Time { return time.Now().Add(8 * 365 * 24 * time.Hour) }
	if k := prepare(t, kube, hubkeys.Request{Now: later}); slices.Contains(k.Made(), hubkeys.Replicas) {
		t.Error("renewed two years before the end")
	}
	// A certificate that ends, of an authority that does not.
	block, _ := pem.Decode([]byte(old["replica.crt"]))
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if time.Until(cert.NotAfter) < 9*365*24*time.Hour {
		t.Errorf("a new certificate ends at %s", cert.NotAfter)
	}
	patch := []byte(`{"data":{"replica.crt":null}}`)
	if _, err := secrets(kube).Patch(t.Context(), hubkeys.SecretName, "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	install(t, kube, hubkeys.Request{})
	renewed := stored(t, kube)
	if err := errors.Join(handshake(t, old, renewed), handshake(t, renewed, old)); err != nil {
		t.Errorf("old and new: %v", err)
	}
	install(t, kube, hubkeys.Request{Rotate: []hubkeys.Part{hubkeys.Replicas}})
	if err := handshake(t, old, stored(t, kube)); err == nil {
		t.Error("whoever has the former keys is still let in")
	}
}

// alice is somebody with a clone in which files are sealed.
type alice struct {
	identity  *age.X25519Identity
	confirmed trust.Store
	repo      *workspace.Repo
}

func (a *alice) keys() workspace.Keys {
	return workspace.Keys{
		Identities: func() ([]age.Identity, error) { return []age.Identity{a.identity}, nil },
		Confirmed:  a.confirmed,
	}
}

func newAlice(t *testing.T) *alice {
	t.Helper()
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		t.Setenv("GIT_"+who+"_NAME", "Alice")
		t.Setenv("GIT_"+who+"_EMAIL", "alice@example.com")
	}
	dir := filepath.Join(t.TempDir(), "fleet")
	if _, err := workspace.Init(t.Context(), workspace.Options{Dir: dir, Name: "fleet"}); err != nil {
		t.Fatal(err)
	}
	repo, err := workspace.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	a := &alice{id, trust.Store{Dir: t.TempDir()}, repo}
	repo.UseKeys(a.keys())
	plan, err := rekey.Begin(t.Context(), repo, a.keys(), a.confirmed, rekey.Beginning{
		Person: rekey.Person{Name: "alice", Keys: []byte(id.Recipient().String() + "\n")}, Group: "fleet", Patterns: []string{"secrets/**"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plan.Apply(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	return a
}

// join has the hub with these keys join, and says whether that changed anything.
func (a *alice) join(t *testing.T, k *hubkeys.Keys) bool {
	t.Helper()
	editor, err := rekey.Open(a.repo, a.keys(), a.confirmed)
	if err != nil {
		t.Fatal(err)
	}
	recipient, err := k.Recipient()
	if err != nil {
		t.Fatal(err)
	}
	plan, err := hubkeys.Join(t.Context(), editor, recipient, "alice")
	if err != nil {
		t.Fatal(err)
	}
	if plan.Empty() {
		return false
	}
	if _, err := plan.Apply(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	return true
}

func TestAHubOpensWhatIsSealedForItAndNothingElse(t *testing.T) {
	kube, a := start(t), newAlice(t)
	k := install(t, kube, hubkeys.Request{})
	if !a.join(t, k) {
		t.Fatal("joining changes nothing")
	}
	if a.join(t, k) {
		t.Error("joining again changes something")
	}
	opens := func() []string {
		id, err := age.ParseX25519Identity(strings.TrimSpace(stored(t, kube)["identity"]))
		if err != nil {
			t.Fatal(err)
		}
		v, err := a.repo.Vault(nil)
		if err != nil {
			t.Fatal(err)
		}
		return v.Groups().Unlock(v.Policy().Repository, []age.Identity{id}).Groups()
	}
	if got := opens(); !slices.Equal(got, []string{"hub"}) {
		t.Errorf("it opens what is sealed for %v", got)
	}
	anew := install(t, kube, hubkeys.Request{Rotate: []hubkeys.Part{hubkeys.Identity}})
	if got := opens(); len(got) > 0 {
		t.Errorf("an identity that nobody knows opens what is sealed for %v", got)
	}
	if !a.join(t, anew) || a.join(t, anew) {
		t.Error("a new identity joins once")
	}
	if got := opens(); !slices.Equal(got, []string{"hub"}) {
		t.Errorf("with its new identity it opens what is sealed for %v", got)
	}
	editor, err := rekey.Open(a.repo, a.keys(), a.confirmed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := editor.Vault().Seal("secrets/hub/source.yaml", []byte("password: x\n")); err != nil {
		t.Errorf("alice cannot seal for the hub: %v", err)
	}
}
