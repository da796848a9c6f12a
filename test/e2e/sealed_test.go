package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	v1 "github.com/pluralsh/plural/api/v1"
)

var secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// story is a fleet that begins to seal, with what must never be seen in clear outside the work tree and the clusters of prod.
type story struct {
	*local
	canaries []string
	// controls are no secrets: the hub holds the parameter, hub and agents hold the manifest.
	parameter, manifest string
	// said is all that plural has printed.
	said *bytes.Buffer
}

// TestSealedSecretReachesItsClustersAndNothingElse is the life of a database's password, from somebody's editor to a
// Secret, with everything in between searched for it at the end.
func TestSealedSecretReachesItsClustersAndNothingElse(t *testing.T) {
	canaries := newCanaries(43)
	s := &story{up(t), canaries[:41], canaries[41], canaries[42], new(bytes.Buffer)}
	part := func(name string, test func(*testing.T, *story)) {
		ok := t.Run(name, func(t *testing.T) {
			fleet, own := *s.local, *s
			own.local, fleet.t = &fleet, t
			test(t, &own)
		})
		if !ok {
			t.FailNow() // what follows builds on it
		}
	}
	part("groups follow the clusters' tags", followTags)
	part("an ordinary push brings the secrets to the clusters of prod", pushSecrets)
	part("no plaintext is in the objects that were pushed", pushedIsSealed)
	part("a cluster outside the group fails alone, and says why", outsider)
	part("an error about a secret does not repeat it", errorsHide)
	part("a commit elsewhere changes no key", elsewhere)
	part("a cluster that is deleted opens nothing from then on", deleted)
	part("no canary is on a disk", huntDisks)
	part("no canary is in the hub's memory", huntMemory)
}

// plural runs plural, and keeps what it says.
func (s *story) plural(args ...string) string {
	s.t.Helper()
	out := s.run(args...)
	s.said.WriteString(out)
	return out
}

// followTags makes a group for the clusters of prod. One of them joins since it has the tag already, the other one when it
// has got the tag and is registered anew.
func followTags(t *testing.T, s *story) {
	s.replace("services/podinfo.yaml", `matchLabels:\n\s+env: local`, "matchExpressions: [{key: env, operator: Exists}]")
	for cluster, stage := range map[string]string{"edge-1": "prod", "edge-2": "dev", "mgmt": "dev"} {
		s.replace("clusters/"+cluster+".yaml", "env: local", "env: "+stage)
	}
	s.converged(s.push("Tag the clusters"), timeout)
	s.hasMembers("fleet", 1, "ada", "cluster/edge-1", "cluster/edge-2", "cluster/mgmt")
	s.plural("crypto", "groups", "create", "prod", "--member", "ada", "--cluster-tag", "env=prod",
		"--path", "secrets/prod/**", "--path", "apps/shop/*.secret.yaml", "--yes")
	s.hasMembers("prod", 1, "ada", "cluster/edge-1")

	s.replace("clusters/edge-2.yaml", "env: dev", "env: prod")
	s.push("Take edge-2 to prod")
	kubeconfig := filepath.Join(s.home, "kubeconfig")
	out, err := s.command(filepath.Join(s.bin, "plural"), "local", "kubeconfig", "edge-2").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kubeconfig, out, 0o600); err != nil {
		t.Fatal(err)
	}
	s.plural("cluster", "register", "edge-2", "--kubeconfig", kubeconfig)
	s.hasMembers("prod", 1, "ada", "cluster/edge-1", "cluster/edge-2")
	s.plural("crypto", "doctor")
}

// hasMembers checks a group's epoch and its members, which are given sorted.
func (s *story) hasMembers(name string, epoch int, members ...string) {
	s.t.Helper()
	var group struct {
		Epoch   int      `json:"epoch"`
		Members []string `json:"members"`
	}
	if err := json.Unmarshal([]byte(s.plural("crypto", "groups", "get", name, "-o", "json")), &group); err != nil {
		s.t.Fatal(err)
	}
	slices.Sort(group.Members)
	if group.Epoch != epoch || !slices.Equal(group.Members, members) {
		s.t.Errorf("%s is at epoch %d, of %v; want %d, of %v", name, group.Epoch, group.Members, epoch, members)
	}
}

