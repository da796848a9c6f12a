// Package application owns `plural application`: the programs in which people log in by way of the hub.
//
// It edits the installation repo and asks no hub. Of a client secret the repository gets the hash; the secret itself is shown once, or
// goes into a sealed file.
package application

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/cli/change"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/yamledit"
)

// NewCmdApplication is `plural application`.
func NewCmdApplication(f *cmdutil.Factory) *cobra.Command {
	return cmdutil.Noun(&cobra.Command{
		Use:     "application",
		GroupID: cmdutil.GroupAccess,
		Short:   "Have people log in to applications by way of the hub",
		Long: "Have people log in to applications by way of the hub.\n\n" +
			"The hub is an OpenID Connect provider for the applications of access/: whoever logs in to one of them does so with the\n" +
			"identity provider of the fleet, and the groups that access/ knows. It is one once it has keys to sign with.",
		Example: cmdutil.Example("plural application rotate-keys",
			"plural application create grafana --redirect-uri https://grafana.example.com/login/generic_oauth --group platform",
			"plural application list"),
	}, newCmdList(f), newCmdCreate(f), newCmdRotate(f), newCmdDelete(f), newCmdRotateKeys(f))
}

// row is an application as it is listed.
type row struct {
	Name         string        `json:"name"`
	Client       string        `json:"client"`
	Issuer       string        `json:"issuer"`
	RedirectURIs []string      `json:"redirectURIs"`
	Allow        fleet.Members `json:"allow"`
	File         string        `json:"file"`
}

func newCmdList(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the applications, and who may log in",
		Example: cmdutil.Example("plural application list", "plural application list -o json"),
		Args:    cmdutil.AtMost(0),
		RunE: func(*cobra.Command, []string) error {
			_, all, err := f.Fleet()
			if err != nil {
				return err
			}
			printer, err := f.Printer("")
			if err != nil {
				return err
			}
			rows := []row{}
			view := ui.View{Columns: []ui.Column{
				{Name: "APPLICATION"},
				{Name: "CLIENT"},
				{Name: "USERS"},
				{Name: "GROUPS"},
				{Name: "REDIRECT URIS", Wide: true},
				{Name: "FILE", Wide: true},
			}}
			for i := range all.Applications {
				a := &all.Applications[i]
				client := "confidential"
				if a.Spec.SecretHash == "" {
					client = "public"
				}
				rows = append(rows, row{
					Name: a.Metadata.Name, Client: client, Issuer: all.Workspace.Issuer(), RedirectURIs: a.Spec.RedirectURIs, Allow: a.Spec.Allow,
					File: a.Position.String(),
				})
				view.Names = append(view.Names, "application/"+a.Metadata.Name)
				view.Rows = append(view.Rows, []string{
					a.Metadata.Name, client, listed(a.Spec.Allow.Users), listed(a.Spec.Allow.Groups), listed(a.Spec.RedirectURIs), a.Position.String(),
				})
			}
			view.Value = rows
			return printer.Print(view)
		},
	}
}

func listed(names []string) string { return cmdutil.OrDash(strings.Join(names, ", ")) }

type createOptions struct {
	change.CommitOptions
	spec   fleet.ApplicationSpec
	public bool
	file   string
}

func newCmdCreate(f *cmdutil.Factory) *cobra.Command {
	o := &createOptions{CommitOptions: change.CommitOptions{Factory: f, Unobserved: true}}
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Add an application, and make its client secret",
		Long: "Add an application, and make its client secret.\n\n" +
			"NAME is its client ID. The secret is shown once, and its hash is committed; with --secret-file it goes into a sealed file\n" +
			"of the installation repo as clientSecret, beside clientID, where a Service names it as one of its secrets.",
		Example: cmdutil.Example(
			"plural application create grafana --redirect-uri https://grafana.example.com/login/generic_oauth --group platform",
			"plural application create kubectl --public --redirect-uri http://127.0.0.1/ --group platform",
			"plural application create wiki --redirect-uri https://wiki.example.com/callback --user ada --secret-file secrets/wiki.yaml"),
		Args: cmdutil.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&o.spec.RedirectURIs, "redirect-uri", nil,
		"where the application has people come back to, exactly as it sends it; may be repeated")
	flags.StringArrayVar(&o.spec.LogoutURIs, "logout-uri", nil, "where people may be sent once they have logged out; may be repeated")
	flags.StringSliceVar(&o.spec.Allow.Groups, "group", nil, "`GROUPS` whose members may log in")
	flags.StringSliceVar(&o.spec.Allow.Users, "user", nil, "`USERS` who may log in")
	flags.BoolVar(&o.public, "public", false, "make no secret: the application runs on people's own machines")
	flags.BoolVar(&o.spec.WithoutPKCE, "without-pkce", false, "the application cannot do PKCE")
	flags.StringVar(&o.file, "secret-file", "", "sealed `FILE` of the installation repo for the secret, which is not shown then")
	o.Flags(flags)
	return cmd
}

