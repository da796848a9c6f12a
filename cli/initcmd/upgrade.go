package initcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
)

// upgraded is what became of the files that the repo began with.
type upgraded struct {
	Dir     string   `json:"dir"`
	Changed []string `json:"changed,omitempty"`
	Unknown []string `json:"unknown,omitempty"`
	Commit  string   `json:"commit,omitempty"`
}

// upgrade merges what is new in the scaffold into the files of a repo.
func upgrade(ctx context.Context, opts options) error {
	printer, err := opts.f.Printer("")
	if err != nil {
		return err
	}
	repo, err := workspace.Find(opts.dir)
	if err != nil {
		return err
	}
	begun, err := begunWith(repo)
	if err != nil {
		return err
	}
	u, err := repo.UpgradeScaffold(ctx, begun)
	if err != nil {
		return err
	}
	if len(u.Conflicts) > 0 {
		return conflicts(u, opts.dir)
	}
	r := upgraded{Dir: repo.Root(), Changed: u.Changed, Unknown: u.Unknown, Commit: u.Commit}
	return printer.Print(ui.View{Value: r, Names: []string{r.Dir}, Screen: r.screen})
}

// begunWith are the answers that the repo was made with, as far as it has them; otherwise those that it has now.
func begunWith(repo *workspace.Repo) (workspace.Options, error) {
	now, err := cmdutil.Manifest(repo)
	if err != nil {
		return workspace.Options{}, err
	}
	root, err := os.OpenRoot(repo.Root())
	if err != nil {
		return workspace.Options{}, fmt.Errorf("open installation repo: %w", err)
	}
	defer root.Close()
	then, err := fs.Sub(root.FS(), workspace.Scaffold)
	if err != nil {
		return workspace.Options{}, err
	}
	if _, err := fs.Stat(then, workspace.Manifest); err == nil {
		if now, err = fleet.LoadWorkspace(then); err != nil {
			return workspace.Options{}, fmt.Errorf("%s: %w", workspace.Scaffold, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return workspace.Options{}, err
	}
	return workspace.Options{
		Dir: repo.Root(), Name: now.Metadata.Name, HubURL: now.Spec.Hub.URL, RepoURL: now.Spec.Repo.URL, Branch: now.Spec.Repo.Branch,
		Management: now.Spec.Management,
	}, nil
}

// conflicts says what somebody has to look through.
func conflicts(u *workspace.Upgraded, dir string) error {
	var problems []ui.Problem
	for _, file := range u.Conflicts {
		problems = append(problems, ui.Problem{Where: file, Message: "you and the newer plural changed the same lines; both stand there"})
	}
	git := "git"
	if in := where(dir); in != "" {
		git += in
	}
	return &ui.Err{
		Msg: "the upgrade is in the work tree and not committed: files are in conflict", Problems: problems,
		Fix: fmt.Sprintf("edit them until no marker is left, then: %s add -A && %s commit; or take it all back: %s stash -u", git, git, git),
		Doc: ui.DocMergeConflict,
	}
}

func (r upgraded) screen(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "installation repo %s\n", ui.Clean(r.Dir))
	for _, file := range r.Changed {
		fmt.Fprintf(&b, "  %-10s %s\n", "updated", ui.Clean(file))
	}
	for _, file := range r.Unknown {
		fmt.Fprintf(&b, "  %-10s %s (it is not known what it was made from)\n", "unchanged", ui.Clean(file))
	}
	if r.Commit != "" {
		fmt.Fprintf(&b, "commit %s\n", cmdutil.ShortCommit(r.Commit))
	} else {
		fmt.Fprintln(&b, "nothing to do")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
