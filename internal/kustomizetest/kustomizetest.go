// Package kustomizetest owns the program that tests compare kustomize's output with: somebody else's.
package kustomizetest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// ErrMissing says that this machine has nothing to compare with. Under CI that is a failure, elsewhere a test says so
// and skips.
var ErrMissing = errors.New("neither .tools/kustomize nor a kubectl with kustomize v5 is here: make .tools/kustomize")

// Build is what `kubectl kustomize` prints for a folder, or the kustomize program that `make test` builds.
func Build(ctx context.Context, dir string) ([]byte, error) {
	command := program(ctx)
	if command == nil {
		return nil, ErrMissing
	}
	return exec.CommandContext(ctx, command[0], append(command[1:], dir)...).Output()
}

func program(ctx context.Context) []string {
	_, here, _, _ := runtime.Caller(0)
	built := filepath.Join(filepath.Dir(here), "..", "..", ".tools", "kustomize")
	if _, err := os.Stat(built); err == nil {
		return []string{built, "build"}
	}
	// Debian's kubectl prints what kustomize did years ago.
	version, err := exec.CommandContext(ctx, "kubectl", "version", "--client").Output()
	if err == nil && strings.Contains(string(version), "Kustomize Version: v5") {
		return []string{"kubectl", "kustomize"}
	}
	return nil
}
