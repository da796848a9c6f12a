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
	}, newCmdLogin(f), newCmdLogout(f), newCmdStatus(f), newCmdToken(f))
}

func newCmdLogin(f *cmdutil.Factory) *cobra.Command {
	var fromInput bool
	cmd := &cobra.Command{
		Use:   "login",
		Short: "Log in to a hub with a token",
		Long: "Log in to a hub with a token.\n\n" +
			"The hub is asked whose the token is, and then it is kept on this machine, in a file that only you can read, for\n" +
			"every further command about that hub. Tokens are made with: plural auth token create.",
		Example: cmdutil.Example("plural auth login", "plural auth login --hub https://hub.example.com --with-token"),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &ui.Err{Msg: fmt.Sprintf("unexpected argument %q", args[0]), Fix: "plural auth login --hub " + args[0], Doc: ui.DocUsage}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return login(cmd.Context(), f, fromInput)
		},
	}
	cmd.Flags().BoolVar(&fromInput, "with-token", false, "read the token from standard input")
	return cmd
}

func login(ctx context.Context, f *cmdutil.Factory, fromInput bool) error {
	address, err := f.HubAddress()
	if err != nil {
		return err
	}
	if fromInput { // a person who is asked is told the address
		err = f.CheckNamed(address, "the token of --with-token")
	}
	if err == nil {
		err = f.CheckPlain(address)
	}
	if err != nil {
		return err
	}
	token, err := readToken(ctx, f, address, fromInput)
	if err != nil {
		return err
	}
	me, err := whoIs(ctx, f, address, token)
	if err != nil {
		return err
	}
	if err := f.Hosts().Save(address, token); err != nil {
		return err
	}
	f.Say("logged in to %s as %s", ui.Clean(address), ui.Clean(me.Name))
	if at := cmdutil.LocalRepo(address, ""); at != "" {
		f.Say("note: plural up --local %s logs in as its operator again", ui.Clean(at))
	}
	if name := overriding(f); name != "" {
		f.Say("note: %s is set, and counts in the place of this login", name)
	}
	return nil
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
				Fix: "plural auth login --hub " + address + " --with-token < FILE", Doc: ui.DocNoInput,
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
			"The token itself stays good; take it back with: plural auth token delete.",
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
			if err := f.Hosts().Save(address, ""); err != nil {
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
			s := standing{hub.Address(), cmp.Or(overriding(f), f.Hosts().Path()), *me}
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
	}
	return f.IO.Aligned(w, []ui.Column{{Name: "HUB"}, {Name: s.Hub}}, [][]string{
		{"user", s.Name},
		{"groups", cmdutil.OrDash(strings.Join(s.Groups, ", "))},
		{"fleet", cmdutil.OrDash(may)},
		{"expires", expires},
		{"token", s.From},
	})
}
