package cluster

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"filippo.io/age"

	"github.com/pluralsh/plural/agent/identity"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/test/support/kubetest"
	"github.com/pluralsh/plural/workspace/sealcheck"
	"github.com/pluralsh/plural/workspace/snapshot"
)

const repositoryID = "3f0c0123456789abcdef0123456789ab"

const header = "apiVersion: plural.sh/v1alpha1\n"

const sealYAML = header + `kind: Seal
metadata: {name: seal}
spec:
  repository: ` + repositoryID + `
  groups:
  - {name: prod, clusters: {matchLabels: {env: prod}}}
  - {name: far, clusters: {matchLabels: {env: prod}}}
  paths:
  - {pattern: "secrets/**", groups: [prod]}
  - {pattern: "people/**", groups: [people]}
`

// world is an installation repo with an origin, as alice sees it. Her clone has no filter, so it holds ciphertext.
type world struct {
	t           *testing.T
	dir         string
	env         map[string]string
	out, errOut *bytes.Buffer
	// keys are private halves by name.
	keys map[string]*age.X25519Identity
}

func newWorld(t *testing.T, isSealed bool) *world {
	t.Helper()
	w := &world{
		t: t, dir: filepath.Join(t.TempDir(), "repo"), env: map[string]string{}, out: new(bytes.Buffer), errOut: new(bytes.Buffer),
		keys: map[string]*age.X25519Identity{},
	}
	for _, name := range []string{"alice", "bob", "edge-1", "edge-2"} {
		id, err := age.GenerateX25519Identity()
		if err != nil {
			t.Fatal(err)
		}
		w.keys[name] = id
	}
	w.env["PLURAL_IDENTITY"], w.env["PLURAL_CONFIG_DIR"] = w.keys["alice"].String(), t.TempDir()
	w.git(".", "init", "-q", "-b", "main", w.dir)
	w.git(".", "init", "-q", "--bare", "-b", "main", w.dir+".origin")
	w.git(w.dir, "remote", "add", "origin", w.dir+".origin")
	w.write(map[string]string{
		"plural.yaml":          header + "kind: Workspace\nmetadata: {name: demo}\nspec: {hub: {url: \"https://hub.example.com\"}}\n",
		"clusters/edge-1.yaml": w.cluster("edge-1"), "clusters/edge-2.yaml": w.cluster("edge-2"), "README.md": "hello\n",
	})
	if isSealed {
		w.seal()
	}
	w.git(w.dir, "add", "-A")
	w.git(w.dir, "commit", "-q", "-m", "begin")
	w.git(w.dir, "push", "-q", "-u", "origin", "main")
	return w
}

func (w *world) cluster(name string) string {
	return header + "kind: Cluster\nmetadata: {name: " + name + "}\nspec:\n  tags: {env: prod}\n  agent: {age: " + w.keys[name].Recipient().String() + "}\n"
}

func (w *world) clusterKey(name string) (string, error) {
	return w.keys[name].Recipient().String(), nil
}

// seal makes the group prod of alice with both clusters, the groups people of alice and far of bob, and two sealed files.
func (w *world) seal() {
	w.t.Helper()
	person := func(name string) groups.Member { return groups.Member{Kind: groups.Person, Name: name} }
	cluster := func(name string) groups.Member { return groups.Member{Kind: groups.Cluster, Name: name} }
	files := map[string]string{".plural/seal.yaml": sealYAML}
	for _, name := range []string{"alice", "bob"} {
		files[groups.PersonFile(name)] = w.keys[name].Recipient().String() + "\n"
	}
	for name, members := range map[string][]groups.Member{
		"prod": {person("alice"), cluster("edge-1"), cluster("edge-2")}, "people": {person("alice")}, "far": {person("bob")},
	} {
		changes, err := load(w.t, files).Create(repositoryID, name, members, groups.CreateOptions{ClusterKey: w.clusterKey})
		if err != nil {
			w.t.Fatal(err)
		}
		for path, text := range changes {
			files[path] = string(text)
		}
	}
	set := load(w.t, files)
	for path, name := range map[string]string{"secrets/db.yaml": "prod", "people/notes.txt": "people"} {
		group, _ := set.Group(name)
		b := seal.Binding{Repository: repositoryID, Path: path, Groups: []seal.Epoch{{Group: name, Number: 1}}}
		data, err := seal.Seal([]byte("password: x\n"), b, group.Recipient.Recipient)
		if err != nil {
			w.t.Fatal(err)
		}
		files[path] = string(data)
	}
	w.write(files)
	p, err := policy.Parse([]byte(sealYAML))
	if err != nil {
		w.t.Fatal(err)
	}
	keys := map[string]string{"edge-1": w.keys["edge-1"].Recipient().String(), "edge-2": w.keys["edge-2"].Recipient().String()}
	if err := w.factory().Confirmed().Confirm(repositoryID, set.Statement(p).WithKeys(keys)); err != nil {
		w.t.Fatal(err)
	}
}

