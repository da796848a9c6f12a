package kubetest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

const (
	programVariable = "PLURAL_LOCALKUBE"
	modulePath      = "github.com/pluralsh/plural"
)

var errNoProgram = errors.New("no localkube program: run make build, or set " + programVariable + " to its path")

// findProgram looks where the environment says, then in bin/ of the repository, then on the PATH.
func findProgram() (string, error) {
	if path := os.Getenv(programVariable); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%w (it is %q)", errNoProgram, path)
		}
		return path, nil
	}
	if root, ok := repositoryRoot(); ok {
		if path, err := exec.LookPath(filepath.Join(root, "bin", "localkube")); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath("localkube")
	if err != nil {
		return "", errNoProgram
	}
	return path, nil
}

// repositoryRoot is the folder of our go.mod at or above the working folder, which is the
// package's own while tests run.
func repositoryRoot() (string, bool) {
	dir, err := os.Getwd()
	if err != nil {
		return "", false
	}
	for {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(content, []byte("module "+modulePath+"\n")) {
			return dir, true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}
		dir = parent
	}
}
