package cryptocmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/crypto/gitsetup"
	"github.com/pluralsh/plural/crypto/identities"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/rekey"
)

// check is one thing that the doctor looked at, as it is printed.
type check struct {
	Name    string `json:"name"`
	OK      bool   `json:"ok"`
	Message string `json:"message,omitempty"`
	Fix     string `json:"fix,omitempty"`

	// mend does what Fix says; nil where that is for a person to do.
	mend func(context.Context) error
}

type doctorOptions struct {
	change
	fix bool
}

func newCmdDoctor(f *cmdutil.Factory) *cobra.Command {
	o := &doctorOptions{change: change{f: f}}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check identity, clone, groups and files, with fixes",
		Long: "Check identity, clone, groups and files, with fixes.\n\n" +
			"It looks at your identities' modes, git's settings of this clone, the attributes, changes that were stopped half-way or that you have not confirmed, clusters whose tags changed, and files that are not sealed as they should be. --fix mends what a program can mend; changes of who can open what are shown first, and asked about.",
		Example: cmdutil.Example("plural crypto doctor", "plural crypto doctor --fix"),
		Args:    cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&o.fix, "fix", false, "mend what can be mended")
	return cmd
}

func (o *doctorOptions) run(ctx context.Context) error {
	printer, err := o.f.Printer("")
	if err != nil {
		return err
	}
	checks := o.checks(ctx)
	if o.fix {
		if err := o.mend(ctx, checks); err != nil {
			return err
		}
		checks = o.checks(ctx)
	}
	rows := make([][]string, len(checks))
	failed := 0
	for i, c := range checks {
		state := "ok"
		if !c.OK {
			state = "fix"
			failed++
		}
		rows[i] = []string{c.Name, state, cmdutil.OrDash(c.Message), cmdutil.OrDash(c.Fix)}
	}
	err = printer.Print(ui.View{
		Value:   map[string]any{"items": checks, "total": len(checks)},
		Columns: []ui.Column{{Name: "CHECK"}, {Name: "STATE", Style: stateStyle}, {Name: "FOUND"}, {Name: "FIX"}}, Rows: rows,
	})
	if err == nil && failed > 0 {
		err = ui.Silent(ui.ExitFailed)
	}
	return err
}

func stateStyle(cell string) ui.Style {
	if cell == "ok" {
		return ui.Green
	}
	return ui.Red
}

// mend goes through what can be mended, in the order of the checks: an interrupted change before all that it may touch.
func (o *doctorOptions) mend(ctx context.Context, checks []check) error {
	var faults []error
	for _, c := range checks {
		if c.OK || c.mend == nil {
			continue
		}
		if err := c.mend(ctx); err != nil {
			faults = append(faults, fmt.Errorf("mend %s: %w", c.Name, err))
			continue
		}
		o.f.Say("mended: %s", c.Name)
	}
	return errors.Join(faults...)
}

// checks looks at everything. What cannot be looked at is a check that failed.
func (o *doctorOptions) checks(ctx context.Context) []check {
	checks := o.identityChecks()
	repo, err := o.f.Repo()
	if err != nil {
		return append(checks, failing("repository", err))
	}
	checks = append(checks, o.journal(repo))
	c, err := openClone(ctx, o.f)
	if err != nil {
		return append(checks, failing("policy", err))
	}
	checks = append(checks, outcome("groups", c.vault.Groups().Check(c.vault.Policy())), o.attributes(repo), o.clone(ctx, c))
	checks = append(checks, o.confirmed(c), o.clusters(repo))
	return append(checks, o.files(ctx, c))
}

func outcome(name string, err error) check {
	if err == nil {
		return check{Name: name, OK: true}
	}
	return failing(name, err)
}

func failing(name string, err error) check {
	c := check{Name: name, Message: err.Error(), Fix: fixOf(err)}
	var told *ui.Err
	if errors.As(cmdutil.Explain(err), &told) {
		c.Message = told.Msg
	}
	return c
}

// identityChecks are one check for each identity that others can reach, and else one that says how many there are.
func (o *doctorOptions) identityChecks() []check {
	source := o.f.Identities()
	ids, err := source.Load()
	if err == nil {
		c := check{Name: "identity", OK: len(ids) > 0, Message: count(len(ids), "identity", "identities")}
		if len(ids) == 0 {
			c.Fix = "plural crypto import FILE, or plural crypto init"
		}
		return []check{c}
	}
	var checks []check
	for _, one := range loose(err) {
		c := failing("identity", one)
		if one.Mode != 0 {
			c.mend = func(context.Context) error { return one.Mend() }
		}
		checks = append(checks, c)
	}
	if len(checks) == 0 {
		checks = append(checks, failing("identity", err))
	}
	return checks
}

