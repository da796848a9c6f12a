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
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/live"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/completions"
)

// defaultRenders is how many different inputs of a service are rendered unless more are asked for.
const defaultRenders = 100

type options struct {
	f        *cmdutil.Factory
	commit   string
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
		Use:     "diff [COMMIT] [svc/NAME | cl/NAME]...",
		GroupID: cmdutil.GroupStart,
		Short:   "Show what the work tree changes, secrets masked",
		Long: `Show what the work tree changes against a commit, by default the last one.

Both are rendered for every cluster, and the objects compared. The same change
is told once, with all that it reaches, and what reaches most comes first. What
is deleted, what stays all the same, and deletions that will wait for a person
are called out. svc/NAME and cl/NAME narrow it down. Of packages, the steps are
shown that a deploy would run for it, with why; nothing is run.

With --live, clusters that can be reached from here are asked besides what an
apply would change in them now, and whose fields it would take; nothing is
changed there.

With --files, and where nothing is deployed, files are compared in the place of
objects. Of Secrets and sealed files every key is shown with ***(digits) in the
place of its value; the digits differ where the values do, and are others with
every run. KUBECTL_EXTERNAL_DIFF, when set, is run on two folders of objects.`,
		Example: cmdutil.Example(
			"plural diff",
			"plural diff main svc/web cl/edge-1 --unified",
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

// read tells a commit from services and clusters.
func (o *options) read(args []string) error {
	o.commit = "HEAD"
	commits := 0
	for _, arg := range args {
		kind, name, ok := strings.Cut(arg, "/")
		switch {
		case ok && (kind == "svc" || kind == "service"):
			o.services = append(o.services, name)
		case ok && (kind == "cl" || kind == "cluster"):
			o.clusters = append(o.clusters, name)
		default:
			o.commit = arg
			commits++
		}
	}
	if commits > 1 {
		return &ui.Err{Msg: fmt.Sprintf("unexpected argument %q", o.commit), Fix: "name services and clusters as svc/NAME and cl/NAME"}
	}
	if o.files && o.live.On {
		return &ui.Err{Msg: "--files compares files, and --live asks clusters", Fix: "leave out one of them"}
	}
	if o.files && len(o.services)+len(o.clusters) > 0 {
		return &ui.Err{Msg: "--files compares the whole repository", Fix: "leave out svc/NAME and cl/NAME"}
	}
	return o.live.Check()
}

func (o options) run(ctx context.Context) error {
	repo, err := o.f.Repo()
	if err != nil {
		return err
	}
	if o.files {
		return o.runFiles(ctx, repo)
	}
	return o.runRendered(ctx, repo)
}
