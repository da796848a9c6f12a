package cryptocmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os/user"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/crypto/gitcmd"
	"github.com/pluralsh/plural/crypto/keys"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/sealer"
	"github.com/pluralsh/plural/internal/gitexec"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/rekey"
)

// firstGroup is the group that a repository starts with.
const firstGroup = "fleet"

// firstPatterns are sealed for it.
func firstPatterns() []string { return []string{"secrets/**", "**/*.secret.yaml"} }

type initOptions struct {
	change
	name        string
	newcomer    bool
	postQuantum bool
	keep        identityStorage
}

func newCmdInit(f *cmdutil.Factory) *cobra.Command {
	o := &initOptions{change: change{f: f}}
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Begin to seal secrets, or join where it has begun",
		Long: "Begin to seal secrets, or join where it has begun.\n\n" +
			"Files under secrets/ and files named *.secret.yaml are sealed from now on, for the group fleet: you, and every cluster. You get an identity, if you have none. " +
			"In a repository that is sealed already nothing of it is changed: this sets up the clone, or says how to be added. Running it again changes nothing.",
		Example: cmdutil.Example("plural crypto init", "plural crypto init --name alice --passphrase"),
		Args:    cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context())
		},
	}
	o.flags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.name, "name", "", "what you are called here (default: your git e-mail's first part)")
	flags.BoolVar(&o.newcomer, "newcomer", false, "make an identity although the repository is sealed already: you are new to it")
	flags.BoolVar(&o.postQuantum, "post-quantum", false, "make identities that withstand quantum computers")
	o.keep.flags(cmd)
	return cmd
}

func (o *initOptions) run(ctx context.Context) error {
	repo, err := o.f.Repo()
	if err != nil {
		return err
	}
	if err := o.resume(ctx, repo); err != nil {
		return err
	}
	v, err := repo.Vault(nil)
	switch {
	case errors.Is(err, policy.ErrNone):
		return o.begin(ctx, repo)
	case err != nil:
		return err
	}
	return o.join(ctx, v)
}

// begin seals a repository for the first time.
func (o *initOptions) begin(ctx context.Context, repo *workspace.Repo) error {
	plan, err := o.beginning(ctx, repo)
	if err != nil {
		return err
	}
	o.show(plan)
	if o.dryRun {
		return nil
	}
	commit, err := plan.Apply(ctx, o.message)
	if err != nil {
		return err
	}
	if err := setUpNew(ctx, o.f, repo, plan.Resealed); err != nil {
		return err
	}
	o.f.Say("committed as %s: %s", cmdutil.ShortCommit(commit), plan.Message)
	if err := o.push(ctx); err != nil {
		return err
	}
	o.inClear(plan)
	o.f.Say("\nBACK IT UP: plural crypto export\n  without your identity nobody can open what you alone can open")
	return nil
}

// Person is what somebody is called among the members of a repository in dir, when nobody says otherwise.
func Person(ctx context.Context, f *cmdutil.Factory, dir string) (string, error) {
	return (&initOptions{change: change{f: f}}).person(ctx, dir)
}

// Begin is plural crypto init, without a word, in a repository that another command has just made. It returns the
// commit's id, and the files that it made, sorted.
func Begin(ctx context.Context, f *cmdutil.Factory, repo *workspace.Repo) (commit string, made []string, err error) {
	quiet := *f
	quiet.Quiet = true
	o := &initOptions{change: change{f: &quiet}}
	repo.UseKeys(f.Keys())
	plan, err := o.beginning(ctx, repo)
	if err != nil {
		return "", nil, err
	}
	if commit, err = plan.Apply(ctx, ""); err != nil {
		return "", nil, err
	}
	return commit, slices.Sorted(maps.Keys(plan.Changes)), setUpNew(ctx, f, repo, nil)
}

// beginning plans what a repository's sealing starts with.
func (o *initOptions) beginning(ctx context.Context, repo *workspace.Repo) (*rekey.Plan, error) {
	name, err := o.person(ctx, repo.Root())
	if err != nil {
		return nil, err
	}
	recipients, err := o.identity(name)
	if err != nil {
		return nil, err
	}
	me := rekey.Person{Name: name, Keys: []byte(fmt.Sprintf("# %s, added on %s\n%s\n", name, o.f.Now().Format(time.DateOnly), strings.Join(recipients, "\n")))}
	return rekey.Begin(ctx, repo, o.f.Keys(), o.f.Confirmed(), rekey.Beginning{
		Person: me, Group: firstGroup, Patterns: firstPatterns(), PostQuantum: o.postQuantum,
	})
}

