package cryptocmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/crypto/gitcmd"
	"github.com/pluralsh/plural/crypto/gitsetup"
	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/leakcheck"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/sealer"
	"github.com/pluralsh/plural/workspace/snapshot"
)

type statusOptions struct {
	f        *cmdutil.Factory
	check    bool
	exitCode bool
	verify   bool
	span     string
}

// sealing is a file that must be sealed, as it is printed.
type sealing struct {
	Path string `json:"path"`
	// State is "sealed", or what kind of thing is wrong.
	State  string   `json:"state"`
	Groups []string `json:"groups"`
	// Where is the state of the repository in which it is wrong: "index", "HEAD", "commit 1a2b3c", "work tree".
	Where   string `json:"where,omitempty"`
	Message string `json:"message,omitempty"`
	Fix     string `json:"fix,omitempty"`
}

func newCmdStatus(f *cmdutil.Factory) *cobra.Command {
	o := &statusOptions{f: f}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show which files are sealed, for whom, and what is wrong",
		Long: "Show which files are sealed, for whom, and what is wrong.\n\n" +
			"It looks at the index, the last commit and the work tree, whatever .gitattributes says, and needs no identity. With --range it looks at every commit in a range instead, as a CI job for a pull request wants it.",
		Example: cmdutil.Example("plural crypto status", "plural crypto status --check",
			"plural crypto status --check --range refs/remotes/origin/main..HEAD"),
		Args: cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.check, "check", false, "fail when something is wrong")
	flags.BoolVar(&o.exitCode, "exit-code", false, "end with 2 when something is wrong")
	flags.BoolVar(&o.verify, "verify", false, "open every file that you can, which proves what else is only claimed")
	flags.StringVar(&o.span, "range", "", "look at the commits `A..B`")
	return cmd
}

func (o *statusOptions) run(ctx context.Context) error {
	printer, err := o.f.Printer("")
	if err != nil {
		return err
	}
	repo, err := gitcmd.Find(ctx, o.f.WorkDir())
	if err != nil {
		return err
	}
	findings, err := o.findings(ctx, repo)
	if err != nil {
		return err
	}
	list, err := o.list(ctx, repo, findings)
	if err != nil {
		return err
	}
	if err := o.print(printer, list, len(findings)); err != nil {
		return err
	}
	return o.verdict(findings)
}

func (o *statusOptions) print(printer *ui.Printer, list []sealing, wrong int) error {
	rows, names := make([][]string, len(list)), make([]string, len(list))
	for i, s := range list {
		rows[i] = []string{s.Path, s.State, cmdutil.OrDash(strings.Join(s.Groups, " ")), cmdutil.OrDash(s.Where), cmdutil.OrDash(s.Message)}
		names[i] = s.Path
	}
	if len(list) == 0 && printer.Human() {
		o.f.Say("no file has to be sealed")
	}
	return printer.Print(ui.View{
		Value:   map[string]any{"items": list, "total": len(list), "findings": wrong},
		Columns: []ui.Column{{Name: "PATH"}, {Name: "STATE", Style: sealedStyle}, {Name: "GROUPS"}, {Name: "WHERE"}, {Name: "FOUND"}},
		Rows:    rows, Names: names,
	})
}

func sealedStyle(cell string) ui.Style {
	if cell == sealedState {
		return ui.Green
	}
	return ui.Red
}

const sealedState = "sealed"

// verdict is the error that the flags ask for when something is wrong.
func (o *statusOptions) verdict(findings []leakcheck.Finding) error {
	if len(findings) == 0 || !o.check && !o.exitCode {
		return nil
	}
	problems := make([]ui.Problem, len(findings))
	for i, f := range findings {
		problems[i] = ui.Problem{Where: f.Path + " (" + f.Where + ")", Message: f.Message, Fix: f.Fix}
	}
	told := &ui.Err{
		Msg:      count(len(findings), "file is", "files are") + " not sealed as " + policy.File + " wants",
		Problems: problems, Doc: ui.DocNotSealed,
	}
	if o.exitCode {
		told.Code = ui.ExitDiffers
	}
	return told
}

// findings are what is wrong in the commits of the range, or in the clone as it stands.
func (o *statusOptions) findings(ctx context.Context, repo *gitcmd.Repo) ([]leakcheck.Finding, error) {
	if o.span != "" {
		return o.spanFindings(ctx, repo)
	}
	head, err := o.state(ctx, repo, "HEAD")
	if err != nil || repo.Bare {
		return head, err
	}
	index, err := o.state(ctx, repo, "")
	if err != nil {
		return nil, err
	}
	work, err := o.workTree(ctx, repo)
	return distinct(head, index, work), err
}

