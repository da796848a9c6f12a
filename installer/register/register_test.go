package register_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"github.com/pluralsh/plural/agent/identity"
	"github.com/pluralsh/plural/installer/register"
	"github.com/pluralsh/plural/test/support/kubetest"
	"github.com/pluralsh/plural/workspace/fleet"
)

const repository = "3f0c0123456789abcdef0123456789ab"

// keys is what register writes, with the keys themselves made comparable.
func keys(t *testing.T, kube *kubetest.Cluster, file string) (string, error) {
	t.Helper()
	request := register.Request{
		Cluster: "edge-1", HubURL: "https://hub.example.com", Tags: map[string]string{"env": "prod"}, Repository: repository,
	}
	var old []byte
	if file != "" {
		old = []byte(file)
	}
	prepared, err := register.Prepare(request, old)
	if err != nil {
		return "", err
	}
	if err := prepared.Install(t.Context(), kube.Dynamic); err != nil {
		return "", err
	}
	r, err := identity.Read(t.Context(), kube.Dynamic)
	if err != nil {
		t.Fatal(err)
	}
	if r.Cluster != "edge-1" || r.HubURL != "https://hub.example.com" || r.Repository != repository {
		t.Errorf("registration = %s at %s of %s", r.Cluster, r.HubURL, r.Repository)
	}
	public := r.Identity.Public()
	if prepared.Age != public.Age {
		t.Errorf("the caller hears of %s", prepared.Age)
	}
	return strings.NewReplacer(public.Auth, "AUTH", public.Age, "AGE").Replace(string(prepared.File)), nil
}

func TestWhatTheClusterHasIsWrittenDownOnceAndForItsFirstAgent(t *testing.T) {
	const head = "apiVersion: plural.sh/v1alpha1\nkind: Cluster\nmetadata: {name: a}\nspec:\n"
	for name, tt := range map[string]struct {
		file, want string
		not        bool
	}{
		"a new file":           {file: "", want: "agentPersistence: \"true\"\n"},
		"other parameters":     {file: head + "  parameters: {zone: b}\n", want: "{zone: b, agentPersistence: \"true\"}"},
		"one that is answered": {file: head + "  parameters: {agentPersistence: \"false\"}\n", want: "parameters: {agentPersistence: \"false\"}\n"},
		"one with an agent":    {file: head + "  agent: {auth: \"ed25519:old\", age: age1old}\n", want: "agentPersistence", not: true},
	} {
		t.Run(name, func(t *testing.T) {
			var file []byte
			if tt.file != "" {
				file = []byte(tt.file)
			}
			r, err := register.Prepare(register.Request{Cluster: "a", Parameters: map[string]string{register.Persistence: "true"}}, file)
			if err != nil {
				t.Fatal(err)
			}
			if has := strings.Contains(string(r.File), tt.want); has == tt.not {
				t.Errorf("the file is\n%s", r.File)
			}
			if r.First == tt.not {
				t.Errorf("first: %v", r.First)
			}
		})
	}
}

