package cryptocmd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/crypto/gitcmd"
	"github.com/pluralsh/plural/crypto/gitsetup"
)

// Program is the absolute path by which git is to run this program: the one that it was started by, for a symbolic link
// stays right when what it points at is replaced by a newer version.
func Program() (string, error) {
	name := os.Args[0]
	if !strings.ContainsRune(name, filepath.Separator) {
		found, err := exec.LookPath(name)
		if err != nil {
			return os.Executable()
		}
		name = found
	}
	return filepath.Abs(name)
}

// setUp lets git seal and open in this clone.
func setUp(ctx context.Context, repo *gitcmd.Repo) error {
	self, err := Program()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if err := gitsetup.Install(ctx, repo, self); err != nil {
		return err
	}
	return gitsetup.Unlock(ctx, repo)
}

// reindex lets git's index know files as they are now. Their content is what git keeps of them already; but where a file's
// size is not the one that git remembers, it takes that for a change without asking the filter.
func reindex(ctx context.Context, f *cmdutil.Factory, repo *gitcmd.Repo, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	call := repo.Call("update-index", "-z", "--stdin")
	call.Env = append(call.Env, f.OwnEnvironment()...) // git runs the filter, which is this program
	call.Input = strings.NewReader(strings.Join(paths, "\x00") + "\x00")
	if _, err := call.Run(ctx); err != nil {
		return fmt.Errorf("refresh git's index: %w", err)
	}
	return nil
}
