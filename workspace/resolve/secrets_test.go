package resolve

import (
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/api/bundle"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/workspace/snapshot"
)

const repositoryID = "3f0c0123456789abcdef0123456789ab"

const sealYAML = `apiVersion: plural.sh/v1alpha1
kind: Seal
metadata: {name: seal}
spec:
  repository: ` + repositoryID + `
  paths:
  - {pattern: "secrets/**", groups: [fleet]}
`

// sopsYAML has the shape of what sops writes; nobody opens it here.
const sopsYAML = `password: ENC[AES256_GCM,data:AAAA,iv:AAAA,tag:AAAA,type:str]
sops:
    age:
        - recipient: age1qqqq
          enc: x
    lastmodified: "2026-01-01T00:00:00Z"
    mac: ENC[AES256_GCM,data:AAAA,iv:AAAA,tag:AAAA,type:str]
    version: 3.9.0
`

func sealedFile(t testing.TB, path, plaintext string) string {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	b := seal.Binding{Repository: repositoryID, Path: path, Groups: []seal.Epoch{{Group: "fleet", Number: 1}}}
	data, err := seal.Seal([]byte(plaintext), b, identity.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// committed is a commit with the files.
func committed(t testing.TB, contents map[string]string) *snapshot.Snapshot {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, contents)
	for _, args := range [][]string{
		{"init", "-q"},
		{"add", "-A"},
		{"-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-q", "-m", "x"},
	} {
		if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	snap, err := snapshot.Open(dir, "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

// secretive is a repo whose only service asks for secrets.
func secretive(t testing.TB, secrets string) map[string]string {
	t.Helper()
	return map[string]string{
		"plural.yaml": workspaceYAML, ".plural/seal.yaml": sealYAML,
		"clusters/c.yaml":     cluster("c", "{tags: {env: prod}}"),
		"services/a.yaml":     service("a", "\n  source: {path: a}\n  clusters: {names: [c]}\n  secrets: "+secrets),
		"a/x.yaml":            "a: 1\n",
		"secrets/db.yaml":     sealedFile(t, "secrets/db.yaml", "password: x\n"),
		"secrets/dir/tls.key": sealedFile(t, "secrets/dir/tls.key", "key"),
		"old/sops.yaml":       sopsYAML,
		"notes.txt":           "hello",
	}
}

func problemsOf(t testing.TB, snap *snapshot.Snapshot) []string {
	t.Helper()
	var list []string
	for _, p := range mustValidate(t, load(t, snap), repos{"": snap}) {
		list = append(list, p.Error())
	}
	return list
}

func TestSecretsMakeABundleOfTheirOwn(t *testing.T) {
	snap := committed(t, secretive(t, `
  - {name: tls, from: secrets/dir/tls.key, type: kubernetes.io/tls}
  - {name: db, from: secrets/./db.yaml}
  - {name: again, from: secrets/db.yaml, templateOnly: true}
  - {name: flux, from: old/sops.yaml}`))
	list, err := For(load(t, snap), "c", repos{"": snap})
	if err != nil || list[0].Hold != nil {
		t.Fatal(err, list[0].Hold)
	}
	d := list[0]
	want := []Secret{
		{"tls", "secrets/dir/tls.key", false, "kubernetes.io/tls"},
		{"db", "secrets/db.yaml", false, ""},
		{"again", "secrets/db.yaml", true, ""},
		{"flux", "old/sops.yaml", false, ""},
	}
	if diff := cmp.Diff(want, d.Secrets); diff != "" {
		t.Error(diff)
	}
	if want := []string{"old/sops.yaml", "secrets/db.yaml", "secrets/dir/tls.key"}; !slices.Equal(d.SecretsInputs, want) {
		t.Errorf("inputs = %q", d.SecretsInputs)
	}
	if !d.OwnRepository || d.SecretsBundle == d.Bundle || d.SecretsSnapshot != snap {
		t.Errorf("deployment = %+v", d)
	}
	var packed strings.Builder
	if err := bundle.Pack(&packed, d.SecretsSnapshot.FS(), d.SecretsInputs, bundle.DefaultLimits()); err != nil {
		t.Fatal(err)
	}
	files, err := bundle.Unpack(strings.NewReader(packed.String()), bundle.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	if key, err := files.Key(d.SecretsInputs); err != nil || key != d.SecretsBundle {
		t.Errorf("the receiver finds %q, %v; want %q", key, err, d.SecretsBundle)
	}
}

func TestSecretsThatAreNoSealedFilesAreProblemsWithTheirPlace(t *testing.T) {
	files := secretive(t, `
  - {name: missing, from: secrets/gone.yaml}
  - {name: folder, from: secrets/dir}
  - {name: link, from: secrets/link}
  - {name: uncovered, from: notes.txt}
  - {name: plain, from: secrets/plain.yaml}
  - {name: torn, from: secrets/torn.yaml}
  - {name: policy, from: .plural/seal.yaml}
  - {name: good, from: secrets/db.yaml}`)
	files["secrets/link"] = "link:db.yaml"
	files["secrets/plain.yaml"] = "password: hunter2\n"
	files["secrets/torn.yaml"] = files["secrets/db.yaml"][:80]
	snap := committed(t, files)
	uncovered := "no pattern of .plural/seal.yaml covers %, and sops did not write it: add a pattern for it there, or move it to where one covers it"
	want := []string{
		`services/a.yaml:8:27: service a: path "secrets/gone.yaml" does not exist: correct or remove it`,
		`services/a.yaml:9:26: service a: "secrets/dir" is a folder: name a file`,
		`services/a.yaml:10:24: service a: "secrets/link" is a symbolic link, which is not followed: put what it points to in its place`,
		`services/a.yaml:11:29: service a: ` + strings.Replace(uncovered, "%", `"notes.txt"`, 1),
		`services/a.yaml:12:25: service a: "secrets/plain.yaml" must be sealed, and is not: plural crypto encrypt secrets/plain.yaml`,
		`services/a.yaml:13:24: service a: "secrets/torn.yaml" must be sealed, and is not: plural crypto encrypt secrets/torn.yaml`,
		`services/a.yaml:14:26: service a: ` + strings.Replace(uncovered, "%", `".plural/seal.yaml"`, 1),
	}
	if diff := cmp.Diff(want, problemsOf(t, snap)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	list, err := For(load(t, snap), "c", repos{"": snap})
	if err != nil || list[0].Hold == nil || list[0].Key+list[0].Bundle+list[0].SecretsBundle != "" {
		t.Errorf("deployment = %+v, %v", list[0], err)
	}
}

func TestSecretInAWorkTreeMayBePlain(t *testing.T) {
	files := secretive(t, "[{name: db, from: secrets/db.yaml}]")
	files["secrets/db.yaml"] = "password: hunter2\n"
	snap := worktree(t, files)
	if got := problemsOf(t, snap); got != nil {
		t.Errorf("problems = %q", got)
	}
	keyOf(t, snap)
	if got := problemsOf(t, committed(t, files)); len(got) != 1 {
		t.Errorf("problems of a commit = %q", got)
	}
}

func TestOneResolverTellsAWorkTreeFromTheSameCommit(t *testing.T) {
	files := secretive(t, "[{name: db, from: secrets/db.yaml}]")
	files["secrets/db.yaml"] = "password: hunter2\n"
	r, tree, commit := New(), worktree(t, files), committed(t, files)
	for range 2 {
		if got, err := r.Validate(t.Context(), load(t, tree), repos{"": tree}); err != nil || len(got) != 0 {
			t.Errorf("work tree: %+v, %v", got, err)
		}
		if got, err := r.Validate(t.Context(), load(t, commit), repos{"": commit}); err != nil || len(got) != 1 {
			t.Errorf("commit: %+v, %v", got, err)
		}
	}
}

func TestPolicyThatIsNoneHoldsServicesWithSecretsOnly(t *testing.T) {
	files := secretive(t, "[{name: db, from: secrets/db.yaml}]")
	files["services/b.yaml"] = service("b", "{source: {path: a}, clusters: {names: [c]}}")
	files[".plural/seal.yaml"] = "kind: Nonsense\n"
	got := problemsOf(t, committed(t, files))
	if len(got) != 1 || !strings.Contains(got[0], "services/a.yaml:7") || !strings.Contains(got[0], ".plural/seal.yaml:1") {
		t.Errorf("problems = %q", got)
	}
	delete(files, ".plural/seal.yaml")
	if got := problemsOf(t, committed(t, files)); len(got) != 1 || !strings.Contains(got[0], "no pattern") {
		t.Errorf("problems without a policy = %q", got)
	}
}

func TestSecretsOfAServiceFromElsewhereAreTheInstallationReposOwn(t *testing.T) {
	files := secretive(t, "[{name: db, from: secrets/db.yaml}]")
	files["sources/up.yaml"] = "apiVersion: plural.sh/v1alpha1\nkind: Source\nmetadata: {name: up}\nspec: {git: {url: 'https://example.com/x'}}\n"
	files["services/a.yaml"] = strings.Replace(files["services/a.yaml"], "{path: a}", "{name: up, path: a}", 1)
	own, up := committed(t, files), worktree(t, map[string]string{"a/x.yaml": "a: 1\n", "secrets/db.yaml": "plain: upstream\n"})
	list, err := For(load(t, own), "c", repos{"": own, "up": up})
	if err != nil || list[0].Hold != nil {
		t.Fatal(err, list[0].Hold)
	}
	if d := list[0]; d.OwnRepository || d.Snapshot != up || d.SecretsSnapshot != own {
		t.Errorf("deployment = %+v", d)
	}
	delete(files, "secrets/db.yaml")
	own = committed(t, files)
	found := mustValidate(t, load(t, own), repos{"": own}) // the source was not fetched yet
	if len(found) != 2 || found[0].Source != "up" || found[1].Source != "" {
		t.Errorf("problems = %+v", found)
	}
}

func TestKeyChangesWithSecretsAndWhatIsMadeOfThem(t *testing.T) {
	const one = "[{name: db, from: secrets/db.yaml}]"
	base := secretive(t, one)
	seen := map[string]string{keyOf(t, committed(t, base)): "base"}
	change := func(file, with string) map[string]string {
		files := maps.Clone(base)
		files[file] = with
		return files
	}
	secrets := func(list string) map[string]string {
		return change("services/a.yaml", strings.Replace(base["services/a.yaml"], one, list, 1))
	}
	for name, files := range map[string]map[string]string{
		"content":      change("secrets/db.yaml", sealedFile(t, "secrets/db.yaml", "password: y\n")),
		"none":         secrets("[]"),
		"name":         secrets("[{name: other, from: secrets/db.yaml}]"),
		"file":         secrets("[{name: db, from: secrets/dir/tls.key}]"),
		"templateOnly": secrets("[{name: db, from: secrets/db.yaml, templateOnly: true}]"),
		"type":         secrets("[{name: db, from: secrets/db.yaml, type: example.com/db}]"),
	} {
		key := keyOf(t, committed(t, files))
		if same, taken := seen[key]; taken {
			t.Errorf("changing the %s gives the key of %s", name, same)
		}
		seen[key] = name
	}
	if key := keyOf(t, committed(t, change("secrets/dir/tls.key", "link:x"))); seen[key] != "base" {
		t.Error("a secret of nobody changed the key")
	}
}

func TestParametersCanNotSeeSecrets(t *testing.T) {
	files := secretive(t, `[{name: db, from: secrets/db.yaml}]
  parameters:
    password: '{{ .secrets.db.password | default "none" }}'`)
	got := problemsOf(t, committed(t, files))
	want := []string{`services/a.yaml:9:15: service a: spec.parameters.password: secrets are known to the agent only on cluster c: ` +
		`use a *.tmpl file in the service's folder, which the agent fills in`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestSealedKustomizationSaysWhoMustReadIt(t *testing.T) {
	files := secretive(t, "[]")
	files["a/kustomization.yaml"] = sealedFile(t, "a/kustomization.yaml", "resources: [x.yaml]\n")
	got := problemsOf(t, committed(t, files))
	if len(got) != 1 || !strings.Contains(got[0], "a/kustomization.yaml") || !strings.Contains(got[0], "it is sealed") {
		t.Errorf("problems = %q", got)
	}
}
