// Package initcmd owns `plural init`: from flags, answers or a wizard to a new installation repo.
//
// It refuses to know how files and commits are made, and how sealing begins: workspace and `plural crypto init` do that.
//
// What is wanted comes together in a fixed order: a flag wins over the answers file, that over what the wizard asks; and
// the wizard asks only where nothing gave a name.
package initcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/cryptocmd"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/internal/yamlerror"
	"github.com/pluralsh/plural/workspace"
)

// maxAnswers bounds the answers file, in bytes.
const maxAnswers = 64 << 10

// answers are what an installation repo starts with, and the answers file's format.
type answers struct {
	Name    string `yaml:"name"`
	HubURL  string `yaml:"hubURL"`
	RepoURL string `yaml:"repoURL"`
	Branch  string `yaml:"branch"`
}

type options struct {
	f        *cmdutil.Factory
	dir      string
	flags    answers
	file     string
	noCommit bool
	noSeal   bool
	upgrade  bool
}

// NewCmdInit is `plural init`.
func NewCmdInit(f *cmdutil.Factory) *cobra.Command {
	opts := options{f: f}
	cmd := &cobra.Command{
		Use:     "init [DIR]",
		GroupID: cmdutil.GroupStart,
		Short:   "Make an installation repo, or complete one",
		Long: `Make an installation repo, or complete one.

DIR becomes a git repository with the files that every fleet has. Secrets in it
are sealed, for you and your clusters. In a repository that is there already only what is missing is added;
.gitignore and .gitattributes get a managed block, and nothing else is touched.
Running it again changes nothing. Without a name it asks, on a terminal.

With --upgrade, what a newer plural would write is merged into the files that
the repo began with, and committed. Where you changed the same lines, both stand
there between git's conflict markers, and nothing is committed.`,
		Example: cmdutil.Example(
			"plural init fleet --name demo",
			"plural init --name demo --hub-url https://hub.example.com --repo-url https://git.example.com/fleet.git",
			"plural init fleet --answers answers.yaml",
			"plural init --upgrade"),
		Args: cmdutil.AtMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.dir = f.WorkDir()
			if len(args) > 0 {
				opts.dir = args[0]
			}
			if opts.upgrade {
				return upgrade(cmd.Context(), opts)
			}
			return run(cmd.Context(), opts)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.flags.Name, "name", "", "the workspace's `NAME`: lower-case letters, digits, dashes")
	flags.StringVar(&opts.flags.HubURL, "hub-url", "", "where agents and people reach the hub")
	flags.StringVar(&opts.flags.RepoURL, "repo-url", "", "where the hub fetches the repository from")
	flags.StringVar(&opts.flags.Branch, "branch", "", "the fleet's branch (default: the one checked out, else main)")
	flags.StringVar(&opts.file, "answers", "", "read name, hubURL, repoURL, branch from this YAML `FILE`; - is stdin")
	flags.BoolVar(&opts.noCommit, "no-commit", false, "leave the files uncommitted, and nothing sealed")
	flags.BoolVar(&opts.noSeal, "no-seal", false, "do not begin to seal secrets: plural crypto init does it later")
	flags.BoolVar(&opts.upgrade, "upgrade", false, "merge what is new into the files that the repo began with")
	for _, other := range []string{"name", "hub-url", "repo-url", "branch", "answers", "no-commit", "no-seal"} {
		cmd.MarkFlagsMutuallyExclusive("upgrade", other)
	}
	return cmd
}

func run(ctx context.Context, opts options) error {
	printer, err := opts.f.Printer("")
	if err != nil {
		return err
	}
	wanted, err := opts.gather(ctx)
	if err != nil {
		return err
	}
	seals := opts.seals()
	result, err := workspace.Init(ctx, workspace.Options{
		Dir: opts.dir, Name: wanted.Name, HubURL: wanted.HubURL, RepoURL: wanted.RepoURL, Branch: wanted.Branch,
		NoCommit: opts.noCommit,
	})
	if err != nil {
		return err
	}
	r := report{Dir: result.Repo.Root(), Created: result.Created, Updated: result.Updated, Unchanged: result.Unchanged, Commit: result.Commit}
	if seals {
		if err := opts.seal(ctx, result.Repo, &r); err != nil {
			return err
		}
	}
	return opts.f.Print(printer, ui.View{Value: r, Names: []string{r.Dir}, Screen: r.screen, Note: "next  plural validate" + where(opts.dir)})
}

// seals says whether the repo is to be sealed: a new one is, unless nothing is to be committed. In a git repository that is
// there already, what is committed in clear is for a person to look at first.
func (o options) seals() bool {
	_, err := os.Lstat(filepath.Join(o.dir, ".git"))
	return !o.noCommit && !o.noSeal && errors.Is(err, fs.ErrNotExist)
}

// seal lets the sealing of a new repo begin, in a commit of its own.
func (o options) seal(ctx context.Context, repo *workspace.Repo, r *report) error {
	commit, made, err := cryptocmd.Begin(ctx, o.f, repo)
	if err != nil {
		return err
	}
	r.Created = slices.Compact(slices.Sorted(slices.Values(append(r.Created, made...))))
	r.Commit, r.Identities = commit, o.f.Identities().Dir
	return nil
}

