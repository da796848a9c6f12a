package packages

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// second is another operator's machine, with a clone of the same repo and keys of the first, as a colleague who is a member.
func (w *world) second() *operator {
	w.Helper()
	home := w.TempDir()
	o := &operator{TB: w.TB, home: home, dir: filepath.Join(home, "fleet"), origin: w.origin, kubeconfig: w.kubeconfig}
	o.settle("ada")
	o.run("cp", "-a", w.home+"/.config/plural", home+"/.config/plural")
	o.run("git", "clone", "--quiet", w.origin, o.dir)
	return o
}

func TestOfTwoOperatorsAtOnceOneIsToldWhoDeploysAndNothingIsLost(t *testing.T) {
	w := newWorld(t)
	trace := w.diamond()
	operators := []*operator{w.operator, w.second(), w.second()}
	var group sync.WaitGroup
	said, failed := make([]string, len(operators)), make([]error, len(operators))
	for i, o := range operators {
		group.Go(func() {
			args := append([]string{"deploy", "--yes"}, o.reach()...)
			cmd := o.command(context.WithoutCancel(t.Context()), program(o, "plural"), args...)
			out, err := cmd.CombinedOutput()
			said[i], failed[i] = string(out), err
		})
	}
	group.Wait()
	worked := 0
	for i, err := range failed {
		var exit *exec.ExitError
		switch {
		case err == nil:
			worked++
		case !errors.As(err, &exit) || exit.ExitCode() != 1:
			t.Errorf("operator %d: %v\n%s", i, err, said[i])
		case !strings.Contains(said[i], "ada") && !strings.Contains(said[i], "meanwhile") && !strings.Contains(said[i], "git pull"):
			t.Errorf("operator %d is not told who deploys:\n%s", i, said[i])
		}
	}
	if worked == 0 {
		t.Fatalf("nobody deployed:\n%s", strings.Join(said, "\n\n"))
	}
	w.check("10.0.0.0/8")
	if got := w.traced(trace); len(got) != 1 {
		t.Errorf("terraform made %v", got)
	}
	for _, o := range operators {
		o.run("git", "pull", "--quiet", "--rebase")
		if got := done(o.deploy()); len(got) != 0 {
			t.Errorf("something was lost: %v", got)
		}
	}
}

func TestADeployFromAnOldCloneIsRefused(t *testing.T) {
	w := newWorld(t)
	w.diamond()
	other := w.second()
	w.deploy()
	_, said, err := other.try(program(t, "plural"), append([]string{"deploy", "--yes"}, other.reach()...)...)
	if err == nil || !strings.Contains(said, "git pull") {
		t.Errorf("%v\n%s", err, said)
	}
}

func TestWhatIsNotCommittedIsNotDeployed(t *testing.T) {
	w := newWorld(t)
	w.diamond()
	w.edit("packages/top/payload/app/top.yaml.tmpl", func(s string) string { return s + "# more\n" })
	_, said, err := w.try(program(t, "plural"), append([]string{"deploy", "--yes"}, w.reach()...)...)
	if err == nil || !strings.Contains(said, "packages/top/payload/app/top.yaml.tmpl") || !strings.Contains(said, "git commit") {
		t.Errorf("%v\n%s", err, said)
	}
}

// BenchmarkDeployNoop50Packages is a deploy without changes of fifty packages, of which ten run terraform; it counts what was
// written.
func BenchmarkDeployNoop50Packages(b *testing.B) {
	w := newWorld(b)
	for i := range 50 {
		name := fmt.Sprintf("p%02d", i)
		spec, files := "  version: 1.0.0\n", map[string]string{}
		requires := map[string]string{}
		if i >= 10 {
			below := fmt.Sprintf("p%02d", i-10)
			spec += "  dependencies: [{package: " + below + "}]\n"
			requires[below] = below
		}
		if i < 10 {
			spec += "  steps: [{name: tf, terraform: {path: module, inputs: {i: " + fmt.Sprint(i) + "}}}]\n  outputs: {i: {value: \"${steps.tf.outputs.i}\"}}\n"
			files["module/main.tf"] = "variable \"i\" { type = number }\nresource \"terraform_data\" \"x\" { input = var.i }\noutput \"i\" { value = terraform_data.x.output }\n"
		} else {
			spec += "  steps: [{name: app, manifests: {path: app, namespace: " + w.cluster.Namespace + "}}]\n"
			files["app/a.yaml"] = configMap(name, "i", fmt.Sprint(i))
		}
		w.install(name, spec, files, requires)
	}
	w.commit("Install fifty packages")
	if got := len(done(w.deploy())); got != 50 {
		b.Fatalf("%d steps done", got)
	}
	refs := w.run("git", "ls-remote", w.origin)
	for b.Loop() {
		if got := done(w.deploy()); len(got) != 0 {
			b.Fatal(got)
		}
	}
	writes := 0
	if w.run("git", "ls-remote", w.origin) != refs || w.run("git", "status", "--porcelain") != "" {
		writes++
	}
	//nolint:forbidigo // what make bench reads
	fmt.Printf("bench deploy_noop_50_packages_ms %d ms\nbench deploy_noop_50_packages_writes %d\n",
		b.Elapsed().Milliseconds()/int64(b.N), writes)
}
