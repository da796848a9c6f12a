package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAClusterOfNoFleetComesAndGoes makes one, reaches it, stops and starts it, and leaves nothing behind.
func TestAClusterOfNoFleetComesAndGoes(t *testing.T) {
	l := alone(t)
	t.Cleanup(func() { // whatever failed before
		_ = l.command(filepath.Join(l.bin, "plural"), "local", "delete", "scratch", "--yes").Run()
	})
	const process = "cluster-scratch"
	create := func() string { // what it prints for programs
		out, err := l.command(filepath.Join(l.bin, "plural"), "local", "create", "scratch", "--nodes", "2").Output()
		if err != nil {
			t.Fatalf("local create: %v\n%s", err, out)
		}
		return string(out)
	}
	made := create()
	config := strings.TrimSpace(made)
	if text, err := os.ReadFile(config); err != nil || l.run("local", "kubeconfig", "scratch") != string(text) {
		t.Fatalf("%q is not its kubeconfig: %v", made, err)
	}
	if p := l.parts()[process]; p.PID == 0 {
		t.Errorf("%+v", p)
	}
	l.run("local", "stop", process)
	if p := l.parts()[process]; p.PID != 0 {
		t.Errorf("it runs on: %+v", p)
	}
	l.run("local", "start", process)
	if again := create(); again != made {
		t.Errorf("made again it is %q, was %q", again, made)
	}
	l.run("local", "delete", "scratch", "--yes")
	if _, err := os.Stat(config); !os.IsNotExist(err) || len(l.parts()) != 0 {
		t.Errorf("left: %v, %v", l.parts(), err)
	}
}
