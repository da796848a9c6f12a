package guide

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/test/support/needs"
)

// shell is a reader's terminal in a fresh home: its folder and its variables stay from command to command.
type shell struct {
	t            *testing.T
	home         string
	env          []string
	replacements [][2]string
	// credentials are those of the reader's git.
	credentials string
}

const (
	// patience is how long a command may take.
	patience = 4 * time.Minute
	// coming is how long what a command looks at may take to come about.
	coming = 2 * time.Minute
)

// newShell makes an empty home, in which git knows nobody; the programs are on PATH.
func newShell(t *testing.T) *shell {
	t.Helper()
	for _, name := range []string{"git", "kubectl", "age-keygen"} { // what pages have their reader run besides
		needs.Program(t, name, name)
	}
	needs.Terraform(t)
	s := &shell{t: t, home: t.TempDir()}
	s.env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, "PLURAL_") && name != "PLURAL_TERRAFORM" || strings.HasPrefix(name, "XDG_") ||
			strings.HasPrefix(name, "GIT_") || name == "EMAIL" ||
			slices.Contains([]string{"HOME", "PATH", "KUBECONFIG"}, name)
	}),
		"HOME="+s.home, "PATH="+filepath.Dir(program(t, "plural"))+":"+os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1",
		"CI=1", "NO_COLOR=1", "GH_FORCE_TTY=140", // tables as terminals have them, and nobody who could be asked
		"KUBECONFIG="+filepath.Join(s.home, ".kube", "config"),
	)
	return s
}

// program is the path of one of the built programs. They are what is tested, so they have to be there.
func program(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "bin", name))
	if err != nil {
		t.Fatal(err)
	}
	return needs.Program(t, path, "make build")
}

// write writes a file, by its path from the home.
func (s *shell) write(name, text string) {
	s.t.Helper()
	file := filepath.Join(s.home, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// here puts what is here in the place of what pages call by other names.
func (s *shell) here(text string) string {
	for _, r := range s.replacements {
		text = strings.ReplaceAll(text, r[0], r[1])
	}
	return text
}

// folder is where the shell is, as a path from the home.
func (s *shell) folder() string {
	text, err := os.ReadFile(filepath.Join(s.home, ".shell", "folder"))
	if errors.Is(err, os.ErrNotExist) {
		return "."
	}
	if err != nil {
		s.t.Fatal(err)
	}
	from, err := filepath.Rel(s.home, strings.TrimSpace(string(text)))
	if err != nil {
		s.t.Fatal(err)
	}
	return from
}

// script runs a command where the last one left the shell.
const script = `
mkdir -p "$HOME/.shell"
cd "$(cat "$HOME/.shell/folder" 2>/dev/null || echo "$HOME")" || exit
if [ -e "$HOME/.shell/variables" ]; then . "$HOME/.shell/variables"; fi
eval "$1"
code=$?
pwd > "$HOME/.shell/folder"
export -p > "$HOME/.shell/variables"
exit $code
`

// run runs a command, and gives what it printed.
func (s *shell) run(command string) (printed string, err error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, needs.Program(s.t, "bash", "bash"), "-c", script, "shell", s.here(command))
	cmd.Env, cmd.Dir = s.env, s.home
	cmd.WaitDelay = 10 * time.Second // what goes on in the background has the pipe too
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	return out.String(), err
}