func load(t *testing.T, files map[string]string) *groups.Set {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	set, err := groups.Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func (w *world) factory() *cmdutil.Factory {
	return &cmdutil.Factory{
		Globals: cmdutil.Globals{Dir: w.dir, NoInput: true}, Now: time.Now,
		IO:     &ui.Streams{In: strings.NewReader(""), Out: w.out, ErrOut: w.errOut},
		Getenv: func(name string) string { return w.env[name] },
	}
}

// plural runs `plural cluster ARGS`.
func (w *world) plural(args ...string) error {
	w.t.Helper()
	w.out.Reset()
	w.errOut.Reset()
	cmd := NewCmdCluster(w.factory())
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	return cmd.ExecuteContext(w.t.Context())
}

func (w *world) git(dir string, args ...string) string {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.t.TempDir(), "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=ann", "GIT_AUTHOR_EMAIL=ann@example.com", "GIT_COMMITTER_NAME=ann", "GIT_COMMITTER_EMAIL=ann@example.com",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (w *world) write(files map[string]string) {
	w.t.Helper()
	for name, text := range files {
		path := filepath.Join(w.dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
}

// pushed is the tree that origin holds.
func (w *world) pushed() *snapshot.Snapshot {
	w.t.Helper()
	w.git(w.dir, "fetch", "-q", "origin")
	snap, err := snapshot.Open(w.dir, w.git(w.dir, "rev-parse", "origin/main"))
	if err != nil {
		w.t.Fatal(err)
	}
	return snap
}

// canOpen says whether a cluster opens a file with what the repository holds for it.
func (w *world) canOpen(files fs.FS, cluster string, id age.Identity, path string) bool {
	w.t.Helper()
	set, err := groups.Load(files)
	if err != nil {
		w.t.Fatal(err)
	}
	list, err := set.Envelopes(groups.Member{Kind: groups.Cluster, Name: cluster})
	if err != nil {
		w.t.Fatal(err)
	}
	ring, err := groups.OpenEnvelopes(repositoryID, list, id)
	if err != nil {
		return false
	}
	key, err := ring.Identity("prod", 0)
	if err != nil {
		return false
	}
	data, err := fs.ReadFile(files, path)
	if err != nil {
		w.t.Fatal(err)
	}
	plaintext, binding, err := seal.Open(data, key)
	return err == nil && binding.Check(repositoryID, path) == nil && string(plaintext) == "password: x\n"
}

// state is all that a command must leave alone when it does nothing.
func (w *world) state() string {
	w.t.Helper()
	confirmed, err := w.factory().Confirmed().Confirmed(repositoryID)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.git(w.dir, "rev-parse", "HEAD", "origin/main") + w.git(w.dir, "status", "--porcelain") + string(confirmed)
}

func TestRemovalsTheHubCannotCheckAreShownByWhatAnAgreementSays(t *testing.T) {
	for agreement, unchecked := range map[string]bool{"77aa77aa77aa": false, "77aa77aa77aa@edge-1": true} {
		var out strings.Builder
		waiting := &v1.Waiting{Token: "77aa77aa77aa", Unchecked: unchecked, Count: 2, Names: []string{"db"}}
		held(&out, &v1.Cluster{Name: "edge-1", Held: waiting})
		if want := "waits for an agreement: 2 services (" + agreement + ")\n"; !strings.Contains(out.String(), want) {
			t.Errorf("got\n%swant %s", out.String(), want)
		}
	}
}

func TestDeletedClusterReadsNothingThatIsSealedFromThenOn(t *testing.T) {
	w := newWorld(t, true)
	before, err := fs.ReadFile(w.pushed().FS(), "people/notes.txt")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.plural("delete", "edge-1", "--confirm=edge-1", "--wait=false", "-m", "goodbye"); err != nil {
		t.Fatal(err)
	}
	snap := w.pushed()
	files := snap.FS()
	if _, err := fs.Stat(files, "clusters/edge-1.yaml"); err == nil {
		t.Error("the cluster's file is still there")
	}
	if w.canOpen(files, "edge-1", w.keys["edge-1"], "secrets/db.yaml") {
		t.Error("the deleted cluster opens what is sealed")
	}
	if !w.canOpen(files, "edge-2", w.keys["edge-2"], "secrets/db.yaml") {
		t.Error("the other cluster no longer opens what is sealed")
	}
	if after, err := fs.ReadFile(files, "people/notes.txt"); err != nil || !bytes.Equal(before, after) {
		t.Error("a file of another group was touched")
	}
	if problems, err := sealcheck.New().Check(t.Context(), snap); err != nil || len(problems) > 0 {
		t.Errorf("the hub refuses it: %+v, %v", problems, err)
	}
	if status := w.git(w.dir, "status", "--porcelain"); status != "" {
		t.Errorf("git status says\n%s", status)
	}
	if subject := snap.Commit().Subject; subject != "goodbye" || w.git(w.dir, "rev-list", "--count", "HEAD") != "2" {
		t.Errorf("committed %q", subject)
	}
	for _, want := range []string{"stays running", "secrets/db.yaml", "history"} {
		if !strings.Contains(w.errOut.String(), want) {
			t.Errorf("said nothing of %q:\n%s", want, w.errOut)
		}
	}
}

func TestDeleteThatIsRefusedChangesNothing(t *testing.T) {
	w := newWorld(t, true)
	w.write(map[string]string{
		"clusters/two.yaml":   strings.ReplaceAll(w.cluster("edge-1")+"---\n"+w.cluster("edge-2"), "edge-", "two-"),
		"clusters/pets.yaml":  strings.Replace(w.cluster("edge-1"), "edge-1", "pets", 1),
		"services/named.yaml": header + "kind: Service\nmetadata: {name: named}\nspec: {source: {path: a}, clusters: {names: [pets]}}\n",
	})
	w.git(w.dir, "add", "-A")
	w.git(w.dir, "commit", "-q", "-m", "more")
	before := w.state()
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"nobody to ask":  {[]string{"edge-1"}, "--confirm"},
		"another name":   {[]string{"edge-1", "--confirm=edge-2"}, "nothing was changed"},
		"unknown":        {[]string{"edge-9", "--confirm=edge-9"}, `no cluster "edge-9"`},
		"no name":        {[]string{"../edge-1", "--confirm=../edge-1"}, "cluster"},
		"named":          {[]string{"pets", "--confirm=pets"}, "still named elsewhere"},
		"not alone":      {[]string{"two", "--confirm=two"}, "second document"},
		"dry-run":        {[]string{"edge-1", "--dry-run"}, ""},
		"dry-run, named": {[]string{"pets", "--dry-run"}, "still named elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			err := w.plural(append([]string{"delete"}, test.args...)...)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want %q", err, test.want)
			}
			if after := w.state(); after != before {
				t.Errorf("something changed:\n%s", after)
			}
		})
	}
}

