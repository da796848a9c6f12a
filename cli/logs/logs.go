// Package logs owns `plural logs`.
//
// It refuses to know where the hub has lines from. A command asks the hub for one log, or for those of a service's pods on
// all of its clusters, and prints them line by line, with whose each is where there are several.
package logs

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
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
		Use:     "logs hub|agent/CLUSTER|svc/NAME",
		GroupID: cmdutil.GroupAccess,
		Short:   "Read the logs of the hub, an agent, or a service's pods",
		Long: `Read the logs of the hub, of a cluster's agent, or of a service's pods.

Of a service, all pods on all of its clusters are read, each line after the
cluster and the pod that it is from. With --follow new pods come in as they
start. Control characters are shown, not sent to the terminal.`,
		Example: cmdutil.Example(
			"plural logs svc/web -f --cluster edge-1",
			"plural logs svc/web --previous --since 1h",
			"plural logs agent/edge-1 --tail 50",
			"plural logs hub -f"),
		Args: cmdutil.Exactly("hub, agent/CLUSTER or svc/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.since > 0 && !cmd.Flags().Changed("tail") {
				o.tail = -1 // a time says how far back, and nothing else does
			}
			return o.run(cmd.Context(), args[0])
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

func (o *options) run(ctx context.Context, subject string) error {
	kind, name, named := strings.Cut(subject, "/")
	service := named && (kind == "svc" || kind == "service")
	switch {
	case subject == "hub", named && kind == "agent" && name != "", service && name != "":
	default:
		return &ui.Err{Msg: fmt.Sprintf("logs of %q?", subject), Fix: "plural logs hub, agent/CLUSTER or svc/NAME"}
	}
	if !service && (o.previous || o.container != "" || len(o.clusters) > 0) {
		return &ui.Err{Msg: "--previous, --container and --cluster are for services", Fix: "plural logs svc/NAME"}
	}
	if o.since < 0 || o.tail < -1 {
		return &ui.Err{Msg: "--since and --tail reach back", Fix: "--since 10m --tail 100"}
	}
	hub, err := o.f.HubClient()
	if err != nil {
		return err
	}
	out := &lines{streams: o.f.IO}
	switch {
	case service:
		return newReader(o, hub, name, out).run(ctx)
	case subject == "hub":
		return o.own(ctx, hub, "/v1/hub/logs", out.of(""))
	}
	return o.own(ctx, hub, "/v1/clusters/"+url.PathEscape(name)+"/agent/logs", out.of(""))
}

// maxOwn is how many lines the hub and agents keep of their own.
const maxOwn = 2000

// own prints the log of the hub or of an agent, whose lines begin with their time.
func (o *options) own(ctx context.Context, hub *client.Client, path string, to *log) error {
	if o.since > 0 {
		to.after = o.f.Now().Add(-o.since)
	}
	query := url.Values{"tail": {strconv.Itoa(o.tail)}}
	if o.tail < 0 || o.tail > maxOwn {
		query.Set("tail", strconv.Itoa(maxOwn))
	}
	if o.follow {
		query.Set("follow", "true")
	}
	_, err := copyLog(ctx, hub, path, query, to)
	return err
}

// query is what is asked of a pod's log.
func (o *options) query() url.Values {
	q := url.Values{}
	for name, value := range map[string]bool{"follow": o.follow, "previous": o.previous} {
		if value {
			q.Set(name, "true")
		}
	}
	if o.since > 0 {
		q.Set("since", o.since.String())
	}
	if o.tail >= 0 {
		q.Set("tail", strconv.Itoa(o.tail))
	}
	if o.container != "" {
		q.Set("container", o.container)
	}
	return q
}

// copyLog prints one log to its end, and says whether there was one.
func copyLog(ctx context.Context, hub *client.Client, path string, query url.Values, to *log) (opened bool, err error) {
	stream, err := hub.Text(ctx, path, query)
	if err != nil {
		return false, err
	}
	err = to.copy(stream)
	return true, errors.Join(err, stream.Close())
}

// pod is one whose log is read.
type pod struct{ cluster, namespace, name string }

func (p pod) path() string {
	return "/v1/clusters/" + url.PathEscape(p.cluster) + "/pods/" + url.PathEscape(p.namespace) + "/" + url.PathEscape(p.name) + "/logs"
}

func (p pod) String() string { return p.cluster + "/" + p.name }

func sorted(pods []pod) []pod {
	slices.SortFunc(pods, func(a, b pod) int {
		return strings.Compare(a.cluster+"\x00"+a.namespace+"\x00"+a.name, b.cluster+"\x00"+b.namespace+"\x00"+b.name)
	})
	return pods
}
