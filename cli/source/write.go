package source

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/document"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/httpfile"
	"github.com/pluralsh/plural/workspace/yamledit"
)

// written are the flags that say what a source's file says.
type written struct {
	git, helm, oci, http  string
	chart, digest         string
	ref, interval, secret string
}

func (w *written) flags(flags *pflag.FlagSet) {
	flags.StringVar(&w.git, "git", "", "the `URL` of a git repository")
	flags.StringVar(&w.helm, "helm", "", "the `URL` of a Helm repository, under which its index.yaml lies")
	flags.StringVar(&w.oci, "oci", "", "the `URL` of a repository of a registry, oci://HOST/PATH")
	flags.StringVar(&w.http, "http", "", "the `URL` of one file, for kustomizations to name")
	flags.StringVar(&w.chart, "chart", "", "the `NAME` of the chart of those who name none, in a Helm repository")
	flags.StringVar(&w.digest, "digest", "", "the digest of the file, sha256:`HEX`: any other is refused")
	flags.StringVar(&w.ref, "ref", "", "the branch, tag, commit, `VERSION` or range of services that name none")
	flags.StringVar(&w.interval, "interval", "", "the `TIME` between two looks at it (default 2m)")
	flags.StringVar(&w.secret, "secret", "", "the sealed `FILE` that the hub signs in with")
}

// spec is a new source as the flags say.
func (w *written) spec(ctx context.Context) (fleet.SourceSpec, error) {
	spec := fleet.SourceSpec{Interval: w.interval}
	switch {
	case w.git != "":
		spec.Git = &fleet.GitSource{URL: w.git, Ref: w.ref}
	case w.oci != "":
		spec.OCI = &fleet.OCISource{URL: w.oci, Ref: w.ref}
	case w.helm != "" && w.ref != "" && w.chart == "":
		return spec, &ui.Err{
			Msg: "a Helm repository has no ref of its own", Fix: "name the chart that it is of: --chart NAME; " +
				"or give it to each service: plural service create NAME --ref VERSION",
			Doc: ui.DocUsage,
		}
	case w.helm != "":
		spec.Helm = &fleet.HelmSource{URL: w.helm, Chart: w.chart, Ref: w.ref}
	case w.http != "":
		spec.HTTP = &fleet.HTTPSource{URL: w.http, Digest: w.digest}
		if w.digest == "" {
			var err error
			if spec.HTTP.Digest, err = httpfile.Digest(ctx, w.http); err != nil {
				return spec, &ui.Err{Msg: err.Error(), Fix: "give its digest: --digest sha256:HEX", Err: err}
			}
		}
	default:
		return spec, &ui.Err{Msg: "nothing says where the source is", Fix: "--git URL, --helm URL, --oci URL or --http URL", Doc: ui.DocUsage}
	}
	if w.secret != "" {
		spec.Auth = &fleet.SourceAuth{Secret: w.secret}
	}
	return spec, nil
}

// fields are what those flags say that were given, of a source of this kind. An empty text takes its field away; an address of
// another kind makes it a source of that kind.
func (w *written) fields(kind string, flags *pflag.FlagSet) []yamledit.Field {
	var fields []yamledit.Field
	for _, other := range []string{"git", "helm", "oci", "http"} {
		if other != kind && flags.Changed(other) {
			fields = append(fields, yamledit.Field{Key: "spec." + kind})
			kind = other
			break
		}
	}
	return append(fields, document.Given(flags, []document.Flag{
		{Name: "git", Key: "spec.git.url", Value: w.git},
		{Name: "helm", Key: "spec.helm.url", Value: w.helm},
		{Name: "oci", Key: "spec.oci.url", Value: w.oci},
		{Name: "http", Key: "spec.http.url", Value: w.http},
		{Name: "chart", Key: "spec.helm.chart", Value: w.chart},
		{Name: "digest", Key: "spec.http.digest", Value: w.digest},
		{Name: "ref", Key: "spec." + kind + ".ref", Value: w.ref},
		{Name: "interval", Key: "spec.interval", Value: w.interval},
		{Name: "secret", Key: "spec.auth.secret", Value: w.secret},
	})...)
}

