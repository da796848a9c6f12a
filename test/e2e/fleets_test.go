package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestTwoFleetsOnOneMachineAreToldApart has one fleet down while another is where its hub was, and brings it back with a service that
// cannot run and one that is suspended.
func TestTwoFleetsOnOneMachineAreToldApart(t *testing.T) {
	l := alone(t)
	plural := filepath.Join(l.bin, "plural")
	first, second := filepath.Join(l.home, "first"), filepath.Join(l.home, "second")
	t.Cleanup(func() {
		for _, repo := range []string{first, second} {
			l.run("down", "--yes", repo)
		}
	})
	l.run("up", "--local", "--port", port, "--clusters", only, first)
	l.repo = first
	at := l.manifestField("url")
	l.run("down", "--keep-clusters")
	// refused runs plural in the first repo's services folder, where it has to fail.
	refused := func(args ...string) string {
		t.Helper()
		cmd := l.command(plural, args...)
		cmd.Dir = filepath.Join(first, "services")
		out, err := cmd.CombinedOutput()
		if failed := new(exec.ExitError); !errors.As(err, &failed) {
			t.Errorf("plural %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	says := func(text string, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in:\n%s", want, text)
			}
		}
	}
	says(refused("up", "--local", "inner"), "lies inside the installation repo "+first, "plural up --local "+first)

	l.run("up", "--local", "--port", port, "--clusters", only, second)
	l.repo = second
	others := l.manifestField("url")
	if others == at {
		t.Errorf("the second fleet took the first one's address, %s", at)
	}
	l.repo = first
	manifest, err := os.ReadFile(filepath.Join(first, "plural.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	l.write(map[string]string{
		"plural.yaml":        strings.Replace(string(manifest), at, others, 1), // as if the second had come by the port all the same
		"apps/bad/pod.yaml":  "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: bad}\nspec: {replicas: 1}\n",
		"services/bad.yaml":  service("bad", "apps/bad"),
		"services/rest.yaml": service("rest", "apps/podinfo") + "  suspend: true\n",
	})
	l.git("add", "-A")
	l.git("commit", "-qm", "one that cannot run, one that is suspended")
	for _, command := range [][]string{
		{"status"},
		{"service", "list"},
		{"cluster", "list", "-o", "json"},
		{"service", "set", "podinfo", "replicas=3"},
	} {
		says(refused(command...), "the hub at "+others+" serves another repository", "it serves second, in "+second,
			"plural up --local "+first+" brings this fleet back")
	}

	begun := time.Now()
	told := refused("up", "--local")
	says(told, "port "+others[strings.LastIndex(others, ":")+1:]+" was taken", "not everything is well", "bad on mgmt is failed",
		"fix: plural why bad", "1 suspended")
	if took := time.Since(begun); took > time.Minute || strings.Contains(told, "rest on") {
		t.Errorf("after %s:\n%s", took, told)
	}
	if _, err := os.Stat(filepath.Join(first, "services", "fleet")); err == nil {
		t.Error("there is a fleet inside of the fleet")
	}
	says(l.run("down", "--dry-run"), "it would end agent-mgmt, cluster-mgmt, hub, and delete the clusters with all that is on them")
	says(l.run("status"), "first  ", "bad") // the login is there although the command failed

	l.run("down", "--yes", second)
	hub := l.parts()["hub"].PID
	if err := syscall.Kill(hub, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	says(refused("status", "--timeout", "6s"), "has not answered for 5s")
	if err := syscall.Kill(hub, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}