func (o *createOptions) run(ctx context.Context, name string) error {
	repo, all, err := o.Factory.Fleet()
	if err != nil {
		return err
	}
	switch {
	case all.Workspace.Spec.Hub.SigningKeys == "":
		return &ui.Err{Msg: "the hub has no keys to sign logins with", Fix: "plural application rotate-keys makes them"}
	case len(o.spec.RedirectURIs) == 0:
		return &ui.Err{
			Msg: "nothing says where the application has people come back to",
			Fix: "--redirect-uri https://...: its documentation calls it redirect or callback URL", Doc: ui.DocUsage,
		}
	case len(o.spec.Allow.Groups)+len(o.spec.Allow.Users) == 0:
		return &ui.Err{Msg: "nothing says who may log in", Fix: "--group GROUPS, --user USERS", Doc: ui.DocUsage}
	case o.public && (o.file != "" || o.spec.WithoutPKCE):
		return &ui.Err{
			Msg: "--public has no secret, which --secret-file and --without-pkce are about", Fix: "leave one of them out", Doc: ui.DocUsage,
		}
	}
	secret := ""
	if !o.public {
		secret = newSecret()
		o.spec.SecretHash = fleet.HashToken(secret)
	}
	planned, err := yamledit.Create(os.DirFS(repo.Root()), &fleet.Application{Metadata: fleet.Metadata{Name: name}, Spec: o.spec})
	if err != nil {
		return change.Explained(err)
	}
	s := shownSecret{&o.CommitOptions, repo, name, secret, o.file}
	if err := s.carryOut(ctx, planned, "Let people log in to "+name); err != nil {
		return err
	}
	at := cmp.Or(all.Workspace.Issuer(), "https://HUB"+fleet.IssuerPath+", where https://HUB is the hub's URL")
	o.Factory.Say("client ID %s, issuer %s", ui.Clean(name), ui.Clean(at))
	return nil
}

// newSecret is a client secret of 256 random bits.
func newSecret() string { return strings.TrimPrefix(fleet.NewToken(), fleet.TokenPrefix) }

// shownSecret is a new client secret on its way to whoever needs it.
type shownSecret struct {
	*change.CommitOptions
	repo         *workspace.Repo
	name, secret string
	// file is the sealed one that gets the secret; empty: it is shown.
	file string
}

func (s *shownSecret) carryOut(ctx context.Context, planned *yamledit.Change, message string) error {
	files := map[string][]byte{planned.File: planned.After}
	if s.file != "" {
		if s.file = path.Clean(s.file); !fs.ValidPath(s.file) {
			return &ui.Err{
				Msg: fmt.Sprintf("--secret-file %q is no file of the installation repo", s.file),
				Fix: "name it from the repo's root, such as secrets/wiki.yaml",
			}
		}
		if _, err := sealedFor(s.repo, s.file); err != nil {
			return err
		}
		w, err := fleet.LoadWorkspace(os.DirFS(s.repo.Root()))
		if err != nil {
			return err
		}
		if s.file == w.Spec.Hub.SigningKeys {
			return &ui.Err{
				Msg: s.file + " holds the keys that sign logins", Fix: "choose a file that is sealed for the clusters which run the application",
			}
		}
		if _, err := os.Lstat(s.repo.Root() + "/" + s.file); !errors.Is(err, os.ErrNotExist) && s.secret != "" {
			s.Factory.Say("warning: all that %s held is replaced", ui.Clean(s.file))
		}
		text, err := yaml.Marshal(map[string]string{"clientID": s.name, "clientSecret": s.secret})
		if err != nil {
			return fmt.Errorf("write %s: %w", s.file, err)
		}
		files[s.file] = text
	}
	made, err := s.CarryOutFiles(ctx, s.repo, files, nil, message)
	if !made.Written || s.secret == "" || s.file != "" {
		return err
	}
	s.Factory.Say("client secret of %s, shown this once:", ui.Clean(s.name))
	_, printed := fmt.Fprintln(s.Factory.IO.Out, s.secret)
	return errors.Join(err, printed)
}

