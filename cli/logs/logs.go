// Package logs owns `plural logs`.
//
// It refuses to know how logs are read. A command asks for one log, or for those of a service's pods on all of its clusters, and
// prints them line by line, with whose each is where there are several.
package logs

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/logstream"
	"github.com/pluralsh/plural/cli/ui"
)

type options struct {
	f                *cmdutil.Factory
	follow, previous bool
	since            time.Duration
	// tail is -1 for all.
	tail      int
	clusters  []string
	container string
}

// NewCmdLogs is `plural logs`.
func NewCmdLogs(f *cmdutil.Factory) *cobra.Command {
	o := &options{f: f}
	cmd := &cobra.Command{
		Use:     "logs NAME|svc/NAME|agent/CLUSTER|hub",
		GroupID: cmdutil.GroupAccess,
		Short:   "Read the logs of the hub, an agent, or a service's pods",
		Long: `Read the logs of the hub, of a cluster's agent, or of a service's pods.

A name alone is a service's, or, where no service is called so, the one of a
cluster, whose agent is meant. Where there are both, neither is read.

Of a service, all pods on all of its clusters are read, each line after the
cluster and the pod that it is from. With --follow new pods come in as they
start. Control characters are shown, not sent to the terminal.`,
		Example: cmdutil.Example(
			"plural logs web",
			"plural logs svc/web -f --cluster edge-1",
			"plural logs svc/web --previous --since 1h",
			"plural logs agent/edge-1 --tail 50",
			"plural logs hub -f"),
		Args: cmdutil.Exactly("NAME, svc/NAME, agent/CLUSTER or hub"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.since > 0 && !cmd.Flags().Changed("tail") {
				o.tail = -1 // a time says how far back, and nothing else does
			}
			if o.follow {
				return o.run(cmd.Context(), args[0])
			}
			return f.Paged(func() error { return o.run(cmd.Context(), args[0]) })
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&o.follow, "follow", "f", false, "go on with what comes, until interrupted")
	flags.DurationVar(&o.since, "since", 0, "only what is newer than this, such as 10m")
	flags.IntVar(&o.tail, "tail", 200, "the newest `LINES` of each log; -1 for all that are kept")
	flags.BoolVar(&o.previous, "previous", false, "of the containers before the ones that run, of a service")
	flags.StringArrayVar(&o.clusters, "cluster", nil, "of a service, only on this `CLUSTER`; may be repeated")
	flags.StringVarP(&o.container, "container", "c", "", "of a service, only this `CONTAINER` of each pod")
	return cmd
}

func (o *options) run(ctx context.Context, word string) error {
	if o.since < 0 || o.tail < -1 {
		return &ui.Err{Msg: "--since and --tail reach back", Fix: "--since 10m --tail 100"}
	}
	hub, err := o.f.HubClient()
	if err != nil {
		return err
	}
	of, err := subject(ctx, hub, word)
	if err != nil {
		return err
	}
	if of.Service == "" && (o.previous || o.container != "" || len(o.clusters) > 0) {
		return &ui.Err{Msg: "--previous, --container and --cluster are for services", Fix: "plural logs svc/NAME"}
	}
	out := &lines{streams: o.f.IO}
	reader := logstream.Reader{
		Hub: hub, Now: o.f.Now, Line: out.line, Problem: func(whose string, err error) { o.tell(of, whose, err) },
		Options: logstream.Options{Follow: o.follow, Previous: o.previous, Container: o.container, Since: o.since, Tail: o.tail},
	}
	of.Clusters = o.clusters
	err = explain(reader.Run(ctx, of))
	if o.follow {
		return cmdutil.Watched(err)
	}
	if of.Service != "" && err == nil && !out.written {
		o.f.Say("%s has no lines there", ui.Clean(of.Service))
	}
	return err
}

// tell says what cannot be read, beside the lines of what can.
func (o *options) tell(of logstream.Of, whose string, err error) {
	var answer *client.Error
	var unstarted *logstream.UnstartedError
	if errors.As(err, &unstarted) {
		o.f.Say("%s: %s; plural service events %s says more", ui.Clean(whose), ui.Clean(err.Error()), ui.Clean(of.Service))
		return
	}
	if o.previous && errors.As(err, &answer) && strings.HasPrefix(answer.Message, "previous terminated container") { // a kubelet's words
		o.f.Say("%s: no container ran before this one, or its node has not kept what it printed", ui.Clean(whose))
		return
	}
	o.f.Say("%s: %s", ui.Clean(whose), ui.Clean(cmdutil.Explain(err).Error()))
}

// explain says what to do about what keeps logs from being read.
func explain(err error) error {
	var elsewhere *logstream.ElsewhereError
	var many *logstream.ManyError
	switch {
	case errors.Is(err, logstream.ErrNone):
		return ui.Silent(ui.ExitFailed) // each has been told
	case errors.As(err, &elsewhere):
		return &ui.Err{Msg: err.Error(), Fix: "plural service get " + elsewhere.Service, Err: err}
	case errors.As(err, &many):
		return &ui.Err{Msg: err.Error(), Fix: "name clusters: --cluster CLUSTER", Err: err}
	}
	return err
}
