package service

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/cli/waitfor"
)

type syncOptions struct {
	f        *cmdutil.Factory
	service  string
	clusters []string
	wait     bool
}

func newCmdSync(f *cmdutil.Factory) *cobra.Command {
	o := &syncOptions{f: f}
	cmd := &cobra.Command{
		Use:   "sync NAME",
		Short: "Have agents apply a service now",
		Long: `Have agents apply a service now: they ask the hub what is wanted, heal what has
drifted, and try again what failed, instead of when its turn comes. The command
waits until every cluster has come to a result.

The hub looks at repositories by itself; plural source sync has it look now.`,
		Example: cmdutil.Example("plural service sync web", "plural svc sync web --cluster edge-1 --wait=false"),
		Args:    cmdutil.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.service = args[0]
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().StringArrayVar(&o.clusters, "cluster", nil, "only on this `CLUSTER`; may be repeated")
	cmd.Flags().BoolVar(&o.wait, "wait", true, "wait until every cluster has come to a result")
	return cmd
}

func (o *syncOptions) run(ctx context.Context) error {
	hub, printer, err := o.f.Ask()
	if err != nil {
		return err
	}
	if _, err := o.look(ctx, hub); err != nil { // a name that is wrong is said before anything is done
		return err
	}
	told, err := hub.SyncService(ctx, o.service, o.clusters)
	if err != nil {
		return err
	}
	o.sayAbsent(told)
	if !o.wait {
		return nil
	}
	since := o.f.Now()
	var now *v1.Service
	err = waitfor.Until(ctx, o.f, func(ctx context.Context) (bool, error) {
		found, err := o.look(ctx, hub)
		if err != nil {
			return false, err
		}
		now = found
		patient := o.f.Now().Sub(since) < waitfor.SecondLook
		return !slices.ContainsFunc(now.Deployments, func(d v1.Deployment) bool { return underWay(&d, patient) }), nil
	}, func() error { return o.pending(now) })
	if err != nil {
		return err
	}
	if err := failed(now); err != nil {
		return err
	}
	return printer.Print(ui.View{
		Value: now, Columns: cmdutil.DeploymentColumns(), Rows: cmdutil.DeploymentRows(now.Deployments), Names: names([]v1.Service{*now}),
	})
}

// sayAbsent says whom the hub could not tell.
func (o *syncOptions) sayAbsent(told *v1.Synced) {
	if told.Absent > 0 {
		o.f.Say("not connected now: %d of %d clusters (%s); their agents look when they ask the hub next",
			told.Absent, told.Asked, cmdutil.Few(told.Names))
	}
}

// look is the service on the clusters that are meant.
func (o *syncOptions) look(ctx context.Context, hub *client.Client) (*v1.Service, error) {
	s, err := hub.Service(ctx, o.service)
	if err != nil {
		return nil, err
	}
	return s, only(s, o.clusters)
}

// only leaves in s what runs on these clusters; all of it, where none are named.
func only(s *v1.Service, clusters []string) error {
	for _, name := range clusters {
		if !slices.ContainsFunc(s.Deployments, func(d v1.Deployment) bool { return d.Cluster == name }) {
			return &ui.Err{
				Msg: fmt.Sprintf("service %s does not run on cluster %q", s.Name, name), Fix: "plural service get " + s.Name, Doc: ui.DocNotFound,
			}
		}
	}
	if len(clusters) > 0 {
		s.Deployments = slices.DeleteFunc(s.Deployments, func(d v1.Deployment) bool { return !slices.Contains(clusters, d.Cluster) })
	}
	return nil
}

// underWay says whether there is more to come. A result that is not good is looked at twice: it may be that of before.
func underWay(d *v1.Deployment, patient bool) bool {
	switch d.Phase {
	case v1.Held, v1.Stale, v1.Unregistered:
		return false
	case v1.Failed, v1.Degraded:
		return patient
	case v1.Pending, v1.Progressing, v1.Removing:
		return true
	case v1.Healthy:
	}
	return d.AppliedKey != d.Key
}

// failed is the error about clusters on which the service failed.
func failed(s *v1.Service) error {
	told := &ui.Err{Fix: "plural why " + s.Name, Doc: ui.DocUnhealthy}
	for i := range s.Deployments {
		switch d := &s.Deployments[i]; {
		case d.Phase == v1.Failed, d.Phase == v1.Degraded, d.Phase == v1.Held && d.Held == nil && !d.Suspended:
			told.Problems = append(told.Problems, ui.Problem{Where: d.Cluster, Message: waitfor.Reason(d)})
		}
	}
	if len(told.Problems) == 0 {
		return nil
	}
	told.Msg = fmt.Sprintf("%s is not well on %s clusters", s.Name, cmdutil.Ratio(len(told.Problems), len(s.Deployments)))
	return told
}

func (o *syncOptions) pending(s *v1.Service) error {
	told := &ui.Err{
		Msg: fmt.Sprintf("%s is still under way after %s", o.service, waitfor.Timeout),
		Fix: "plural service get " + o.service, Doc: ui.DocNotConverged, Code: ui.ExitPending,
	}
	if s == nil {
		return told
	}
	for i := range s.Deployments {
		if d := &s.Deployments[i]; underWay(d, true) {
			told.Problems = append(told.Problems, ui.Problem{Where: s.Name + " on " + d.Cluster, Message: waitfor.Reason(d)})
		}
	}
	return told
}
