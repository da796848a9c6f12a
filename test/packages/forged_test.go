package packages

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// forge puts a record of deployments at the origin that is the one there, with another commit in every step: who may push branches
// and tags may push that too.
func (o *operator) forge(commit string) {
	o.Helper()
	lines := strings.Split(o.record(), "\n")
	for i, line := range lines {
		if at := strings.Index(line, `"commit": "`); at >= 0 {
			lines[i] = line[:at] + `"commit": "` + commit + `",`
		}
	}
	file := filepath.Join(o.home, "record.json")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		o.Fatal(err)
	}
	o.run("git", "fetch", "--quiet", "origin", "refs/plural/deployments")
	o.run("sh", "-c", `set -e
blob=$(git hash-object -w "$1")
tree=$( (git ls-tree FETCH_HEAD | grep -v record.json; printf '100644 blob %s\trecord.json\n' "$blob") | git mktree)
git push -q -f origin "$(git commit-tree -m forged -p FETCH_HEAD "$tree"):refs/plural/deployments"`, "sh", file)
}

// removable installs a module that runs a command when what it made is destroyed, and a chart with an object.
func (o *operator) removable(command, namespace string) {
	o.Helper()
	o.install("net", "  version: 1.0.0\n  steps: [{name: network, terraform: {path: module, allowDestroy: true}}]\n", map[string]string{
		"module/main.tf": `resource "terraform_data" "network" {
  provisioner "local-exec" {
    when    = destroy
    command = "` + command + `"
  }
}
`,
	}, nil)
	o.install("app", "  version: 1.0.0\n  steps: [{name: chart, helm: {path: chart, namespace: "+namespace+"}}]\n", map[string]string{
		"chart/Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.0.0\n", "chart/templates/app.yaml": configMap("app", "is", "there"),
	}, nil)
}

func TestARecordOfCommitsThatAreNotInTheBranchRunsNothingOfThem(t *testing.T) {
	w := newWorld(t)
	w.removable("true", w.cluster.Namespace)
	w.commit("Install two packages")
	w.deploy()
	head := strings.TrimSpace(w.run("git", "rev-parse", "HEAD"))
	trace := filepath.Join(w.home, "owned")

	mallory := w.second()
	mallory.run("git", "checkout", "--quiet", "-b", "feature")
	mallory.removable("touch '"+trace+"'", w.cluster.Namespace)
	mallory.commit("A feature")
	tag := head + "-x" // what git takes for her tag, and who reads no further than an id for a commit of the branch
	mallory.run("git", "tag", tag)
	mallory.run("git", "push", "--quiet", "origin", "refs/tags/"+tag)

	w.run("git", "fetch", "--quiet", "--tags", "origin", "feature")
	untouched := func() {
		t.Helper()
		if w.exists(trace) {
			t.Fatal("her module ran")
		}
	}
	run := append([]string{"deploy", "--yes"}, w.reach()...)
	down := append([]string{"down", "--confirm=fleet"}, w.reach()...)
	mallory.forge(tag)
	for _, args := range [][]string{run, down} {
		w.fails(1, args...).says(t, []string{tag, "is no commit's id"}, nil)
		untouched()
	}
	mallory.forge(strings.TrimSpace(mallory.run("git", "rev-parse", "HEAD")))
	w.fails(1, run...).says(t, []string{"is not in this branch"}, []string{"git pull"})
	untouched()
	told := w.fails(1, down...)
	told.says(t, []string{"net/network", "is not in this branch"}, nil)
	untouched()
	if w.stands("app") || !strings.Contains(told.said, "without its hooks of deletion") {
		t.Errorf("the object of the other package is there: %v\n%s", w.stands("app"), told.said)
	}
	mallory.forge(head)
	w.plural(down...)
	untouched()
}
