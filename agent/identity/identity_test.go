package identity_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pluralsh/plural/agent/identity"
	"github.com/pluralsh/plural/crypto"
	"github.com/pluralsh/plural/test/support/kubetest"
)

func registration(t *testing.T, hub string) identity.Registration {
	t.Helper()
	keys, err := crypto.NewAgentIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return identity.Registration{Cluster: "edge-1", HubURL: hub, HubCA: []byte("PEM"), Identity: keys, Repository: strings.Repeat("3f", 16)}
}

// unregistered is the shared cluster without a registration, before the test and after it.
func unregistered(t *testing.T) *kubetest.Cluster {
	t.Helper()
	cluster := kubetest.Start(t)
	cluster.RemoveLater(t, schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, identity.Namespace, identity.SecretName)
	return cluster
}

// TestARegistrationLivesInItsCluster follows one cluster, whose secret has one fixed place.
func TestARegistrationLivesInItsCluster(t *testing.T) {
	kube := unregistered(t).Dynamic
	if _, err := identity.Read(t.Context(), kube); err == nil || !strings.Contains(err.Error(), "plural cluster register") {
		t.Errorf("Read before registration: %v", err)
	}
	first, second := registration(t, "https://one"), registration(t, "https://two")
	for _, want := range []identity.Registration{first, second} {
		if err := identity.Write(t.Context(), kube, want); err != nil {
			t.Fatal(err)
		}
		got, err := identity.Read(t.Context(), kube)
		if err != nil || !got.Equal(want) {
			t.Errorf("Read = %s at %s, %v", got.Cluster, got.HubURL, err)
		}
	}
	if first.Equal(second) {
		t.Error("two registrations are the same")
	}
	elsewhere := second
	elsewhere.Repository = strings.Repeat("4e", 16)
	if second.Equal(elsewhere) {
		t.Error("registrations for two repositories are the same")
	}
	older := second
	older.Repository = ""
	if err := identity.Write(t.Context(), kube, older); err != nil {
		t.Fatal(err)
	}
	if got, err := identity.Read(t.Context(), kube); err != nil || got.Repository != "" {
		t.Errorf("a registration without a repository is %q, %v", got.Repository, err)
	}
	auth, age := second.Identity.Private()
	for _, patch := range []string{
		`{"data":{"auth-key":null}}`, `{"data":{"auth-key":"bm90IGEga2V5"}}`, `{"data":{"age-key":null}}`,
		`{"data":{"hub-url":null}}`, `{"data":{"cluster":""}}`, `{"data":null}`,
	} {
		if err := identity.Write(t.Context(), kube, second); err != nil {
			t.Fatal(err)
		}
		secret := kube.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(identity.Namespace)
		if _, err := secret.Patch(t.Context(), identity.SecretName, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		_, err := identity.Read(t.Context(), kube)
		if err == nil || !strings.Contains(err.Error(), "plural-system/plural-agent") || strings.Contains(err.Error(), auth) || strings.Contains(err.Error(), age) {
			t.Errorf("after %s: %v", patch, err)
		}
	}
}