// sealedFor are the groups that a file is sealed for, which it has to be.
func sealedFor(repo *workspace.Repo, name string) ([]string, error) {
	vault, err := repo.Vault(nil)
	if errors.Is(err, policy.ErrNone) {
		return nil, &ui.Err{
			Msg: "nothing is sealed in this repository", Cause: "there is no " + policy.File, Fix: "plural crypto init", Doc: ui.DocNothingSealed,
		}
	}
	if err != nil {
		return nil, err
	}
	groups, must, err := vault.Policy().Match(name)
	if err == nil && !must {
		err = &ui.Err{
			Msg: fmt.Sprintf("%q would not be sealed", name), Cause: "no pattern of " + policy.File + " covers it",
			Fix: "choose a file that one covers", Doc: ui.DocNotSealed,
		}
	}
	return groups, err
}

func newCmdRotate(f *cmdutil.Factory) *cobra.Command {
	m, file := &change.CommitOptions{Factory: f, Unobserved: true}, ""
	cmd := &cobra.Command{
		Use:   "rotate NAME",
		Short: "Make a new client secret for an application",
		Long: "Make a new client secret for an application.\n\n" +
			"The one before is good until the hub serves the commit; logins that are under way then have to begin again.",
		Example: cmdutil.Example("plural application rotate grafana", "plural application rotate wiki --secret-file secrets/wiki.yaml"),
		Args:    cmdutil.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			repo, a, err := find(f, args[0])
			if err != nil {
				return err
			}
			if a.Spec.SecretHash == "" {
				return &ui.Err{Msg: fmt.Sprintf("application %q is public: it has no secret", args[0]), Fix: "plural application list"}
			}
			secret := newSecret()
			planned, err := yamledit.Set(os.DirFS(repo.Root()), yamledit.Document{Kind: yamledit.Application, Name: args[0]},
				yamledit.Field{Key: "spec.secretHash", Value: fleet.HashToken(secret)})
			if err != nil {
				return change.Explained(err)
			}
			s := shownSecret{m, repo, args[0], secret, file}
			return s.carryOut(cmd.Context(), planned, "Rotate the client secret of "+args[0])
		},
	}
	cmd.Flags().StringVar(&file, "secret-file", "", "sealed `FILE` of the installation repo for the secret, which is not shown then")
	m.Flags(cmd.Flags())
	return cmd
}

func newCmdDelete(f *cmdutil.Factory) *cobra.Command {
	m := &change.CommitOptions{Factory: f, Unobserved: true}
	cmd := &cobra.Command{
		Use:     "delete NAME",
		Short:   "Let nobody log in to an application any longer",
		Example: cmdutil.Example("plural application delete wiki", "plural application delete wiki --dry-run"),
		Args:    cmdutil.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			repo, _, err := find(f, args[0])
			if err != nil {
				return err
			}
			planned, err := yamledit.Delete(os.DirFS(repo.Root()), yamledit.Document{Kind: yamledit.Application, Name: args[0]})
			if err != nil {
				return change.Explained(err)
			}
			_, err = m.CarryOut(cmd.Context(), repo, planned, "Delete application "+args[0])
			return err
		},
	}
	m.Flags(cmd.Flags())
	return cmd
}

func find(factory *cmdutil.Factory, name string) (*workspace.Repo, *fleet.Application, error) {
	repo, all, err := factory.Fleet()
	if err != nil {
		return nil, nil, err
	}
	at := slices.IndexFunc(all.Applications, func(a fleet.Application) bool { return a.Metadata.Name == name })
	if at < 0 {
		return nil, nil, &ui.Err{
			Msg: fmt.Sprintf("the installation repo has no application %q", name), Fix: "plural application list", Doc: ui.DocNotFound,
		}
	}
	return repo, &all.Applications[at], nil
}
