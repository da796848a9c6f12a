// Package change owns the way of a change from edited files to a commit, a push or a pull request.
//
// It refuses to know what is changed: a change is files as they were and as they will be. How far it is carried, from a look at
// it to a commit that is pushed, the person's flags say, which are the same for every command.
package change

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"
	"github.com/spf13/pflag"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/cli/waitfor"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/sealer"
	"github.com/pluralsh/plural/installer/githost"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/yamledit"
)

// CommitOptions is how far a change is carried.
type CommitOptions struct {
	Factory *cmdutil.Factory
	// DryRun shows the change and makes none.
	DryRun bool
	// Wait says that Finish waits until what was pushed is observed.
	Wait bool
	// On is the commit that the files were made for; a branch that stands elsewhere by then is workspace.ErrMoved. Empty: any.
	On string
	// Ask is asked once the change has been shown and before it is made. Nil: nobody is asked.
	Ask func(context.Context) error
	// Instead makes changes that are more than their files.
	Instead Committer
	// Trailer is the last paragraph of the commit's message, whoever wrote it.
	Trailer string
	// GitHub says how the one that hosts the repository is talked to; the zero value is the usual.
	GitHub githost.Options
	// Unobserved is for changes of which no hub knows when they have their effect: there is no --wait.
	Unobserved           bool
	message              string
	noCommit, noPush, pr bool
}

// Committer is how a change is made that is more than its files, such as one of who can open what. Its zero value is the repo's own.
type Committer struct {
	Commit func(ctx context.Context, message string) (string, error)
	Write  func() error
}

// Flags declares what a person may say of it.
func (m *CommitOptions) Flags(flags *pflag.FlagSet) {
	flags.StringVarP(&m.message, "message", "m", "", "the commit's message")
	flags.BoolVar(&m.DryRun, "dry-run", false, "show the change, and make none")
	flags.BoolVar(&m.noCommit, "no-commit", false, "change the file in the work tree only")
	flags.BoolVar(&m.noPush, "no-push", false, "commit, but leave the push to you")
	flags.BoolVar(&m.pr, "pr", false, "push the change as a branch of its own, and open a pull request")
	if !m.Unobserved {
		flags.BoolVar(&m.Wait, "wait", true, "wait until the change is observed")
	}
}

// Pushes says whether the change is to be pushed to where it belongs.
func (m *CommitOptions) Pushes() bool { return !m.DryRun && !m.noCommit && !m.noPush && !m.pr }

// Outcome is how far a change was carried.
type Outcome struct {
	// Written says that the change is made: by a commit, in the work tree, or as a branch; it may be when there is an error too.
	Written bool
	// Branch is the one that was pushed for others to merge, with the address of its pull request, if there is one.
	Branch, PullRequest string
	// Pushed is the commit that was pushed; empty when none was.
	Pushed string
}

// CarryOut makes the change, as far as is wanted, with this message where the person gave none.
func (m *CommitOptions) CarryOut(ctx context.Context, repo *workspace.Repo, c *yamledit.Change, message string) (Outcome, error) {
	return m.carryOut(ctx, repo, map[string][]byte{c.File: c.After}, diff(c.File, c.Before, c.After), message)
}

// CarryOutFiles is CarryOut for several files: path to content as people read it, nil for one to be removed. Of files that are
// sealed it shows only that they change, and of those for which fold says a title, how many there are. fold may be nil.
func (m *CommitOptions) CarryOutFiles(
	ctx context.Context, repo *workspace.Repo, files map[string][]byte, fold func(path string) string, message string,
) (Outcome, error) {
	shown, err := show(repo, files, fold)
	if err != nil {
		return Outcome{}, err
	}
	return m.carryOut(ctx, repo, files, shown, message)
}

func (m *CommitOptions) carryOut(ctx context.Context, repo *workspace.Repo, files map[string][]byte, shown, message string) (Outcome, error) {
	if m.pr && (m.noCommit || m.noPush) {
		return Outcome{}, &ui.Err{Msg: "--pr pushes the change, and --no-commit or --no-push does not", Fix: "give one of them"}
	}
	if m.pr && m.Instead.Commit != nil {
		return Outcome{}, &ui.Err{
			Msg: "a change of who can open what cannot wait as a branch", Fix: "make it without --pr; with --no-push somebody can look at it first",
		}
	}
	if m.DryRun {
		if m.Factory.IO.OutTTY {
			shown = m.painted(shown)
		}
		_, err := io.WriteString(m.Factory.IO.Out, shown)
		return Outcome{}, err
	}
	told := ui.CleanText(shown)
	if m.Factory.IO.ErrTTY {
		told = m.painted(shown)
	}
	m.Factory.Say("%s", strings.TrimSuffix(told, "\n"))
	if m.pr {
		if err := repo.Proposable(); err != nil { // nobody is asked in vain, and nothing else is done by then
			return Outcome{}, err
		}
	}
	m.warn(ctx)
	if m.Ask != nil {
		if err := m.Ask(ctx); err != nil {
			return Outcome{}, err
		}
	}
	message = cmp.Or(m.message, message)
	if m.Trailer != "" {
		message = strings.TrimSpace(message) + "\n\n" + m.Trailer
	}
	switch {
	case m.noCommit:
		return m.write(repo, files)
	case m.pr:
		return m.propose(ctx, repo, files, message)
	}
	return m.commit(ctx, repo, files, message)
}

