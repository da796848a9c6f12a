// Package wait owns `plural wait`: scripts go on when services or clusters are as they are named.
//
// It refuses to know what changed them.
//
// What is waited for is looked at whenever the hub's stream says that something changed. A look gives what is missing still, and what
// cannot come any more without a person; the first empties and the wait is over, the second ends it as a failure.
package wait

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

const (
	// limit is how long is waited where --timeout says nothing.
	limit = 5 * time.Minute
	// silence is how long a wait says nothing: most are over by then.
	silence = 5 * time.Second
	// again is when to look although nothing has changed: what fails may be tried once more.
	again = time.Second
	// maxTold is how much is told of what is missing.
	maxTold = 20
)

var hexadecimal = regexp.MustCompile(`^[0-9a-f]+$`)

var errLimit = errors.New("the time limit of plural wait is over")

type options struct {
	f         *cmdutil.Factory
	selection cmdutil.Selection
	all       bool
	condition string
}

// NewCmdWait is `plural wait`.
func NewCmdWait(f *cmdutil.Factory) *cobra.Command {
	o := &options{f: f}
	cmd := &cobra.Command{
		Use:     "wait [NAME|service/NAME|cluster/NAME]...",
		GroupID: cmdutil.GroupStart,
		Short:   "Wait until services or clusters are as they should be",
		Long: `Wait until services or clusters are as they should be.

  --for healthy      everything there runs what the newest commit says, healthy
  --for synced       everything there is applied, whether it is healthy or not
  --for deleted      it is in the fleet no more
  --for commit=SHA   the hub serves this commit, or one made of it, and
                     everything there is applied

A name alone is a service's. -l, --filter and -A name services on clusters:
those that fit, or all. Together with names they narrow these down. What is
suspended is not waited for. After five seconds it says what it waits for. Right
after a push the hub may not have seen the commit yet: name it, --for
commit=SHA.

It ends with 0 when all of it is so, with 1 when something failed, with 8 when
something waits for a person, or when --timeout is over (default 5m).`,
		Example: cmdutil.Example(
			"plural wait service/web --timeout 2m",
			"plural wait service/web service/api --for synced -l env=prod"),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.condition, "for", "healthy", "the `CONDITION`: healthy, synced, deleted or commit=SHA")
	_ = cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions( // the flag is there, and has none
		[]cobra.Completion{"healthy", "synced", "deleted", "commit="}, cobra.ShellCompDirectiveNoFileComp))
	flags.StringArrayVarP(&o.selection.Tags, "selector", "l", nil, "only on clusters with these `TAGS`, such as env=prod,tier!=db")
	flags.StringVar(&o.selection.Filter, "filter", "", "only what fits this `TEXT`: plural help filters")
	flags.BoolVarP(&o.all, "all", "A", false, "everything in the fleet")
	return cmd
}

func (o *options) run(ctx context.Context, args []string) error {
	l, err := o.look(args)
	if err != nil {
		return err
	}
	printer, err := o.f.Printer("")
	if err != nil {
		return err
	}
	if l.hub, err = o.f.HubClient(); err != nil {
		return err
	}
	if o.f.Timeout == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, errLimit)
		defer cancel()
	}
	began, told := o.f.Now(), ""
	kinds := []v1.ChangeKind{v1.ChangedDeployments, v1.ChangedClusters, v1.ChangedServices, v1.ChangedSummary}
	err = o.f.Watch(ctx, cmdutil.Watching{Kinds: kinds, Every: again, Awaits: true}, func(ctx context.Context) error {
		if err := l.once(ctx); err != nil {
			return err
		}
		if len(l.missing) == 0 {
			return cmdutil.ErrEnough
		}
		sentences := l.sentences()
		if text := strings.Join(sentences[:min(3, len(sentences))], "; "); o.f.Now().Sub(began) >= silence && text != told {
			o.f.Say("waiting for %d: %s", len(l.missing), ui.Clean(text))
			told = text
		}
		return nil
	})
	if err != nil {
		return late(ctx, err, l)
	}
	if len(l.suspended) > 0 {
		o.f.Say("not waited for, since it is suspended: %s", cmdutil.Few(l.suspended))
	}
	return printer.Print(l.view())
}

// late adds what was waited for to the error of a wait whose time is over.
func late(ctx context.Context, err error, l *look) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	mend := l.mend
	if mend == "" && l.lacking != nil {
		mend = l.f.Mender(context.WithoutCancel(ctx), l.hub.Address())(l.lacking)
	}
	told := &ui.Err{
		Msg: "it did not come in time", Fix: cmp.Or(mend, "plural status shows how it is") + "; give it longer: --timeout 15m",
		Doc: ui.DocNotConverged, Code: ui.ExitPending, Err: context.Cause(ctx),
	}
	sentences := l.sentences()
	for _, text := range sentences[:min(maxTold, len(sentences))] {
		told.Problems = append(told.Problems, ui.Problem{Message: text})
	}
	return told
}

// look reads what a person asks for.
func (o *options) look(args []string) (*look, error) {
	l := &look{f: o.f, selection: &o.selection, condition: o.condition, ill: map[string]time.Time{}}
	if commit, ok := strings.CutPrefix(o.condition, "commit="); ok && len(commit) >= 4 {
		l.commit = commit
		if !hexadecimal.MatchString(commit) { // a branch or HEAD, as this clone has it
			repo, err := o.f.Repo()
			if err != nil {
				return nil, err
			}
			if l.commit, err = repo.Resolve(commit); err != nil {
				return nil, err
			}
		}
	} else if !slices.Contains([]string{"healthy", "synced", "deleted"}, o.condition) {
		return nil, &ui.Err{
			Msg: fmt.Sprintf("nothing is ever %q", o.condition), Fix: "--for healthy, synced, deleted or commit=SHA", Doc: ui.DocUsage,
		}
	}
	for _, arg := range args {
		kind, name, named := strings.Cut(arg, "/")
		if !named {
			kind, name = "service", arg
		}
		switch kind {
		case "service", "svc":
			kind = "service"
		case "cluster", "cl":
			kind = "cluster"
		default:
			name = ""
		}
		if name == "" {
			return nil, &ui.Err{Msg: fmt.Sprintf("wait for %q?", arg), Fix: "plural wait service/NAME or cluster/NAME", Doc: ui.DocUsage}
		}
		l.targets = append(l.targets, target{kind, name})
	}
	switch {
	case len(args) > 0 && o.all:
		return nil, &ui.Err{Msg: "-A is everything, and there are names too", Fix: "leave out -A or the names", Doc: ui.DocUsage}
	case len(args) == 0 && !o.all && !o.selection.Any():
		return nil, &ui.Err{Msg: "wait for what?", Fix: "plural wait service/NAME or cluster/NAME, or with -l, --filter or -A", Doc: ui.DocUsage}
	case len(args) == 0:
		l.targets = []target{{}}
	}
	return l, nil
}

// absent says that the hub has no such thing.
func absent(err error) bool {
	var answer *client.Error
	return errors.As(err, &answer) && answer.Status == 404
}
