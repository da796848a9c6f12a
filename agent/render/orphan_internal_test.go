package render

import (
	"os"
	"os/exec"
	"testing"
	"testing/fstest"
	"time"
)

func TestOrphanedChildEndsWithItsParentsPipe(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), program, "render-child")
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	loop := fstest.MapFS{"x.yaml.tmpl": {Data: []byte("{{ range until 1000000 }}{{ range until 1000000 }}{{ end }}{{ end }}")}}
	if err := send(stdin, true, Limits{}.orDefaults(), request{Renderer: Raw, Path: "."}, Input{Files: loop}); err != nil {
		t.Fatal(err)
	}
	// What closes when a parent dies.
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		_ = child.Process.Kill()
		t.Fatalf("the child still runs: %v", <-ended)
	}
}