func newCmdAdd(f *cmdutil.Factory) *cobra.Command {
	w := new(written)
	c := document.New(f, yamledit.Source)
	kustomizations := ""
	cmd := &cobra.Command{
		Use:     "add NAME",
		Aliases: []string{"create"},
		Short:   "Write a source, for services to come from",
		Long: `Write a source, for services to come from.

It becomes sources/NAME.yaml, which is shown, committed and pushed; the hub fetches
from it as soon as a service reads it. No URL may hold a credential: that lies in
a file that is sealed for the hub (docs/spec/sources.md).

With --from-kustomization it needs no name: the kustomizations below the folder, and
those of this repository to which they refer, are read, and each remote base, file or
chart that they name and that is no source yet becomes one. What a remote base names
itself is not seen from here: once the hub has fetched it, plural service get tells
what is missing.`,
		Example: cmdutil.Example(
			"plural source add podinfo --git https://github.com/stefanprodan/podinfo --ref 6.7.0",
			"plural source add bitnami --helm https://charts.bitnami.com/bitnami --interval 10m",
			"plural source add crds --http https://example.com/crds.yaml "+
				"--digest sha256:6f1c9e6f4c7a5f4d0a3f1f0f8c3a5b1f3f2d1e0c9b8a7f6e5d4c3b2a19080706",
			"plural source add --from-kustomization apps --dry-run",
			"plural src add app --oci oci://registry.example.com/app --secret secrets/registry.yaml --dry-run"),
		Args: func(cmd *cobra.Command, args []string) error {
			if kustomizations != "" {
				return cmdutil.Exactly()(cmd, args)
			}
			return cmdutil.Exactly("NAME")(cmd, args)
		},
	}
	w.flags(cmd.Flags())
	const from = "from-kustomization"
	cmd.Flags().StringVar(&kustomizations, from, "", "write what the kustomizations below the `FOLDER` name as remotes")
	cmd.MarkFlagsMutuallyExclusive("git", "helm", "oci", "http", from)
	for _, one := range []string{"chart", "digest", "ref", "interval", "secret"} { // of one source, and it may write several
		cmd.MarkFlagsMutuallyExclusive(from, one)
	}
	c.Flags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if kustomizations != "" {
			return addRemotes(cmd.Context(), f, &c.CommitOptions, kustomizations)
		}
		spec, err := w.spec(cmd.Context())
		if err != nil {
			return err
		}
		return c.Create(cmd.Context(), args[0], &fleet.Source{Metadata: fleet.Metadata{Name: args[0]}, Spec: spec})
	}
	return cmd
}

func newCmdSet(f *cmdutil.Factory) *cobra.Command {
	w := new(written)
	c := document.New(f, yamledit.Source)
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Change a source, and wait until its services run so",
		Long: `Change a source, and wait until the services that come from it run so.

Each flag writes the field of its name, and an empty text takes it away. Nothing
else in the source's file changes. All of the repo is checked with the change: a
mistake is told with its line, and nothing is changed.`,
		Example: cmdutil.Example(
			"plural source set podinfo --ref 6.7.1",
			"plural source set podinfo --interval '' -m 'Look as often as usual'"),
		Args: cmdutil.Exactly("NAME"),
	}
	w.flags(cmd.Flags())
	cmd.MarkFlagsMutuallyExclusive("git", "helm", "oci", "http")
	c.Flags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		kind, err := kindOf(f, args[0])
		if err != nil {
			return err
		}
		usage := "plural source set " + args[0] + " --ref REF, or another flag: --help"
		return c.Set(cmd.Context(), args[0], usage, w.fields(kind, cmd.Flags()))
	}
	return cmd
}

// kindOf is where a source's own fields are. Of one that is not there, whoever is to change it says so.
func kindOf(f *cmdutil.Factory, name string) (string, error) {
	_, known, err := f.Fleet()
	if err != nil {
		return "", err
	}
	if s, ok := known.Source(name); ok {
		return s.Kind(), nil
	}
	return "git", nil
}

func newCmdEdit(f *cmdutil.Factory) *cobra.Command {
	c := document.New(f, yamledit.Source)
	cmd := &cobra.Command{
		Use:   "edit NAME",
		Short: "Edit a source's file",
		Long: `Edit a source's file, and wait until the services that come from it run so.

The editor ($VISUAL, $EDITOR, else vi) works on a copy. What comes of it is checked
with all of the repo: where it would be a mistake, its line is told, and you can
edit again. Then it is shown, committed and pushed; --ask wants a yes first.`,
		Example: cmdutil.Example("plural source edit podinfo", "plural src edit podinfo --no-push"),
		Args:    cmdutil.Exactly("NAME"),
	}
	c.EditFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return c.Edit(cmd.Context(), args[0]) }
	return cmd
}

func newCmdDelete(f *cmdutil.Factory) *cobra.Command {
	c := document.New(f, yamledit.Source)
	confirm := ""
	cmd := &cobra.Command{
		Use:     "delete NAME",
		Aliases: []string{"remove"},
		Short:   "Take a source out of the fleet",
		Long: `Take a source out of the fleet.

A source that services come from stays: the command says which, with their lines.
It wants the source's name typed.`,
		Example: cmdutil.Example("plural source delete podinfo", "plural source delete podinfo --confirm=podinfo"),
		Args:    cmdutil.Exactly("NAME"),
	}
	cmd.Flags().StringVar(&confirm, "confirm", "", "the source's `NAME` once more, for scripts")
	c.Flags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.Delete(cmd.Context(), args[0], confirm, nil) // no service comes from it any more, so nothing goes with it
	}
	return cmd
}