// asking bounds how long a hub is asked before a change is made.
const asking = 2 * time.Second

// Refusing is what the hub says where it refuses what is there already; nil where it does not, or where it does not matter since
// nothing is pushed or waited for. A hub that does not answer is not waited for.
func (m *CommitOptions) Refusing(ctx context.Context) *v1.Status {
	if !m.Pushes() || !m.Wait {
		return nil
	}
	hub, err := m.Factory.HubClient()
	if err != nil {
		return nil
	}
	hub.Expect(m.Factory.Repository())
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	status, err := hub.Status(ctx)
	if err != nil || len(status.Refused) == 0 {
		return nil
	}
	return status
}

// warn says that the hub refuses what is there already, and so this too, unless it is what mends that.
func (m *CommitOptions) warn(ctx context.Context) {
	status := m.Refusing(ctx)
	if status == nil {
		return
	}
	first, since := status.Refused[0], &status.Head
	if first.Since != nil {
		since = first.Since
	}
	if strings.Contains(m.Trailer, since.ID) { // it is what this takes back
		return
	}
	p := cmdutil.HubProblem(first)
	m.Factory.Say("warning: the hub refuses all since %s %q, and this too unless it mends that: %s", cmdutil.ShortCommit(since.ID),
		ui.Clean(since.Subject), ui.Clean(strings.TrimPrefix(p.Where+": "+p.Message, ": ")))
	m.Factory.Say("  fix: %s", ui.Clean(cmdutil.Mend(first, status.Commit.ID)))
}

