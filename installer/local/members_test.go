package local

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"filippo.io/age"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/agent/identity"
	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/trust"
	"github.com/pluralsh/plural/test/support/kubetest"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/rekey"
)

// member is a bring-up of one cluster, mgmt, in a repo that is there already.
func member(t *testing.T, kube *kubetest.Cluster) *bringUp {
	t.Helper()
	dir := t.TempDir()
	alice, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	b := &bringUp{Fleet: at(t, filepath.Join(dir, "fleet"), dir), hubURL: "http://127.0.0.1:1"}
	b.Options = Options{
		Name: "demo", Clusters: []string{"mgmt"}, Confirmed: trust.Store{Dir: filepath.Join(dir, "confirmed")},
		Keys: workspace.Keys{Identities: func() ([]age.Identity, error) { return []age.Identity{alice}, nil }},
	}
	if _, err := workspace.Init(t.Context(), workspace.Options{Dir: b.Repo, Name: "demo", HubURL: b.hubURL}); err != nil {
		t.Fatal(err)
	}
	if b.repo, err = workspace.Find(b.Repo); err != nil {
		t.Fatal(err)
	}
	b.repo.UseKeys(b.Keys)
	raw, err := os.ReadFile(kube.Kubeconfig)
	if err := errors.Join(err, os.MkdirAll(b.clusterDir("mgmt"), 0o700), os.WriteFile(b.Kubeconfig("mgmt"), raw, 0o600)); err != nil {
		t.Fatal(err)
	}
	plan, err := rekey.Begin(t.Context(), b.repo, b.Keys, b.Confirmed, rekey.Beginning{
		Person: rekey.Person{Name: "alice", Keys: []byte(alice.Recipient().String() + "\n")}, Group: "fleet", Patterns: []string{"secrets/**"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plan.Apply(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAClusterThatComesBackAfterADownIsRegisteredWithoutACommit(t *testing.T) {
	kube := kubetest.Start(t)
	b := member(t, kube)
	register := func() (head string) {
		t.Helper()
		registered, err := b.registerAll(t.Context())
		if err != nil || !slices.Equal(registered, []string{"mgmt"}) {
			t.Fatalf("registered %q, %v", registered, err)
		}
		if head, err = b.repo.Head(); err != nil {
			t.Fatal(err)
		}
		return head
	}
	first := register()
	config, err := os.ReadFile(b.Kubeconfig("mgmt"))
	if err := errors.Join(err, b.Down(t.Context(), false)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(b.clusterDir("mgmt"), 0o700), os.WriteFile(b.Kubeconfig("mgmt"), config, 0o600),
		kube.Dynamic.Resource(secrets).Namespace(identity.Namespace).Delete(t.Context(), identity.SecretName, metav1.DeleteOptions{}),
	); err != nil {
		t.Fatal(err)
	}
	if second := register(); second != first {
		t.Error("the cluster's keys were kept, and it was registered by another commit")
	}
	if _, err := identity.Read(t.Context(), kube.Dynamic); err != nil {
		t.Error(err)
	}

	// Keys that the repo does not know any more are good for nothing.
	if _, err := b.repo.Commit(t.Context(), "Forget mgmt", map[string][]byte{"clusters/mgmt.yaml": nil}); err != nil {
		t.Fatal(err)
	}
	before, err := b.keysBefore("mgmt", b.keptFor(t))
	if err != nil {
		t.Fatal(err)
	}
	register()
	r, err := identity.Read(t.Context(), kube.Dynamic)
	if err != nil || r.Identity.Public() == before.Public() {
		t.Errorf("the cluster was deleted, and has its keys of before: %v", err)
	}
}

// keptFor is the id of the sealed repo.
func (b *bringUp) keptFor(t *testing.T) string {
	t.Helper()
	editor, err := b.editor()
	if err != nil {
		t.Fatal(err)
	}
	return editor.Vault().Policy().Repository
}

var secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

func TestLocalClusterOfASealedRepoOpensWhatItsGroupsCan(t *testing.T) {
	kube := kubetest.Start(t)
	b := member(t, kube)
	for range 2 { // the second time with another hub
		registered, err := b.registerAll(t.Context())
		if err != nil || !slices.Equal(registered, []string{"mgmt"}) {
			t.Fatalf("registered %q, %v", registered, err)
		}
		r, err := identity.Read(t.Context(), kube.Dynamic)
		if err != nil {
			t.Fatal(err)
		}
		_, private := r.Identity.Private()
		id, err := age.ParseX25519Identity(private)
		if err != nil {
			t.Fatal(err)
		}
		set, err := groups.Load(os.DirFS(b.Repo))
		if err != nil {
			t.Fatal(err)
		}
		list, err := set.Envelopes(groups.Member{Kind: groups.Cluster, Name: "mgmt"})
		if err != nil {
			t.Fatal(err)
		}
		ring, err := groups.OpenEnvelopes(r.Repository, list, id)
		if err != nil || !slices.Equal(ring.Groups(), []string{"fleet"}) {
			t.Errorf("the cluster is in %q: %v", ring.Groups(), err)
		}
		if known, err := b.isRegistered("mgmt"); err != nil || known {
			t.Errorf("registered before the commit is pushed: %v, %v", known, err)
		}
		b.hubURL += "1"
	}
}
