// Package auth owns `plural auth`: login, and tokens.
//
// It refuses to know how a hub finds out who somebody is. Logging in keeps a token on this machine, for one hub; tokens are
// made and taken back by commits to the installation repo, which holds nothing but their hashes.
package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

// maxToken bounds a token, in bytes.
const maxToken = 4 << 10

// NewCmdAuth is `plural auth`.
func NewCmdAuth(f *cmdutil.Factory) *cobra.Command {
	return cmdutil.Noun(&cobra.Command{
		Use:     "auth",
		GroupID: cmdutil.GroupAccess,
		Short:   "Log in to a hub, and manage tokens",
		Example: cmdutil.Example("plural auth login", "plural auth status", "plural auth token create ada"),
	}, newCmdLogin(f), newCmdLogout(f), newCmdStatus(f), newCmdEnd(f), newCmdToken(f))
}

type loginOptions struct {
	factory                                *cmdutil.Factory
	token, idToken, device, withoutBrowser bool
	provider                               string
	address                                string
}

func newCmdLogin(f *cmdutil.Factory) *cobra.Command {
	o := &loginOptions{factory: f}
	cmd := &cobra.Command{
		Use:   "login",
		Short: "Log in to a hub",
		Long: "Log in to a hub.\n\n" +
			"Where the fleet has an identity provider, its page opens in the browser: $BROWSER, else the system's. Over SSH the\n" +
			"address is printed, and the one that the browser ends at is pasted here. The login lasts for some hours; where this\n" +
			"machine has a keyring and the provider allows it, plural renews it by itself.\n\n" +
			"A job of GitHub Actions or GitLab CI, or a pod, logs in without a secret where access/ has a Federation for it: with\n" +
			"the token in PLURAL_ID_TOKEN or in the file that PLURAL_ID_TOKEN_FILE names, or with the job's own at GitHub.\n\n" +
			"A token of plural auth token create is taken with --with-token, or asked for where there is no provider. It is kept in\n" +
			"a file that only you can read.",
		Example: cmdutil.Example("plural auth login", "plural auth login --no-browser",
			"plural auth login --hub https://hub.example.com --with-token"),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &ui.Err{Msg: fmt.Sprintf("unexpected argument %q", args[0]), Fix: "plural auth login --hub " + args[0], Doc: ui.DocUsage}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.token, "with-token", false, "read a token of plural auth token create from standard input")
	flags.BoolVar(&o.idToken, "with-id-token", false, "read an ID token of a provider or a federation from standard input")
	flags.StringVar(&o.provider, "provider", "", "the `NAME` of the identity provider, where the fleet has several")
	flags.BoolVar(&o.device, "device", false, "log in with a code that is typed in on another device, where the provider allows it")
	flags.BoolVar(&o.withoutBrowser, "no-browser", false, "print the address in the place of opening it")
	cmd.MarkFlagsMutuallyExclusive("with-token", "with-id-token", "provider")
	cmd.MarkFlagsMutuallyExclusive("with-token", "with-id-token", "device", "no-browser")
	return cmd
}

func (o *loginOptions) run(ctx context.Context) (err error) {
	if o.address, err = o.factory.HubAddress(); err != nil {
		return err
	}
	if err := o.factory.CheckPlain(o.address); err != nil {
		return err
	}
	if o.token {
		return o.byToken(ctx)
	}
	idToken, from, err := o.machineToken(ctx)
	if err != nil {
		return err
	}
	if from != "" {
		return o.byMachine(ctx, idToken, from)
	}
	person := o.provider != "" || o.device || o.withoutBrowser || o.factory.Getenv("BROWSER") != ""
	if !person && !o.factory.Prompter().Able() { // nobody would see the page of a provider
		return o.byToken(ctx)
	}
	hub, err := o.factory.HubAt(o.address, "")
	if err != nil {
		return err
	}
	providers, err := hub.LoginProviders(ctx)
	if err != nil {
		return err
	}
	if len(providers) == 0 && o.provider == "" && !o.device {
		return o.byToken(ctx)
	}
	return o.byProvider(ctx, hub, providers)
}

// byToken logs in with a token that lasts.
func (o *loginOptions) byToken(ctx context.Context) error {
	f := o.factory
	if o.token { // a person who is asked is told the address
		if err := f.CheckNamed(o.address, "the token of --with-token"); err != nil {
			return err
		}
	}
	token, err := readToken(ctx, f, o.address, o.token)
	if err != nil {
		return err
	}
	me, err := whoIs(ctx, f, o.address, token)
	if err != nil {
		return err
	}
	if err := f.ForgetLogin(o.address); err != nil {
		return err
	}
	if err := f.Hosts().Save(o.address, token); err != nil {
		return err
	}
	o.greet(me)
	return nil
}

// greet says who is logged in now.
func (o *loginOptions) greet(me *v1.Me) {
	f, who := o.factory, me.Name
	if me.Login != nil && me.Login.Shown != "" && me.Login.Shown != me.Name {
		who += " (" + me.Login.Shown + ")"
	}
	f.Say("logged in to %s as %s", ui.Clean(o.address), ui.Clean(who))
	if len(me.Verbs) == 0 {
		f.Say("warning: no RoleBinding names you, or a group of yours: nothing may be seen")
		f.Say("  fix: somebody who may push binds a Role to one of your groups in access/, or makes %s an identity of a User there",
			ui.Clean(me.Name))
	}
	if at := cmdutil.LocalRepo(o.address, ""); at != "" {
		f.Say("note: plural up --local %s logs in as its operator again", ui.Clean(at))
	}
	if name := overriding(f); name != "" {
		f.Say("note: %s is set, and counts in the place of this login", name)
	}
}