// loose are all the files that err says others can reach.
func loose(err error) []*identities.LooseError {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*identities.LooseError
		for _, one := range joined.Unwrap() {
			all = append(all, loose(one)...)
		}
		return all
	}
	var one *identities.LooseError
	if errors.As(err, &one) {
		return []*identities.LooseError{one}
	}
	return nil
}

func (o *doctorOptions) journal(repo *workspace.Repo) check {
	about, underWay := rekey.UnderWay(repo)
	if !underWay {
		return check{Name: "interrupted change", OK: true}
	}
	return check{
		Name: "interrupted change", Message: about + " was stopped half-way", Fix: "plural crypto doctor --fix",
		mend: func(ctx context.Context) error { return o.resume(ctx, repo) },
	}
}

// attributes compares .gitattributes with the policy: a clone that was never unlocked has nothing else to go by.
func (o *doctorOptions) attributes(repo *workspace.Repo) check {
	const name = workspace.AttributesFile
	c := check{Name: name, OK: true}
	text, err := readBounded(filepath.Join(repo.Root(), name), policy.MaxFile)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return failing(name, err)
	}
	want, err := workspace.Attributes(os.DirFS(repo.Root()), text)
	if err != nil {
		return failing(name, err)
	}
	if bytes.Equal(text, want) {
		return c
	}
	c.OK, c.Message, c.Fix = false, "is not what "+policy.File+" says", "plural crypto doctor --fix, then commit it"
	c.mend = func(context.Context) error {
		root, err := os.OpenRoot(repo.Root())
		if err != nil {
			return err
		}
		defer root.Close()
		return put(root, name, want)
	}
	return c
}

// clone looks at git's settings. A clone that is locked on purpose, or was never unlocked, needs none.
func (o *doctorOptions) clone(ctx context.Context, c *clone) check {
	const name = "git's settings"
	self, err := Program()
	if err != nil {
		return failing(name, err)
	}
	state, err := gitsetup.Inspect(ctx, c.git, self)
	switch {
	case err != nil:
		return failing(name, err)
	case state.Locked:
		return check{Name: name, OK: true, Message: "the clone is locked"}
	case state.Obstacle != nil:
		return failing(name, state.Obstacle)
	case len(state.Missing) > 0:
		return check{
			Name: name, Message: "missing: " + strings.Join(state.Missing, ", "), Fix: "plural crypto doctor --fix",
			mend: func(ctx context.Context) error { return setUp(ctx, c.git) },
		}
	}
	return check{Name: name, OK: true}
}

func (o *doctorOptions) confirmed(c *clone) check {
	found := outcome("confirmation", c.vault.Confirm())
	if !found.OK {
		found.Fix = "plural crypto groups confirm"
		found.mend = func(ctx context.Context) error { return confirm(ctx, o.f, c.git.Top) }
	}
	return found
}

// clusters compares the groups with the clusters' tags.
func (o *doctorOptions) clusters(repo *workspace.Repo) check {
	const name = "clusters' tags"
	editor, err := rekey.Open(repo, o.f.Keys(), o.f.Confirmed())
	if err != nil {
		return check{Name: name, OK: true, Message: "not looked at: " + err.Error()}
	}
	drifts, err := editor.Drifts()
	if err != nil {
		return failing(name, err)
	}
	if len(drifts) == 0 {
		return check{Name: name, OK: true}
	}
	var found, fixes []string
	joins := false
	for _, d := range drifts {
		if len(d.Join) > 0 {
			joins = true
			found = append(found, fmt.Sprintf("%s should be in %s", strings.Join(d.Join, ", "), d.Group))
		}
		for _, cluster := range d.Leave {
			found = append(found, fmt.Sprintf("%s should not be in %s", cluster, d.Group))
			fixes = append(fixes, fmt.Sprintf("plural crypto revoke cluster/%s --group %s", cluster, d.Group))
		}
	}
	c := check{Name: name, Message: strings.Join(found, "; ")}
	if joins {
		fixes = append([]string{"plural crypto doctor --fix"}, fixes...)
		c.mend = func(ctx context.Context) error { return o.joinClusters(ctx, repo) }
	}
	c.Fix = strings.Join(fixes, "; ")
	return c
}

// joinClusters looks again: what was mended before may have made a commit.
func (o *doctorOptions) joinClusters(ctx context.Context, repo *workspace.Repo) error {
	editor, err := rekey.Open(repo, o.f.Keys(), o.f.Confirmed())
	if err != nil {
		return err
	}
	drifts, err := editor.Drifts()
	if err != nil {
		return err
	}
	plan, err := editor.Join(drifts)
	if err != nil {
		return err
	}
	_, err = o.carryOut(ctx, plan)
	return err
}