// db is what secrets/prod/db.yaml holds.
func (s *story) db() map[string]string {
	values := map[string]string{"user": "shop", "password": s.canaries[0], "set": s.canaries[36]}
	for i := 1; i < 36; i++ {
		if i%10 > 2 {
			values[fmt.Sprintf("key-%d", i)] = s.canaries[i]
		}
	}
	return values
}

// api is what secrets/prod/api.env holds: the canaries that need no quotes there.
func (s *story) api() map[string]string {
	values := map[string]string{}
	for i := 1; i < 36; i++ {
		if i%10 <= 2 {
			values[fmt.Sprintf("KEY_%d", i)] = s.canaries[i]
		}
	}
	return values
}

func pushSecrets(t *testing.T, s *story) {
	db := s.db()
	delete(db, "set")
	env := ""
	for key, value := range s.api() {
		env += key + "=" + value + "\n"
	}
	s.write(map[string]string{
		"secrets/prod/db.yaml": encodeYAML(t, db), "secrets/prod/api.env": env, "secrets/prod/tls.key": s.canaries[37],
		"services/shop.yaml":    shop + "  parameters: {control: \"" + s.parameter + "\"}\n",
		"apps/shop/config.yaml": configMap("shop", s.manifest),
		"apps/shop/url.yaml.tmpl": "apiVersion: v1\nkind: Secret\nmetadata:\n  name: url\ndata:\n" +
			"  url: {{ printf \"postgres://%s:%s@db\" .secrets.db.user .secrets.db.password | b64enc | quote }}\n" +
			"  note: {{ index .secrets.note \"note.txt\" | b64enc | quote }}\n",
		"apps/shop/smtp.secret.yaml": "apiVersion: v1\nkind: Secret\nmetadata:\n  name: smtp\nstringData:\n" +
			"  " + encodeYAML(t, map[string]string{"password": s.canaries[38]}),
	})
	s.edit("secrets/prod/note.txt", s.canaries[39])
	commit := s.push("Add a shop with its secrets")
	s.converged(commit, timeout)
	set := s.command(filepath.Join(s.bin, "plural"), "secret", "set", "secrets/prod/db.yaml", "set")
	set.Stdin = strings.NewReader(s.canaries[36] + "\n")
	out, err := set.CombinedOutput()
	if err != nil {
		t.Fatalf("secret set: %v\n%s", err, out)
	}
	s.said.Write(out)
	s.converged(s.git("rev-parse", "HEAD"), timeout)
	if out := s.git("status", "--porcelain"); out != "" {
		t.Errorf("the work tree is not clean:\n%s", out)
	}
	want := map[string]map[string]string{
		"db": s.db(), "api": s.api(), "tls": {"tls.key": s.canaries[37]}, "smtp": {"password": s.canaries[38]},
		"url": {"url": "postgres://shop:" + s.canaries[0] + "@db", "note": s.canaries[39]},
	}
	for _, cluster := range []string{"edge-1", "edge-2"} {
		for name, values := range want {
			if got := s.secret(cluster, name); !maps.Equal(got, values) {
				t.Errorf("%s: secret %s is %q, want %q", cluster, name, got, values)
			}
		}
	}
	if list := s.demoSecrets("mgmt"); len(list) > 0 {
		t.Errorf("mgmt has %v", list)
	}
}

const shop = `apiVersion: plural.sh/v1alpha1
kind: Service
metadata: {name: shop}
spec:
  source: {path: apps/shop}
  namespace: demo
  clusters: {matchLabels: {env: prod}}
  secrets:
  - {name: db, from: secrets/prod/db.yaml}
  - {name: api, from: secrets/prod/api.env}
  - {name: tls, from: secrets/prod/tls.key}
  - {name: note, from: secrets/prod/note.txt, templateOnly: true}
`