// inClear says which files were sealed that history still holds in clear.
func (o *initOptions) inClear(plan *rekey.Plan) {
	if len(plan.Resealed) == 0 {
		return
	}
	o.f.Say("\nthese were committed in clear before, and git's history still holds them: change their values")
	for _, path := range plan.Resealed {
		o.f.Say("  %s", ui.Clean(path))
	}
}

// person is what the person is called: --name, else the first part of git's user.email, else the system's user.
func (o *initOptions) person(ctx context.Context, dir string) (string, error) {
	name := o.name
	if name == "" {
		email, _ := gitexec.Call{Dir: dir, Args: []string{"config", "user.email"}}.Run(ctx) // none set is an answer
		local, _, _ := strings.Cut(strings.TrimSpace(string(email)), "@")
		name = memberName(cmp.Or(local, o.f.Getenv("USER"), o.f.Getenv("LOGNAME"), loginName()))
	}
	if name == "" {
		return "", &ui.Err{Msg: "nothing says what you are called here", Fix: "--name NAME"}
	}
	if err := policy.CheckName(name); err != nil {
		return "", &ui.Err{Msg: err.Error(), Fix: "--name NAME", Err: err}
	}
	return name, nil
}

// loginName is what the system calls the person, empty when it does not say.
func loginName() string {
	me, err := user.Current()
	if err != nil {
		return ""
	}
	return me.Username
}

// identity is the public halves of the person's own identities, one of which is made if there is none.
func (o *initOptions) identity(name string) ([]string, error) {
	source := o.f.Identities()
	ids, err := source.Own()
	if err != nil {
		return nil, err
	}
	if len(ids) > 0 {
		return publicHalves(ids)
	}
	if o.dryRun {
		return nil, &ui.Err{
			Msg: "you have no identity yet, and --dry-run makes none", Fix: "leave --dry-run out", Doc: ui.DocIdentity,
		}
	}
	options, err := o.keep.options(source.Ask)
	if err != nil {
		return nil, err
	}
	options.PostQuantum = o.postQuantum
	recipient, place, err := source.Create(name, options)
	if err != nil {
		return nil, err
	}
	o.f.Say("your identity is in %s", place)
	return []string{recipient}, nil
}

func publicHalves(ids []age.Identity) ([]string, error) {
	var texts []string
	for _, id := range ids {
		if text, ok := keys.RecipientOf(id); ok {
			texts = append(texts, text)
		}
	}
	if len(texts) == 0 {
		return nil, &ui.Err{
			Msg: "your identities have no public half that is known here", Cause: "they are plugins'", Fix: "keep an age identity beside them: age-keygen", Doc: ui.DocIdentity,
		}
	}
	return texts, nil
}

// join is init in a repository that is sealed already.
func (o *initOptions) join(ctx context.Context, v *sealer.Vault) error {
	ring, err := v.Keyring()
	if err != nil {
		return err
	}
	if mine := ring.Groups(); len(mine) > 0 {
		o.f.Say("this repository is sealed already, and you can open what is for %s", strings.Join(mine, ", "))
		return unlock(ctx, o.f)
	}
	ids, err := o.f.Identities().Load()
	if err != nil {
		return err
	}
	if len(ids) == 0 && !o.newcomer {
		return &ui.Err{
			Msg:   "this repository is sealed already, and there is no identity here",
			Cause: "people of the repository are " + people(v),
			Fix:   "if you are one of them, restore your identity: plural crypto import FILE; if you are new: plural crypto init --newcomer",
			Doc:   ui.DocIdentity,
		}
	}
	return o.introduce(ctx, v)
}

// introduce says how somebody who cannot open anything yet is added.
func (o *initOptions) introduce(ctx context.Context, v *sealer.Vault) error {
	dir := o.f.WorkDir()
	name, err := o.person(ctx, dir)
	if err != nil {
		return err
	}
	recipients, err := o.identity(name)
	if err != nil {
		return err
	}
	o.f.Say("nothing here can be opened with your identity yet. Let one of %s run, and push:", people(v))
	_, err = fmt.Fprintf(o.f.IO.Out, "plural crypto share %s --name %s --group %s\n", recipients[0], name, strings.Join(v.Groups().Names()[:min(1, len(v.Groups().Names()))], ""))
	o.f.Say("then, after git pull:  plural crypto unlock")
	return err
}

func people(v *sealer.Vault) string {
	var names []string
	for _, p := range v.Groups().People() {
		names = append(names, p.Name)
	}
	return cmdutil.OrDash(strings.Join(names, ", "))
}

// setUpNew lets git seal in a repository whose sealing has just begun.
func setUpNew(ctx context.Context, f *cmdutil.Factory, repo *workspace.Repo, resealed []string) error {
	found, err := gitcmd.Find(ctx, repo.Root())
	if err != nil {
		return err
	}
	if err := setUp(ctx, found); err != nil {
		return err
	}
	return reindex(ctx, f, found, resealed)
}
