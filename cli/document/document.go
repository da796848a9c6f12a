// Package document owns edits of one document of the installation repo.
//
// It refuses to know the fields of any kind, and how far a change is carried: callers name fields, and cli/change asks the
// person's flags.
//
// A change is planned from the files as they lie in the work tree (workspace/yamledit), and refused with file and line where it
// would leave a mistake behind. What is planned is shown, committed, pushed, and waited for until whatever the document is about
// runs with it.
package document

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/pluralsh/plural/cli/change"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/cli/waitfor"
	"github.com/pluralsh/plural/internal/overlay"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/yamledit"
)

// Change is a change that a command makes of a document of its kind.
type Change struct {
	change.CommitOptions
	// Kind is yamledit.Service, yamledit.Source or yamledit.Cluster.
	Kind string
	// asks has an edit ask, once it is shown, whatever it changes.
	asks bool
	// Check refuses a change for what its fleet would not be refused for; nil checks nothing.
	Check func(repo *workspace.Repo, after *fleet.Fleet) error
}

// New is a change whose flags say how far it is carried.
func New(f *cmdutil.Factory, kind string) *Change {
	return &Change{CommitOptions: change.CommitOptions{Factory: f}, Kind: kind}
}

// Create adds a document: a *fleet.Service, *fleet.Source or *fleet.Cluster.
func (c *Change) Create(ctx context.Context, name string, object any) error {
	if err := workspace.CheckName(name); err != nil { // it becomes a file's name
		return fmt.Errorf("%s %w", c.noun(), err)
	}
	repo, err := c.Factory.Repo()
	if err != nil {
		return err
	}
	planned, err := yamledit.Create(os.DirFS(repo.Root()), object)
	if err != nil {
		return c.explained(err)
	}
	return c.carryOut(ctx, repo, name, planned, "Create "+c.noun()+" "+name)
}

// Set writes fields of a document, and takes away those without a value. With none it is an error that says how it is used.
func (c *Change) Set(ctx context.Context, name, usage string, fields []yamledit.Field) error {
	if len(fields) == 0 {
		return &ui.Err{Msg: "nothing says what to change", Fix: usage, Doc: ui.DocUsage}
	}
	repo, err := c.Factory.Repo()
	if err != nil {
		return err
	}
	planned, err := yamledit.Set(os.DirFS(repo.Root()), yamledit.Document{Kind: c.Kind, Name: name}, fields...)
	if err != nil {
		return c.explained(err)
	}
	if planned.Done() {
		c.Factory.Say("%s %s says so already, in %s", c.noun(), ui.Clean(name), planned.File)
		return nil
	}
	return c.carryOut(ctx, repo, name, planned, yamledit.Subject(name, fields))
}

// Delete takes a document away, once the person has typed its name, or given it as confirm. toll says what goes with it, and may
// be nil.
func (c *Change) Delete(ctx context.Context, name, confirm string, toll func(context.Context, *workspace.Repo) error) error {
	repo, err := c.Factory.Repo()
	if err != nil {
		return err
	}
	planned, err := yamledit.Delete(os.DirFS(repo.Root()), yamledit.Document{Kind: c.Kind, Name: name})
	if err != nil {
		return c.inUse(name, err)
	}
	if toll != nil {
		if err := toll(ctx, repo); err != nil {
			return err
		}
	}
	c.Ask = func(ctx context.Context) error {
		return Typed(ctx, c.Factory, name, confirm, "Type "+name+" to delete the "+c.noun())
	}
	return c.carryOut(ctx, repo, name, planned, "Delete "+c.noun()+" "+name)
}

// Typed wants a name typed, or given by flag: -y is too easily said for what cannot be taken back.
func Typed(ctx context.Context, f *cmdutil.Factory, name, confirm, title string) error {
	if confirm == "" {
		question := ui.Question{Flag: "confirm", Title: title, Value: &confirm, Wanted: name}
		if err := f.Prompter().Ask(ctx, []ui.Question{question}); err != nil {
			return err
		}
	}
	if confirm != name {
		return &ui.Err{
			Msg: fmt.Sprintf("%q is not %q: nothing was changed", confirm, name), Fix: "--confirm=" + name, Doc: ui.DocUnconfirmed,
		}
	}
	return nil
}

