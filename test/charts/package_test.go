package charts

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Who installs an agent looks at the cluster, and writes down what is there; the same repo renders the same from then on.
func TestTheAgentHasAVolumeWhereItsClusterOrItsAnswersSaySo(t *testing.T) {
	plural := filepath.Join(binaries(t), "plural")
	home := t.TempDir()
	dir := filepath.Join(home, "fleet")
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "HOME="+home, "GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com",
			"GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com", "NO_COLOR=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	save := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		run("git", "-C", dir, "add", "-A")
		run("git", "-C", dir, "commit", "-q", "-m", "Change")
	}
	run(plural, "init", dir, "--name", "fleet", "--no-seal", "--no-input")
	const cluster = "apiVersion: plural.sh/v1alpha1\nkind: Cluster\nmetadata: {name: NAME}\nspec: {parameters: {PARAMETERS}}\n"
	for name, parameters := range map[string]string{
		"with": `agentPersistence: "true"`, "without": `agentPersistence: "false"`, "unknown": "",
	} {
		save("clusters/"+name+".yaml", strings.NewReplacer("NAME", name, "PARAMETERS", parameters).Replace(cluster))
	}
	run(plural, "-C", dir, "package", "add", "agent", "--clusters", "with,without,unknown", "--no-push", "--yes")
	volumes := func(answers string, want map[string]bool) {
		t.Helper()
		for name, volume := range want {
			rendered := run(plural, "-C", dir, "render", "agent", "--cluster", name)
			if got := strings.Contains(rendered, "kind: PersistentVolumeClaim"); got != volume {
				t.Errorf("%s, cluster %s: a claim: %v", answers, name, got)
			}
		}
	}
	volumes("nothing answered", map[string]bool{"with": true, "without": false, "unknown": false})
	run(plural, "-C", dir, "package", "set", "agent", "persistence=false", "--no-push", "--yes")
	volumes("false", map[string]bool{"with": false, "without": false, "unknown": false})
	save("packages/agent/values.yaml", "persistence: true\n") // as it was written while the question was a bool
	run(plural, "-C", dir, "package", "set", "agent", "memory=600Mi", "--no-push", "--yes")
	volumes("true", map[string]bool{"with": true, "without": true, "unknown": true})
}
