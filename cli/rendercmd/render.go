// Package rendercmd owns `plural render`: what the clusters would get, printed.
//
// It refuses to know what a renderer does and how inputs are found: installer/preview and resolve do.
//
// Data passes through as it does in the fleet, on one machine: resolve gives deployments, deployments with the same key
// are one rendition, and installer/preview renders it. All renditions succeed or nothing is printed.
package rendercmd

import (
	"context"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/installer/preview"
	"github.com/pluralsh/plural/workspace/resolve"
)

type options struct {
	f        *cmdutil.Factory
	services []string
	cluster  string
	commit   string
	// kubeVersion is what charts are told; empty means the helm library's default.
	kubeVersion string
	// showSecrets prints what was sealed.
	showSecrets bool
	folder      folder
}

// NewCmdRender is `plural render`.
func NewCmdRender(f *cmdutil.Factory) *cobra.Command {
	opts := options{f: f}
	cmd := &cobra.Command{
		Use:     "render [SERVICE...]",
		GroupID: cmdutil.GroupStart,
		Short:   "Print what the clusters would get, offline",
		Long: `Print what the clusters would get, offline.

The manifests of all services, or of those named, are printed as YAML, from the
work tree or from a commit. Where there is more than one rendition, each stands
below a comment that names its service and clusters. Services whose files, or a
part of them, lie in another repository cannot be rendered here; render a clone
of it with --path, which needs no installation repo at all.

What is sealed is opened with your own identities, and printed as ***, and so is
every value of a Secret beside it.`,
		Example: cmdutil.Example(
			"plural render",
			"plural render podinfo --cluster edge-1 --commit HEAD~1",
			"plural render --path deploy/overlays/prod -o name",
			"plural render --path charts/web --values charts/web/prod.yaml --set replicas=3"),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.services = args
			return run(cmd.Context(), opts)
		},
	}
	flags := cmd.Flags()
	opts.flags(flags)
	flags.StringVar(&opts.folder.path, "path", "", "render this `FOLDER`, which need not be in an installation repo")
	flags.StringVar(&opts.folder.root, "root", "", "with --path: the `FOLDER` that it may refer into (default: its git repository)")
	flags.StringVar(&opts.folder.renderer, "renderer", "", "with --path: raw, kustomize or helm (default: told from the files)")
	flags.StringVar(&opts.folder.namespace, "namespace", "", "with --path: the namespace that charts see")
	flags.StringArrayVar(&opts.folder.values, "values", nil, "with --path: a helm values `FILE`; later ones win")
	flags.StringArrayVar(&opts.folder.set, "set", nil, "with --path: a helm value, `KEY=VALUE`, as helm reads it")
	flags.StringToStringVar(&opts.folder.parameters, "parameter", nil, "with --path: what *.tmpl files see, `KEY=VALUE`")
	flags.Lookup("parameter").DefValue = "" // or help would show an empty list as default
	return cmd
}

// NewCmdOfService is `plural service render`.
func NewCmdOfService(f *cmdutil.Factory) *cobra.Command {
	opts := options{f: f}
	cmd := &cobra.Command{
		Use:   "render NAME",
		Short: "Print what a service's clusters would get, offline",
		Long: `Print what a service's clusters would get, offline: what plural render NAME prints.

Where clusters get different manifests, each rendition stands below a comment that
names its clusters. What is sealed is opened with your own identities, and printed
as ***, and so is every value of a Secret beside it.`,
		Example: cmdutil.Example(
			"plural service render podinfo --cluster edge-1",
			"plural svc render podinfo --commit HEAD~1 -o name"),
		Args: cmdutil.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.services = args
			return run(cmd.Context(), opts)
		},
	}
	opts.flags(cmd.Flags())
	return cmd
}

// flags are those about what the installation repo says.
func (o *options) flags(flags *pflag.FlagSet) {
	flags.StringVar(&o.cluster, "cluster", "", "render for this cluster only")
	flags.StringVar(&o.commit, "commit", "", "render this `REVISION` in the place of the work tree")
	flags.StringVar(&o.kubeVersion, "kube-version", "", "the Kubernetes version that charts see, such as v1.35.0")
	flags.BoolVar(&o.showSecrets, "show-secrets", false, "print what was sealed")
}

