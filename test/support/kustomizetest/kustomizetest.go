// Package kustomizetest owns the kustomize that tests compare with.
package kustomizetest

import (
	"context"
	"errors"
	"fmt"
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

// BuildWithHelm is what `kustomize build --enable-helm` prints for a folder. It reaches for whatever the folder names, and keeps
// the charts that it pulls beside it.
func BuildWithHelm(ctx context.Context, dir string) ([]byte, error) {
	command, helm := program(ctx), Helm()
	if helm == "" || len(command) == 0 || command[0] == "kubectl" {
		return nil, fmt.Errorf("%w .tools/helm", ErrMissing)
	}
	build := exec.CommandContext(ctx, command[0], "build", "--enable-helm", "--helm-command", helm, dir)
	build.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "KUBECONFIG=/dev/null")
	return build.Output()
}

// Helm is the helm program that `make test` builds; empty where it is missing.
func Helm() string {
	if built := tool("helm"); exists(built) {
		return built
	}
	return ""
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// tool is where make builds a program.
func tool(name string) string {
	_, here, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(here), "..", "..", "..", ".tools", name)
}

func program(ctx context.Context) []string {
	if built := tool("kustomize"); exists(built) {
		return []string{built, "build"}
	}
	// Debian's kubectl prints what kustomize did years ago.
	version, err := exec.CommandContext(ctx, "kubectl", "version", "--client").Output()
	if err == nil && strings.Contains(string(version), "Kustomize Version: v5") {
		return []string{"kubectl", "kustomize"}
	}
	return nil
}