// gather is what is wanted, from everywhere it can be said.
func (o options) gather(ctx context.Context) (answers, error) {
	written, err := o.readAnswers()
	if err != nil {
		return answers{}, err
	}
	wanted := answers{
		Name:    cmp.Or(o.flags.Name, written.Name),
		HubURL:  cmp.Or(o.flags.HubURL, written.HubURL),
		RepoURL: cmp.Or(o.flags.RepoURL, written.RepoURL),
		Branch:  cmp.Or(o.flags.Branch, written.Branch),
	}
	if wanted.Name != "" {
		return wanted, nil
	}
	if wanted.Name, err = existingName(o.dir); err != nil || wanted.Name != "" {
		return wanted, err
	}
	return wanted, o.ask(ctx, &wanted)
}

// existingName is the name of the workspace that dir holds already, empty when it holds none.
func existingName(dir string) (string, error) {
	if _, err := os.Stat(filepath.Join(dir, workspace.Manifest)); err != nil {
		return "", nil // Init says what is wrong with the folder, if anything is.
	}
	repo, err := workspace.Find(dir)
	if err != nil {
		return "", err
	}
	w, err := cmdutil.Manifest(repo)
	if err != nil {
		return "", err
	}
	return w.Metadata.Name, nil
}

// ask is the wizard.
func (o options) ask(ctx context.Context, wanted *answers) error {
	prompter := o.f.Prompter()
	if prompter.Able() {
		wanted.Name = suggestion(o.dir)
	}
	err := prompter.Ask(ctx, []ui.Question{
		{Flag: "name", Title: "Name of the workspace", Help: "It appears wherever the fleet does.", Value: &wanted.Name, Check: workspace.CheckName},
		{Flag: "hub-url", Title: "URL of the hub", Help: "Where agents and people reach it. Empty: write it down later.", Value: &wanted.HubURL, Check: workspace.CheckHubURL, Optional: true},
		{Flag: "repo-url", Title: "URL of this repository", Help: "Where the hub fetches it from. Empty: write it down later.", Value: &wanted.RepoURL, Check: workspace.CheckRepoURL, Optional: true},
		{Flag: "branch", Title: "Branch", Help: "Its newest commit is what the fleet runs. Empty: the one checked out, else main.", Value: &wanted.Branch, Check: workspace.CheckBranch, Optional: true},
	})
	if err != nil || o.f.Yes {
		return err
	}
	yes, err := prompter.Confirm(ctx, fmt.Sprintf("Make the installation repo %s in %s?", wanted.Name, o.dir), "--yes")
	if err == nil && !yes {
		err = context.Canceled
	}
	return err
}

// suggestion is the folder's name, where that can be a workspace's.
func suggestion(dir string) string {
	abs, err := filepath.Abs(dir)
	if name := filepath.Base(abs); err == nil && workspace.CheckName(name) == nil {
		return name
	}
	return ""
}

// readAnswers reads the answers file strictly: a field that it does not know is an error.
func (o options) readAnswers() (answers, error) {
	var a answers
	if o.file == "" {
		return a, nil
	}
	in := io.NopCloser(o.f.IO.In)
	if o.file != "-" {
		file, err := os.Open(o.file)
		if err != nil {
			return a, fmt.Errorf("read answers: %w", err)
		}
		in = file
	}
	defer in.Close()
	dec := yaml.NewDecoder(io.LimitReader(in, maxAnswers))
	dec.KnownFields(true)
	if err := dec.Decode(&a); err != nil && !errors.Is(err, io.EOF) {
		return a, wrongAnswers(o.file, err)
	}
	return a, nil
}

// wrongAnswers is the YAML library's error with each line's number where people look for it.
func wrongAnswers(file string, err error) error {
	messages := []string{err.Error()}
	var wrong *yaml.TypeError
	if errors.As(err, &wrong) {
		messages = wrong.Errors
	}
	var problems []ui.Problem
	for _, m := range messages {
		line, message := yamlerror.Line(m)
		p := ui.Problem{Where: file, Message: yamlerror.Plain(message)}
		if line > 0 {
			p.Where += ":" + strconv.Itoa(line)
		}
		problems = append(problems, p)
	}
	return &ui.Err{
		Msg: "the answers file " + strconv.Quote(file) + " cannot be used", Problems: problems,
		Fix: "the fields are name, hubURL, repoURL, branch", Err: err,
	}
}

// report is what was done.
type report struct {
	Dir       string   `json:"dir"`
	Created   []string `json:"created,omitempty"`
	Updated   []string `json:"updated,omitempty"`
	Unchanged []string `json:"unchanged,omitempty"`
	Commit    string   `json:"commit,omitempty"`
	// Identities is the folder of the person's private keys, where sealing has begun.
	Identities string `json:"identities,omitempty"`
}

func (r report) screen(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "installation repo %s\n", ui.Clean(r.Dir))
	for _, part := range []struct {
		title string
		files []string
	}{{"created", r.Created}, {"updated", r.Updated}, {"unchanged", r.Unchanged}} {
		for _, file := range part.files {
			fmt.Fprintf(&b, "  %-10s %s\n", part.title, ui.Clean(file))
		}
	}
	switch {
	case r.Commit != "":
		fmt.Fprintf(&b, "commit %s\n", cmdutil.ShortCommit(r.Commit))
	case len(r.Created)+len(r.Updated) == 0:
		fmt.Fprintln(&b, "nothing to do")
	default:
		fmt.Fprintln(&b, "nothing committed")
	}
	if r.Identities != "" {
		fmt.Fprintf(&b, "\nsecrets/ and *.secret.yaml are sealed in git, for you and your clusters\nyour identity is in %s; back it up: plural crypto export\n", ui.Clean(r.Identities))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// where is the flag that makes a command look at dir.
func where(dir string) string {
	if filepath.Clean(dir) == "." {
		return ""
	}
	return " -C " + ui.Clean(dir)
}