func TestDryRunOfDeleteListsWhatWouldBeDone(t *testing.T) {
	w := newWorld(t, true)
	if err := w.plural("delete", "edge-1", "--dry-run"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"remove clusters/edge-1.yaml", "remove .plural/groups/prod/members/clusters/edge-1.age", "seal again secrets/db.yaml",
		"write .plural/groups/prod/recipient.txt",
	} {
		if !strings.Contains(strings.Join(strings.Fields(w.out.String()), " "), want) {
			t.Errorf("nothing of %q:\n%s", want, w.out)
		}
	}
}

func TestDeleteWithoutACommitLeavesItToThePerson(t *testing.T) {
	w := newWorld(t, true)
	head := w.git(w.dir, "rev-parse", "HEAD")
	if err := w.plural("delete", "edge-1", "--confirm=edge-1", "--no-commit"); err != nil {
		t.Fatal(err)
	}
	if w.git(w.dir, "rev-parse", "HEAD") != head {
		t.Error("there is a commit")
	}
	w.git(w.dir, "add", "-A")
	w.git(w.dir, "commit", "-q", "-m", "mine")
	w.git(w.dir, "push", "-q")
	snap := w.pushed()
	if problems, err := sealcheck.New().Check(t.Context(), snap); err != nil || len(problems) > 0 {
		t.Errorf("the hub refuses it: %+v, %v", problems, err)
	}
	if w.canOpen(snap.FS(), "edge-1", w.keys["edge-1"], "secrets/db.yaml") || !w.canOpen(snap.FS(), "edge-2", w.keys["edge-2"], "secrets/db.yaml") {
		t.Error("the wrong cluster opens what is sealed")
	}
}

