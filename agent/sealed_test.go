package agent

import (
	"bytes"
	"context"
	"encoding/base64"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/agent/identity"
	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/api/bundle"
	"github.com/pluralsh/plural/crypto"
	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/seal"
)

// sealedHub serves one deployment with a named secret and the envelope that opens it, and keeps nothing else.
func sealedHub(t *testing.T, keys *crypto.AgentIdentity, repository, namespace, secret string) string {
	t.Helper()
	set, err := groups.Load(fstest.MapFS{})
	if err != nil {
		t.Fatal(err)
	}
	edge := groups.Member{Kind: groups.Cluster, Name: "edge-1"}
	changes, err := set.Create(repository, "prod", []groups.Member{edge}, groups.CreateOptions{
		ClusterKey: func(string) (string, error) { return keys.Public().Age, nil },
	})
	if err == nil {
		set, err = set.With(changes)
	}
	if err != nil {
		t.Fatal(err)
	}
	prod, _ := set.Group("prod")
	sealed, err := seal.Seal([]byte("password: "+secret+"\n"),
		seal.Binding{Repository: repository, Path: "secrets/db.yaml", Groups: []seal.Epoch{{Group: "prod", Number: 1}}}, prod.Recipient)
	if err != nil {
		t.Fatal(err)
	}
	d := &api.Deployment{
		Service: "web", Key: "d1-web", Path: "web", Renderer: "raw", Namespace: namespace, OwnRepository: true, Sync: &api.Sync{SelfHeal: true},
		Inputs: []string{"web"}, SecretsInputs: []string{"secrets/db.yaml"}, Secrets: []*api.Secret{{Name: "db", Path: "secrets/db.yaml"}},
	}
	bundles := map[string][]byte{}
	d.Bundle = pack(t, bundles, "web", "web/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n")
	d.SecretsBundle = pack(t, bundles, "secrets/db.yaml", "secrets/db.yaml", string(sealed))
	envelope := groups.EnvelopeFile("prod", edge)
	poll, err := proto.Marshal(&api.Poll{
		Cluster: "edge-1", Deployments: []*api.Deployment{d}, IntervalMs: 200,
		Envelopes: []*api.Envelope{{Group: "prod", Epoch: 1, Path: envelope, Sealed: changes[envelope]}},
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, isBundle := strings.CutPrefix(r.URL.Path, api.BundlePath)
		switch {
		case isBundle:
			_, _ = w.Write(bundles[key])
		case r.URL.Path == api.PollPath:
			_, _ = w.Write(poll)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func pack(t *testing.T, bundles map[string][]byte, input, path, text string) (key string) {
	t.Helper()
	var out bytes.Buffer
	if err := bundle.Pack(&out, fstest.MapFS{path: {Data: []byte(text), Mode: 0o644}}, []string{input}, bundle.DefaultLimits()); err != nil {
		t.Fatal(err)
	}
	files, err := bundle.Unpack(bytes.NewReader(out.Bytes()), bundle.DefaultLimits())
	if err == nil {
		key, err = files.Key([]string{input})
	}
	if err != nil {
		t.Fatal(err)
	}
	bundles[key] = out.Bytes()
	return key
}

func TestASecretSealedForTheClusterReachesIt(t *testing.T) {
	kube := unregistered(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := crypto.NewAgentIdentity()
	if err != nil {
		t.Fatal(err)
	}
	repository := strings.Repeat("3f", 16)
	registration := identity.Registration{
		Cluster: "edge-1", Identity: keys, Repository: repository, HubURL: sealedHub(t, keys, repository, kube.Namespace, "hunter2-of-the-test"),
	}
	if err := identity.Write(t.Context(), kube.Dynamic, registration); err != nil {
		t.Fatal(err)
	}
	started(t, Options{
		Kube: kube.RESTConfig, Dir: t.TempDir(), RenderCommand: []string{self, "render-child"}, Log: slog.New(slog.DiscardHandler),
	})
	secrets := kube.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(kube.Namespace)
	eventually(t, "the password is there", func() bool {
		object, err := secrets.Get(t.Context(), "db", metav1.GetOptions{})
		if err != nil {
			return false
		}
		encoded, _, _ := unstructured.NestedString(object.Object, "data", "password")
		plain, err := base64.StdEncoding.DecodeString(encoded)
		return err == nil && string(plain) == "hunter2-of-the-test"
	})
}

// started runs an agent until the test ends.
func started(t *testing.T, o Options) {
	t.Helper()
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() { ended <- Run(ctx, o) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}