// painted is a diff for a terminal.
func (m *CommitOptions) painted(diff string) string {
	var b strings.Builder
	for line := range strings.Lines(diff) {
		text, ended := strings.CutSuffix(line, "\n")
		b.WriteString(m.Factory.IO.Difference(text))
		if ended {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// write changes the work tree alone.
func (m *CommitOptions) write(repo *workspace.Repo, files map[string][]byte) (Outcome, error) {
	write := func() error { return repo.Write(files) }
	if m.Instead.Write != nil {
		write = m.Instead.Write
	}
	err := write()
	if err == nil {
		names := strings.Join(tops(files), " ")
		m.Factory.Say("changed %s; commit it: git add %s && git commit", names, names)
	}
	return Outcome{Written: err == nil}, err
}

// commit commits the change, and pushes it where there is something to push to.
func (m *CommitOptions) commit(ctx context.Context, repo *workspace.Repo, files map[string][]byte, message string) (Outcome, error) {
	commit, err := m.committed(ctx, repo, files, message)
	if err != nil {
		return Outcome{}, err
	}
	remote, err := repo.HasRemote()
	if err != nil {
		return Outcome{Written: true}, err
	}
	if m.noPush || !remote {
		m.Factory.Say("committed as %s; push it: git push", cmdutil.ShortCommit(commit))
		return Outcome{Written: true}, nil
	}
	pushed, err := repo.Push(ctx)
	if err != nil {
		return Outcome{Written: true}, fmt.Errorf("the change is committed as %s, and not pushed: %w", cmdutil.ShortCommit(commit), err)
	}
	branch, err := repo.Branch()
	if err != nil {
		return Outcome{Written: true}, err
	}
	if w, err := cmdutil.Manifest(repo); err == nil && w.Spec.Repo.Branch != "" && w.Spec.Repo.Branch != branch {
		m.Factory.Say("committed and pushed as %s to branch %s; the hub follows %s: nothing changes on clusters until it is merged",
			cmdutil.ShortCommit(pushed), ui.Clean(branch), ui.Clean(w.Spec.Repo.Branch))
		return Outcome{Written: true, Branch: branch}, nil
	}
	m.Factory.Say("committed and pushed as %s", cmdutil.ShortCommit(pushed))
	return Outcome{Written: true, Pushed: pushed}, nil
}

func (m *CommitOptions) committed(ctx context.Context, repo *workspace.Repo, files map[string][]byte, message string) (string, error) {
	if m.Instead.Commit != nil {
		return m.Instead.Commit(ctx, message)
	}
	if m.On != "" {
		return repo.CommitOn(ctx, m.On, message, files)
	}
	return repo.Commit(ctx, message, files)
}

// Finish waits until what was made is observed, as far as the person wants it and there is something to wait for.
func (m *CommitOptions) Finish(ctx context.Context, made Outcome, about waitfor.About) error {
	_, err := m.Observe(ctx, made, about)
	return err
}

// Observe is Finish, and says whether it was observed: nothing is, where nothing was pushed, or where nobody says which hub serves
// the repo.
func (m *CommitOptions) Observe(ctx context.Context, made Outcome, about waitfor.About) (bool, error) {
	if made.Pushed == "" || !m.Wait {
		return false, nil
	}
	var nameless *ui.Err
	if _, err := m.Factory.HubAddress(); errors.As(err, &nameless) {
		m.Factory.Say("nothing is waited for: %s", cmp.Or(nameless.Cause, nameless.Msg))
		return false, nil
	}
	hub, err := m.Factory.HubClient()
	if err != nil {
		return false, err
	}
	hub.Expect(m.Factory.Repository()) // also where --hub names it: another's never serves the commit
	err = waitfor.Commit(ctx, m.Factory, hub, made.Pushed, about)
	return err == nil, unseen(err, made.Pushed)
}

// unseen is why a pushed commit was not observed, with what becomes of it. What the hub says of the commit itself stays as it is.
func unseen(err error, commit string) error {
	var told *ui.Err
	if err == nil || errors.As(err, &told) || !errors.As(cmdutil.Explain(err), &told) {
		return err
	}
	after := *told
	after.Msg = fmt.Sprintf("%s; the change is pushed as %s and goes on", told.Msg, cmdutil.ShortCommit(commit))
	if errors.Is(err, context.Canceled) {
		after.Fix = "plural status shows how it goes; plural undo takes it back"
	}
	return &after
}

// diff is one file's change. A file that was not there, or will not be, is /dev/null as in git.
func diff(file string, before, after []byte) string {
	old, next := "a/"+file, "b/"+file
	if before == nil {
		old = "/dev/null"
	}
	if after == nil {
		next = "/dev/null"
	}
	return udiff.Unified(old, next, string(before), string(after))
}

// show is what changes in several files.
func show(repo *workspace.Repo, files map[string][]byte, fold func(path string) string) (string, error) {
	secret, err := secrets(repo, files)
	if err != nil {
		return "", err
	}
	root, err := os.OpenRoot(repo.Root())
	if err != nil {
		return "", fmt.Errorf("open installation repo: %w", err)
	}
	defer root.Close()
	var b strings.Builder
	folded := map[string]int{}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		sealed, err := secret(path)
		if err != nil {
			return "", err
		}
		if sealed {
			fmt.Fprintf(&b, "%s: sealed, so its change is not shown\n", path)
			continue
		}
		if fold != nil && fold(path) != "" {
			folded[fold(path)]++
			continue
		}
		before, err := fs.ReadFile(root.FS(), path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("read %q: %w", path, err)
		}
		if binary(before) || binary(files[path]) {
			fmt.Fprintf(&b, "%s: binary\n", path)
			continue
		}
		b.WriteString(diff(path, before, files[path]))
	}
	for _, title := range slices.Sorted(maps.Keys(folded)) {
		fmt.Fprintf(&b, "%s: %d files\n", title, folded[title])
	}
	return b.String(), nil
}

// binary says whether content is not text that a terminal could show.
func binary(content []byte) bool { return bytes.IndexByte(content, 0) >= 0 || !utf8.Valid(content) }

// secrets says which files nobody is to see: those that have to be sealed now, for the work tree may hold them in clear, and those
// that will have to be.
func secrets(repo *workspace.Repo, files map[string][]byte) (func(path string) (bool, error), error) {
	var judges []*sealer.Vault
	for _, changes := range []map[string][]byte{nil, files} {
		v, err := repo.Vault(changes)
		switch {
		case err == nil:
			judges = append(judges, v)
		case !errors.Is(err, policy.ErrNone):
			return nil, err
		}
	}
	return func(path string) (bool, error) {
		for _, v := range judges {
			if must, err := v.Must(path); must || err != nil {
				return must, err
			}
		}
		return false, nil
	}, nil
}

// tops are the fewest paths that name all files: the files, or what folders of packages they are in.
func tops(files map[string][]byte) []string {
	const shown = 4
	names := slices.Sorted(maps.Keys(files))
	if len(names) <= shown {
		return names
	}
	var all []string
	for _, name := range names {
		top, _, _ := strings.Cut(name, "/")
		if !slices.Contains(all, top) {
			all = append(all, top)
		}
	}
	return all
}

// Explained sets the fix of a change that cannot be made apart.
func Explained(err error) error {
	var refused *yamledit.Error
	if errors.As(err, &refused) {
		return &ui.Err{Msg: strings.TrimSpace(refused.Message), Fix: refused.Fix, Err: err}
	}
	return err
}