func TestDeleteWhereNothingIsSealedRemovesTheFile(t *testing.T) {
	w := newWorld(t, false)
	if err := w.plural("delete", "edge-1", "--confirm=edge-1", "--wait=false"); err != nil {
		t.Fatal(err)
	}
	if _, err := fs.Stat(w.pushed().FS(), "clusters/edge-1.yaml"); err == nil {
		t.Error("the file is still there")
	}
	if w.pushed().Commit().Subject != "Delete cluster edge-1" {
		t.Errorf("committed %q", w.pushed().Commit().Subject)
	}
}

func TestRegisteredClusterOpensWhatItsTagsSelect(t *testing.T) {
	w, kube := newWorld(t, true), kubetest.Start(t)
	for round, args := range [][]string{{"--tag", "env=prod"}, {}} { // the second time it has a file, and gets fresh keys
		if err := w.plural(append([]string{"register", "edge-3", "--kubeconfig", kube.Kubeconfig}, args...)...); err != nil {
			t.Fatal(err)
		}
		r, err := identity.Read(context.WithoutCancel(t.Context()), kube.Dynamic)
		if err != nil {
			t.Fatal(err)
		}
		if r.Repository != repositoryID {
			t.Errorf("the agent holds what it opens to %q", r.Repository)
		}
		_, private := r.Identity.Private()
		id, err := age.ParseX25519Identity(private)
		if err != nil {
			t.Fatal(err)
		}
		snap := w.pushed()
		if !w.canOpen(snap.FS(), "edge-3", id, "secrets/db.yaml") {
			t.Errorf("round %d: the cluster does not open what is sealed for its group", round)
		}
		if problems, err := sealcheck.New().Check(t.Context(), snap); err != nil || len(problems) > 0 {
			t.Errorf("the hub refuses it: %+v, %v", problems, err)
		}
		changed := strings.Fields(w.git(w.dir, "show", "--name-only", "--format=", "HEAD"))
		if want := []string{".plural/groups/prod/members/clusters/edge-3.age", "clusters/edge-3.yaml"}; !slices.Equal(changed, want) {
			t.Errorf("the commit has %q", changed)
		}
		if !strings.Contains(w.errOut.String(), "plural crypto share cluster/edge-3 --group far") {
			t.Errorf("said nothing of the group that alice is not in:\n%s", w.errOut)
		}
	}
}

func TestClusterThatNoGroupSelectsGetsNoEnvelope(t *testing.T) {
	w, kube := newWorld(t, true), kubetest.Start(t)
	if err := w.plural("register", "lab-1", "--kubeconfig", kube.Kubeconfig, "--tag", "env=lab"); err != nil {
		t.Fatal(err)
	}
	if changed := strings.Fields(w.git(w.dir, "show", "--name-only", "--format=", "HEAD")); !slices.Equal(changed, []string{"clusters/lab-1.yaml"}) {
		t.Errorf("the commit has %q", changed)
	}
}

func TestNobodyIsRegisteredBeforeTheGroupsAreConfirmed(t *testing.T) {
	w := newWorld(t, true)
	w.write(map[string]string{groups.PersonFile("mallory"): w.keys["bob"].Recipient().String() + "\n"})
	before := w.state()
	err := w.plural("register", "edge-3", "--kubeconfig", "/nonexistent", "--tag", "env=prod")
	if err == nil || !strings.Contains(err.Error(), "mallory") || w.state() != before {
		t.Errorf("error = %v", err)
	}
}
