// Package kube owns the commands that give Kubernetes tools access through the hub.
//
// It refuses to know how requests get there and what tools ask for. A command finds the hub and the cluster, and writes the
// file that tools read, or runs a tool with one.
package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/apiproxy"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

// NewCmdKube is `plural kube`.
func NewCmdKube(f *cmdutil.Factory) *cobra.Command {
	return cmdutil.Noun(&cobra.Command{
		Use:     "kube",
		GroupID: cmdutil.GroupAccess,
		Short:   "Reach clusters with Kubernetes tools, through the hub",
		Example: cmdutil.Example("plural kube config --all", "plural kube run prod-eu -- k9s", "plural kube shell prod-eu",
			"plural kube proxy prod-eu"),
	}, newCmdConfig(f), newCmdRun(f), newCmdShell(f), newCmdProxy(f), newCmdToken(f))
}

// way is what a command needs to reach one cluster.
type way struct {
	hub     *client.Client
	cluster string
	tokens  *apiproxy.Tokens
}

// find finds the hub.
func find(f *cmdutil.Factory, cluster string) (*way, error) {
	hub, err := f.HubClient()
	if err != nil {
		return nil, err
	}
	return &way{hub, cluster, apiproxy.NewTokens(hub, cluster, apiproxy.TokenDir(), f.Now)}, nil
}

// open also gets a first token: a person who may not reach the cluster learns it here, in so many words.
func open(ctx context.Context, f *cmdutil.Factory, cluster string) (*way, error) {
	w, err := find(f, cluster)
	if err != nil {
		return nil, err
	}
	if _, err := w.tokens.Token(ctx); err != nil {
		return nil, unknown(err, cluster)
	}
	return w, nil
}

// answers is why the cluster's API cannot be asked for anything: the hub or the cluster's agent is away, or the person has no
// rights there at all. A tool would ask again and again, and not say why. What else goes wrong is the tool's to tell.
func (w *way) answers(ctx context.Context) error {
	_, err := apiproxy.Get(ctx, w.tokens, "/api", "application/json") // as tools do first
	var away *client.Unreachable
	if errors.As(err, &away) {
		return err
	}
	var answer *client.Error
	if errors.As(err, &answer) && (answer.Status == http.StatusServiceUnavailable || answer.Status == http.StatusForbidden) {
		return err
	}
	return nil
}

// handler is the cluster's API.
func (w *way) handler(f *cmdutil.Factory) (http.Handler, error) {
	return apiproxy.New(w.hub, w.tokens, f.Logger())
}

// secure says whether tools can be let speak to the hub themselves: they show a token over TLS alone.
func secure(hub *client.Client) bool { return strings.HasPrefix(hub.Address(), "https://") }

// unknown says what to do about a cluster that the hub does not know.
func unknown(err error, cluster string) error {
	var answer *client.Error
	if errors.As(err, &answer) && answer.Status == http.StatusNotFound {
		return &ui.Err{
			Msg: fmt.Sprintf("the hub has no cluster %q for you", cluster), Cause: answer.Message, Fix: "plural cluster list", Doc: ui.DocNotFound, Err: err,
		}
	}
	return err
}