func TestADefaultStorageClassIsSeenAndItsLackIsTold(t *testing.T) {
	classes := map[schema.GroupVersionResource]string{{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"}: "StorageClassList"}
	class := func(annotation string) *unstructured.Unstructured {
		c := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"}}
		c.SetName("standard")
		c.SetAnnotations(map[string]string{"storageclass.kubernetes.io/is-default-class": annotation})
		return c
	}
	for want, c := range map[string]*unstructured.Unstructured{"true": class("true"), "false": class("false")} {
		got, note := register.Storage(t.Context(), fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), classes, c), "edge-1")
		if got[register.Persistence] != want || (note == "") != (want == "true") {
			t.Errorf("want %s, got %v: %q", want, got, note)
		}
	}
	kube := kubetest.Start(t)
	if got, note := register.Storage(t.Context(), kube.Dynamic, "edge-1"); got[register.Persistence] != "true" || note != "" {
		t.Errorf("of a real cluster: %v: %q", got, note)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if got, note := register.Storage(gone, kube.Dynamic, "edge-1"); got != nil || !strings.Contains(note, "does not say whether") {
		t.Errorf("of one that does not answer: %v: %q", got, note)
	}
}

func TestOnlyTheKeysOfAClustersFileChange(t *testing.T) {
	kube := kubetest.Start(t)
	for name, tt := range map[string]struct{ file, want string }{
		"a new file": {"", `apiVersion: plural.sh/v1alpha1
kind: Cluster
metadata:
  name: edge-1
spec:
  tags:
    env: prod
  agent:
    auth: AUTH
    age: AGE
`},
		"comments, order, flow style": {`# the shop in Rome
kind: Cluster # first
apiVersion: plural.sh/v1alpha1
metadata: {name: edge-1, labels: {a: b}}
spec:
  parameters: {domain: rome.example.com} # theirs
  tags:
    # where it is
    region: eu
`, `# the shop in Rome
kind: Cluster # first
apiVersion: plural.sh/v1alpha1
metadata: {name: edge-1, labels: {a: b}}
spec:
  parameters: {domain: rome.example.com} # theirs
  tags:
    # where it is
    region: eu
  agent:
    auth: AUTH
    age: AGE
`},
		"older keys": {`apiVersion: plural.sh/v1alpha1
kind: Cluster
metadata: {name: edge-1}
spec:
  agent: # made by register
    age: age1old # never edit
    auth: "ed25519:old"
  tags: {env: prod}
`, `apiVersion: plural.sh/v1alpha1
kind: Cluster
metadata: {name: edge-1}
spec:
  agent: # made by register
    age: AGE # never edit
    auth: AUTH
  tags: {env: prod}
`},
		"a spec in one line": {`apiVersion: plural.sh/v1alpha1
kind: Cluster
metadata: {name: edge-1}
spec: {tags: {env: prod}}
`, `apiVersion: plural.sh/v1alpha1
kind: Cluster
metadata: {name: edge-1}
spec: {tags: {env: prod}, agent: {auth: 'AUTH', age: AGE}}
`},
		"an empty spec": {
			"kind: Cluster\nmetadata: {name: edge-1}\nspec: {}\n",
			"kind: Cluster\nmetadata: {name: edge-1}\nspec:\n  agent:\n    auth: AUTH\n    age: AGE\n",
		},
		"no spec's value": {
			"kind: Cluster\nmetadata: {name: edge-1}\nspec:\n",
			"kind: Cluster\nmetadata: {name: edge-1}\nspec:\n  agent:\n    auth: AUTH\n    age: AGE\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := keys(t, kube, tt.file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("file (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAFileThatIsNotTheClustersAloneIsRefusedBeforeItsKeysChange(t *testing.T) {
	kube := kubetest.Start(t)
	if _, err := keys(t, kube, ""); err != nil {
		t.Fatal(err)
	}
	before, err := identity.Read(t.Context(), kube.Dynamic)
	if err != nil {
		t.Fatal(err)
	}
	const good = "kind: Cluster\nmetadata: {name: edge-1}\n"
	for file, want := range map[string]string{
		good + "---\n" + good:                       "a second document begins",
		"kind: Cluster\nmetadata: {name: edge-2}\n": `the Cluster "edge-2"`,
		"kind: Service\nmetadata: {name: edge-1}\n": `the Service "edge-1"`,
		"# nothing yet\n":                           "want one YAML document that is a mapping",
		"- kind: Cluster\n":                         "want one YAML document that is a mapping",
		"kind: [\n":                                 "clusters/edge-1.yaml",
		good + "spec: [a]\n":                        "spec is no mapping",
		good + "x: &x {a: b}\nspec: *x\n":           "spec is no mapping",
		good + "spec: {agent: [a]}\n":               "agent is no mapping",
	} {
		if _, err := keys(t, kube, file); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), register.Path("edge-1")) {
			t.Errorf("%q: %v", file, err)
		}
	}
	after, err := identity.Read(t.Context(), kube.Dynamic)
	if err != nil || !before.Equal(after) {
		t.Errorf("the cluster's keys changed: %v", err)
	}
}

func TestANameThatIsNoNameIsRefused(t *testing.T) {
	for _, name := range []string{"", "../x", "A", "a/b", strings.Repeat("a", 64)} {
		if _, err := register.Prepare(register.Request{Cluster: name}, nil); err == nil {
			t.Errorf("%q was taken", name)
		}
	}
}

func TestTagsAreThoseOfTheFile(t *testing.T) {
	for file, want := range map[string]map[string]string{
		"": {"env": "prod"},
		"kind: Cluster\nmetadata: {name: a}\nspec: {tags: {env: dev, region: eu}}\n":             {"env": "dev", "region": "eu"},
		"kind: Cluster\nmetadata: {name: a, labels: &l {env: x}}\nspec:\n  tags: *l\n":           {"env": "x"},
		"kind: Cluster\nmetadata: {name: a}\nspec: {parameters: {env: prod}, agent: {age: x}}\n": nil,
	} {
		var old []byte
		if file != "" {
			old = []byte(file)
		}
		r, err := register.Prepare(register.Request{Cluster: "a", Tags: map[string]string{"env": "prod"}}, old)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, r.Tags); diff != "" {
			t.Errorf("%s:\n%s", file, diff)
		}
	}
}

func TestAnInvitationChangesNothingButItself(t *testing.T) {
	now := time.Date(2027, 1, 31, 0, 0, 0, 1, time.UTC)
	for file, want := range map[string]string{
		"kind: Cluster # theirs\nmetadata: {name: edge-1}\nspec:\n  agent:\n    auth: old\n": "kind: Cluster # theirs\nmetadata: {name: edge-1}\nspec:\n  agent:\n    auth: old\n" +
			"  join:\n    hash: HASH\n    expires: \"2027-01-31T00:15:00Z\"\n",
		"kind: Cluster\nmetadata: {name: edge-1}\nspec:\n  join: {hash: old, hubCA: old, expires: old}\n": "kind: Cluster\nmetadata: {name: edge-1}\nspec:\n" +
			"  join:\n    hash: HASH\n    expires: \"2027-01-31T00:15:00Z\"\n",
	} {
		i, err := register.Invite(register.Request{Cluster: "edge-1"}, []byte(file), now)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.NewReplacer(fleet.HashToken(i.Token), "HASH").Replace(string(i.File))
		if diff := cmp.Diff(want, got); diff != "" || !i.Expires.Equal(now.Add(15*time.Minute).Truncate(time.Second)) {
			t.Error(diff)
		}
	}
}
