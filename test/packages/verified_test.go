package packages

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/test/support/kubetest"
	"github.com/pluralsh/plural/test/support/needs"
)

func TestAHubTurnsToSignedCommitsAloneByOneAnswerAndSignsItsOwn(t *testing.T) {
	needs.Program(t, "ssh-keygen", "openssh-client")
	k := &kept{operator: &operator{TB: t, home: t.TempDir()}, mgmt: kubetest.StartApart(t)}
	k.node = play(t, k.mgmt.RESTConfig)
	k.origin, k.dir = filepath.Join(k.home, "origin.git"), filepath.Join(k.home, "fleet")
	k.kubeconfig = filepath.Join(k.home, "kubeconfig")
	k.contexts(map[string]string{"prod": k.mgmt.Kubeconfig})
	k.settle("ada")
	k.run("git", "init", "--quiet", "--bare", "--initial-branch=main", k.origin)
	k.hub = "http://" + k.node.ServiceAddress("plural-system", "plural-hub", 80)
	k.plural("up", k.dir, "--context", "prod", "--hub-url", k.hub, "--repo-url", "file://"+k.origin, "--yes", "--set", "hub.edits=true",
		"--set", "hub.flags=--allow-file-sources,--allow-loopback,--interval=1s,--poll-interval=1s,--report-interval=2s")
	k.token = k.told("token")

	key := filepath.Join(k.home, "ada")
	k.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ada", "-f", key)
	k.run("git", "config", "gpg.format", "ssh")
	k.run("git", "config", "user.signingKey", key)
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	k.plural("package", "set", "hub", "repoKeys="+strings.TrimSpace(string(public)),
		"repoFloor="+strings.TrimSpace(k.run("git", "rev-parse", "HEAD")), "--yes", "--no-push")
	k.run("git", "commit", "--quiet", "--amend", "--no-edit", "-S")
	k.run("git", "push", "--quiet")
	on := strings.TrimSpace(k.run("git", "rev-parse", "HEAD"))
	until(t, "the hub verifies, and is well", func() bool { return k.runs(on) })

	k.write("services/note.yaml", "apiVersion: plural.sh/v1alpha1\nkind: Service\nmetadata: {name: note}\n"+
		"spec: {source: {path: apps/note}, namespace: default, clusters: {names: [mgmt]}}\n")
	k.write("apps/note/note.yaml", configMap("note", "key", "value"))
	k.commit("Deploy what nobody signed")
	until(t, "it is refused", func() bool {
		var now v1.Status
		if k.get("/v1/status", &now) && now.Commit.ID != on {
			t.Fatalf("%s is served, which nobody signed", now.Commit.ID)
		}
		return slices.ContainsFunc(now.Sources, func(s v1.Source) bool { return strings.Contains(s.Error, "not signed") })
	})
	k.run("git", "commit", "--quiet", "--allow-empty", "-S", "-m", "Vouch for it")
	k.run("git", "push", "--quiet")
	signed := strings.TrimSpace(k.run("git", "rev-parse", "HEAD"))
	until(t, "what ada signed runs", func() bool { return k.runs(signed) })

	own := k.suspend("note")
	until(t, "the hub's own commit is served", func() bool {
		var now v1.Status
		return k.get("/v1/status", &now) && now.Commit.ID == own
	})
	allowed := filepath.Join(k.home, "allowed")
	if err := os.WriteFile(allowed, []byte("hub "+k.told("signing-key.pub")), 0o600); err != nil {
		t.Fatal(err)
	}
	k.run("git", "pull", "--quiet")
	k.run("git", "-c", "gpg.ssh.allowedSignersFile="+allowed, "verify-commit", own)
	if strings.Contains(k.run("git", "log", "--all", "--patch"), "OPENSSH PRIVATE KEY") {
		t.Error("the hub's private key is in git")
	}
}

// runs says whether everything runs as a commit wants it.
func (k *kept) runs(commit string) bool {
	var now v1.Status
	return k.get("/v1/status", &now) && now.Converged() && now.Commit.ID == commit
}

// suspend has the hub commit that a service is suspended.
func (k *kept) suspend(service string) (commit string) {
	k.Helper()
	request, err := http.NewRequestWithContext(k.Context(), http.MethodPost, k.hub+"/v1/services/"+service+"/suspend", strings.NewReader("{}"))
	if err != nil {
		k.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+k.token)
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		k.Fatal(err)
	}
	defer answer.Body.Close()
	var edited v1.Edited
	if err := json.NewDecoder(answer.Body).Decode(&edited); err != nil || answer.StatusCode != http.StatusOK {
		k.Fatalf("suspend %s: %s, %v", service, answer.Status, err)
	}
	return edited.Commit
}