func encodeYAML(t testing.TB, values map[string]string) string {
	t.Helper()
	text, err := yaml.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// edit lets plural crypto edit write a file, with a program that copies for an editor.
func (s *story) edit(path, content string) {
	s.t.Helper()
	draft := filepath.Join(s.home, "draft")
	if err := os.WriteFile(draft, []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
	cmd := s.command(filepath.Join(s.bin, "plural"), "crypto", "edit", path)
	cmd.Env = append(cmd.Env, "VISUAL=cp "+draft)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("crypto edit: %v\n%s", err, out)
	}
	s.said.Write(out)
	if err := os.Remove(draft); err != nil {
		s.t.Fatal(err)
	}
}

// secret is what a Secret of the namespace demo holds, nil when there is none.
func (s *story) secret(cluster, name string) map[string]string {
	s.t.Helper()
	object, err := s.kube(cluster).Resource(secrets).Namespace("demo").Get(s.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	return decoded(s.t, object)
}

func decoded(t testing.TB, object *unstructured.Unstructured) map[string]string {
	t.Helper()
	data, _, err := unstructured.NestedStringMap(object.Object, "data")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for key, text := range data {
		value, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		values[key] = string(value)
	}
	return values
}

func (s *story) demoSecrets(cluster string) []string {
	s.t.Helper()
	list, err := s.kube(cluster).Resource(secrets).Namespace("demo").List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].GetName())
	}
	return names
}

func pushedIsSealed(t *testing.T, s *story) {
	for _, path := range strings.Fields(s.git("ls-tree", "-r", "--name-only", "origin/main", "secrets", "apps/shop/smtp.secret.yaml")) {
		if text := s.git("cat-file", "blob", "origin/main:"+path); !strings.HasPrefix(text, "age-encryption.org/v1\n") {
			t.Errorf("%s is pushed as %.60q", path, text)
		}
		if text, err := os.ReadFile(filepath.Join(s.repo, path)); err != nil || bytes.HasPrefix(text, []byte("age-")) {
			t.Errorf("%s is %.60q in the work tree: %v", path, text, err)
		}
	}
	s.plural("crypto", "status", "--check")
}

func outsider(t *testing.T, s *story) {
	good := s.git("rev-parse", "HEAD")
	s.write(map[string]string{
		"services/greedy.yaml": "apiVersion: plural.sh/v1alpha1\nkind: Service\nmetadata: {name: greedy}\nspec:\n  source: {path: apps/greedy}\n" +
			"  namespace: demo\n  clusters: {matchExpressions: [{key: env, operator: Exists}]}\n  secrets: [{name: greedy, from: secrets/prod/db.yaml}]\n",
		"apps/greedy/config.yaml.tmpl": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: greedy}\ndata: {length: \"{{ len .secrets.greedy.password }}\"}\n",
	})
	commit := s.push("Ask for the password everywhere")
	var status *v1.Status
	s.eventually("the service fails on mgmt, and runs on the others", timeout, func() bool {
		status = s.status()
		return status != nil && status.Commit.ID == commit && len(status.Unhealthy) == 1 && status.Unhealthy[0].Phase == v1.Failed
	})
	bad := status.Unhealthy[0]
	if bad.Service != "greedy" || bad.Cluster != "mgmt" || status.Deployments[v1.Healthy] != status.Deployments.Total()-1 {
		t.Errorf("status is %+v", status)
	}
	for _, word := range []string{"secrets/prod/db.yaml", "prod", "plural crypto share cluster/mgmt --group prod"} {
		if !strings.Contains(fmt.Sprintf("%+v", bad), word) {
			t.Errorf("nothing says %q: %+v", word, bad)
		}
	}
	for _, args := range [][]string{{"status"}, {"service", "get", "greedy"}, {"cluster", "get", "mgmt"}, {"service", "list"}} {
		s.plural(args...)
		s.plural(append(args, "-o", "json")...)
	}
	if list := s.demoSecrets("mgmt"); len(list) > 0 {
		t.Errorf("mgmt has %v", list)
	}
	for _, cluster := range []string{"edge-1", "edge-2"} {
		if got := s.secret(cluster, "greedy"); !maps.Equal(got, s.db()) {
			t.Errorf("%s: the secret is %q", cluster, got)
		}
	}
	for cluster, can := range map[string]bool{"edge-1": true, "edge-2": true, "mgmt": false} {
		if s.canOpen(cluster, "secrets/prod/db.yaml") != can {
			t.Errorf("that %s opens the password is %v", cluster, !can)
		}
	}
	s.git("revert", "--no-edit", "HEAD")
	s.git("push", "-q", "origin", "HEAD")
	s.converged(s.git("rev-parse", "HEAD"), timeout)
	if diff := s.git("diff", "--stat", good, "HEAD"); diff != "" {
		t.Errorf("after the revert:\n%s", diff)
	}
}