// state judges the index (""), or a commit, by the policy that stands in it. Where it has none nothing is wrong.
func (o *statusOptions) state(ctx context.Context, repo *gitcmd.Repo, rev string) ([]leakcheck.Finding, error) {
	files, err := repo.FS(ctx, rev)
	if errors.Is(err, gitcmd.ErrNoRevision) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	rules, err := o.rules(files)
	if errors.Is(err, policy.ErrNone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if rev == "" {
		return rules.Index(ctx, repo)
	}
	return rules.Commit(ctx, repo, rev)
}

func (o *statusOptions) workTree(ctx context.Context, repo *gitcmd.Repo) ([]leakcheck.Finding, error) {
	rules, err := o.rules(os.DirFS(repo.Top))
	if err != nil {
		return nil, err
	}
	locked, err := gitsetup.Locked(ctx, repo)
	if err != nil {
		return nil, err
	}
	return rules.WorkTree(ctx, repo, locked)
}

func (o *statusOptions) rules(files fs.FS) (*leakcheck.Rules, error) {
	if o.verify {
		v, err := sealer.Open(sealer.Config{Files: files, Identities: o.f.Identities().Load})
		if err != nil {
			return nil, err
		}
		return &leakcheck.Rules{Policy: v.Policy(), Groups: v.Groups(), Vault: v}, nil
	}
	p, err := policy.Load(files)
	if err != nil {
		return nil, err
	}
	set, err := groups.Load(files)
	return &leakcheck.Rules{Policy: p, Groups: set}, err
}

// distinct is each finding once: what is wrong in HEAD is wrong in the index too, as a rule.
func distinct(lists ...[]leakcheck.Finding) []leakcheck.Finding {
	type key struct {
		path string
		kind leakcheck.Kind
	}
	seen := map[key]bool{}
	var all []leakcheck.Finding
	for _, list := range lists {
		for _, f := range list {
			if k := (key{f.Path, f.Kind}); !seen[k] {
				seen[k] = true
				all = append(all, f)
			}
		}
	}
	return all
}

// list is every file that must be sealed, and every finding about it.
func (o *statusOptions) list(ctx context.Context, repo *gitcmd.Repo, findings []leakcheck.Finding) ([]sealing, error) {
	p, entries, err := current(ctx, repo)
	if err != nil {
		return nil, err
	}
	wrong := map[string]bool{}
	list := []sealing{}
	for _, f := range findings {
		wrong[f.Path] = true
		names, _, err := p.Match(f.Path)
		if err != nil {
			return nil, err
		}
		list = append(list, sealing{f.Path, string(f.Kind), orEmpty(names), f.Where, f.Message, f.Fix})
	}
	for _, e := range entries {
		names, must, err := p.Match(e.Path)
		if err != nil {
			return nil, err
		}
		if must && e.IsFile() && !wrong[e.Path] {
			wrong[e.Path] = true // once, though a conflict lists it thrice
			list = append(list, sealing{Path: e.Path, State: sealedState, Groups: orEmpty(names)})
		}
	}
	slices.SortStableFunc(list, func(a, b sealing) int { return strings.Compare(a.Path, b.Path) })
	return list, nil
}

// current are the policy and the files that stand in the work tree, or in a bare repository's HEAD.
func current(ctx context.Context, repo *gitcmd.Repo) (*policy.Policy, []gitcmd.Entry, error) {
	if repo.Bare {
		files, err := repo.FS(ctx, "HEAD")
		if err != nil {
			return nil, nil, err
		}
		p, err := policy.Load(files)
		if err != nil {
			return nil, nil, err
		}
		entries, err := repo.Tree(ctx, "HEAD")
		return p, entries, err
	}
	p, err := policy.Load(os.DirFS(repo.Top))
	if err != nil {
		return nil, nil, err
	}
	entries, err := repo.Index(ctx)
	return p, entries, err
}

// files is the doctor's look at what status shows.
func (o *doctorOptions) files(ctx context.Context, c *clone) check {
	const name = "files"
	findings, err := (&statusOptions{f: o.f}).findings(ctx, c.git)
	if err != nil {
		return failing(name, err)
	}
	if len(findings) == 0 {
		return check{Name: name, OK: true}
	}
	first := findings[0]
	message := first.String()
	if more := len(findings) - 1; more > 0 {
		message += "; and " + count(more, "more", "more")
	}
	return check{Name: name, Message: message, Fix: first.Fix}
}

// spanFindings looks at every commit of A..B, or of all that B holds when there is no A.
func (o *statusOptions) spanFindings(ctx context.Context, repo *gitcmd.Repo) ([]leakcheck.Finding, error) {
	known, tip, ok := strings.Cut(o.span, "..")
	if !ok {
		known, tip = "", o.span
	}
	ask := gitcmd.Range{Tips: []string{cmp.Or(tip, "HEAD")}}
	if known != "" {
		ask.Known = []string{known}
	}
	for _, rev := range []string{known, tip} {
		if strings.ContainsAny(rev, " \t\r\n") || strings.Contains(rev, "..") || rev != "" && strings.Contains("-^.", rev[:1]) {
			return nil, &ui.Err{Msg: fmt.Sprintf("%q is no range of commits", o.span), Fix: "--range refs/remotes/origin/main..HEAD"}
		}
	}
	if err := unambiguous(ctx, repo, known, tip); err != nil {
		return nil, err
	}
	return leakcheck.Commits(ctx, repo, ask)
}

// unambiguous refuses names that are a tag's and a branch's: a tag origin/main, which others may push, would leave out what it
// leads to. What else is wrong with a revision is for git to say. It is git too that is asked for the names: it reads clones that
// go-git does not, such as partial ones.
func unambiguous(ctx context.Context, repo *gitcmd.Repo, revisions ...string) error {
	var names []string
	for _, revision := range revisions {
		for _, name := range snapshot.Names(revision) {
			names = append(names, name.String())
		}
	}
	if len(names) == 0 { // of none, git would list all
		return nil
	}
	out, err := repo.Call(append([]string{"for-each-ref", "--format=%(refname)"}, names...)...).Run(ctx)
	if err != nil {
		return fmt.Errorf("look at a range of commits: %w", err)
	}
	found := strings.Fields(string(out)) // some of them only lie below a name
	there := func(name plumbing.ReferenceName) bool { return slices.Contains(found, name.String()) }
	for _, revision := range revisions {
		if err := snapshot.Unambiguous(revision, there); err != nil {
			return fmt.Errorf("look at a range of commits: %w", err)
		}
	}
	return nil
}