// readToken takes the token from standard input or, hidden, from the person.
func readToken(ctx context.Context, f *cmdutil.Factory, address string, fromInput bool) (string, error) {
	var token string
	if fromInput {
		text, err := io.ReadAll(io.LimitReader(f.IO.In, maxToken+1))
		if err != nil {
			return "", fmt.Errorf("read token: %w", err)
		}
		token = string(text)
	} else {
		if !f.Prompter().Able() {
			return "", &ui.Err{
				Msg: "nothing said what the token is, and nobody can be asked",
				Fix: "plural auth login --hub " + address + " --with-token < FILE; or --no-browser, which prints where to log in",
				Doc: ui.DocNoInput,
			}
		}
		question := ui.Question{Flag: "with-token", Title: "Token for " + address, Help: "it is not shown", Secret: true, Value: &token}
		if err := f.Prompter().Ask(ctx, []ui.Question{question}); err != nil {
			return "", err
		}
	}
	token = strings.TrimSpace(token)
	if token == "" || len(token) > maxToken || strings.ContainsAny(token, " \t\r\n") {
		return "", &ui.Err{
			Msg: "that is no token: one is a single word", Fix: "plural auth login --hub " + address + " --with-token < FILE",
			Doc: ui.DocLogin,
		}
	}
	return token, nil
}

// whoIs is whom the hub takes the bearer of a token for.
func whoIs(ctx context.Context, f *cmdutil.Factory, address, token string) (*v1.Me, error) {
	hub, err := f.HubAt(address, token)
	if err != nil {
		return nil, err
	}
	me, err := hub.Me(ctx)
	var refused *client.Error
	if errors.As(err, &refused) && refused.Status == 401 {
		return nil, &ui.Err{
			Msg: "the hub does not take this token", Cause: refused.Message + "; a new token is good once the hub serves its commit",
			Fix: "plural auth token create USER, and see with plural status that the hub serves the commit",
			Doc: ui.DocLogin, Code: ui.ExitLogin, Err: err,
		}
	}
	return me, err
}

// overriding is the name of the variable that counts in the place of a login, if one is set.
func overriding(f *cmdutil.Factory) string {
	for _, name := range []string{"PLURAL_TOKEN", "PLURAL_TOKEN_FILE"} {
		if f.Getenv(name) != "" {
			return name
		}
	}
	return ""
}

func newCmdLogout(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "logout",
		Short: "Forget the token for a hub on this machine",
		Long: "Forget the token for a hub on this machine.\n\n" +
			"A token itself stays good; take it back with: plural auth token delete. A login ends by itself; end all of a user's at\n" +
			"once with: plural auth end.",
		Example: cmdutil.Example("plural auth logout", "plural auth logout --hub https://hub.example.com"),
		Args:    cmdutil.Exactly(),
		RunE: func(_ *cobra.Command, _ []string) error {
			address, err := f.HubAddress()
			if err != nil {
				return err
			}
			token, err := f.Hosts().Token(address)
			if err != nil {
				return err
			}
			if token == "" {
				f.Say("not logged in to %s", ui.Clean(address))
				return nil
			}
			if err := f.ForgetLogin(address); err != nil {
				return err
			}
			f.Say("logged out of %s", ui.Clean(address))
			return nil
		},
	}
}

// standing is what is known of a login.
type standing struct {
	Hub string `json:"hub"`
	// From is where the token came from.
	From string `json:"from"`
	// Renews says that plural renews the login by itself.
	Renews bool `json:"renews,omitempty"`
	v1.Me
}

func newCmdStatus(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:     "status",
		Short:   "Show who you are to a hub, and what you may do",
		Example: cmdutil.Example("plural auth status", "plural auth status -o json"),
		Args:    cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			hub, printer, err := f.Ask()
			if err != nil {
				return err
			}
			me, err := hub.Me(cmd.Context())
			if err != nil {
				return err
			}
			variable := overriding(f)
			s := standing{
				Hub: hub.Address(), From: cmp.Or(variable, f.Hosts().Path()), Me: *me,
				Renews: variable == "" && me.Login != nil && f.Renews(hub.Address()),
			}
			return printer.Print(ui.View{
				Value: s, Names: []string{"user/" + me.Name}, Screen: func(w io.Writer) error { return s.screen(f, w) },
			})
		},
	}
}

func (s *standing) screen(f *cmdutil.Factory, w io.Writer) error {
	may := strings.Join(s.Verbs, ", ")
	if s.Operator {
		may = "everything: this is the hub's own token"
	}
	expires := "never"
	if s.Expires != nil {
		expires = s.Expires.Local().Format("2006-01-02 15:04")
		if s.Renews {
			expires += ", renewed by itself"
		}
	}
	rows := [][]string{{"user", s.Name}}
	if l := s.Login; l != nil {
		rows = append(rows, []string{"through", l.Through}, []string{"subject", l.Subject}, []string{"shown as", cmdutil.OrDash(l.Shown)})
	}
	rows = append(rows, [][]string{
		{"groups", cmdutil.OrDash(strings.Join(s.Groups, ", "))},
		{"fleet", cmdutil.OrDash(may)},
		{"expires", expires},
		{"token", s.From},
	}...)
	return f.IO.Aligned(w, []ui.Column{{Name: "HUB"}, {Name: s.Hub}}, rows)
}
