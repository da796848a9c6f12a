// Package diff owns `plural diff`: what the work tree changes against a commit.
//
// It refuses to know formats of files and how objects are compared: what a sealed file is without its values is
// crypto/values' affair, what two renditions differ in is agent/compare's.
//
// Both sides are resolved for every cluster, as the hub would. Where a deployment's key differs, and only there, both sides
// are rendered, each distinct input once; the changes come back grouped and ranked, and are one value that is printed as a
// screen or as JSON, together with the steps of packages that a deploy would run for it. With --live each cluster is asked
// besides what an apply would change now. With --files, or where nothing is deployed, the files themselves are compared: by
// hashes, and the sealed ones among them opened and masked.
package diff

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/live"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/completions"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// defaultRenders is how many different inputs of a service are rendered unless more are asked for.
const defaultRenders = 100

type options struct {
	f      *cmdutil.Factory
	commit string
	// names are arguments without svc/ or cl/: a commit, services, clusters.
	names    []string
	services []string
	clusters []string
	exitCode bool
	files    bool
	unified  bool
	// renders bounds the different inputs of a service that are rendered; 0 means all.
	renders     int
	kubeVersion string
	live        live.Options
}

// NewCmdDiff is `plural diff`.
func NewCmdDiff(f *cmdutil.Factory) *cobra.Command {
	o := options{f: f}
	cmd := &cobra.Command{
		Use:     "diff [COMMIT] [SERVICE | cl/CLUSTER]...",
		GroupID: cmdutil.GroupStart,
		Short:   "Show what the work tree changes, secrets masked",
		Long: `Show what the work tree changes against a commit, by default the last one.

Both are rendered for every cluster, and the objects compared. The same change
is told once, with all that it reaches, and what reaches most comes first. What
is deleted, what stays all the same, and deletions that will wait for a person
are called out. Names of services and clusters narrow it down; svc/NAME and
cl/NAME are never taken for a commit. Of packages, the steps are shown that a
deploy would run for it, with why; nothing is run.

Objects that come or change are checked as plural validate checks them, and what
clusters would refuse is told at the end, each with its file and line.

With -o markdown the result is a comment for a pull request, folded by service,
of at most 60,000 bytes.

With --live, clusters that can be reached from here are asked besides what an
apply would change in them now, and whose fields it would take; nothing is
changed there.

With --files, and where nothing is deployed, files are compared in the place of
objects. Of Secrets and sealed files every key is shown with ***(digits) in the
place of its value; the digits differ where the values do, and are others with
every run. KUBECTL_EXTERNAL_DIFF, when set, is run on two folders of objects.`,
		Example: cmdutil.Example(
			"plural diff",
			"plural diff web",
			"plural diff main svc/web cl/edge-1 --unified",
			"plural diff origin/main -o markdown > comment.md",
			"plural diff svc/web --live --context edge-1=admin@edge-1",
			"plural diff HEAD~3 --exit-code -o json",
			"plural diff --files"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.read(args); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.files, "files", false, "compare files in the place of what they render to")
	o.flags(flags)
	return cmd
}

// NewCmdOfService is `plural service diff`.
func NewCmdOfService(f *cmdutil.Factory) *cobra.Command {
	o := options{f: f}
	cmd := &cobra.Command{
		Use:   "diff NAME [COMMIT]",
		Short: "Show what the work tree changes of a service",
		Long: `Show what the work tree changes of a service against a commit, by default the
last one: what plural diff svc/NAME shows. With --live, clusters that can be
reached from here are asked besides what an apply would change in them now.`,
		Example: cmdutil.Example(
			"plural service diff podinfo --cluster edge-1",
			"plural svc diff podinfo main --exit-code",
			"plural svc diff podinfo --live --context edge-1=admin@edge-1"),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmdutil.Exactly("NAME")(cmd, args)
			}
			return cmdutil.AtMost(2)(cmd, args)
		},
		ValidArgsFunction: cmdutil.Complete(f, completions.Services, completions.Commits),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.services, o.commit = args[:1], "HEAD"
			if len(args) > 1 {
				o.commit = args[1]
			}
			if err := o.live.Check(); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&o.clusters, "cluster", nil, "compare what these `CLUSTERS` get")
	o.flags(flags)
	return cmd
}

// flags are those of every comparison.
func (o *options) flags(flags *pflag.FlagSet) {
	flags.BoolVar(&o.exitCode, "exit-code", false, "end with 2 when there are differences")
	flags.BoolVar(&o.unified, "unified", false, "show objects as unified diffs of YAML")
	flags.IntVar(&o.renders, "renders", defaultRenders, "render at most this many variants of a service; 0 for all")
	flags.StringVar(&o.kubeVersion, "kube-version", "", "the Kubernetes version that charts see, such as v1.35.0")
	o.live.AddFlags(flags, "ask clusters besides what an apply would change in them now")
}

// read takes the arguments apart.
func (o *options) read(args []string) error {
	o.commit = "HEAD"
	for _, arg := range args {
		kind, name, ok := strings.Cut(arg, "/")
		switch {
		case ok && (kind == "svc" || kind == "service"):
			o.services = append(o.services, name)
		case ok && (kind == "cl" || kind == "cluster"):
			o.clusters = append(o.clusters, name)
		default:
			o.names = append(o.names, arg)
		}
	}
	if o.files && o.live.On {
		return &ui.Err{Msg: "--files compares files, and --live asks clusters", Fix: "leave out one of them"}
	}
	if o.live.On && o.f.Output == "markdown" {
		return &ui.Err{Msg: "--live does not go with -o markdown: a comment is of what the commit changes", Fix: "leave out one of them"}
	}
	return o.live.Check()
}

func (o options) run(ctx context.Context) error {
	repo, err := o.f.Repo()
	if err != nil {
		return err
	}
	if err := o.takeCommit(repo); err != nil {
		return err
	}
	if o.files {
		if len(o.names)+len(o.services)+len(o.clusters) > 0 {
			return &ui.Err{Msg: "--files compares the whole repository with one commit", Fix: "leave out all other names"}
		}
		return o.runFiles(ctx, repo)
	}
	return o.runRendered(ctx, repo)
}

// takeCommit takes the commit out of the names. As with git, a name that is a commit's is the commit's.
func (o *options) takeCommit(repo *workspace.Repo) error {
	commits := 0
	others := o.names[:0:0]
	for _, name := range o.names {
		var ambiguous *snapshot.AmbiguousError
		if _, err := repo.Resolve(name); err != nil && !errors.As(err, &ambiguous) {
			others = append(others, name)
			continue
		}
		o.commit = name
		if commits++; commits > 1 {
			return &ui.Err{Msg: fmt.Sprintf("unexpected argument %q", name), Fix: "name one commit; and services and clusters as svc/NAME and cl/NAME"}
		}
	}
	o.names = others
	return nil
}

// takeNames takes the names that are no commit's for services and clusters of either side.
func (o *options) takeNames(s *sides) error {
	for _, name := range o.names {
		switch {
		case s.hasService(name):
			o.services = append(o.services, name)
		case s.hasCluster(name):
			o.clusters = append(o.clusters, name)
		default:
			return &ui.Err{
				Msg: fmt.Sprintf("%q is no commit, service or cluster of this repository", name), Fix: "git log --oneline, ls services/ clusters/", Doc: ui.DocNotFound,
			}
		}
	}
	return nil
}