// Losing has the person agree, once the change is shown, to what it takes away: by typing the document's name where that is all there
// is, else by a yes. confirm is the name, where the command line gives it.
func (c *Change) Losing(name string, confirm *string, all bool, question string) {
	if all {
		if c.DryRun {
			c.Factory.Say("%s", ui.ToConfirm+name)
		}
		c.Ask = func(ctx context.Context) error {
			return Typed(ctx, c.Factory, name, *confirm, question+" Type "+name+" to agree")
		}
		return
	}
	c.Ask = func(ctx context.Context) error {
		if c.Factory.Yes || *confirm == name {
			return nil
		}
		yes, err := c.Factory.Prompter().Confirm(ctx, question, "--yes")
		if err == nil && !yes {
			err = &ui.Err{Msg: "nothing was changed", Fix: "plural " + c.noun() + " get " + name + " shows what runs", Doc: ui.DocUnconfirmed}
		}
		return err
	}
}

// carryOut makes the change, as far as is wanted, and waits until it is observed.
func (c *Change) carryOut(ctx context.Context, repo *workspace.Repo, name string, planned *yamledit.Change, message string) error {
	about, err := c.about(repo, name, planned)
	if err != nil {
		return err
	}
	if c.asks && c.Ask == nil { // what takes something away is asked for already
		c.Ask = c.committing
	}
	made, err := c.CarryOut(ctx, repo, planned, message)
	if err != nil {
		return err
	}
	return c.Finish(ctx, made, about)
}

// about is what runs with the change, or no more.
func (c *Change) about(repo *workspace.Repo, name string, planned *yamledit.Change) (waitfor.About, error) {
	files := os.DirFS(repo.Root())
	after, err := fleet.Load(overlay.New(files, map[string][]byte{planned.File: planned.After}))
	if errors.As(err, new(fleet.Errors)) { // of which the hub will speak, when somebody mends one mistake of several
		return waitfor.About{}, nil
	}
	if err == nil && c.Check != nil {
		err = c.Check(repo, after)
	}
	if err != nil {
		return waitfor.About{}, err
	}
	switch c.Kind {
	case yamledit.Service:
		_, stays := after.Service(name)
		return waitfor.About{Services: []string{name}, Gone: !stays}, nil
	case yamledit.Cluster:
		_, stays := after.Cluster(name)
		return waitfor.About{Clusters: []string{name}, Gone: !stays}, nil
	}
	var about waitfor.About
	if source, ok := after.Source(name); ok {
		for i := range after.Services {
			if s := &after.Services[i]; len(s.Reads(source)) > 0 {
				about.Services = append(about.Services, s.Metadata.Name)
			}
		}
	}
	return about, nil
}

// explained tells a change that cannot be made.
func (c *Change) explained(err error) error {
	var invalid *yamledit.InvalidError
	if errors.As(err, &invalid) {
		told := *cmdutil.Problems("the installation repo as it would be", cmdutil.FleetProblems(invalid.Mistakes))
		told.Cause, told.Doc, told.Err = "nothing was changed", ui.DocMistakes, err
		return &told
	}
	return change.Explained(err)
}

// inUse is explained for a document that goes: what is wrong then is who needs it.
func (c *Change) inUse(name string, err error) error {
	var invalid *yamledit.InvalidError
	if !errors.As(err, &invalid) {
		return c.explained(err)
	}
	problems := cmdutil.FleetProblems(invalid.Mistakes)
	for i := range problems {
		problems[i].Fix = "" // a nearest name is no advice about one that is meant to go
	}
	return &ui.Err{
		Msg: fmt.Sprintf("%s %q is still named elsewhere", c.noun(), name), Problems: problems,
		Fix: "take it out there first", Doc: ui.DocStillNamed, Err: err,
	}
}

func (c *Change) noun() string { return strings.ToLower(c.Kind) }