// canOpen says whether a cluster's key opens a pushed file, with the help of everything else that was pushed: every age
// file that it opens and that holds an identity gives it one more key.
func (s *story) canOpen(cluster, path string) bool {
	s.t.Helper()
	object, err := s.kube(cluster).Resource(secrets).Namespace("plural-system").Get(s.t.Context(), "plural-agent", metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	own, err := age.ParseX25519Identity(decoded(s.t, object)["age-key"])
	if err != nil {
		s.t.Fatal(err)
	}
	locked := map[string][]byte{}
	for _, name := range strings.Fields(s.git("ls-tree", "-r", "--name-only", "origin/main", ".plural", path)) {
		out, err := s.command("git", "cat-file", "blob", "origin/main:"+name).Output()
		if err != nil {
			s.t.Fatal(err)
		}
		locked[name] = out
	}
	ids := []age.Identity{own}
	for more := true; more; {
		more = false
		for name, text := range locked {
			opened, err := age.Decrypt(bytes.NewReader(text), ids...)
			if err != nil {
				continue
			}
			delete(locked, name)
			if found, err := age.ParseIdentities(opened); err == nil {
				ids, more = append(ids, found...), true
			}
		}
	}
	_, shut := locked[path]
	return !shut
}

func elsewhere(t *testing.T, s *story) {
	keys, downloads := s.shopKeys(), s.metric("plural_hub_bundle_requests_total")
	s.write(map[string]string{"docs/notes.md": "nothing that runs\n", "secrets/other.yaml": "of: nobody's service\n"})
	s.converged(s.push("Write notes, and a secret that no service uses"), timeout)
	if now := s.shopKeys(); !slices.Equal(keys, now) || len(keys) != 2 {
		t.Errorf("keys were %v, are %v", keys, now)
	}
	if now := s.metric("plural_hub_bundle_requests_total"); now != downloads {
		t.Errorf("%v bundles were downloaded", now-downloads)
	}
}

func (s *story) shopKeys() []string {
	s.t.Helper()
	return strings.Fields(s.run("service", "get", "shop", "--jq", ".deployments[].key"))
}

func deleted(t *testing.T, s *story) {
	before := s.secret("edge-2", "db")
	s.plural("cluster", "delete", "edge-2", "--confirm", "edge-2")
	s.converged(s.git("rev-parse", "HEAD"), timeout)
	s.hasMembers("prod", 2, "ada", "cluster/edge-1")
	s.plural("crypto", "status", "--check")
	if out := s.git("status", "--porcelain"); out != "" {
		t.Errorf("the work tree is not clean:\n%s", out)
	}
	if s.canOpen("edge-2", "secrets/prod/db.yaml") {
		t.Error("edge-2 opens what was sealed after it was deleted")
	}
	values := s.db()
	values["password"] = s.canaries[40]
	s.write(map[string]string{"secrets/prod/db.yaml": encodeYAML(t, values)})
	s.converged(s.push("Change the password"), timeout)
	if got := s.secret("edge-1", "db"); !maps.Equal(got, values) {
		t.Errorf("edge-1: the secret is %q", got)
	}
	if got := s.secret("edge-1", "url")["url"]; got != "postgres://shop:"+s.canaries[40]+"@db" {
		t.Errorf("edge-1: the URL is %q", got)
	}
	if got := s.secret("edge-2", "db"); !maps.Equal(got, before) {
		t.Errorf("edge-2: the secret was %q, is %q", before, got)
	}
}

// origin is the folder of the repository that the fleet pushes to.
func (s *story) origin() string {
	return strings.TrimPrefix(s.git("remote", "get-url", "origin"), "file://")
}