func run(ctx context.Context, opts options) error {
	printer, err := opts.f.Printer("yaml")
	if err != nil {
		return err
	}
	find := opts.fleetDeployments
	if opts.folder.path != "" {
		find = opts.folderDeployments
	} else if err := opts.folder.refuseAlone(); err != nil {
		return err
	}
	deployments, err := find()
	if err != nil {
		return err
	}
	all, err := renditions(deployments)
	if err != nil {
		return err
	}
	if err := opts.renderAll(ctx, all); err != nil {
		return err
	}
	for _, r := range all {
		for _, warning := range r.warnings {
			opts.f.Say("warning: %s%s", r.about(), ui.Clean(warning))
		}
	}
	if opts.f.JQ == "" && (opts.f.Output == "" || opts.f.Output == "yaml") {
		return printYAML(opts.f.IO, all)
	}
	return printer.Print(view(all))
}

// rendition is one outcome of a service, on all the clusters that get the same.
type rendition struct {
	deployment resolve.Deployment
	clusters   []string
	objects    []*unstructured.Unstructured
	warnings   []string
}

// renditions puts deployments with the same key together. Those that cannot be resolved are one error.
func renditions(deployments []resolve.Deployment) ([]*rendition, error) {
	var all []*rendition
	var problems []ui.Problem
	for _, d := range deployments {
		if d.Hold != nil {
			if p := cmdutil.HeldProblem(d.Hold); !slices.Contains(problems, p) {
				problems = append(problems, p)
			}
			continue
		}
		same := func(r *rendition) bool { return r.deployment.Service == d.Service && r.deployment.Key == d.Key }
		if i := slices.IndexFunc(all, same); i >= 0 {
			all[i].clusters = append(all[i].clusters, d.Cluster)
			continue
		}
		all = append(all, &rendition{deployment: d, clusters: []string{d.Cluster}})
	}
	if told := cmdutil.Problems("what should be rendered", problems); told != nil {
		return nil, told
	}
	slices.SortStableFunc(all, func(a, b *rendition) int { return strings.Compare(a.deployment.Service, b.deployment.Service) })
	return all, nil
}

// renderAll renders side by side, and reports all failures.
func (o *options) renderAll(ctx context.Context, all []*rendition) error {
	if len(all) == 0 {
		return nil
	}
	renderer, err := preview.New(all[0].deployment.Snapshot.Whole(), o.f.Identities().Load) // all are of one snapshot
	if err != nil {
		return err
	}
	renderer.KubeVersion = o.kubeVersion
	failures := make([]error, len(all))
	var group errgroup.Group
	group.SetLimit(runtime.NumCPU())
	for i, r := range all {
		group.Go(func() error {
			failures[i] = o.render(ctx, r, renderer)
			return nil
		})
	}
	_ = group.Wait() // each failure is in its own place
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	return failed(all, failures)
}

func (o *options) render(ctx context.Context, r *rendition, renderer *preview.Renderer) error {
	made, err := renderer.Render(ctx, &r.deployment)
	if err != nil {
		return err
	}
	if !o.showSecrets {
		made.Mask()
	}
	r.objects, r.warnings = made.Objects, made.Warnings
	return nil
}

// failed is one error for all renditions that failed, nil when none did.
func failed(all []*rendition, failures []error) error {
	var problems []ui.Problem
	for i, err := range failures {
		if err == nil {
			continue
		}
		problems = append(problems, cmdutil.RenderProblem(all[i].about(), err))
	}
	if told := cmdutil.Problems("what should be rendered", problems); told != nil {
		return told
	}
	return nil
}

// title says what a rendition is: "web on edge-1, edge-2", or the folder that was rendered.
func (r *rendition) title() string {
	if r.clusters[0] == "" {
		return r.deployment.Path
	}
	return r.deployment.Service + " on " + strings.Join(r.clusters, ", ")
}

// about begins a sentence about a rendition. With --path there is only one, so nothing needs saying.
func (r *rendition) about() string {
	if r.clusters[0] == "" {
		return ""
	}
	return r.title() + ": "
}
